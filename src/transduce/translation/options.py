"""How to translate, and what a translation is."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from transduce.errors import InputError
from transduce.models.attention import Attention
from transduce.search.beam import Beam
from transduce.search.sample import Sampling
from transduce.translation.memory.read import MemoryUse
from transduce.translation.memory.units import MemoryMatch
from transduce.translation.wording.rules import NO_WORDING, Wording

WIDEST_BEAM = 1_000


@dataclass(frozen=True)
class Options:
    """How to translate: by beam search, with the paper's settings (§6.1), or by sampling."""

    beam: int = 4  # hypotheses kept per sentence; 1 is greedy search
    alpha: float = 0.6  # exponent of the length penalty; 0: none
    n_best: int = 1  # alternatives to return, at most `beam`
    sampling: Sampling | None = None  # sample instead of searching
    whole_lines: bool = False  # do not split lines into sentences
    second_try: bool = True  # search degenerate output again with a wider beam, or sample again
    attention: bool = False  # return the attention weights too
    max_batch_tokens: int | None = None  # positions of all hypotheses in a batch; None: by device
    wording: Wording = NO_WORDING  # a glossary, forbidden words, placeholders to keep
    memory: MemoryUse | None = None  # translations that exist already

    def __post_init__(self) -> None:
        if not 1 <= self.beam <= WIDEST_BEAM:
            raise InputError(f"a beam of {self.beam}: use 1 to {WIDEST_BEAM:,}")
        if not 1 <= self.n_best <= self.beam:
            raise InputError(
                f"the {self.n_best} best of a beam of {self.beam}: use 1 to {self.beam}, "
                "or a wider beam"
            )
        if not (self.alpha >= 0 and math.isfinite(self.alpha)):
            raise InputError(f"alpha={self.alpha}: use 0 for no length penalty, or more")
        if self.sampling is not None and self.n_best > 1:
            raise InputError("sampling gives one translation per line: use n_best=1")
        if self.max_batch_tokens is not None and self.max_batch_tokens < 1:
            raise InputError(f"max_batch_tokens={self.max_batch_tokens}: use 1 or more")

    def check_for_draft(self, *, has_prefixes: bool) -> None:
        """Raise an error unless this is greedy search alone, which a draft makes faster."""
        if self.sampling is not None:
            raise InputError("a draft is for greedy search, not for sampling: use one of them")
        if self.beam > 1:
            raise InputError(
                f"a draft is for greedy search, and this is a beam of {self.beam}: "
                "use a beam of 1, or no draft"
            )
        if has_prefixes or self.wording != NO_WORDING:
            given = "prefixes" if has_prefixes else "terms, forbidden words and placeholders"
            raise InputError(f"a draft is for greedy search without {given}: use one of them")

    def check_for_shortlist(self) -> None:
        """Raise an error if this is sampling: what a shortlist lacks must remain possible."""
        if self.sampling is not None:
            raise InputError("a shortlist is for search, not for sampling: use one of them")

    def searched(self) -> Beam:
        """Return the options of the beam search."""
        return Beam(self.beam, self.alpha, self.n_best)


DEFAULT_OPTIONS = Options()


class Alternative(NamedTuple):
    """One of the n best translations of a text."""

    text: str
    score: float


@dataclass(frozen=True)
class Translation:
    """A text and its translation."""

    source: str
    text: str
    score: float  # log-probability, divided by the length penalty
    alternatives: tuple[Alternative, ...]  # the n best, `text` first
    note: str = ""  # anything unusual, such as a second search
    is_finished: bool = True  # False: it was cut off at the maximum length, without EOS
    attention: tuple[Attention, ...] = ()  # if asked for: one for each piece of the text
    match: MemoryMatch | None = None  # what the translation memory has for it
