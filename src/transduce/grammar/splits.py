"""Distinct pairs, and their split into train, dev and test."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from random import Random

from transduce.data.corpus import Pair
from transduce.grammar.sentences import draw_sentence


@dataclass(frozen=True)
class DemoCorpus:
    """Three splits that share no sentence in either language."""

    train: tuple[Pair, ...]
    dev: tuple[Pair, ...]
    test: tuple[Pair, ...]


def generate(count: int, *, seed: int) -> Iterator[Pair]:
    """Generate distinct sentence pairs; the same seed gives the same pairs on every machine."""
    return islice(_distinct(seed), count)


def split(*, train: int, dev: int, test: int, seed: int = 1) -> DemoCorpus:
    """Generate a corpus; a sentence is in the same split whatever the sizes and the seed."""
    wanted = {"train": train, "dev": dev, "test": test}
    drawn: dict[str, list[Pair]] = {part: [] for part in wanted}
    pairs = _distinct(seed)
    while any(len(drawn[part]) < count for part, count in wanted.items()):
        pair = next(pairs)
        part = _part(pair)
        if len(drawn[part]) < wanted[part]:
            drawn[part].append(pair)
    return DemoCorpus(**{part: tuple(chosen) for part, chosen in drawn.items()})


def _distinct(seed: int) -> Iterator[Pair]:
    rng = Random(seed)  # noqa: S311 - a corpus, not a secret
    seen = set()
    while True:
        pair = draw_sentence(rng)
        if pair.src not in seen:
            seen.add(pair.src)
            yield pair


def _part(pair: Pair) -> str:
    # The English determines the German, so a hash of the German keeps both sides apart.
    digest = hashlib.blake2b(pair.tgt.encode(), digest_size=8).digest()
    return {0: "dev", 1: "test"}.get(int.from_bytes(digest, "big") % 10, "train")
