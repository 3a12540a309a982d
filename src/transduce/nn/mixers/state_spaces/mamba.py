"""Mamba (Gu and Dao 2023): a state space whose rates depend on the input, between two projections.

h_t = exp(Δ_t A) h_(t−1) + Δ_t B_t u_t and y_t = C_t · h_t + D u_t, for each channel of a widened
input u. Δ, B and C are computed from u: the layer chooses at each position what it keeps and what
it forgets. A short causal convolution comes before it, a gate after it.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from transduce.nn.initialise import glorot_, keep_variance_
from transduce.nn.mixers.masks import Allowed
from transduce.nn.mixers.state_spaces.scan import scan
from transduce.nn.step_state import HypothesisState, StateGroup, StepContext

EXPANSION, KERNEL, RANK_SHARE = 2, 4, 16
"""The paper's: channels by d_model, inputs of the convolution, d_model by the rank of Δ."""
SMALLEST_STEP, LARGEST_STEP = 1e-3, 1e-1
"""Between these Δ starts."""
SEGMENT = 1024
"""Positions whose states, d_state for each channel, are in memory at a time."""


@dataclass(frozen=True)
class MambaState(StateGroup):
    """What a step keeps: the last inputs of the convolution, and the state."""

    last: HypothesisState  # [B, k, KERNEL - 1, channels]
    state: HypothesisState  # [B, k, channels, d_state]


