"""Sentences as ids to answers: batches of like length, and a second try for what went wrong."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from transduce.decoding.answer import EXTRA_TOKENS, Answer
from transduce.decoding.beam import Beam, beam_search
from transduce.decoding.degenerate import badness, fault_of
from transduce.decoding.device import on_device
from transduce.decoding.graphs import GraphedBeamSearch
from transduce.decoding.options import Options
from transduce.decoding.sample import sample
from transduce.errors import InputError
from transduce.models.base import Searchable
from transduce.text.special_ids import EOS_ID, PAD_ID

MORE_BEAM = 12
"""A second search keeps so many more hypotheses.

Of 36 loops that a beam of 4 fell into with a half-trained model, 4 more mended 17 and 12 more 27;
another alpha made hardly any difference.
"""
MOST_AGAIN = 16
"""But no more than this, unless the first search did: wider ones are slower than their share."""
SECOND_DRAW = 2_246_822_507
"""Added to the number of what is drawn a second time, so that the draw is another one.

Its low 32 bits count: torch seeds a generator with those of a number alone.
"""

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
class Sentence:
    """What a search is given."""

    ids: list[int]  # without its end
    number: int  # what is drawn by chance follows from it
    prefix: list[int]  # how its answer must begin


@dataclass(frozen=True)
class Found:
    """What a search found, with the scores that the options ask for."""

    answers: list[Answer]  # at least one, the chosen one first
    note: str = ""


@dataclass(frozen=True)
class Engine:
    """Searches with one model, or several as one, on one device."""

    model: Searchable[Any]
    device: torch.device
    max_positions: int
    autocast: torch.dtype | None = None

    def answer(self, sentences: Sequence[Sentence], options: Options) -> list[Found]:
        """Answer each sentence, in the given order; what is degenerate is tried once more."""
        first = self._search_all(sentences, options)
        found = [Found(answers) for answers in first]
        if not options.second_try:
            return found
        again = []
        for place, (answers, sentence) in enumerate(zip(first, sentences, strict=True)):
            fault = fault_of(answers[0], sentence.ids)
            if fault is None:
                continue
            ranked = _ranked(answers, sentence)
            if fault_of(ranked[0], sentence.ids):
                again.append(place)
            else:
                rank = f"number {answers.index(ranked[0]) + 1} of {len(answers)}"
                found[place] = Found(ranked, f"the best answer {fault.value}: this is {rank}")
        second = self._search_again([sentences[place] for place in again], options)
        for place, answers in zip(again, second, strict=True):
            found[place] = _better(first[place], answers, sentences[place], options)
        return found

    def _search_again(self, sentences: list[Sentence], options: Options) -> list[list[Answer]]:
        """Search more widely, or draw anew."""
        if options.sampling is None:
            return self._search_all(sentences, wider(options))
        others = [replace(s, number=s.number + SECOND_DRAW) for s in sentences]
        return self._search_all(others, options)

    def _search_all(self, sentences: Sequence[Sentence], options: Options) -> list[list[Answer]]:
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
        with (
            on_device(self.device),
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


def wider(options: Options) -> Options:
    """Return the options of a second search, all of whose answers are looked at."""
    beam = min(options.beam + MORE_BEAM, max(options.beam, MOST_AGAIN))
    return replace(options, beam=beam, n_best=beam)


def batch_tokens(device: torch.device) -> int:
    """Return how many positions of hypotheses a batch may have where nobody says."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory) // BYTES_FOR_POSITION
    return 32_768


def batched(
    lengths: Sequence[int], *, max_tokens: int, in_powers: bool = False
) -> Iterator[list[int]]:
    """Group sentences of like length, the longest first: if any is too much, it is the first.

    A sentence takes its padded source and the longest answer that it may get. All batches but the
    last may be made of a power of two of them.
    """
    by_length = sorted(range(len(lengths)), key=lambda place: -lengths[place])
    start = 0
    while start < len(by_length):
        longest = lengths[by_length[start]]
        count = max(1, max_tokens // (2 * longest + EXTRA_TOKENS))
        if in_powers:
            count = 1 << (count.bit_length() - 1)
        yield by_length[start : start + count]
        start += count


def log_probability(answer: Answer, alpha: float) -> float:
    """Undo the length penalty."""
    return answer.score * penalty(length(answer), alpha)


def length(answer: Answer) -> int:
    """Count the tokens of an answer, and its end."""
    return len(answer.ids) + answer.is_finished


def penalty(tokens: int, alpha: float) -> float:
    """Return what a log-probability is divided by (§6.1)."""
    return float(Beam(alpha=alpha).penalty(torch.tensor(tokens)))


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


def _ranked(answers: list[Answer], sentence: Sentence) -> list[Answer]:
    """Put the least degenerate first; the order is otherwise kept."""
    return sorted(answers, key=lambda answer: badness(fault_of(answer, sentence.ids)))


def _better(
    first: list[Answer], second: list[Answer], sentence: Sentence, options: Options
) -> Found:
    """Keep the second answers if one of them is less degenerate than the first."""
    how = f"a beam of {wider(options).beam}" if options.sampling is None else "another draw"
    ranked = _ranked(second, sentence)
    fault, rest = (fault_of(answers[0], sentence.ids) for answers in (first, ranked))
    assert fault is not None, "sound answers are not searched for again"
    if badness(rest) >= badness(fault):
        return Found(first, f"the answer {fault.value}, and that of {how} was no better")
    flaw = "" if rest is None else f", and {rest.value}"
    return Found(ranked[: options.n_best], f"the answer {fault.value}; this is of {how}{flaw}")
