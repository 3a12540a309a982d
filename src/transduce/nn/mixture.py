"""A mixture of experts in place of the feed-forward network (Shazeer et al. 2017).

Every token goes through K of E feed-forward networks, chosen by a gate: the parameters of all E are
held, those of K are used. In training each expert has a fixed number of slots, so that all shapes
are constant and one batched product serves all experts; a token that finds no slot is left to the
residual connection. Without gradients there are no slots: tokens are sorted by expert and none is
left out, so a token's result never depends on the others in its batch.

Shapes: M tokens of a batch, K experts for each, E experts, C slots of an expert.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from transduce.nn.dropout import Dropout
from transduce.nn.kernels.available import triton_works

NOISE_FLOOR = 0.01
"""The least standard deviation of the gate's noise: the load is divided by it."""

GATE_STD = 0.1
"""The standard deviation of a new gate's scores, small beside that of its noise, 0.7. The paper
starts at 0, but then, without noise, all experts tie and the order of a kernel would decide."""

ROUND_TO = 8
"""The slots of an expert are rounded up to a multiple of it, which GPUs multiply faster."""


@dataclass
class Routing:
    """What a mixture is told about its tokens, and what it reports; one for each call."""

    real: Tensor
    """Which positions, [B, T], are no padding."""
    balance: Tensor | None = None
    """How unevenly the experts were used, to be added to the loss; only in training."""


@dataclass(frozen=True)
class _Choices:
    """Which experts each token goes to, and how much each of them counts."""

    experts: Tensor  # [M, K]
    gates: Tensor  # [M, K]


@dataclass(frozen=True)
class _Slots:
    """Which choice of which token has which slot; a number past the last stands for nothing."""

    token_in: Tensor  # [E*C]
    choice_in: Tensor  # [E*C]
    slot_of: Tensor  # [M*K]


