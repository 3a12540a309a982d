"""Searches with torch: on the CPU, or on another device."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from transduce.decoding.answer import EXTRA_TOKENS, Answer
from transduce.decoding.beam import Beam, beam_search
from transduce.decoding.device import as_many_threads_as_pay, on_device
from transduce.decoding.engine import Engine, Sentence, batched, length, penalty
from transduce.decoding.graphs import GraphedBeamSearch
from transduce.decoding.options import Options
from transduce.decoding.sample import sample
from transduce.errors import InputError
from transduce.models.base import Searchable
from transduce.models.transformer import Transformer
from transduce.text.special_ids import EOS_ID, PAD_ID

BYTES_FOR_POSITION = 2**17
"""A CUDA device's memory is divided by it: a position of a big model's cache takes 48 KiB."""


class BeamSearch(Protocol):
    """Beam search with a model, however it is done."""

    def __call__(
        self, src: Tensor, beam: Beam, *, max_tokens: Tensor, prefix: Tensor
    ) -> list[list[Answer]]:
        """Return the best answers to each sentence of [B, S]."""
        ...


@dataclass(frozen=True)
class TorchEngine(Engine):
    """Searches with one model, or several as one, on one device."""

    model: Searchable[Any]
    autocast: torch.dtype | None = None

    def transformer(self) -> Transformer:
        """Return the model, if it is one whose attention can be shown."""
        if not isinstance(self.model, Transformer):
            raise InputError("attention is that of a single Transformer, not of several models")
        return self.model

    def search(self, sentences: Sequence[Sentence], options: Options) -> list[list[Answer]]:
        """Search in batches of like length; return the answers in the given order."""
        results: list[list[Answer]] = [[] for _ in sentences]
        budget = options.max_batch_tokens or batch_tokens(self.device)
        hypotheses = 1 if options.sampling is not None else options.beam
        longest = [max(len(s.ids), len(s.prefix)) + 1 for s in sentences]
        is_cuda = self.device.type == "cuda"
        for places in batched(longest, max_tokens=budget // hypotheses, in_powers=is_cuda):
            batch = [sentences[place] for place in places]
            for place, answers in zip(places, self._search_or_split(batch, options), strict=True):
                # A model whose scores are not numbers finds nothing.
                results[place] = answers or [Answer([], -math.inf, is_finished=False)]
        return results

    def _search_or_split(self, batch: list[Sentence], options: Options) -> list[list[Answer]]:
        """Search; where the memory is not enough for all, first for one half, then the other."""
        try:
            return self._search(batch, options)
        except RuntimeError as fault:
            if not _is_lack_of_memory(fault):
                raise
            if len(batch) == 1:
                raise InputError(
                    f"not enough memory for one sentence of {len(batch[0].ids):,} tokens with a "
                    f"beam of {options.beam:,}: use a smaller beam, or shorter lines"
                ) from fault
        half = len(batch) // 2
        halves = (batch[:half], batch[half:])
        return [answers for part in halves for answers in self._search_or_split(part, options)]

    def _search(self, batch: list[Sentence], options: Options) -> list[list[Answer]]:
        src = _padded([[*sentence.ids, EOS_ID] for sentence in batch]).to(self.device)  # [B, S]
        # As many tokens as the source or the given beginning has, and 50 more (§6.1).
        longer = [max(len(sentence.ids) + 1, len(sentence.prefix)) for sentence in batch]
        limits = torch.tensor([min(n + EXTRA_TOKENS, self.max_positions) for n in longer])  # [B]
        enabled = self.autocast is not None
        hypotheses = 1 if options.sampling is not None else options.beam
        with (
            on_device(self.device),
            as_many_threads_as_pay(self.model, len(batch) * hypotheses),
            torch.autocast(self.device.type, dtype=self.autocast, enabled=enabled),
        ):
            if options.sampling is not None:
                numbers = [sentence.number for sentence in batch]
                drawn = sample(
                    self.model, src, options.sampling, numbers=numbers, max_tokens=limits
                )
                return [[_normalised(answer, options.alpha)] for answer in drawn]
            prefix = _padded([sentence.prefix for sentence in batch]).to(self.device)  # [B, P]
            return self._beam_search(src, options.searched(), max_tokens=limits, prefix=prefix)

    @cached_property
    def _beam_search(self) -> "BeamSearch":
        """Choose the way to search that suits the device."""
        if self.device.type != "cuda" or self.autocast is not None:
            return partial(beam_search, self.model)
        return GraphedBeamSearch(
            self.model,
            longest_source=self.max_positions,
            max_positions=2 * batch_tokens(self.device),
        )

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what only this process has."""
        return {name: value for name, value in vars(self).items() if name != "_beam_search"}


def batch_tokens(device: torch.device) -> int:
    """Return how many positions of hypotheses a batch may have where nobody says."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory) // BYTES_FOR_POSITION
    return 32_768


def _is_lack_of_memory(fault: RuntimeError) -> bool:
    """Recognise it on a CPU too, where torch has no name for it."""
    return isinstance(fault, torch.OutOfMemoryError) or "DefaultCPUAllocator" in str(fault)


def _padded(rows: list[list[int]]) -> Tensor:
    """Make one tensor of rows, [B, longest]; through numpy, which reads lists far faster."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    padded = np.full((len(rows), lengths.max()), PAD_ID)
    is_real = np.arange(padded.shape[1]) < lengths[:, None]
    padded[is_real] = np.fromiter(chain.from_iterable(rows), np.int64, lengths.sum())
    return torch.from_numpy(padded)


def _normalised(answer: Answer, alpha: float) -> Answer:
    """Divide a log-probability by the length penalty."""
    return replace(answer, score=answer.score / penalty(length(answer), alpha))
