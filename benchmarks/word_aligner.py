"""A statistical word aligner, independent of any neural model: fast_align's (Dyer et al., 2013).

IBM model 2 with a prior for the diagonal, trained by EM in both directions; the links on which both
directions agree are kept.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

ITERATIONS = 5
DIAGONAL = 4.0
"""How much a link near the diagonal is preferred."""
NULL = 0.08
"""The probability that a word comes from nothing."""
SMOOTHING = 0.01

Sentence = Sequence[str]
Numbers = NDArray[np.int64]
Weights = NDArray[np.floating[Any]]


def words_of_text(text: str) -> list[re.Match[str]]:
    """Return words and punctuation marks, with their places."""
    return list(re.finditer(r"\w+|[^\w\s]", text))


def symmetric_links(
    sources: Sequence[Sentence], targets: Sequence[Sentence], *, last: int
) -> list[set[tuple[int, int]]]:
    """Train on all pairs; return the links, (source, target), of the last ones."""
    forward = _links(sources, targets, last=last)
    backward = _links(targets, sources, last=last)
    return [
        one & {(src, tgt) for tgt, src in other}
        for one, other in zip(forward, backward, strict=True)
    ]


@dataclass(frozen=True)
class _Pairs:
    """All pairs of words of all sentence pairs, one after the other."""

    kind: Numbers  # which pair of word types
    given: Numbers  # the type of the word that is given
    group: Numbers  # the word that is explained
    prior: Weights
    places: Numbers  # [n, 3]: sentence, place of the given word (-1: nothing), of the explained


def _links(
    sources: Sequence[Sentence], targets: Sequence[Sentence], *, last: int
) -> list[set[tuple[int, int]]]:
    """Return for each word of the target the source word that explains it best, if one does."""
    pairs = _all_pairs(sources, targets)
    n_kinds, n_groups = int(pairs.kind.max()) + 1, int(pairs.group.max()) + 1
    given_of = np.zeros(n_kinds, dtype=np.int64)
    given_of[pairs.kind] = pairs.given
    table = np.ones(n_kinds)
    for _ in range(ITERATIONS):
        joint = pairs.prior * table[pairs.kind]
        posterior = joint / np.bincount(pairs.group, joint, n_groups)[pairs.group]
        counts = np.bincount(pairs.kind, posterior, n_kinds) + SMOOTHING
        table = counts / np.bincount(given_of, counts)[given_of]
    first = len(sources) - last
    found: list[set[tuple[int, int]]] = [set() for _ in range(last)]
    rows = np.flatnonzero(pairs.places[:, 0] >= first)
    joint = (pairs.prior * table[pairs.kind])[rows]
    best: dict[int, tuple[float, int]] = {}
    for value, row in zip(joint.tolist(), rows.tolist(), strict=True):
        group = int(pairs.group[row])
        best[group] = max(best.get(group, (-1.0, 0)), (value, row))
    for _, row in best.values():
        sentence, src, tgt = (int(place) for place in pairs.places[row])
        if src >= 0:
            found[sentence - first].add((src, tgt))
    return found


def _all_pairs(sources: Sequence[Sentence], targets: Sequence[Sentence]) -> _Pairs:
    ids: dict[str, int] = {"": 0}
    others: dict[str, int] = {}
    given, explained, group, prior, places = [], [], [], [], []
    words = 0
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        if not source or not target:
            continue
        src = np.array([0, *(ids.setdefault(word, len(ids)) for word in source)])
        tgt = np.array([others.setdefault(word, len(others)) for word in target])
        rows, columns = np.meshgrid(np.arange(len(src)), np.arange(len(tgt)), indexing="ij")
        distance = np.abs(rows[1:] / len(source) - (columns[1:] + 1) / len(target))
        near = np.exp(-DIAGONAL * distance)
        near *= (1 - NULL) / near.sum(axis=0, keepdims=True)
        given.append(src[rows].ravel())
        explained.append(tgt[columns].ravel())
        group.append((columns + words).ravel())
        prior.append(np.vstack([np.full((1, len(tgt)), NULL), near]).ravel())
        places.append(
            np.stack([np.full(rows.size, number), rows.ravel() - 1, columns.ravel()], axis=1)
        )
        words += len(tgt)
    of_pair = np.concatenate(given) * len(others) + np.concatenate(explained)
    _, kind = np.unique(of_pair, return_inverse=True)
    return _Pairs(
        kind, np.concatenate(given), np.concatenate(group), np.concatenate(prior),
        np.concatenate(places),
    )  # fmt: skip