class MixtureOfExperts(nn.Module):
    """E feed-forward networks (eq. 2) and a noisy top-k gate.

    The gate is that of Shazeer et al., eq. 3 to 5: scores x W_g, in training with normal noise of
    the standard deviation softplus(x W_noise), and a softmax over the k largest. `capacity` gives
    each expert, in training, that many times the slots it needs if all are used alike (Lepikhin et
    al. 2021).
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        *,
        experts: int,
        per_token: int,
        capacity: float,
        activation: Callable[[Tensor], Tensor] = F.relu,
        p_drop: float = 0.0,
    ) -> None:
        super().__init__()
        self.experts, self.per_token, self.capacity = experts, per_token, capacity
        self.activation = activation
        self.w_gate = nn.Parameter(torch.empty(experts, d_model))
        self.w_noise = nn.Parameter(torch.empty(experts, d_model))
        self.w_1 = nn.Parameter(torch.empty(experts, d_model, d_ff))
        self.b_1 = nn.Parameter(torch.empty(experts, d_ff))
        self.w_2 = nn.Parameter(torch.empty(experts, d_ff, d_model))
        self.b_2 = nn.Parameter(torch.empty(experts, d_model))
        self.dropout = Dropout(p_drop)

    def init_weights(self) -> None:
        """Draw each expert as a feed-forward network; the noise starts the same for all tokens."""
        nn.init.normal_(self.w_gate, std=GATE_STD / math.sqrt(self.w_gate.size(1)))
        nn.init.zeros_(self.w_noise)
        for matrix in (self.w_1, self.w_2):
            bound = math.sqrt(6 / (matrix.size(1) + matrix.size(2)))  # Glorot and Bengio's
            nn.init.uniform_(matrix, -bound, bound)
        nn.init.zeros_(self.b_1)
        nn.init.zeros_(self.b_2)

    @property
    def idle_parameters(self) -> int:
        """The parameters that one token does not use."""
        of_experts = sum(p.numel() for p in (self.w_1, self.b_1, self.w_2, self.b_2))
        return of_experts // self.experts * (self.experts - self.per_token)

    def forward(
        self,
        x: Tensor,  # [B, T, d_model]
        routing: Routing | None = None,
    ) -> Tensor:
        """Send each position of x through its experts; padding takes no slot and does not count."""
        tokens = x.flatten(0, 1)  # [M, d_model]
        real = None if routing is None else routing.real.flatten()
        choices, balance = self._choose(tokens, real)
        if routing is not None:
            routing.balance = balance
        if self.training:
            output = self._through_slots(tokens, choices, real, slots=self._slots(len(tokens)))
        elif torch.is_grad_enabled():
            output = self._through_slots(tokens, choices, None, slots=len(tokens))
        else:
            output = self._sorted(tokens, choices)
        return output.view(x.shape)  # [B, T, d_model]

    def _slots(self, tokens: int) -> int:
        """Return how many slots each expert has in training."""
        fair = tokens * self.per_token / self.experts
        return min(tokens, ROUND_TO * math.ceil(self.capacity * fair / ROUND_TO))

    def _choose(self, tokens: Tensor, real: Tensor | None) -> tuple[_Choices, Tensor | None]:
        """Choose the experts of each token, in float32 at least; in training also the balance."""
        dtype = torch.promote_types(tokens.dtype, torch.float32)
        with torch.autocast(tokens.device.type, enabled=False):
            x = tokens.to(dtype)
            clean = F.linear(x, self.w_gate.to(dtype))  # [M, E]
            if not self.training:
                scores, experts = clean.topk(self.per_token)
                return _Choices(experts, _softmax_of_sorted(scores)), None
            std = F.softplus(F.linear(x, self.w_noise.to(dtype))) + NOISE_FLOOR  # [M, E]
            noisy = clean + _noise(clean) * std  # [M, E]
            scores, experts = noisy.topk(min(self.per_token + 1, self.experts))
            gates = _softmax_of_sorted(scores[:, : self.per_token])  # [M, K]
            choices = _Choices(experts[:, : self.per_token], gates)
            chances = self._chances(clean, std, noisy, scores)
            return choices, _imbalance(choices, chances, real)

    def _chances(self, clean: Tensor, std: Tensor, noisy: Tensor, largest: Tensor) -> Tensor:
        """Return the probability that each expert would be chosen if its noise were drawn again.

        Shazeer et al., appendix A: a load that can be differentiated. An expert must exceed the
        K-th largest of the others' scores.
        """
        k = self.per_token
        if k == self.experts:
            return torch.ones_like(clean)
        is_chosen = noisy > largest[:, k : k + 1]
        others = torch.where(is_chosen, largest[:, k : k + 1], largest[:, k - 1 : k])  # [M, E]
        chances: Tensor = torch.special.ndtr((clean - others) / std)  # [M, E]
        return chances

    def _through_slots(
        self, tokens: Tensor, choices: _Choices, real: Tensor | None, *, slots: int
    ) -> Tensor:
        """Compute all experts in one batched product over their slots."""
        found = _assign(choices.experts, real, experts=self.experts, slots=slots)
        slots_of = found.slot_of.view(-1, self.per_token)  # [M, K]
        gathered = _gather_rows(tokens.to(_product_dtype(tokens)), found.token_in, slots_of)
        x = gathered.view(self.experts, slots, -1)  # [E, C, d_model]
        # torch's product with a bias would first copy the bias to every slot.
        inner = self.activation(torch.bmm(x, self.w_1) + self.b_1[:, None])  # [E, C, d_ff]
        output = torch.bmm(self.dropout(inner), self.w_2) + self.b_2[:, None]
        returned = _gather_rows(
            output.flatten(0, 1), found.slot_of, found.choice_in[:, None]
        )  # [M*K, d_model]
        return _weighted_sum(returned, choices.gates)

    def _sorted(self, tokens: Tensor, choices: _Choices) -> Tensor:
        """Sort tokens by expert and leave none out; no gradients, and no waiting for a GPU."""
        experts, order = choices.experts.flatten().sort(stable=True)
        numbers = torch.arange(self.experts, device=tokens.device)
        ends = torch.searchsorted(experts, numbers, right=True)  # [E]
        rows = tokens[order // self.per_token]  # [M*K, d_model]
        inner = self.activation(_product(rows, self.w_1, self.b_1, ends))  # [M*K, d_ff]
        output = _product(inner, self.w_2, self.b_2, ends)  # [M*K, d_model]
        places = torch.empty_like(order).scatter_(
            0, order, torch.arange(order.size(0), device=order.device)
        )
        return _weighted_sum(output[places], choices.gates)


def _softmax_of_sorted(scores: Tensor) -> Tensor:
    """Normalise scores of which the first is the largest; torch's compiler warns about softmax."""
    exponentials = (scores - scores[:, :1]).exp()
    return exponentials / exponentials.sum(dim=1, keepdim=True)


def _noise(scores: Tensor) -> Tensor:
    return torch.randn_like(scores)


def _weighted_sum(outputs: Tensor, gates: Tensor) -> Tensor:
    """Add the outputs of each token's experts, weighted by the gates."""
    of_token = outputs.view(*gates.shape, -1)  # [M, K, d_model]
    return (of_token * gates.to(outputs.dtype)[..., None]).sum(dim=1)  # [M, d_model]


