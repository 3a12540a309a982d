"""A statistical word aligner for encoded pairs: fast_align's model (Dyer et al., 2013).

IBM model 2 with a prior that prefers the diagonal, trained by variational EM in both directions.
The links on which both directions agree are kept: so each token has at most one.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transduce.data.alignment.grids import Cells, Grids, batches_of_grids
from transduce.data.alignment.pair_table import NOTHING, Keys, PairTable
from transduce.data.encoding.side import Side

ITERATIONS = 5
DIAGONAL = 4.0
"""How much a link near the diagonal is preferred: fast_align starts with it too."""
P_NULL = 0.08
"""The probability that a token translates nothing."""
ALPHA = 0.01
"""The Dirichlet prior of each token's translations: few of them are likely."""
UNSEEN = np.float32(1e-9)
"""The probability of a pair that did not occur in the sample."""
MAX_SLOTS = 1 << 25
NEGLIGIBLE = 1e-6
"""Pairs less likely than this in both directions are dropped after the training."""

Links = NDArray[np.uint16]


@dataclass(frozen=True)
class Aligner:
    """The probability of each target token given each source token, and the reverse."""

    table: PairTable
    forward: Cells  # by the place of a pair in the table
    backward: Cells

    def links(self, src: Side, tgt: Side) -> Links:
        """Return for each target token the number of its source token, from 1; 0: none.

        All target tokens are concatenated. A pair's links do not depend on its batch but for the
        order of sums.
        """
        return self._links(src, tgt, self._agreed)

    def likeliest_sources(self, src: Side, tgt: Side) -> Links:
        """Return the number of the likeliest source token of each target token, from 1.

        It does not matter what is likeliest the other way. 0: a token of a pair that is too long.
        """
        return self._links(src, tgt, self._likeliest)

    def _links(self, src: Side, tgt: Side, linked: Callable[[Grids], NDArray[np.int64]]) -> Links:
        """Link the pairs batch by batch, by a function from grids to links, [B, T]."""
        found = np.zeros(tgt.ids.size, dtype=np.uint16)
        starts = np.cumsum(tgt.lengths) - tgt.lengths
        for grids in batches_of_grids(src, tgt, diagonal=DIAGONAL):
            links = linked(grids)  # [B, T]
            lengths = tgt.lengths[grids.pairs]
            columns = np.arange(links.shape[1])
            is_text = columns < lengths[:, None]
            found[(starts[grids.pairs][:, None] + columns)[is_text]] = links[is_text]
        return found

    def _likeliest(self, grids: Grids) -> NDArray[np.int64]:
        """Return the likeliest source token of each target token, [B, T], from 1."""
        places = self.table.find(grids.keys.ravel()).reshape(grids.keys.shape)
        forward = _joint_forward(grids, _looked_up(self.forward, places))
        best: NDArray[np.int64] = forward[:, 1:, 1:].argmax(axis=1) + 1
        return best

    def _agreed(self, grids: Grids) -> NDArray[np.int64]:
        """Return the links on which both directions agree, [B, T], from 1."""
        places = self.table.find(grids.keys.ravel()).reshape(grids.keys.shape)
        forward = _joint_forward(grids, _looked_up(self.forward, places))
        best_src = forward[:, :, 1:].argmax(axis=1)  # [B, T]; 0: nothing
        backward = _joint_backward(grids, _looked_up(self.backward, places))
        best_tgt = backward.argmax(axis=2)  # [B, S + 1]
        back = np.take_along_axis(best_tgt, best_src, axis=1)  # [B, T]
        numbers = np.arange(1, best_src.shape[1] + 1)
        return np.where((best_src > 0) & (back == numbers), best_src, 0)

    def pruned(self) -> "Aligner":
        """Leave out pairs that are too unlikely to be linked; the table becomes small."""
        kept = np.flatnonzero(np.maximum(self.forward, self.backward) > NEGLIGIBLE)
        keys = self.table.slots[kept]
        table = PairTable.of([keys], max_slots=MAX_SLOTS)
        places = table.find(keys)
        forward, backward = (np.zeros(table.slots.size, dtype=np.float32) for _ in range(2))
        forward[places], backward[places] = self.forward[kept], self.backward[kept]
        return Aligner(table, forward, backward)


