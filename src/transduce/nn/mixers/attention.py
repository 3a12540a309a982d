"""Attention (§3.2): eq. 1, step by step and as a fused kernel, and the multi-head form."""

import math
from typing import Protocol, TypedDict, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from transduce.nn.kernels.available import (
    in_cpu_inference,
    in_cuda_inference,
    kernels_support,
    triton_works,
)
from transduce.nn.linear import linear_joined
from transduce.nn.mixers.heads import AttentionScore, HeadProjections, repeat_heads
from transduce.nn.mixers.key_ranges import KeyRanges
from transduce.nn.mixers.masks import Allowed, dense_mask, mask_by_distance
from transduce.nn.mixers.positions import RelativePositions, Rotation, ScoreTerm
from transduce.nn.step_state import KeyValueCache, SpanContext, StepContext


class Attend(Protocol):
    """Eq. 1, however computed: softmax(q k^T / sqrt(d_k)) v.

    Every query must be allowed some key. `causal` allows position i the positions ≤ i: instead of a
    mask, or within ranges of keys. In self-attention a score term may be added to the scaled scores
    and a window may hide all keys at a distance of `window` or more. With a vector for each head,
    [h, d_k], in `additive`, the scores are those of `additive_scores`. Keys and values may have
    fewer heads than queries, which then share them in groups.
    """

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        allowed: Allowed = None,
        causal: bool = False,
        p_drop: float = 0.0,
        term: ScoreTerm | None = None,
        window: int | None = None,
        additive: Tensor | None = None,
    ) -> Tensor:
        """Return the context of each query: a weighted mean of the values."""
        ...


def attend_fused(
    q: Tensor,  # [B, h, T, d_k]
    k: Tensor,  # [B, h, S, d_k]
    v: Tensor,  # [B, h, S, d_v]
    *,
    allowed: Allowed = None,
    causal: bool = False,
    p_drop: float = 0.0,
    term: ScoreTerm | None = None,
    window: int | None = None,
    additive: Tensor | None = None,
) -> Tensor:
    """Eq. 1 in one kernel, which never writes the weights to memory; additive scores have none."""
    if additive is not None:
        return attend_reference(
            q,
            k,
            v,
            allowed=allowed,
            causal=causal,
            p_drop=p_drop,
            term=term,
            window=window,
            additive=additive,
        )[0]
    if isinstance(allowed, KeyRanges) or term is not None or window is not None:
        allowed = dense_mask(q, k, allowed, causal=causal, term=term, window=window)
        causal = False
    is_plain = not causal and p_drop == 0
    fits = kernels_support(q.size(-2), q.size(-1), v.size(-1), q.dtype)
    if is_plain and fits and in_cpu_inference(q):
        # For the few queries of a search the fused kernel takes up to three times as long.
        return attend_reference(q, k, v, allowed=allowed)[0]
    k, v = repeat_heads(k, q.size(-3)), repeat_heads(v, q.size(-3))  # not every kernel shares heads
    if is_plain and fits and in_cuda_inference(q):
        from transduce.nn.kernels.search import attend_few_queries

        return attend_few_queries(q, k, v, allowed)
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=allowed, dropout_p=p_drop, is_causal=causal
    )  # [B, h, T, d_v]


