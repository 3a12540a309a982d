"""Performer's attention (Choromanski et al. 2021): a softmax by positive random features, FAVOR+.

exp(q·k) is the mean of exp(ω·q − |q|²/2) · exp(ω·k − |k|²/2) over random directions ω. With m of
them as features φ, attention is φ(q) · Σ φ(k) v, divided by φ(q) · Σ φ(k): the sums are the same
for all queries, or running sums for causal ones, so that it takes O(n · m · d) operations. The sums
of the past are all that a step of a search needs.

The directions are orthogonal in blocks of d_k, at most 256, and have the length sqrt(d_k): the
paper's regularised kernel. They are fixed, not drawn again.

Exponents may be far below or above what `exp` can represent. So each feature of the keys is divided
by its largest, its peak, and the same feature of the queries is multiplied by it: the products stay
the same, and no sum of weights is less than 1.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from transduce.nn.mixers.attention import Attend, attend_fused
from transduce.nn.mixers.heads import AttentionScore, HeadProjections, repeat_heads
from transduce.nn.mixers.masks import Allowed
from transduce.nn.mixers.positions import Rotation
from transduce.nn.step_state import HypothesisState, StateGroup, StepContext

CHUNK = 128
"""Positions whose scores are computed directly in the causal form; earlier ones come as sums. A
power of 2."""
MAX_BLOCK = 256
"""Directions of a block: without a limit, a large d_k would take long to decompose."""
DRAWN_AT_ONCE = 2**22
"""Numbers that are drawn and decomposed in float64 at a time."""


@dataclass(frozen=True)
class FeatureSums(StateGroup):
    """What a step keeps: Σ φ(k) [v, 1], each feature divided by exp of its peak, and the peaks."""

    sums: HypothesisState  # [B, k, kv_heads, features, d_v + 1]
    peaks: HypothesisState  # [B, k, kv_heads, features]


class RandomFeatureAttention(HeadProjections):
    """Self-attention by `features` random features for each head of keys and values.

    Equal seeds give equal directions, up to rounding: they are not part of the weights.
    """

    directions: Tensor  # [kv_heads, features, d_k]

    def __init__(
        self,
        d_model: int,
        h: int,
        *,
        d_k: int,
        d_v: int,
        features: int,
        seed: int = 0,
        kv_heads: int | None = None,
        bias: bool = False,
        score: AttentionScore = "scaled",
        rotation: Rotation | None = None,
        qk_norm: bool = False,
    ) -> None:
        assert score != "additive", "random features estimate exponentials of products"
        super().__init__(
            d_model,
            h,
            d_k=d_k,
            d_v=d_v,
            kv_heads=kv_heads,
            bias=bias,
            score=score,
            rotation=rotation,
            qk_norm=qk_norm,
        )
        self.seed = seed
        empty = torch.empty(self.kv_heads, features, d_k)
        self.register_buffer("directions", empty, persistent=False)
        if not self.directions.is_meta:
            self.rebuild_buffers()

    def rebuild_buffers(self) -> None:
        """Draw the directions, on torch's default device."""
        heads, features, d_k = self.directions.shape
        drawn = orthogonal_directions(heads, features, d_k, seed=self.seed)
        self.directions = torch.tensor(drawn, device=torch.get_default_device())

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        allowed: Allowed = None,
        causal: bool = False,
        attend: Attend = attend_fused,
    ) -> Tensor:
        """Let each position of x attend to x; there are no weights to record."""
        assert memory is x, "random features are for self-attention"
        assert allowed is None or isinstance(allowed, Tensor), "packed rows have no own sums"
        del attend
        q, k, v = self.project(x)
        q, k = self.rotated(q, k)
        with torch.autocast(x.device.type, enabled=False):
            of_q = self._exponents(q, repeat_heads(self.directions, self.h))
            of_k, summed = self._exponents(k, self.directions), _with_ones(v)
            if allowed is not None:
                is_real = allowed.transpose(-2, -1)
                of_k, summed = of_k.masked_fill(~is_real, _lowest(of_k)), summed * is_real
            of_k, summed = repeat_heads(of_k, self.h), repeat_heads(summed, self.h)
            read = _causal_sums if causal else _sums
            heads = _divided(read(of_q, of_k, summed)).to(v.dtype)  # [B, h, T, d_v]
        return self.output(heads)

    def empty_cache(self, like: Tensor, *, hypotheses: int, max_steps: int) -> FeatureSums:
        """Allocate the sums of `step`, for as many sentences as `like` has, [B, …]."""
        if self.rotation is not None:
            self.rotation.positions.check(max_steps)
        shape = (like.size(0), hypotheses, self.kv_heads, self.directions.size(1))
        sums = like.new_zeros(*shape, self.d_v + 1, dtype=_wide(like.dtype))
        return FeatureSums(HypothesisState(sums), HypothesisState(sums.new_zeros(shape)))

    def step(self, x: Tensor, past: FeatureSums, at: StepContext) -> Tensor:
        """Do what a causal `forward` does, for the next position of each hypothesis, [B, k, …]."""
        q, k, v = self.project(x)
        q, k = self.rotated_at(q, k, at.position)
        with torch.autocast(x.device.type, enabled=False):
            of_q = self._exponents(q, repeat_heads(self.directions, self.h))
            of_k, summed = self._exponents(k, self.directions), _with_ones(v)
            _add(past, of_k.transpose(1, 2), summed.transpose(1, 2), at)
            by_group = of_q.view(of_q.size(0), self.kv_heads, -1, *of_q.shape[2:])
            shifted = by_group + past.peaks.tensor.transpose(1, 2)[:, :, None]
            features = (shifted - shifted.amax(dim=-1, keepdim=True)).exp()
            sums = features.permute(0, 3, 1, 2, 4) @ past.sums.tensor  # [B, k, kv_heads, …]
            heads = _divided(sums).permute(0, 2, 3, 1, 4).flatten(1, 2).to(v.dtype)
        return self.output(heads)

    def _exponents(self, x: Tensor, directions: Tensor) -> Tensor:
        """Return ω·x − |x|²/2, where x is divided by the fourth root of d_k, as eq. 1 asks."""
        x = x.to(_wide(x.dtype)) * self.d_k**-0.25
        return x @ directions.to(x.dtype).mT - x.square().sum(dim=-1, keepdim=True) / 2


