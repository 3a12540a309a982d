"""Noise in encoded pairs: which kinds a pair gets, and what becomes of its words."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transduce.config.sections.augment import EXCLUSIVE, AugmentConfig
from transduce.data.batching import hash_noise, splitmix64
from transduce.data.encoding.side import Side, id_type
from transduce.data.noise.changes import (
    CASE,
    DOUBLED_END,
    FIRST_SPLIT,
    FIRST_TYPO,
    MERGED,
    MISSING_END,
    SPACED,
    SPLITS,
    STRING,
    STRINGS,
    STYLE,
    TYPOS,
)
from transduce.data.noise.subword_dropout import SubwordDropout
from transduce.data.noise.words import CutWords, Numbers, WordChanges
from transduce.text.noise.words import MARK_STYLES
from transduce.text.tokenizer import Tokenizer

KINDS = AugmentConfig.rate_names()
TYPO_SHARE = 0.1
"""The chance of a word to be mistyped in a sentence with typos, beside one word that is."""


@dataclass(frozen=True)
class DrawnKinds:
    """The kinds of noise that some pairs get, and where the draws of each pair start."""

    pairs: Numbers
    kinds: NDArray[np.uint16]  # bit n: the n-th of KINDS
    states: NDArray[np.uint64]

    @classmethod
    def of_epoch(
        cls, count: int, rates: Mapping[str, float], *, seed: int, epoch: int, every: bool = False
    ) -> "DrawnKinds":
        """Draw for each of `count` pairs of a store; return those with noise, or `every` one."""
        kinds = np.zeros(count, dtype=np.uint16)
        grouped = {name for group in EXCLUSIVE for name in group}
        groups = (*EXCLUSIVE, *((name,) for name in KINDS if name not in grouped))
        for number, group in enumerate(groups):
            if not any(name in rates for name in group):
                continue
            chance = hash_noise(count, seed, epoch ^ (number + 2) << 40) / 2.0**64
            low = 0.0
            for name in group:
                high = low + rates.get(name, 0.0)
                kinds[(low <= chance) & (chance < high)] |= np.uint16(1 << KINDS.index(name))
                low = high
        pairs = np.arange(count) if every else np.flatnonzero(kinds)
        states = hash_noise(count, seed, epoch ^ 1 << 50)[pairs]
        return cls(pairs, kinds[pairs], states)

    def __len__(self) -> int:
        return self.pairs.size

    def part(self, chosen: slice | NDArray[np.bool_]) -> "DrawnKinds":
        """Return some of the pairs."""
        return DrawnKinds(self.pairs[chosen], self.kinds[chosen], self.states[chosen])

    def get(self, name: str) -> NDArray[np.bool_]:
        """Return which of the pairs get a kind of noise."""
        return (self.kinds >> np.uint16(KINDS.index(name)) & np.uint16(1)).astype(bool)

    def below(self, limit: Numbers | int, draw: int) -> Numbers:
        """Draw a number from 0 to limit - 1 for each pair."""
        return _below(self.states, limit, draw)


class PairNoise:
    """Puts noise into encoded pairs, none of whose sides may be empty."""

    def __init__(self, tokenizer: Tokenizer, *, subword_dropout: float = 0.0) -> None:
        """Take the vocabulary, and the chance of a merge to be left out."""
        kind = id_type(tokenizer)
        vocabularies = tokenizer.source, tokenizer.target
        self._dropout = [
            SubwordDropout(one, kind, subword_dropout) for one in vocabularies if subword_dropout
        ]
        self._src, self._tgt = (WordChanges(one, kind) for one in vocabularies)

    def noised(self, src: Side, tgt: Side, drawn: DrawnKinds) -> tuple[Side, Side]:
        """Return the pairs with the noise that was drawn for them, in other subwords if asked."""
        at_start = drawn.below(3, 7) == 0
        strings = STRING * np.where(drawn.get("copied"), 1 + drawn.below(STRINGS - 1, 8), 0)
        strings += SPACED * ((strings > 0) & ~at_start)
        source, changes = _source_changes(self._src.cut(src), drawn)
        styles = np.where(drawn.get("marks"), 1 + drawn.below(len(MARK_STYLES), 5), 0)
        changes += STYLE * np.repeat(styles, source.counts) * self._src.has_mark(source)
        target = self._tgt.cut(tgt)
        sides = []
        for side, words, change in (
            (self._src, source, changes),
            (self._tgt, target, _target_changes(target, drawn)),
        ):
            change[words.first[(strings > 0) & at_start]] += SPACED
            sides.append(side.replaced(words, change, strings, at_start))
        for number, dropout in enumerate(self._dropout):
            sides[number] = _recut(sides[number], dropout, drawn.states + np.uint64(number))
        return sides[0], sides[1]


def _recut(side: Side, dropout: SubwordDropout, states: NDArray[np.uint64]) -> Side:
    """Cut sentences into other subwords; those that noise has left empty stay so."""
    has_text = side.lengths > 0
    recut = dropout.applied(side.only(has_text), states[has_text])
    lengths = side.lengths.copy()
    lengths[has_text] = recut.lengths
    return Side(recut.ids, lengths)


def _source_changes(words: CutWords, drawn: DrawnKinds) -> tuple[CutWords, Numbers]:
    """Draw what becomes of the words of sources; merged ones have become one."""
    merged = np.flatnonzero(drawn.get("merged") & (words.counts > 1))
    places = words.first + 1 + drawn.below(np.maximum(words.counts - 1, 1), 1)
    before = words.starts[places[merged] - 1]
    words = words.without_start(places[merged])
    changes = np.zeros(words.starts.size, dtype=np.int64)
    _add_typos(changes, words, drawn)
    split = np.flatnonzero(drawn.get("split"))
    changes[(words.first + drawn.below(words.counts, 2))[split]] = (
        FIRST_SPLIT + drawn.below(SPLITS, 3)[split]
    )
    changes[np.searchsorted(words.starts, before)] = MERGED
    last = words.first + words.counts - 1
    changes[last[drawn.get("missing_end")]] = MISSING_END
    changes[last[drawn.get("doubled_end")]] = (DOUBLED_END + drawn.below(2, 4))[
        drawn.get("doubled_end")
    ]
    cases = 1 * drawn.get("upper") + 2 * drawn.get("title") + 3 * drawn.get("lower")
    return words, changes + np.repeat(CASE * cases, words.counts)


def _add_typos(changes: Numbers, words: CutWords, drawn: DrawnKinds) -> None:
    """Mistype one word of each sentence that gets typos, and each of its others with a chance."""
    with_typos = drawn.get("typos")
    sentences = np.flatnonzero(with_typos)
    counts = words.counts[sentences]
    ends = np.cumsum(counts)
    within = np.arange(counts.sum()) - np.repeat(ends - counts, counts)
    places = np.repeat(words.first[sentences], counts) + within
    states = np.repeat(drawn.states[sentences], counts) + within.astype(np.uint64)
    is_typo = _below(states, 1 << 20, 100) < TYPO_SHARE * (1 << 20)
    is_typo |= within == np.repeat(drawn.below(words.counts, 6)[sentences], counts)
    changes[places[is_typo]] = FIRST_TYPO + _below(states[is_typo], TYPOS, 101)


def _target_changes(words: CutWords, drawn: DrawnKinds) -> Numbers:
    """Return what becomes of the words of targets: upper case, and no mark at the end."""
    changes = np.repeat(CASE * drawn.get("upper"), words.counts)
    last = words.first + words.counts - 1
    changes[last[drawn.get("missing_end")]] += MISSING_END
    return changes


def _below(states: NDArray[np.uint64], limit: Numbers | int, draw: int) -> Numbers:
    """Draw a number from 0 to limit - 1 for each state; `draw` tells draws apart."""
    drawn = splitmix64(splitmix64(states) + np.uint64(draw)) >> np.uint64(32)
    return (drawn.astype(np.int64) * limit) >> 32
