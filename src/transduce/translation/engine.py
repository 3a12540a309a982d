"""Encoded sentences in, hypotheses out, with a second search where the first is degenerate."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar

import torch

from transduce.models.base import Seq2Seq
from transduce.search.beam import Beam
from transduce.search.hypothesis import Hypothesis
from transduce.tasks.base import Task
from transduce.tasks.degenerate import Fault, badness
from transduce.text.markup.aligned import Weights
from transduce.translation.alignment.forced_attention import TokenPair
from transduce.translation.options import Options
from transduce.translation.wording.rules import PhraseRule

MORE_BEAM = 12
"""How much wider the beam of a second search is.

Of 36 loops that a half-trained model produced with a beam of 4, a beam wider by 4 avoided 17 and
one wider by 12 avoided 27; another alpha made hardly any difference.
"""
MAX_SECOND_BEAM = 16
"""The widest beam of a second search, unless the first was wider: wide beams cost too much."""
SECOND_SAMPLE = 2_246_822_507
"""Added to a sentence's number for a second sample, so that it differs from the first.

Only its low 32 bits count: torch seeds a generator with those alone.
"""


@dataclass(frozen=True)
class EncodedSentence:
    """A sentence to search a translation for."""

    ids: list[int]  # without EOS
    number: int  # part of the seed of its sample
    prefix: list[int]  # how its translation must begin
    text: str = ""
    prefix_text: str = ""  # the prefix as text: its last word may be unfinished; "": it is not
    values: tuple[str, ...] = ()  # what the signs in its text stand for (`text.phrases.signs`)
    rules: tuple[PhraseRule, ...] = ()  # phrases that its translation must contain, or must not
    note: str = ""  # what is unusual about them
    most_tokens: int | None = None  # of its translation beside these phrases; None: by the task
    tag: list[int] = field(default_factory=list)  # of its prefix, what says the language
    needs_all: bool = False  # whether no shortlist narrows its search
    is_bound: bool = False  # whether no search without its rules comes first

    @property
    def may_be_narrowed(self) -> bool:
        """Whether it may be searched with a shortlist.

        Terms, placeholders and unfinished words are spelt in any tokens, so they need all.
        """
        return not (self.rules or self.needs_all or self.prefix_text)

    def without_rules(self) -> "EncodedSentence":
        """Return it for a search that knows no rules, with the vocabulary of one that does."""
        return replace(self, rules=(), needs_all=True) if self.rules else self


@dataclass(frozen=True)
class SearchResult:
    """The hypotheses found for a sentence, with scores by the options, and a note if need be."""

    hypotheses: list[Hypothesis]  # at least one, the best first
    note: str = ""


@dataclass(frozen=True)
class Engine(ABC):
    """Searches translations with a model; subclasses differ in what they search with."""

    name: ClassVar[str]
    device: torch.device
    max_length: int | None  # of the model's sequences, EOS included; None: no limit
    task: Task

    @property
    @abstractmethod
    def has_shortlist(self) -> bool:
        """Whether it searches with a shortlist."""

    @abstractmethod
    def search(
        self, sentences: Sequence[EncodedSentence], options: Options
    ) -> list[list[Hypothesis]]:
        """Return the best hypotheses for each sentence, at least one, in the given order."""

    @abstractmethod
    def attention_model(self) -> Seq2Seq:
        """Return the model whose attention is shown; raise an error if there is none."""

    @abstractmethod
    def cross_attention(self, pairs: Sequence[TokenPair]) -> list[Weights] | None:
        """Return how translations attend to their sources, [N, T, S + 1] each; None: not at all.

        Heads are averaged; there may be fewer layers than the model has. If a head was trained to
        align, it is that head alone. The last column is EOS.
        """

    def check(self, options: Options, *, has_prefixes: bool) -> None:
        """Raise an error if it cannot translate with these options; by default it can."""
        del options, has_prefixes

    def max_tgt_tokens(self, sentence: EncodedSentence) -> int:
        """Return the most tokens of its translation, EOS included: by task, prefix and model."""
        longer = max(len(sentence.ids) + 1, len(sentence.prefix))
        limit = self.task.max_tgt_tokens(longer)
        return limit if self.max_length is None else min(limit, self.max_length)

    def search_with_retry(
        self, sentences: Sequence[EncodedSentence], options: Options
    ) -> list[SearchResult]:
        """Return a result for each sentence, in order; degenerate ones are searched again."""
        first, sentences = self.first_search(sentences, options)
        found = [SearchResult(hypotheses) for hypotheses in first]
        if not options.second_try:
            return found
        again = []
        for place, (hypotheses, sentence) in enumerate(zip(first, sentences, strict=True)):
            fault = self._fault_of(hypotheses[0], sentence)
            if fault is None:
                continue
            ranked = self._ranked(hypotheses, sentence)
            if self._fault_of(ranked[0], sentence):
                again.append(place)
            else:
                rank = f"number {hypotheses.index(ranked[0]) + 1} of {len(hypotheses)}"
                note = f"the best translation {fault.value}: this is {rank}"
                found[place] = SearchResult(ranked, note)
        second = self._search_again([sentences[place] for place in again], options)
        for place, hypotheses in zip(again, second, strict=True):
            found[place] = self._better(first[place], hypotheses, sentences[place], options)
        return found

    def first_search(
        self, sentences: Sequence[EncodedSentence], options: Options
    ) -> tuple[list[list[Hypothesis]], Sequence[EncodedSentence]]:
        """Search; return also the sentences as a second search should take them."""
        return self.search(sentences, options), sentences

    def _fault_of(self, hypothesis: Hypothesis, sentence: EncodedSentence) -> Fault | None:
        """Return what makes a hypothesis degenerate; its tag is none of its text."""
        text = replace(hypothesis, ids=hypothesis.ids[len(sentence.tag) :])
        return self.task.fault_of(text if sentence.tag else hypothesis, sentence.ids)

    def _search_again(
        self, sentences: list[EncodedSentence], options: Options
    ) -> list[list[Hypothesis]]:
        """Search with a wider beam, or sample again."""
        if options.sampling is None:
            return self.search(sentences, wider(options))
        others = [replace(s, number=s.number + SECOND_SAMPLE) for s in sentences]
        return self.search(others, options)

    def _ranked(self, hypotheses: list[Hypothesis], sentence: EncodedSentence) -> list[Hypothesis]:
        """Sort the least degenerate first; otherwise the order stays."""
        return sorted(hypotheses, key=lambda h: badness(self._fault_of(h, sentence)))

    def _better(
        self,
        first: list[Hypothesis],
        second: list[Hypothesis],
        sentence: EncodedSentence,
        options: Options,
    ) -> SearchResult:
        """Take the second hypotheses if one of them is less degenerate than the first best."""
        how = f"a beam of {wider(options).beam}" if options.sampling is None else "a second sample"
        ranked = self._ranked(second, sentence)
        fault, rest = (self._fault_of(found[0], sentence) for found in (first, ranked))
        assert fault is not None, "only degenerate translations are searched for again"
        if badness(rest) >= badness(fault):
            note = f"the translation {fault.value}, and that of {how} was no better"
            return SearchResult(first, note)
        flaw = "" if rest is None else f", and {rest.value}"
        note = f"the translation {fault.value}; this is from {how}{flaw}"
        return SearchResult(ranked[: options.n_best], note)


def wider(options: Options) -> Options:
    """Return the options of a second search: a wider beam, and all its hypotheses."""
    beam = min(options.beam + MORE_BEAM, max(options.beam, MAX_SECOND_BEAM))
    return replace(options, beam=beam, n_best=beam)


def log_probability(hypothesis: Hypothesis, alpha: float) -> float:
    """Return the log-probability of a hypothesis: its score without the length penalty."""
    return hypothesis.score * penalty(length(hypothesis), alpha)


def length(hypothesis: Hypothesis) -> int:
    """Count the tokens of a hypothesis, EOS included."""
    return len(hypothesis.ids) + hypothesis.is_finished


@lru_cache(maxsize=4096)
def penalty(tokens: int, alpha: float) -> float:
    """Return the length penalty, by which log-probabilities are divided (§6.1)."""
    return float(Beam(alpha=alpha).penalty(torch.tensor(tokens)))
