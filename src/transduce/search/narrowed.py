"""A model that scores the candidates of each sentence alone: a search with a shortlist.

Each sentence has a vocabulary of its own: its candidates, in ascending order. The special tokens
are the first and keep their ids; padding has a place, but is no candidate. A search over it knows
nothing of that. One product scores the candidates of all sentences of a batch, and each sentence
takes its own from it, so neither they nor their probabilities depend on the other sentences.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from transduce.models.base import Seq2Seq
from transduce.nn.step_state import SentenceState, StateGroup
from transduce.search.constraint import PrefixConstraint
from transduce.search.hypothesis import Hypothesis
from transduce.text.special_ids import PAD_ID

ROUND_TO = 64
"""The candidates of a batch are rounded up to a multiple, so that sums go alike in any batch."""


@dataclass(frozen=True)
class NarrowedState(StateGroup):
    """The state of a model, and the vocabulary of each sentence."""

    inner: Any
    ids: SentenceState  # [B, C], filled up with PAD_ID
    columns: SentenceState  # [B, C], where the product has them
    is_candidate: SentenceState  # [B, C], False where it is filled up


class NarrowedModel:
    """Implements `Searchable` over the candidates of one batch of sentences."""

    def __init__(self, model: Seq2Seq, projection: Tensor, candidates: NDArray[np.bool_]) -> None:
        """Take the model's projection, and the candidates of each sentence, [B, V]."""
        self._model = model
        columns = np.flatnonzero(candidates.any(axis=0))  # [U]
        rows, places = np.nonzero(candidates[:, columns])
        counts = np.bincount(rows, minlength=len(candidates))
        width = int(counts.max()) + -int(counts.max()) % ROUND_TO
        is_filled = np.arange(width) < counts[:, None]  # [B, C]
        self._columns = np.zeros((len(candidates), width), dtype=np.int64)
        self._columns[is_filled] = places
        self._ids = np.where(is_filled, columns[self._columns], PAD_ID)  # [B, C]
        self._is_candidate = self._ids != PAD_ID  # it has a place, but no sentence contains it
        self._projection = projection[torch.from_numpy(columns).to(projection.device)]  # [U, d]

    def encode(self, src: Tensor) -> Any:
        """Encode source ids, [B, S]."""
        return self._model.encode(src)

    def start(self, memory: Any, *, hypotheses: int, max_steps: int) -> NarrowedState:
        """Return the state before the first token."""
        inner = self._model.start(memory, hypotheses=hypotheses, max_steps=max_steps)
        given = (self._ids, self._columns, self._is_candidate)
        device = self._projection.device
        return NarrowedState(
            inner, *(SentenceState(torch.from_numpy(each).to(device)) for each in given)
        )

    def step(
        self, last_ids: Tensor, state: NarrowedState, *, position: Tensor, reach: int
    ) -> Tensor:
        """Read the last candidate of each hypothesis, [B, k]; score the next: [B, k, C]."""
        ids = state.ids.tensor.gather(1, last_ids)  # [B, k]
        states = self._model.step_states(ids, state.inner, position=position, reach=reach)
        scores = F.linear(states, self._projection)  # [B, k, U]
        columns = state.columns.tensor[:, None].expand(-1, ids.size(1), -1)
        own = scores.gather(2, columns)  # [B, k, C]
        return own.masked_fill(~state.is_candidate.tensor[:, None], -torch.inf)

    def prefixes(self, prefixes: Sequence[Sequence[int]]) -> PrefixConstraint | None:
        """Return the constraint to prefixes, all of them candidates; None: there are none."""
        longest = max(map(len, prefixes))
        if not longest:
            return None
        found = np.full((len(prefixes), longest), PAD_ID)
        for row, prefix in enumerate(prefixes):
            places = {token: place for place, token in enumerate(self._ids[row].tolist()) if token}
            found[row, : len(prefix)] = [places[token] for token in prefix]
        device = self._projection.device
        return PrefixConstraint(torch.from_numpy(found).to(device), self._ids.shape[1])

    def in_whole_vocabulary(self, found: list[list[Hypothesis]]) -> list[list[Hypothesis]]:
        """Give the hypotheses of each sentence the ids of the model."""
        return [
            [replace(one, ids=own[one.ids].tolist() if one.ids else []) for one in hypotheses]
            for own, hypotheses in zip(self._ids, found, strict=True)
        ]