class SelectiveScan(nn.Module):
    """The convolution and the state space of one direction, from channels to channels."""

    float32_parameters = ("log_a",)
    """Its rounding to bfloat16 would grow with each position."""

    def __init__(self, channels: int, d_state: int, rank: int) -> None:
        super().__init__()
        self.d_state, self.rank = d_state, rank
        self.kernel = nn.Parameter(torch.empty(KERNEL, channels))
        self.kernel_bias = nn.Parameter(torch.empty(channels))
        self.w_rates = nn.Linear(channels, rank + 2 * d_state, bias=False)  # of Δ, B and C
        self.w_delta = nn.Linear(rank, channels)
        self.log_a = nn.Parameter(torch.empty(channels, d_state))
        self.skip = nn.Parameter(torch.empty(channels))

    def init_weights(self) -> None:
        """Draw as the paper does: A = −1 … −d_state, Δ between 0.001 and 0.1, D = 1."""
        nn.init.uniform_(self.kernel, -(KERNEL**-0.5), KERNEL**-0.5)
        nn.init.zeros_(self.kernel_bias)
        keep_variance_(self.w_rates)
        nn.init.uniform_(self.w_delta.weight, -(self.rank**-0.5), self.rank**-0.5)
        nn.init.uniform_(self.w_delta.bias, math.log(SMALLEST_STEP), math.log(LARGEST_STEP))
        step = self.w_delta.bias.exp()
        self.w_delta.bias.copy_(step + torch.log(-torch.expm1(-step)))  # softplus gives the step
        numbers = torch.arange(1, self.d_state + 1, dtype=self.log_a.dtype)
        self.log_a.copy_(numbers.log().to(self.log_a.device).expand_as(self.log_a))
        nn.init.ones_(self.skip)

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """Read [B, T, channels] from the first position to the last.

        Positions that are not `real`, [B, T, 1], add nothing to the state, but it decays there:
        they may only come before all that are real, or after them.
        """
        x = x if real is None else x * real
        padded = F.pad(x, (0, 0, KERNEL - 1, 0))
        inputs = [padded[:, at : at + x.size(1)] for at in range(KERNEL)]
        u = self._convolved(inputs)
        u = u if real is None else u * real
        delta, b, c = self._rates(u)
        with torch.autocast(x.device.type, enabled=False):
            wide, a = u.to(delta.dtype), -self.log_a.to(delta.dtype).exp()
            y = selective_scan(wide, delta, a, b, c) + wide * self.skip
        return y.to(u.dtype)

    def step(self, x: Tensor, past: MambaState) -> Tensor:
        """Read one position of each hypothesis, [B, k, channels]."""
        inputs = torch.cat([past.last.tensor, x[:, :, None].to(past.last.tensor.dtype)], dim=2)
        past.last.update(inputs[:, :, 1:])
        u = self._convolved(list(inputs.to(x.dtype).unbind(2)))
        delta, b, c = self._rates(u)
        with torch.autocast(x.device.type, enabled=False):
            wide, a = u.to(delta.dtype), -self.log_a.to(delta.dtype).exp()
            decay, added = _discretised(wide, delta, a, b)
            past.state.tensor.mul_(decay).add_(added)
            y = (past.state.tensor @ c[..., None]).squeeze(-1) + wide * self.skip
        return y.to(u.dtype)

    def _convolved(self, inputs: list[Tensor]) -> Tensor:
        total = self.kernel_bias
        for weight, one in zip(self.kernel, inputs, strict=True):
            total = total + weight * one
        return F.silu(total)

    def _rates(self, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return Δ, B and C of each position, in float32 or wider."""
        sizes = [self.rank, self.d_state, self.d_state]
        low, b, c = torch.split(self.w_rates(u), sizes, dim=-1)
        wide = torch.promote_types(u.dtype, torch.float32)
        delta = F.softplus(self.w_delta(low).to(wide))
        return delta, b.to(wide), c.to(wide)


class Mamba(nn.Module):
    """A layer from [B, T, d_model] to the same shape: causal, or reading in both directions.

    In both directions, each has its own convolution and state space between shared projections,
    and their outputs are added.
    """

    def __init__(self, d_model: int, *, d_state: int, bidirectional: bool) -> None:
        super().__init__()
        self.channels, self.bidirectional = EXPANSION * d_model, bidirectional
        rank = math.ceil(d_model / RANK_SHARE)
        self.w_in = nn.Linear(d_model, 2 * self.channels, bias=False)
        self.onward = SelectiveScan(self.channels, d_state, rank)
        self.back = SelectiveScan(self.channels, d_state, rank) if bidirectional else None
        self.w_o = nn.Linear(self.channels, d_model, bias=False)

    def init_weights(self) -> None:
        """Draw the projections, and each direction."""
        keep_variance_(self.w_in)
        glorot_(self.w_o)
        for direction in (self.onward, self.back):
            if direction is not None:
                direction.init_weights()

    def forward(self, x: Tensor, allowed: Allowed = None) -> Tensor:
        """Mix positions; those that are not allowed, [B, 1, 1, T], are not read."""
        assert allowed is None or isinstance(allowed, Tensor), "a packed row is not cut into states"
        real = None if allowed is None else allowed[:, 0, 0, :, None].to(x.dtype)
        u, gate = self.w_in(x).chunk(2, dim=-1)
        y = self.onward(u, real)
        if self.back is not None:  # padding comes first then, and leaves the state at 0
            turned = None if real is None else real.flip(1)
            y = y + self.back(u.flip(1), turned).flip(1)
        output: Tensor = self.w_o(y * F.silu(gate))
        return output

    def empty_cache(self, like: Tensor, *, hypotheses: int, max_steps: int) -> MambaState:
        """Allocate what `step` keeps, for as many sentences as `like` has, [B, …]."""
        assert not self.bidirectional, "a step knows no later inputs"
        del max_steps
        wide = torch.promote_types(like.dtype, torch.float32)
        shape = (like.size(0), hypotheses)
        return MambaState(
            HypothesisState(like.new_zeros(*shape, KERNEL - 1, self.channels)),
            HypothesisState(like.new_zeros(*shape, self.channels, self.onward.d_state, dtype=wide)),
        )

    def step(self, x: Tensor, past: MambaState, at: StepContext) -> Tensor:
        """Do what a causal `forward` does, for the next position of each hypothesis, [B, k, …]."""
        del at
        u, gate = self.w_in(x).chunk(2, dim=-1)
        output: Tensor = self.w_o(self.onward.step(u, past) * F.silu(gate))
        return output


def selective_scan(u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Return C_t · h_t of every position, from u and Δ, [B, T, d], A, [d, n], B and C, [B, T, n].

    The states are n times as large as the input, so they are computed in segments, and again in
    the backward pass.
    """
    state, outputs = u.new_zeros(u.size(0), *a.shape), []
    parts = zip(*(torch.split(x, SEGMENT, dim=1) for x in (u, delta, b, c)), strict=True)
    for of_u, of_delta, of_b, of_c in parts:
        if torch.is_grad_enabled():
            y, state = checkpoint(
                _segment, of_u, of_delta, a, of_b, of_c, state, use_reentrant=False
            )
        else:
            y, state = _segment(of_u, of_delta, a, of_b, of_c, state)
        outputs.append(y)
    return torch.cat(outputs, dim=1)


def _segment(
    u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Read some positions after a state, [B, d, n]; return their outputs, and the last state."""
    states = scan(*_discretised(u, delta, a, b), state)  # [B, T, d, n]
    return (states @ c[..., None]).squeeze(-1), states[:, -1]


def _discretised(u: Tensor, delta: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return what each position keeps of the state, and adds to it: [B, T, d, n]."""
    return torch.exp(delta[..., None] * a), (delta * u)[..., None] * b[..., None, :]
