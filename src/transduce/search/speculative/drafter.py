"""Drafters: what proposes the next tokens of a translation, for a model to verify."""

from typing import Any, Protocol

import torch
from torch import Tensor

from transduce.models.base import MultiTokenSearchable
from transduce.text.special_ids import BOS_ID, EOS_ID, PAD_ID


class Draft(Protocol):
    """The proposals for one sentence."""

    def propose(self, ids: list[int], count: int) -> Tensor:
        """Return up to `count` tokens that may follow ids, [j].

        The ids are those of the call before, then some or all of its proposals, and then one token
        that the model chose itself.
        """
        ...


class Drafter(Protocol):
    """Begins a draft for each sentence."""

    def start(self, src: Tensor, *, max_steps: int) -> Draft:
        """Begin the draft of a translation of src, [1, S], of at most max_steps tokens."""
        ...


class ModelDrafter:
    """Proposes what a small model would write by greedy search."""

    def __init__(self, model: MultiTokenSearchable[Any]) -> None:
        self.model = model

    def start(self, src: Tensor, *, max_steps: int) -> Draft:
        """Let the small model read the source."""
        state = self.model.start(self.model.encode(src), hypotheses=1, max_steps=max_steps)
        return ModelDraft(self.model, state, src.device)


class ModelDraft:
    """The proposals of a small model, which keeps its state from one call to the next."""

    def __init__(self, model: MultiTokenSearchable[Any], state: Any, device: torch.device) -> None:
        self._model, self._state, self._device = model, state, device
        self._read = 0  # tokens in the state, BOS included

    def propose(self, ids: list[int], count: int) -> Tensor:
        """Go back to the last proposal that was kept, and write on from there.

        A draft ends before EOS, which is never read. A GPU would have to be waited for to know it:
        there the rest is drafted in vain.
        """
        if count == 0:
            return torch.empty(0, dtype=torch.long, device=self._device)
        read = min(self._read, len(ids))  # the last of the ids is the model's, and not read yet
        tokens = torch.tensor([[BOS_ID, *ids][read:]], device=self._device)  # [1, T]
        proposed = [tokens[:, :0]]
        while len(proposed) <= count:
            reach = read + tokens.size(1)
            position = torch.tensor([read], device=self._device)
            logits = self._model.multi_token_step(
                tokens, self._state, position=position, reach=reach
            )  # [1, T, V]
            read, tokens = reach, logits[:, -1:].argmax(dim=-1)  # [1, 1]
            if tokens.is_cpu and int(tokens) == EOS_ID:
                break
            proposed.append(tokens)
        self._read = read
        return torch.cat(proposed, dim=1)[0]  # [j]


class NgramDrafter:
    """Proposes copies: what followed the last tokens when they occurred before.

    It looks in what is written and, where source and target share their ids, in the source. It
    needs no model, and is good for what is copied or repeated.
    """

    def __init__(self, *, reads_source: bool) -> None:
        self.reads_source = reads_source

    def start(self, src: Tensor, *, max_steps: int) -> Draft:
        """Remember the source, without its end."""
        del max_steps
        ids = src[0].tolist() if self.reads_source else []
        return NgramDraft([token for token in ids if token not in (EOS_ID, PAD_ID)])


LONGEST_NGRAM = 4
"""The most tokens that are looked up: of several places, the one after the longest is proposed."""


class NgramDraft:
    """Copies from one source and from what is written of its translation."""

    def __init__(self, source: list[int]) -> None:
        self._source = source
        self._indexed = 0  # tokens of the translation that `_places` knows
        self._places: dict[tuple[int, ...], tuple[bool, int]] = {}
        for end in range(1, len(source)):
            self._index(source, end, is_source=True)

    def propose(self, ids: list[int], count: int) -> Tensor:
        """Return what followed the longest n-gram at the end of ids, where it occurred last."""
        for end in range(self._indexed + 1, len(ids)):
            self._index(ids, end, is_source=False)
        self._indexed = max(self._indexed, len(ids) - 1)
        for n in range(min(LONGEST_NGRAM, len(ids)), 0, -1):
            place = self._places.get(tuple(ids[-n:]))
            if place is not None:
                is_source, end = place
                followed = (self._source if is_source else ids)[end : end + count]
                return torch.tensor(followed, dtype=torch.long)
        return torch.empty(0, dtype=torch.long)

    def _index(self, tokens: list[int], end: int, *, is_source: bool) -> None:
        """Remember that the n-grams that end before this place are followed by what is there."""
        for n in range(1, min(LONGEST_NGRAM, end) + 1):
            self._places[tuple(tokens[end - n : end])] = (is_source, end)
