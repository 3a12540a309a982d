"""What may be asked of a translator, and what it gives back."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from transduce.decoding.attention import Attention
from transduce.decoding.beam import Beam
from transduce.decoding.sample import Sampling
from transduce.errors import InputError

WIDEST_BEAM = 1_000


@dataclass(frozen=True)
class Options:
    """How to translate: beam search with the paper's settings (§6.1), or draws by chance."""

    beam: int = 4
    alpha: float = 0.6  # of the length penalty, by which scores are divided; 0 for none
    n_best: int = 1
    sampling: Sampling | None = None  # instead of the beam
    whole_lines: bool = False  # translate a line as one, however many sentences it has
    second_try: bool = True  # for what is degenerate: search more widely, or draw anew
    attention: bool = False  # show who looked at whom
    max_batch_tokens: int | None = None  # positions of all hypotheses; None: by the device

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
            raise InputError("sampling draws one translation a line: use n_best=1")
        if self.max_batch_tokens is not None and self.max_batch_tokens < 1:
            raise InputError(f"max_batch_tokens={self.max_batch_tokens}: use 1 or more")

    def searched(self) -> Beam:
        """Return the beam search that these options describe."""
        return Beam(self.beam, self.alpha, self.n_best)


DEFAULT_OPTIONS = Options()


class Alternative(NamedTuple):
    """One of several translations of a text."""

    text: str
    score: float


@dataclass(frozen=True)
class Translation:
    """A text and what became of it."""

    source: str
    text: str
    score: float  # log-probability, divided by the length penalty
    alternatives: tuple[Alternative, ...]  # the n best; the first is the text itself
    note: str = ""  # what was out of the ordinary
    is_finished: bool = True  # False: it was cut off where its tokens were used up
    attention: tuple[Attention, ...] = ()  # of each piece, if asked for; mostly there is one
