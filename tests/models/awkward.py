"""A kind of model with tied, frozen and unused weights, and a buffer that is saved."""

from typing import Literal

import torch
from pydantic import Field
from torch import nn

from tests.models.recurrent import Recurrent, RecurrentConfig
from transduce.config.kinds import ModelKind


class AwkwardConfig(RecurrentConfig):
    """Has a setting of several numbers."""

    kind: Literal["awkward"] = Field(default="awkward", description="the architecture")  # type: ignore[assignment]
    widths: tuple[int, ...] = Field(default=(3, 3), description="several numbers")


class Awkward(Recurrent):
    """Computes as its base class does; the rest is there to be saved, averaged and loaded."""

    scale: torch.Tensor

    def __init__(self, config: AwkwardConfig) -> None:
        super().__init__(config)
        self.same_embedding = self.embedding
        self.unused = nn.Linear(2, 3)
        self.frozen = nn.Linear(3, 2).requires_grad_(False)
        self.register_buffer("scale", torch.ones(2))


KIND = ModelKind("awkward", AwkwardConfig, Awkward)