def _imbalance(choices: _Choices, chances: Tensor, real: Tensor | None) -> Tensor:
    """Return CV(importance)² + CV(load)², Shazeer et al., eq. 7 and 11; 0 if all are used alike.

    Importance is the sum of an expert's gates, load the expected number of its tokens.
    """
    importance = torch.zeros_like(chances).scatter(1, choices.experts, choices.gates)  # [M, E]
    totals = torch.stack([importance, chances])  # [2, M, E]
    if real is not None:
        totals = torch.where(real[:, None], totals, 0.0)
    used = totals.sum(dim=1)  # [2, E]
    variance, mean = torch.var_mean(used, dim=1, correction=0)
    return (variance / (mean.square() + 1e-10)).sum()


def _assign(chosen: Tensor, real: Tensor | None, *, experts: int, slots: int) -> _Slots:
    """Give choices, [M, K], slots: first choices before second ones, in the order of tokens."""
    tokens, k = chosen.shape
    choices, device = tokens * k, chosen.device
    if real is not None:
        chosen = torch.where(real[:, None], chosen, experts)  # padding comes after all experts
    wanted, order = chosen.t().flatten().sort(stable=True)
    numbers = torch.arange(experts + 1, device=device)
    starts = torch.searchsorted(wanted, numbers)
    rank = torch.arange(choices, device=device) - starts[wanted]  # [M*K]
    has_slot = (rank < slots) & (wanted < experts)  # [M*K]
    target = torch.where(has_slot, wanted * slots + rank, experts * slots)  # [M*K]
    column = order % tokens * k + order // tokens  # [M*K]
    slot = torch.empty_like(target).scatter(0, column, target)  # [M*K]
    # The slots of an expert are filled from the first on, by a run of the sorted choices.
    within = torch.arange(slots, device=device)  # [C]
    source = (starts[:-1, None] + within).flatten()  # [E*C]
    is_filled = (within < starts.diff()[:, None]).flatten()  # [E*C]
    choice = torch.where(is_filled, column[source.clamp(max=choices - 1)], choices)  # [E*C]
    return _Slots(choice // k, choice, slot)


def _gather_rows(x: Tensor, index: Tensor, inverse: Tensor) -> Tensor:
    """Return the rows of x that `index` names; a number past the last row gives zeros.

    Row i of `inverse` lists where row i of x went, so that the gradient is a gather too: atomic
    additions would give other bits each time.
    """
    rows: Tensor = _GatherRows.apply(x, index, inverse)  # type: ignore[no-untyped-call]
    return rows


class _GatherRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor, inverse: Tensor) -> Tensor:
        ctx.save_for_backward(inverse)
        return _rows_or_zeros(x, index)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_rows: Tensor) -> tuple[Tensor | None, ...]:
        (inverse,) = ctx.saved_tensors
        return _rows_or_zeros(d_rows, inverse).sum(dim=1), None, None


def _rows_or_zeros(x: Tensor, index: Tensor) -> Tensor:
    exists = (index < x.size(0))[..., None]
    return torch.where(exists, x[index.clamp(max=x.size(0) - 1)], 0.0)


def _product(rows: Tensor, w: Tensor, b: Tensor, ends: Tensor) -> Tensor:
    """Multiply each expert's rows by its own matrix, in the dtype of autocast if there is one."""
    dtype = _product_dtype(rows)
    output: Tensor = expert_linear(rows.to(dtype), w.to(dtype), b.to(dtype), ends)
    return output


def _product_dtype(x: Tensor) -> torch.dtype:
    device = x.device.type
    is_cast = torch.is_autocast_enabled(device)
    return torch.get_autocast_dtype(device) if is_cast else x.dtype


@torch.library.custom_op("transduce::expert_linear", mutates_args=())
def expert_linear(rows: Tensor, w: Tensor, b: Tensor, ends: Tensor) -> Tensor:
    """Compute x W_e + b_e for rows sorted by expert; those of expert e end before ends[e].

    The matrices are [E, d_in, d_out]. This is an operator of torch's, so that its operations can be
    counted without computing them.
    """
    if rows.is_cuda and rows.dtype != torch.float64 and triton_works():
        from transduce.nn.kernels.experts import grouped_linear

        return grouped_linear(rows, w, b, ends)
    output = rows.new_empty(rows.size(0), w.size(2))
    if rows.is_cpu:
        start = 0
        for expert, end in enumerate(ends.tolist()):
            if end > start:
                torch.addmm(b[expert], rows[start:end], w[expert], out=output[start:end])
            start = end
        return output
    # Every expert computes all rows: the host need not know how many are its own.
    number = torch.arange(rows.size(0), device=rows.device)[:, None]
    for expert in range(w.size(0)):
        own = number >= (ends[expert - 1] if expert else 0)
        output = torch.where(own, torch.addmm(b[expert], rows, w[expert]), output)
    return output


@expert_linear.register_fake
def _(rows: Tensor, w: Tensor, _b: Tensor, _ends: Tensor) -> Tensor:
    return rows.new_empty(rows.size(0), w.size(2))