def train_aligner(src: Side, tgt: Side, *, iterations: int = ITERATIONS) -> Aligner:
    """Learn which tokens are translations of each other from encoded pairs, all in memory."""
    table = _occurring(src, tgt)
    pairs = np.flatnonzero(table.slots != NOTHING)
    given_src = (table.slots[pairs] >> np.uint64(32)).astype(np.int64)
    given_tgt = (table.slots[pairs] & np.uint64(2**32 - 1)).astype(np.int64)
    size = table.slots.size
    forward, backward = (np.ones(size, dtype=np.float32) for _ in range(2))
    for _ in range(iterations):
        counted = np.zeros(size, dtype=np.float32), np.zeros(size, dtype=np.float32)
        for grids in batches_of_grids(src, tgt, diagonal=DIAGONAL):
            _count(grids, table, (forward, backward), counted)
        forward[pairs] = _probabilities(counted[0][pairs], given_src)
        backward[pairs] = _probabilities(counted[1][pairs], given_tgt)
    return Aligner(table, forward, backward)


def _occurring(src: Side, tgt: Side) -> PairTable:
    """Return a table of all pairs of tokens that occur together."""
    batches = batches_of_grids(src, tgt, diagonal=DIAGONAL)
    keys = (_different(grids.keys[grids.src_real & grids.tgt_real]) for grids in batches)
    return PairTable.of(keys, max_slots=MAX_SLOTS)


def _different(keys: Keys) -> Keys:
    """Return each key once; numpy's `unique` takes several times as long."""
    keys = np.sort(keys)
    once: Keys = keys[np.append(True, keys[1:] != keys[:-1])]
    return once


def _count(
    grids: Grids, table: PairTable, now: Iterable[Cells], counted: tuple[Cells, Cells]
) -> None:
    """Add the expected number of times that each pair is linked, in both directions."""
    places = table.find(grids.keys.ravel()).reshape(grids.keys.shape)
    joints = (_joint_forward, _joint_backward)
    for axis, (joint, probabilities, counts) in enumerate(zip(joints, now, counted, strict=True)):
        cells = joint(grids, _looked_up(probabilities, places))
        cells /= np.maximum(cells.sum(axis=axis + 1, keepdims=True), np.float32(1e-30))
        is_counted = (cells > 0) & (places >= 0)
        np.add.at(counts, places[is_counted], cells[is_counted])


def _looked_up(probabilities: Cells, places: NDArray[np.int64]) -> Cells:
    return np.where(places >= 0, probabilities[places], UNSEEN)


def _joint_forward(grids: Grids, probabilities: Cells) -> Cells:
    """Return p(link, target token | source) for each cell: columns compete for a row."""
    near = grids.near
    prior = near * ((1 - P_NULL) / np.maximum(near.sum(axis=1, keepdims=True), np.float32(1e-30)))
    prior[:, 0] = P_NULL * grids.tgt_real[:, 0]
    prior[:, 0, 0] = 0
    cells: Cells = prior * probabilities
    return cells


def _joint_backward(grids: Grids, probabilities: Cells) -> Cells:
    """Return p(link, source token | target) for each cell: rows compete for a column."""
    near = grids.near
    prior = near * ((1 - P_NULL) / np.maximum(near.sum(axis=2, keepdims=True), np.float32(1e-30)))
    prior[:, :, 0] = P_NULL * grids.src_real[:, :, 0]
    prior[:, 0, 0] = 0
    cells: Cells = prior * probabilities
    return cells


def _probabilities(counts: Cells, given: NDArray[np.int64]) -> Cells:
    """Return exp(ψ(count + α) − ψ(sum of these)) of each pair: the variational M step."""
    import torch  # here, because the processes that only align do not need it

    totals = np.bincount(given, counts) + ALPHA * np.bincount(given)
    logarithms = torch.digamma(torch.from_numpy(counts + np.float32(ALPHA)).double())
    sums = torch.digamma(torch.from_numpy(totals).clamp_min(ALPHA))
    found: Cells = (logarithms - sums[torch.from_numpy(given)]).exp().float().numpy()
    return found
