"""Sentences as ids to answers: batches of like length, and a second try for what went wrong."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import torch

from transduce.decoding.answer import EXTRA_TOKENS, Answer
from transduce.decoding.beam import Beam
from transduce.decoding.degenerate import badness, fault_of
from transduce.decoding.options import Options
from transduce.models.transformer import Transformer

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
class Engine(ABC):
    """Answers sentences with a model, however it searches."""

    device: torch.device
    max_positions: int

    @abstractmethod
    def search(self, sentences: Sequence[Sentence], options: Options) -> list[list[Answer]]:
        """Return the best answers to each sentence, at least one, in the given order."""

    @abstractmethod
    def transformer(self) -> Transformer:
        """Return the model whose attention is shown; raise where there is none."""

    def answer(self, sentences: Sequence[Sentence], options: Options) -> list[Found]:
        """Answer each sentence, in the given order; what is degenerate is tried once more."""
        first = self.search(sentences, options)
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
            return self.search(sentences, wider(options))
        others = [replace(s, number=s.number + SECOND_DRAW) for s in sentences]
        return self.search(others, options)


def wider(options: Options) -> Options:
    """Return the options of a second search, all of whose answers are looked at."""
    beam = min(options.beam + MORE_BEAM, max(options.beam, MOST_AGAIN))
    return replace(options, beam=beam, n_best=beam)


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


@lru_cache(maxsize=4096)
def penalty(tokens: int, alpha: float) -> float:
    """Return what a log-probability is divided by (§6.1)."""
    return float(Beam(alpha=alpha).penalty(torch.tensor(tokens)))


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
