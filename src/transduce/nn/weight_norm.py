"""Weight normalisation (Salimans and Kingma 2016): the length of a weight vector apart from it."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class WeightNormLinear(nn.Module):
    """x W^T + b with W = g v / ||v|| for each row: a length g and a direction v."""

    def __init__(self, in_features: int, out_features: int, *, std: float) -> None:
        """Take the standard deviation of new weights."""
        super().__init__()
        self.in_features, self.out_features, self.std = in_features, out_features, std
        self.v = nn.Parameter(torch.empty(out_features, in_features))
        self.g = nn.Parameter(torch.empty(out_features, 1))
        self.bias = nn.Parameter(torch.empty(out_features))

    def init_weights(self) -> None:
        """Draw W from a normal distribution; biases start at 0."""
        nn.init.normal_(self.v, std=self.std)
        self.g.copy_(torch.linalg.vector_norm(self.v, dim=1, keepdim=True))
        nn.init.zeros_(self.bias)

    @property
    def weight(self) -> Tensor:
        """W, [out_features, in_features]."""
        weight: Tensor = torch._weight_norm(self.v, self.g, 0)
        return weight

    def forward(self, x: Tensor) -> Tensor:
        """Project the last dimension of x."""
        return F.linear(x, self.weight, self.bias)


@torch.no_grad()
def fold_weight_norm(model: nn.Module) -> None:
    """Replace every `WeightNormLinear` by an `nn.Linear` with its weights, which no step computes.

    The model then computes the same, but can neither be trained nor saved.
    """
    for module in list(model.modules()):
        for name, part in list(module.named_children()):
            if isinstance(part, WeightNormLinear):
                setattr(module, name, _folded(part))


def _folded(part: WeightNormLinear) -> nn.Linear:
    with torch.device("meta"):
        linear = nn.Linear(part.in_features, part.out_features)
    linear.weight = nn.Parameter(part.weight)
    linear.bias = part.bias
    return linear.train(part.training)
