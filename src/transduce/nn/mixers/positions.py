"""Positions (§3.5): added to the embeddings, or seen by attention as distances.

Added to the embeddings: sinusoids, or learned vectors (Table 3 row E). Seen by attention, which is
a deviation from the paper: a number that is added to each score by the distance between query and
key (`RelativePositions`), or a rotation of queries and keys (`Rotation`); nothing is then added to
the embeddings (`NoPositions`).
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from transduce.errors import InputError


def sinusoids(max_positions: int, d_model: int) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(same).

    Computed in float64 on the CPU: float32 angles lose digits at large positions, and not every
    device has float64.
    """
    pos = torch.arange(max_positions, dtype=torch.float64, device="cpu")
    two_i = torch.arange(0, d_model, 2, dtype=torch.float64, device="cpu")
    angles = pos[:, None] / 10000.0 ** (two_i / d_model)
    return (
        torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).float()
    )  # [max_positions, d_model]


class Positions(nn.Module):
    """A table with a row for each position."""

    table: Tensor  # [max_positions, d_model]

    def forward(self, length: int) -> Tensor:
        """Return the rows of the first `length` positions."""
        self.check(length)
        return self.table[:length]  # [T, d_model]

    def check(self, length: int) -> None:
        """Raise an error if the table has fewer rows than `length`."""
        if length > self.table.size(0):
            raise InputError(
                f"a sequence of {length} tokens is longer than "
                f"model.max_positions={self.table.size(0)}; cut it or raise the setting"
            )

    def at(self, positions: Tensor) -> Tensor:
        """Return the rows of these positions, [T]; they lie on the device and are not checked."""
        return self.table.index_select(0, positions)  # [T, d_model]


class SinusoidalPositions(Positions):
    """Fixed sinusoids; not part of the weights, so a trained model may be given a longer table."""

    def __init__(self, max_positions: int, d_model: int) -> None:
        super().__init__()
        self.register_buffer("table", torch.empty(max_positions, d_model), persistent=False)
        if not self.table.is_meta:
            self.rebuild_buffers()

    def rebuild_buffers(self) -> None:
        """Compute the table, on torch's default device."""
        self.table = sinusoids(*self.table.shape).to(torch.get_default_device())


class LearnedPositions(Positions):
    """A vector for each position, learned like an embedding."""

    def __init__(self, max_positions: int, d_model: int, *, std: float | None = None) -> None:
        super().__init__()
        self.std = d_model**-0.5 if std is None else std
        self.table = nn.Parameter(torch.empty(max_positions, d_model))

    def init_weights(self) -> None:
        """Draw with variance 1 / d_model: small beside the embeddings, which have variance 1.

        An architecture with other embeddings gives their spread.
        """
        nn.init.normal_(self.table, std=self.std)


class NoPositions(Positions):
    """Adds nothing: a table of zeros, whose length says how long a sequence may be."""

    def __init__(self, max_positions: int, d_model: int) -> None:
        super().__init__()
        self.register_buffer("table", torch.zeros(max_positions, d_model), persistent=False)

    def rebuild_buffers(self) -> None:
        """Fill the table with zeros, on torch's default device."""
        self.table = torch.zeros(self.table.shape, device=torch.get_default_device())


@dataclass(frozen=True)
class ScoreTerm:
    """Numbers that attention adds to its scaled scores, by the distance j − i of key from query.

    The table is [B, h, T, 2·max_distance + 1]: a column for each distance from −max_distance on.
    Larger distances count as ±max_distance. B or T is 1 if all sentences or all queries share it.
    """

    table: Tensor

    @property
    def max_distance(self) -> int:
        """The largest distance with a column of its own."""
        return self.table.size(-1) // 2

    def dense(self, distances: Tensor) -> Tensor:
        """Return the numbers for distances [T, S], or [1, S] for all queries: [B, h, T, S]."""
        columns = distances.clamp(-self.max_distance, self.max_distance) + self.max_distance
        queries = max(distances.size(0), self.table.size(2))
        table = self.table.expand(-1, -1, queries, -1)
        return table.gather(-1, columns.expand(*table.shape[:3], -1))


class RelativePositions(nn.Module):
    """Makes the score term of an attention from its queries."""

    def forward(self, q: Tensor) -> ScoreTerm:
        """Return the term for queries [B, h, T, d_k], before any rotation."""
        raise NotImplementedError

    def init_weights(self) -> None:
        """Draw the weights, if there are any."""


