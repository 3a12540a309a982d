"""Skips steps whose loss is not finite or spikes."""

import torch
from torch import Tensor

SPIKE_FACTOR, SPIKE_NATS = 2.0, 1.0
"""A spike is a loss above SPIKE_FACTOR · (mean of recent losses) + SPIKE_NATS."""

MEAN_STEPS = 100


class SpikeGuard:
    """Decides on the device which steps to skip, so that the host does not wait."""

    def __init__(self, device: torch.device) -> None:
        self._mean = torch.zeros((), device=device)
        self._seen = torch.zeros((), device=device)

    def judge(self, loss: Tensor, gradient_norm: Tensor) -> Tensor:
        """Return 1 for a step to skip, else 0; update the mean with the loss of a good step."""
        spikes = (self._seen >= MEAN_STEPS) & (loss > SPIKE_FACTOR * self._mean + SPIKE_NATS)
        fit = loss.isfinite() & gradient_norm.isfinite() & ~spikes
        weight = 1 / (self._seen + 1).clamp(max=MEAN_STEPS)
        self._mean += torch.where(fit, weight * (loss - self._mean), 0.0)
        self._seen += fit
        return (~fit).float()

    def state(self) -> list[float]:
        """Return the mean and the number of losses seen, for a checkpoint."""
        return [self._mean.item(), self._seen.item()]

    def restore(self, state: list[float]) -> None:
        """Continue from the state of a checkpoint."""
        mean, seen = state
        self._mean.fill_(mean)
        self._seen.fill_(seen)
