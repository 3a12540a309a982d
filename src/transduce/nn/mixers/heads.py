"""The projections of attention (§3.2.2): queries, keys and values by head, and the heads joined.

Several query heads may share a head of keys and values: grouped-query attention (Ainslie et al.
2023), or with one such head multi-query attention (Shazeer 2019). A search then keeps, and reads in
every step, that much less.
"""

import math
from typing import Literal

from torch import Tensor, nn

from transduce.nn.initialise import glorot_, keep_variance_
from transduce.nn.linear import linear_together
from transduce.nn.mixers.key_ranges import KeyRanges
from transduce.nn.mixers.positions import Rotation

AttentionScore = Literal["scaled", "unscaled", "additive"]
"""How a query and a key are compared (§3.2.1): q·k / sqrt(d_k), q·k or v·tanh(q + k)."""

QK_EPSILON = 1e-6
"""Added to the mean square of a query or key where they are normalised."""


def repeat_heads(x: Tensor, h: int) -> Tensor:
    """Repeat the heads of keys or values, [B, kv_heads, S, d], for h heads of queries."""
    return x if x.size(-3) == h else x.repeat_interleave(h // x.size(-3), dim=-3)


class HeadProjections(nn.Module):
    """The four matrices of an attention, with h heads of queries and kv_heads of keys and values.

    Query head i uses head i // (h / kv_heads) of keys and values. The paper has as many of both.
    With `qk_norm`, each head's queries and keys pass an RMS norm before anything else, so that
    scores cannot grow without bound (Henry et al. 2020; Dehghani et al. 2023).
    """

    norm_q: nn.RMSNorm | None
    norm_k: nn.RMSNorm | None

    def __init__(
        self,
        d_model: int,
        h: int,
        *,
        d_k: int,
        d_v: int,
        kv_heads: int | None = None,
        bias: bool = False,
        score: AttentionScore = "scaled",
        rotation: Rotation | None = None,
        qk_norm: bool = False,
    ) -> None:
        super().__init__()
        self.h, self.d_k, self.d_v = h, d_k, d_v
        self.kv_heads = h if kv_heads is None else kv_heads
        assert h % self.kv_heads == 0, f"{h} heads cannot share {self.kv_heads} evenly"
        self.w_q = nn.Linear(d_model, h * d_k, bias=bias)
        self.w_k = nn.Linear(d_model, self.kv_heads * d_k, bias=bias)
        self.w_v = nn.Linear(d_model, self.kv_heads * d_v, bias=bias)
        self.w_o = nn.Linear(h * d_v, d_model, bias=bias)
        self.score = score
        self.norm_q = nn.RMSNorm(d_k, eps=QK_EPSILON) if qk_norm else None
        self.norm_k = nn.RMSNorm(d_k, eps=QK_EPSILON) if qk_norm else None
        self.rotation = rotation

    def init_weights(self) -> None:
        """Draw so that components of q and k have variance 1, as 1 / sqrt(d_k) supposes (§3.2.1).

        Where h·d_k = d_model this is Glorot's; where it is less (Table 3 row B), Glorot's would
        start with a sharper softmax.
        """
        for projection in (self.w_q, self.w_k, self.w_v):
            keep_variance_(projection)
        glorot_(self.w_o)
        for norm in (self.norm_q, self.norm_k):
            if norm is not None:
                norm.reset_parameters()

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Project x to the queries, keys and values of self-attention."""
        q, k, v = linear_together(x, self.w_q, self.w_k, self.w_v)
        q, k = self.ready_queries(by_head(q, self.d_k)), self.ready_keys(by_head(k, self.d_k))
        return q, k, by_head(v, self.d_v)

    def queries(self, x: Tensor) -> Tensor:
        """Project x to queries."""
        return self.ready_queries(by_head(self.w_q(x), self.d_k))

    def keys_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Project another sequence to keys and values, which may be kept and used again."""
        k, v = linear_together(memory, self.w_k, self.w_v)
        return self.ready_keys(by_head(k, self.d_k)), by_head(v, self.d_v)

    def output(self, heads: Tensor) -> Tensor:
        """Project what the heads return, [B, h, T, d_v], side by side."""
        concatenated = heads.transpose(1, 2).flatten(2)  # [B, T, h*d_v]
        output: Tensor = self.w_o(concatenated)  # [B, T, d_model]
        return output

    def ready_queries(self, q: Tensor) -> Tensor:
        """Normalise queries, and multiply them by sqrt(d_k) if eq. 1 is not to divide by it."""
        if self.norm_q is not None:
            q = self.norm_q(q).to(q.dtype)
        return q * math.sqrt(self.d_k) if self.score == "unscaled" else q

    def ready_keys(self, k: Tensor) -> Tensor:
        """Normalise keys, where queries are normalised."""
        return k if self.norm_k is None else self.norm_k(k).to(k.dtype)

    def rotated(self, q: Tensor, k: Tensor, allowed: object = None) -> tuple[Tensor, Tensor]:
        """Rotate queries and keys of whole sequences by their positions, where there is a rotation.

        Ranges of keys say where the sentences of a packed row begin.
        """
        if self.rotation is None:
            return q, k
        rows = self.rotation_rows(self.rotation, q.size(2), allowed)
        return self.rotation(q, rows), self.rotation(k, rows)

    def rotated_at(self, q: Tensor, k: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
        """Rotate queries and keys by a position for all, [1], or by each its own, [T]."""
        if self.rotation is None:
            return q, k
        rows = self.rotation.positions.at(position)
        return self.rotation(q, rows), self.rotation(k, rows)

    def rotation_rows(self, rotation: Rotation, length: int, allowed: object) -> Tensor:
        """Return the angles of all positions of a sentence, or of a row of packed ones."""
        if isinstance(allowed, KeyRanges):
            return rotation.positions.at(allowed.positions())
        rows: Tensor = rotation.positions(length)
        return rows


def by_head(x: Tensor, width: int) -> Tensor:
    """Split the last dimension of [B, T, heads·width] into heads: [B, heads, T, width]."""
    return x.view(*x.shape[:-1], -1, width).transpose(1, 2)
