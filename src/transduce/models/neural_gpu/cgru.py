"""The convolutional gated recurrent unit (Kaiser and Sutskever, 2016; Kaiser and Bengio, 2016)."""

import torch
from torch import Tensor, nn

GATE_CUTOFF = 1.2
"""How far gates overshoot before they are cut, so that they can be exactly 0 and 1."""

OPEN_GATE, SMALL_KERNEL = 2.0, 0.1
"""The first bias of gates, and the first kernels as a share of Glorot and Bengio's: an image then
hardly changes at first, and reversal is learned in half the steps."""


def hard_sigmoid(x: Tensor) -> Tensor:
    """Return 1.2 σ(x) − 0.1, cut to [0, 1] (Kaiser and Sutskever, 2016, §2)."""
    return (GATE_CUTOFF * torch.sigmoid(x) - (GATE_CUTOFF - 1) / 2).clamp(0, 1)


class CGRU(nn.Module):
    """One update of a mental image s, with 3×3 kernels; in a decoder it also reads a tape p.

    CGRU(s) = u ⊙ s + (1 − u) ⊙ tanh(U ∗ (r ⊙ s) + W ∗ p + B), where the gates u and r are
    hard_sigmoid(U′ ∗ s + W′ ∗ p + B′).
    """

    tape: nn.Conv1d | None

    def __init__(self, d_model: int, image_width: int, *, reads_tape: bool) -> None:
        super().__init__()
        # In an image of one column, the outer columns of a kernel would see nothing but padding.
        kernel, padding = ((3, 3), (1, 1)) if image_width > 1 else ((3, 1), (1, 0))
        self.gates = nn.Conv2d(d_model, 2 * d_model, kernel, padding=padding)
        self.candidate = nn.Conv2d(d_model, d_model, kernel, padding=padding)
        # A tape is 0 outside its first column, which a kernel of 3 spreads over two.
        self.tape_columns = min(2, image_width)
        self.tape = None
        if reads_tape:
            outputs = 3 * d_model * self.tape_columns
            self.tape = nn.Conv1d(d_model, outputs, 3, padding=1, bias=False)

    def init_weights(self) -> None:
        """Draw small kernels, and open the gates that keep what is there."""
        for kernel in (self.gates.weight, self.candidate.weight):
            nn.init.xavier_uniform_(kernel, gain=SMALL_KERNEL)
        if self.tape is not None:
            nn.init.xavier_uniform_(self.tape.weight, gain=SMALL_KERNEL)
        assert self.gates.bias is not None
        assert self.candidate.bias is not None
        nn.init.constant_(self.gates.bias, OPEN_GATE)
        nn.init.zeros_(self.candidate.bias)

    def forward(
        self,
        s: Tensor,  # [B, d_model, n, w]
        tape: Tensor | None = None,  # the first column of p, [B, d_model, n]
    ) -> Tensor:
        """Update every cell of the image from its neighbours, and from those of the tape."""
        gates = self.gates(s)  # [B, 2*d_model, n, w]
        if tape is None:
            update, reset = hard_sigmoid(gates).chunk(2, dim=1)
            candidate = self.candidate(reset * s)  # [B, d_model, n, w]
        else:
            of_gates, of_candidate = self._from_tape(tape, s)
            update, reset = hard_sigmoid(gates + of_gates).chunk(2, dim=1)
            candidate = self.candidate(reset * s) + of_candidate  # [B, d_model, n, w]
        candidate = torch.tanh(candidate)
        return candidate + update * (s - candidate)  # [B, d_model, n, w]

    def _from_tape(self, tape: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
        """Return W ∗ p for both gates and for the candidate, over all columns of the image."""
        assert self.tape is not None
        found = self.tape(tape).unflatten(1, (-1, self.tape_columns))  # [B, 3*d_model, columns, n]
        missing = s.size(3) - self.tape_columns
        found = nn.functional.pad(found.transpose(2, 3), (0, missing))  # [B, 3*d_model, n, w]
        d_model = s.size(1)
        return found[:, : 2 * d_model], found[:, 2 * d_model :]