def orthogonal_directions(
    heads: int, features: int, d_k: int, *, seed: int
) -> "np.typing.NDArray[np.float32]":
    """Draw directions of the length sqrt(d_k), orthogonal in blocks: [heads, features, d_k].

    Time and memory are proportional to what is returned. numpy keeps the numbers of this generator
    the same in all its versions.
    """
    size = min(features, d_k, MAX_BLOCK)
    blocks = math.ceil(features / size)
    source = np.random.RandomState(seed % 2**32)
    rows = np.empty((heads * blocks, size, d_k), dtype=np.float32)
    for part in np.split(rows, range(0, len(rows), max(1, DRAWN_AT_ONCE // (size * d_k)))[1:]):
        q, r = np.linalg.qr(source.standard_normal((len(part), d_k, size)))
        signs = np.sign(np.diagonal(r, axis1=-2, axis2=-1))[:, None]  # which make q unique
        part[:] = (q * signs * math.sqrt(d_k)).mT
    return rows.reshape(heads, blocks * size, d_k)[:, :features]


def _add(past: FeatureSums, of_k: Tensor, summed: Tensor, at: StepContext) -> None:
    """Add one position: its exponents and its [v, 1], each [B, k, kv_heads, …]."""
    before = past.peaks.tensor
    peaks = torch.where(at.position == 0, of_k, torch.maximum(before, of_k))
    kept, features = ((x - peaks).clamp(max=0).exp()[..., None] for x in (before, of_k))
    past.sums.tensor.mul_(kept).addcmul_(features, summed[..., None, :])
    past.peaks.update(peaks)


def _sums(of_q: Tensor, of_k: Tensor, summed: Tensor) -> Tensor:
    """Return for each query Σ φ(q)·φ(k) [v, 1] over all keys, up to a factor of the query."""
    peaks = _peaks(of_k)
    features, _ = _query_features(of_q, peaks)
    return features @ ((of_k - peaks).exp().mT @ summed)


def _causal_sums(of_q: Tensor, of_k: Tensor, summed: Tensor) -> Tensor:
    """Return for each position what `_sums` does over the positions up to it, chunk by chunk."""
    length = of_q.size(2)
    chunk = min(CHUNK, 1 << (length - 1).bit_length())
    q, k, v = (
        F.pad(x, (0, 0, 0, -length % chunk)).reshape(*x.shape[:2], -1, chunk, x.size(3))
        for x in (of_q, of_k, summed)
    )  # each [B, h, chunks, chunk, width]
    scale, sums = _within_chunks(q, k, v)
    if q.size(2) > 1:
        peaks, before = _before_chunks(k, v)
        features, found = _query_features(q[:, :, 1:], peaks)
        _, later = _added(scale[:, :, 1:], sums[:, :, 1:], found, features @ before)
        sums = torch.cat([sums[:, :, :1], later], dim=2)
    return sums.flatten(2, 3)[:, :, :length]


def _within_chunks(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sums over the positions of a chunk up to each, divided by exp of their scales.

    A peak must not be that of a later key. So the second half of each block of 2, 4, 8 … positions
    reads all keys of the first half, and the results are added.
    """
    scale = (q + k).detach().amax(dim=-1, keepdim=True)
    sums = (q + k - scale).exp().sum(dim=-1, keepdim=True) * v  # of each position with itself
    half = 1
    while half < q.size(3):
        blocks = (
            x.reshape(*x.shape[:3], -1, 2, half, x.size(4)).unbind(4)
            for x in (q, k, v, scale, sums)
        )
        (_, later), (earlier, _), (values, _), (scale_1, scale_2), (sums_1, sums_2) = blocks
        peaks = _peaks(earlier)
        features, found = _query_features(later, peaks)
        read = features @ (earlier - peaks).exp().mT @ values
        scale_2, sums_2 = _added(scale_2, sums_2, found, read)
        scale = torch.stack([scale_1, scale_2], dim=4).flatten(3, 5)
        sums = torch.stack([sums_1, sums_2], dim=4).flatten(3, 5)
        half *= 2
    return scale, sums


def _before_chunks(k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Return the peaks and the sums of all that comes before each chunk but the first."""
    own = _peaks(k[:, :, :-1])  # [B, h, chunks - 1, 1, features]
    peaks = own.cummax(dim=2).values
    of_chunks = (k[:, :, :-1] - peaks).exp().mT @ v[:, :, :-1]
    kept = (peaks[:, :, :-1] - peaks[:, :, 1:]).exp().mT
    sums = [of_chunks[:, :, 0]]
    for chunk in range(1, of_chunks.size(2)):
        sums.append(sums[-1] * kept[:, :, chunk - 1] + of_chunks[:, :, chunk])
    return peaks, torch.stack(sums, dim=2)


def _peaks(of_k: Tensor) -> Tensor:
    """Return the largest exponent of each feature: [..., 1, features]."""
    return of_k.detach().amax(dim=-2, keepdim=True)


def _query_features(of_q: Tensor, peaks: Tensor) -> tuple[Tensor, Tensor]:
    """Return φ(q) · exp(peaks), divided by exp of the scale that comes with it, [..., 1]."""
    shifted = of_q + peaks
    scale = shifted.detach().amax(dim=-1, keepdim=True)
    return (shifted - scale).exp(), scale


def _added(scale: Tensor, sums: Tensor, scale_2: Tensor, sums_2: Tensor) -> tuple[Tensor, Tensor]:
    """Add sums that are divided by exp of different scales."""
    both = torch.maximum(scale, scale_2)
    return both, sums * (scale - both).exp() + sums_2 * (scale_2 - both).exp()


def _with_ones(v: Tensor) -> Tensor:
    """Append a 1 to each value: the sum of weights is then summed with the values."""
    return F.pad(v.to(_wide(v.dtype)), (0, 1), value=1.0)


def _lowest(like: Tensor) -> float:
    """Return an exponent below all others, to which others can be added."""
    return torch.finfo(like.dtype).min / 4


def _divided(sums: Tensor) -> Tensor:
    smallest = torch.finfo(sums.dtype).tiny
    return sums[..., :-1] / sums[..., -1:].clamp(min=smallest)


def _wide(dtype: torch.dtype) -> torch.dtype:
    """Return the type of sums: float32, or float64 where that is computed in."""
    return torch.promote_types(dtype, torch.float32)
