"""S4 in its diagonal form, S4D (Gu et al. 2022): a linear state space of each channel.

h_t = Ā h_(t−1) + B̄ x_t and y_t = 2 Re(C · h_t) + D x_t, with a complex diagonal Ā that no input
changes. So y is a convolution of x with the kernel K_l = 2 Re(C Ā^l B̄), computed for all positions
by Fourier transforms in O(n log n); a search goes step by step.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transduce.nn.initialise import glorot_
from transduce.nn.mixers.masks import Allowed
from transduce.nn.mixers.state_spaces.mamba import LARGEST_STEP, SMALLEST_STEP
from transduce.nn.step_state import HypothesisState, StepContext


class DiagonalStateSpace(nn.Module):
    """One direction of S4D: d_state / 2 complex numbers a channel, each with its conjugate."""

    float32_parameters = ("log_step", "log_decay", "frequency")
    """Their rounding to bfloat16 would grow with each position."""

    def __init__(self, channels: int, d_state: int) -> None:
        assert d_state % 2 == 0, f"conjugates come in pairs, but d_state={d_state} is odd"
        super().__init__()
        half = d_state // 2
        self.log_step = nn.Parameter(torch.empty(channels))
        self.log_decay = nn.Parameter(torch.empty(channels, half))
        self.frequency = nn.Parameter(torch.empty(channels, half))
        self.c = nn.Parameter(torch.empty(channels, half, 2))

    def init_weights(self) -> None:
        """Draw as S4D-Lin: A_n = −1/2 + iπn, steps between 0.001 and 0.1, C of variance 1."""
        nn.init.uniform_(self.log_step, math.log(SMALLEST_STEP), math.log(LARGEST_STEP))
        nn.init.constant_(self.log_decay, math.log(0.5))
        numbers = torch.arange(self.frequency.size(1), dtype=self.frequency.dtype)
        self.frequency.copy_((math.pi * numbers).to(self.frequency.device))
        nn.init.normal_(self.c, std=0.5**0.5)

    def discretised(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return log Ā, B̄ and C, complex, [channels, d_state / 2]: a zero-order hold with B = 1."""
        wide = torch.promote_types(self.c.dtype, torch.float32)
        a = torch.complex(-self.log_decay.to(wide).exp(), self.frequency.to(wide))
        log_kept = a * self.log_step.to(wide).exp()[:, None]
        c = torch.complex(*self.c.to(wide).unbind(-1))
        return log_kept, torch.expm1(log_kept) / a, c

    def kernel(self, length: int) -> Tensor:
        """Return K_0 … K_(length−1) of each channel: [channels, length].

        With l = i · size + j, the powers Ā^l are products of a few: the kernel is a matrix product,
        and no power is kept for each position.
        """
        log_kept, b, c = self.discretised()
        size = math.isqrt(length - 1) + 1
        fine = torch.arange(size, device=log_kept.device)[:, None]
        coarse = size * torch.arange(-(-length // size), device=log_kept.device)[:, None]
        of_coarse = 2 * (b * c)[:, None] * torch.exp(log_kept[:, None] * coarse)
        of_fine = torch.exp(log_kept[:, None] * fine)
        left = torch.cat([of_coarse.real, -of_coarse.imag], dim=-1)  # [d, rows, d_state]
        right = torch.cat([of_fine.real, of_fine.imag], dim=-1)  # [d, size, d_state]
        return (left @ right.mT).flatten(1)[:, :length]

    def step(self, x: Tensor, past: HypothesisState) -> Tensor:
        """Read one position of each hypothesis, [B, k, channels]."""
        log_kept, b, c = self.discretised()
        state = torch.view_as_complex(past.tensor) * log_kept.exp() + b * x[..., None]
        past.update(torch.view_as_real(state))
        return 2 * (c * state).real.sum(dim=-1)


class S4(nn.Module):
    """A layer from [B, T, d_model] to the same shape: causal, or reading in both directions.

    A nonlinearity and a gated projection follow the state space, as in the paper.
    """

    def __init__(self, d_model: int, *, d_state: int, bidirectional: bool) -> None:
        super().__init__()
        self.d_state, self.bidirectional = d_state, bidirectional
        self.onward = DiagonalStateSpace(d_model, d_state)
        self.back = DiagonalStateSpace(d_model, d_state) if bidirectional else None
        self.skip = nn.Parameter(torch.empty(d_model))
        self.w_o = nn.Linear(d_model, 2 * d_model)

    def init_weights(self) -> None:
        """Draw each direction, D and the projection."""
        for direction in (self.onward, self.back):
            if direction is not None:
                direction.init_weights()
        nn.init.normal_(self.skip)
        glorot_(self.w_o)

    def forward(self, x: Tensor, allowed: Allowed = None) -> Tensor:
        """Mix positions; those that are not allowed, [B, 1, 1, T], are not read."""
        assert allowed is None or isinstance(allowed, Tensor), "a packed row is not cut into states"
        if allowed is not None:
            x = x * allowed[:, 0, 0, :, None]
        with torch.autocast(x.device.type, enabled=False):
            wide = x.to(torch.promote_types(x.dtype, torch.float32))
            y = self._convolved(wide) + wide * self.skip
        return self._output(y.to(x.dtype))

    def empty_cache(self, like: Tensor, *, hypotheses: int, max_steps: int) -> HypothesisState:
        """Allocate what `step` keeps, for as many sentences as `like` has, [B, …]."""
        assert not self.bidirectional, "a step knows no later inputs"
        del max_steps
        wide = torch.promote_types(like.dtype, torch.float32)
        shape = (like.size(0), hypotheses, self.skip.size(0), self.d_state // 2, 2)
        return HypothesisState(like.new_zeros(shape, dtype=wide))

    def step(self, x: Tensor, past: HypothesisState, at: StepContext) -> Tensor:
        """Do what a causal `forward` does, for the next position of each hypothesis, [B, k, …]."""
        del at
        with torch.autocast(x.device.type, enabled=False):
            wide = x.to(past.tensor.dtype)
            y = self.onward.step(wide, past) + wide * self.skip
        return self._output(y.to(x.dtype))

    def _convolved(self, x: Tensor) -> Tensor:
        """Convolve [B, T, d] with the kernels, by Fourier transforms of twice the length."""
        length = x.size(1)
        size = 2 * length
        filtered = torch.fft.rfft(self.onward.kernel(length), n=size)
        if self.back is not None:  # the conjugate reads from the end to the beginning
            filtered = filtered + torch.fft.rfft(self.back.kernel(length), n=size).conj()
        y = torch.fft.irfft(torch.fft.rfft(x.mT, n=size) * filtered, n=size)
        cut: Tensor = y[..., :length].mT
        return cut

    def _output(self, y: Tensor) -> Tensor:
        gated: Tensor = F.glu(self.w_o(F.gelu(y)), dim=-1)
        return gated
