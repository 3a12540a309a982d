"""Performer's attention (Choromanski et al. 2021): a softmax by positive random features, FAVOR+.

exp(q·k) is the mean of exp(ω·q − |q|²/2) · exp(ω·k − |k|²/2) over random directions ω. With m of
them as features φ, attention is φ(q) · Σ φ(k) v, divided by φ(q) · Σ φ(k): the sums are the same
for all queries, or running sums for causal ones, so that it takes O(n · m · d) operations. The sums
of the past are all that a step of a search needs.

The directions are orthogonal in blocks of d_k and have the length sqrt(d_k): the paper's
regularised kernel. Features are then at most exp(d_k / 2). They are fixed, not drawn again.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from transduce.nn.mixers.attention import Attend, attend_fused
from transduce.nn.mixers.heads import AttentionScore, HeadProjections, repeat_heads
from transduce.nn.mixers.masks import Allowed
from transduce.nn.mixers.positions import Rotation
from transduce.nn.step_state import HypothesisState, StepContext

CHUNK = 128
"""Positions whose scores are computed directly in the causal form; earlier ones come as sums."""


class RandomFeatureAttention(HeadProjections):
    """Self-attention by `features` random features for each head of keys and values.

    Equal seeds give equal directions, on every machine: they are not part of the weights.
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
            of_q, of_k, summed = self._query_features(q), self._key_features(k), _with_ones(v)
            if allowed is not None:
                of_k = of_k * allowed.transpose(-2, -1)
            of_k, summed = repeat_heads(of_k, self.h), repeat_heads(summed, self.h)
            sums = _causal_sums(of_q, of_k, summed) if causal else of_q @ (of_k.mT @ summed)
            heads = _divided(sums).to(v.dtype)  # [B, h, T, d_v]
        return self.output(heads)

    def empty_cache(self, like: Tensor, *, hypotheses: int, max_steps: int) -> HypothesisState:
        """Allocate the sums of `step`, for as many sentences as `like` has, [B, …]."""
        if self.rotation is not None:
            self.rotation.positions.check(max_steps)
        shape = (like.size(0), hypotheses, self.kv_heads, self.directions.size(1), self.d_v + 1)
        return HypothesisState(like.new_zeros(shape, dtype=_wide(like.dtype)))

    def step(self, x: Tensor, past: HypothesisState, at: StepContext) -> Tensor:
        """Do what a causal `forward` does, for the next position of each hypothesis, [B, k, …]."""
        q, k, v = self.project(x)
        q, k = self.rotated_at(q, k, at.position)
        with torch.autocast(x.device.type, enabled=False):
            of_q, of_k, summed = self._query_features(q), self._key_features(k), _with_ones(v)
            past.update(past.tensor + torch.einsum("bnkm,bnkd->bknmd", of_k, summed))
            by_group = of_q.view(of_q.size(0), self.kv_heads, -1, *of_q.shape[2:])
            sums = torch.einsum("bngkm,bknmd->bngkd", by_group, past.tensor)
            heads = _divided(sums).flatten(1, 2).to(v.dtype)
        return self.output(heads)

    def _query_features(self, q: Tensor) -> Tensor:
        """Return φ(q) up to a factor of each query, by which the sums are divided anyway."""
        exponents = self._exponents(q, repeat_heads(self.directions, self.h))
        return (exponents - exponents.detach().amax(dim=-1, keepdim=True)).exp()

    def _key_features(self, k: Tensor) -> Tensor:
        return self._exponents(k, self.directions).exp()

    def _exponents(self, x: Tensor, directions: Tensor) -> Tensor:
        """Return ω·x − |x|²/2, where x is divided by the fourth root of d_k, as eq. 1 asks."""
        x = x.to(_wide(x.dtype)) * self.d_k**-0.25
        return x @ directions.to(x.dtype).mT - x.square().sum(dim=-1, keepdim=True) / 2


def orthogonal_directions(
    heads: int, features: int, d_k: int, *, seed: int
) -> "np.typing.NDArray[np.float32]":
    """Draw directions of the length sqrt(d_k), orthogonal in blocks of d_k: [heads, features, d_k].

    numpy keeps the numbers of this generator the same in all its versions.
    """
    blocks = math.ceil(features / d_k)
    drawn = np.random.RandomState(seed % 2**32).standard_normal((heads, blocks, d_k, d_k))
    q, r = np.linalg.qr(drawn)
    signed = q * np.sign(np.diagonal(r, axis1=-2, axis2=-1))[..., None, :]  # which makes q unique
    rows = signed.mT.reshape(heads, blocks * d_k, d_k)[:, :features]
    found: np.typing.NDArray[np.float32] = (rows * math.sqrt(d_k)).astype(np.float32)
    return found


def _causal_sums(of_q: Tensor, of_k: Tensor, summed: Tensor) -> Tensor:
    """Return for each position Σ φ(q)·φ(k) [v, 1] over the positions up to it, chunk by chunk."""
    length = of_q.size(2)
    size = min(CHUNK, length)
    q, k, v = (
        F.pad(x, (0, 0, 0, -length % size)).view(*x.shape[:2], -1, size, x.size(3))
        for x in (of_q, of_k, summed)
    )  # each [B, h, chunks, size, width]
    of_chunks = k.mT @ v
    before = F.pad(of_chunks[:, :, :-1].cumsum(dim=2), (0, 0, 0, 0, 1, 0))
    within = (q @ k.mT).tril() @ v
    sums: Tensor = q @ before + within
    return sums.flatten(2, 3)[:, :, :length]


def _with_ones(v: Tensor) -> Tensor:
    """Append a 1 to each value: the sum of weights is then summed with the values."""
    return F.pad(v.to(_wide(v.dtype)), (0, 1), value=1.0)


def _divided(sums: Tensor) -> Tensor:
    smallest = torch.finfo(sums.dtype).tiny
    return sums[..., :-1] / sums[..., -1:].clamp(min=smallest)


def _wide(dtype: torch.dtype) -> torch.dtype:
    """Return the type of sums: float32, or float64 where that is computed in."""
    return torch.promote_types(dtype, torch.float32)