class DistancePenalty(RelativePositions):
    """Adds −slope · |j − i|, with fixed slopes from 2^(−8/h) to 2^−8 (ALiBi, Press et al. 2022).

    Not part of the weights. All distances beyond `max_distance` get the same penalty.
    """

    table: Tensor

    def __init__(self, h: int, max_distance: int) -> None:
        super().__init__()
        self.register_buffer("table", torch.empty(1, h, 1, 2 * max_distance + 1), persistent=False)
        if not self.table.is_meta:
            self.rebuild_buffers()

    def rebuild_buffers(self) -> None:
        """Compute the table, on torch's default device."""
        _, h, _, columns = self.table.shape
        slopes = 2.0 ** (-8.0 * torch.arange(1, h + 1) / h)
        distances = (torch.arange(columns) - columns // 2).abs()
        self.table = -(slopes[:, None] * distances)[None, :, None]

    def forward(self, q: Tensor) -> ScoreTerm:
        """Return the same term for all queries."""
        del q
        return ScoreTerm(self.table)


class RelativeScores(RelativePositions):
    """Adds a learned number for each head and distance."""

    def __init__(self, h: int, max_distance: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(h, 2 * max_distance + 1))

    def init_weights(self) -> None:
        """Start at 0, as attention without the term."""
        nn.init.zeros_(self.table)

    def forward(self, q: Tensor) -> ScoreTerm:
        """Return the same term for all queries."""
        del q
        return ScoreTerm(self.table[None, :, None])


class BucketedScores(RelativePositions):
    """Adds a learned number for each head and bucket of distances (T5, Raffel et al. 2020).

    Near distances have a bucket each; farther ones share buckets that widen up to `max_distance`.
    With `causal`, all buckets are for keys before the query. T5 shares the numbers among its
    layers; here each attention has its own.
    """

    buckets: Tensor
    """The bucket of each distance from −max_distance on."""

    def __init__(self, h: int, max_distance: int, *, causal: bool, n_buckets: int = 32) -> None:
        super().__init__()
        self.causal = causal
        self.scores = nn.Parameter(torch.empty(h, n_buckets))
        columns = torch.empty(2 * max_distance + 1, dtype=torch.long)
        self.register_buffer("buckets", columns, persistent=False)
        if not self.buckets.is_meta:
            self.rebuild_buffers()

    def init_weights(self) -> None:
        """Start at 0, as attention without the term."""
        nn.init.zeros_(self.scores)

    def rebuild_buffers(self) -> None:
        """Assign distances to buckets, on torch's default device."""
        max_distance = self.buckets.numel() // 2
        distances = torch.arange(-max_distance, max_distance + 1)
        found = distance_buckets(
            distances, self.scores.size(1), max_distance=max_distance, causal=self.causal
        )
        self.buckets = found.to(torch.get_default_device())

    def forward(self, q: Tensor) -> ScoreTerm:
        """Return the same term for all queries."""
        del q
        return ScoreTerm(self.scores[:, self.buckets][None, :, None])


def distance_buckets(
    distances: Tensor, n_buckets: int, *, max_distance: int, causal: bool
) -> Tensor:
    """Return the bucket of each distance j − i of key from query.

    One half of the buckets is for keys after the query, unless it is causal. Of those on one side
    the nearer half has one distance each, the other is spaced by logarithms up to `max_distance`.
    """
    per_side = n_buckets if causal else n_buckets // 2
    n_exact = per_side // 2
    widest = max(max_distance, n_exact + 1)
    steps = (-distances).clamp(min=0) if causal else distances.abs()
    farther = (steps.clamp(min=1).double() / n_exact).log() / math.log(widest / n_exact)
    spaced = n_exact + (farther * (per_side - n_exact)).long()
    bucket = torch.where(steps < n_exact, steps, spaced.clamp(max=per_side - 1))
    return bucket if causal else bucket + per_side * (distances > 0)


class RelativeKeys(RelativePositions):
    """Adds q · a / sqrt(d_k), with a learned key a for each distance (Shaw et al. 2018).

    The heads share these keys. The paper also adds learned values, which are not here.
    """

    def __init__(self, d_k: int, max_distance: int) -> None:
        super().__init__()
        self.keys = nn.Parameter(torch.empty(2 * max_distance + 1, d_k))

    def init_weights(self) -> None:
        """Draw with variance 1 / d_k: small beside the other keys, which have variance 1."""
        nn.init.normal_(self.keys, std=self.keys.size(1) ** -0.5)

    def forward(self, q: Tensor) -> ScoreTerm:
        """Return a term of its own for each query."""
        return ScoreTerm(q @ self.keys.t() / math.sqrt(self.keys.size(1)))


class Rotation(nn.Module):
    """Rotates queries and keys by their positions (rotary embeddings, Su et al. 2021).

    Components i and i + d_k/2 turn together by pos / 10000^(2i/d_k), the angles of the sinusoids.
    The product of a rotated query and a rotated key then depends on their distance alone.
    """

    def __init__(self, d_k: int, max_positions: int) -> None:
        assert d_k % 2 == 0, f"rotations turn pairs of components, but d_k={d_k} is odd"
        super().__init__()
        self.positions = SinusoidalPositions(max_positions, d_k)

    def forward(self, x: Tensor, rows: Tensor) -> Tensor:
        """Rotate x, of width d_k, by rows of `positions` that broadcast to it."""
        sine, cosine = rows[..., 0::2], rows[..., 1::2]
        first, second = x.chunk(2, dim=-1)
        turned = [first * cosine - second * sine, second * cosine + first * sine]
        return torch.cat(turned, dim=-1).to(x.dtype)
