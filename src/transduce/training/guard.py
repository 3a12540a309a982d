"""A step whose loss is not finite, or leaps, is not taken."""

import torch
from torch import Tensor

LEAP_FACTOR, LEAP_NATS = 2.0, 1.0
"""A loss leaps above the mean of the last steps times the one plus the other."""

MEAN_STEPS = 100


class Guard:
    """Judges steps on the device, so that nobody waits for the verdict."""

    def __init__(self, device: torch.device) -> None:
        self._mean = torch.zeros((), device=device)
        self._seen = torch.zeros((), device=device)

    def judge(self, loss: Tensor, gradient_norm: Tensor) -> Tensor:
        """Return 1 for a step that must not be taken, else 0, and learn what is usual."""
        leaps = (self._seen >= MEAN_STEPS) & (loss > LEAP_FACTOR * self._mean + LEAP_NATS)
        fit = loss.isfinite() & gradient_norm.isfinite() & ~leaps
        weight = 1 / (self._seen + 1).clamp(max=MEAN_STEPS)
        self._mean += torch.where(fit, weight * (loss - self._mean), 0.0)
        self._seen += fit
        return (~fit).float()

    def state(self) -> list[float]:
        """Return what it has learnt, as numbers."""
        return [self._mean.item(), self._seen.item()]

    def restore(self, state: list[float]) -> None:
        """Take up what an earlier one had learnt."""
        mean, seen = state
        self._mean.fill_(mean)
        self._seen.fill_(seen)