def attend_reference(
    q: Tensor,  # [B, h, T, d_k]
    k: Tensor,  # [B, h, S, d_k]
    v: Tensor,  # [B, h, S, d_v]
    *,
    allowed: Allowed = None,
    causal: bool = False,
    p_drop: float = 0.0,
    term: ScoreTerm | None = None,
    window: int | None = None,
    additive: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Eq. 1 step by step. Returns (context, weights), the weights before any dropout."""
    mask = dense_mask(q, k, allowed, causal=causal, term=term, window=window)
    if additive is None:
        scores = _by_group(q, k.transpose(-2, -1)) / math.sqrt(q.size(-1))  # [B, h, T, S]
    else:
        scores = additive_scores(q, repeat_heads(k, q.size(1)), additive)  # [B, h, T, S]
    if mask is not None:
        is_boolean = mask.dtype == torch.bool
        scores = torch.where(mask, scores, -math.inf) if is_boolean else scores + mask
    weights = scores.softmax(dim=-1)  # [B, h, T, S]
    dropped = F.dropout(weights, p_drop) if p_drop else weights  # [B, h, T, S]
    return _by_group(dropped, v), weights


def _by_group(rows: Tensor, shared: Tensor) -> Tensor:
    """Multiply the rows of h heads, [B, h, T, …], with matrices that groups of heads share.

    A group's rows are one product, so that its matrix is read once.
    """
    if rows.shape[:-2] == shared.shape[:-2]:
        return rows @ shared
    together = rows.reshape(*shared.shape[:2], -1, rows.size(3))
    return (together @ shared).view(*rows.shape[:3], -1)


def additive_scores(
    q: Tensor,  # [B, h, T, d_k]
    k: Tensor,  # [B, h, S, d_k]
    v: Tensor,  # [h, d_k]
) -> Tensor:
    """Compare by v · tanh(q + k), as Bahdanau et al. (2015) do with q = W s and k = U h.

    Every pair takes d_k numbers; for the backward pass they are computed again, not kept.
    """
    if torch.is_grad_enabled():
        kept: Tensor = checkpoint(_additive_scores, q, k, v, use_reentrant=False)
        return kept  # [B, h, T, S]
    return _additive_scores(q, k, v)


def _additive_scores(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.einsum("bhtsd,hd->bhts", torch.tanh(q[:, :, :, None] + k[:, :, None]), v)


def attend_to_past(
    q: Tensor,
    cache: KeyValueCache,
    at: StepContext,
    *,
    term: ScoreTerm | None = None,
    window: int | None = None,
    additive: Tensor | None = None,
) -> Tensor:
    """Let each hypothesis of a search, [B, h, k, d_k], attend to its own earlier positions.

    In a span, each token of the one hypothesis, [B, h, T, d_k], attends to those before it.
    """
    k, v = cache.up_to(at.reach)
    is_span = isinstance(at, SpanContext)
    if additive is None and not is_span and cache.suits_kernels():
        from transduce.nn.kernels.search import attend_cached

        k, v = repeat_heads(k, q.size(1)), repeat_heads(v, q.size(1))
        past = (at.history.slots, *at.survivors)
        return attend_cached(q, k, v, *past, position=at.position, term=term, window=window)
    allowed: Tensor | None = at.allowed
    if term is not None or window is not None:
        allowed = mask_by_distance(allowed, at.distances, term=term, window=window, like=q)
    return attend_fused(q, k, v, allowed=allowed, additive=additive)


class AttentionRecorder:
    """Attends by `attend_reference` and keeps the weights of each call, in the order of calls."""

    def __init__(self) -> None:
        self.weights: list[Tensor] = []

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        allowed: Allowed = None,
        causal: bool = False,
        p_drop: float = 0.0,
        term: ScoreTerm | None = None,
        window: int | None = None,
        additive: Tensor | None = None,
    ) -> Tensor:
        """Return the context and keep the weights."""
        context, weights = attend_reference(
            q,
            k,
            v,
            allowed=allowed,
            causal=causal,
            p_drop=p_drop,
            term=term,
            window=window,
            additive=additive,
        )
        self.weights.append(weights)
        return context


class AttentionOptions(TypedDict, total=False):
    """How a `MultiHeadAttention` differs from the paper's, beside its sizes."""

    kv_heads: int | None
    bias: bool
    p_drop: float
    score: AttentionScore
    term: RelativePositions | None
    window: int | None
    rotation: Rotation | None
    qk_norm: bool


class MultiHeadAttention(HeadProjections):
    """§3.2.2: h attentions side by side, each over its own projections to d_k, d_k and d_v.

    Self-attention may also depend on distances, which the paper's does not: by a score term, by a
    window that hides all keys at a distance of `window` or more, or by rotated queries and keys.
    """

    v_score: nn.Parameter | None

    def __init__(
        self, d_model: int, h: int, *, d_k: int, d_v: int, **options: Unpack[AttentionOptions]
    ) -> None:
        score, window = options.get("score", "scaled"), options.get("window")
        assert window is None or window > 0, f"a window of {window} hides all keys"
        super().__init__(
            d_model,
            h,
            d_k=d_k,
            d_v=d_v,
            kv_heads=options.get("kv_heads"),
            bias=options.get("bias", False),
            score=score,
            rotation=options.get("rotation"),
            qk_norm=options.get("qk_norm", False),
        )
        self.p_drop = options.get("p_drop", 0.0)
        self.v_score = nn.Parameter(torch.empty(h, d_k)) if score == "additive" else None
        self.term, self.window = options.get("term"), window

    @property
    def knows_distances(self) -> bool:
        """Whether there is a term, a window or a rotation, which the paper's attention has not."""
        return not (self.term is None and self.window is None and self.rotation is None)

    def init_weights(self) -> None:
        """Draw the projections, and then the weights of scores and positions."""
        super().init_weights()
        if self.v_score is not None:
            nn.init.normal_(self.v_score, std=self.d_k**-0.5)
        if self.term is not None:
            self.term.init_weights()

    def forward(
        self,
        x: Tensor,  # [B, T, d_model]
        memory: Tensor,  # [B, S, d_model]
        *,
        allowed: Allowed = None,
        causal: bool = False,
        attend: Attend = attend_fused,
    ) -> Tensor:
        """Let each position of x attend to memory: to x itself in self-attention."""
        if isinstance(allowed, KeyRanges) and attend is attend_fused and self._takes_kernel(x):
            return self._attend_packed(x, memory, allowed, causal=causal)
        q, k, v = self.project(x) if memory is x else (self.queries(x), *self.keys_values(memory))
        term = None if self.term is None else self.term(q)
        q, k = self.rotated(q, k, allowed)
        return self.attend(q, k, v, allowed=allowed, causal=causal, attend=attend, term=term)

    def keys_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Project another sequence to keys and values, which may be kept and used again."""
        assert not self.knows_distances, "positions of two sequences have no distance"
        return super().keys_values(memory)

    def source(self, memory: Tensor, allowed: Allowed = None) -> tuple[Tensor, Tensor]:
        """Project what a search attends to in each of its steps; `allowed` says what is real."""
        del allowed  # each step gets it
        return self.keys_values(memory)

    def attend(
        self,
        q: Tensor,  # [B, h, T, d_k]
        k: Tensor,
        v: Tensor,
        *,
        allowed: Allowed = None,
        causal: bool = False,
        attend: Attend = attend_fused,
        term: ScoreTerm | None = None,
    ) -> Tensor:
        """Let queries attend to keys and values, and project what the heads return."""
        p_drop = self.p_drop if self.training else 0.0
        heads = attend(
            q,
            k,
            v,
            allowed=allowed,
            causal=causal,
            p_drop=p_drop,
            term=term,
            window=self.window,
            additive=self.v_score,
        )  # [B, h, T, d_v]
        return self.output(heads)  # [B, T, d_model]

    def empty_cache(self, keys: Tensor, *, hypotheses: int, max_steps: int) -> KeyValueCache:
        """Allocate the cache of `step`, for as many sentences as the keys of a source, [B, …]."""
        if self.rotation is not None:
            self.rotation.positions.check(max_steps)
        slots = (keys.size(0), self.kv_heads, max_steps, hypotheses)
        # Zeros: unwritten slots are masked, but must be finite.
        return KeyValueCache(keys.new_zeros(*slots, self.d_k), keys.new_zeros(*slots, self.d_v))

    def step(self, x: Tensor, cache: KeyValueCache, at: StepContext) -> Tensor:
        """Do what a causal `forward` does, for the next position of each hypothesis, [B, k, …].

        In a span: for the next T positions of the one hypothesis, [B, T, …].
        """
        q, k, v = self.project(x)
        term = None if self.term is None else self.term(q)
        q, k = self.rotated_at(q, k, at.position)
        cache.append(k, v, at)
        heads = attend_to_past(
            q, cache, at, term=term, window=self.window, additive=self.v_score
        )  # [B, h, k, d_v]
        return self.output(heads)

    def _takes_kernel(self, x: Tensor) -> bool:
        drops = self.training and self.p_drop > 0
        is_product = self.score != "additive"
        fits = x.is_cuda and x.dtype != torch.float64 and not drops and is_product
        return fits and (torch.compiler.is_compiling() or triton_works())

    def _attend_packed(
        self, x: Tensor, memory: Tensor, allowed: KeyRanges, *, causal: bool
    ) -> Tensor:
        """Do what `forward` does for a row of packed sentences, by our own kernel.

        The projections of one input are computed side by side and stay so, because their gradients
        are needed side by side: bringing these together would be a copy.
        """
        from transduce.nn.kernels.packed_attention import attend_packed

        if self.d_k != self.d_v:
            groups = [(x, [self.w_q]), (memory, [self.w_k]), (memory, [self.w_v])]
        elif memory is x and self.score == "scaled" and self.kv_heads == self.h:
            groups = [(x, [self.w_q, self.w_k, self.w_v])]
        else:
            groups = [(x, [self.w_q]), (memory, [self.w_k, self.w_v])]
        packed = [
            linear_joined(rows, *layers).view(rows.size(1), len(layers), heads, -1)
            for (rows, layers), heads in zip(
                groups, (self.h, self.kv_heads, self.kv_heads), strict=False
            )
        ]
        if self.norm_q is not None:
            q, k, v = (part for rows in packed for part in rows.unbind(1))  # each [T, h, d_k]
            packed = [part[:, None] for part in (self.ready_queries(q), self.ready_keys(k), v)]
        elif self.score == "unscaled":
            packed[0] = self.ready_queries(packed[0])
        term = None
        if self.knows_distances:
            assert memory is x, "positions of two sequences have no distance"
            packed, term = self._with_distances(packed, allowed)
        if self.kv_heads < self.h:  # the kernel has keys and values for each head
            first, *shared = packed
            repeats = self.h // self.kv_heads
            packed = [first, *(rows.repeat_interleave(repeats, dim=2) for rows in shared)]
        heads = attend_packed(packed, allowed, causal=causal, term=term, window=self.window)
        output: Tensor = self.w_o(heads.flatten(1).unsqueeze(0))
        return output

    def _with_distances(
        self, packed: list[Tensor], allowed: KeyRanges
    ) -> tuple[list[Tensor], ScoreTerm | None]:
        """Rotate queries and keys of a packed row, each [T, h, d_k], and make the score term."""
        q, k, v = (part for rows in packed for part in rows.unbind(1))
        term = None if self.term is None else self.term(q.transpose(0, 1)[None])
        if self.rotation is None:
            return packed, term
        rows = self.rotation_rows(self.rotation, q.size(0), allowed)[:, None]
        return [x[:, None] for x in (self.rotation(q, rows), self.rotation(k, rows), v)], term
