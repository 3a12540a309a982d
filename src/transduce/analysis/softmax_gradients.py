"""What the scale of attention scores does to the softmax and its gradients (§3.2.1).

The paper suspects that for large d_k dot products "grow large in magnitude, pushing the softmax
function into regions where it has extremely small gradients". Here queries and keys are drawn as
its footnote 4 supposes, with independent components of mean 0 and variance 1, and the softmax over
the keys is measured.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from transduce.analysis.curves import set_title, style_panel
from transduce.analysis.pictures import check_picture, save_picture
from transduce.nn.mixers.attention import additive_scores
from transduce.nn.mixers.heads import AttentionScore

SCORES: tuple[AttentionScore, ...] = ("scaled", "unscaled", "additive")
LABELS = {
    "scaled": "q·k / √d_k (the paper)",
    "unscaled": "q·k",
    "additive": "v·tanh(q + k) (Bahdanau et al.)",
}
QUERIES_AT_ONCE = 50
_COLOURS = {"scaled": "#3b6fb6", "unscaled": "#d1495b", "additive": "#33834f"}


@dataclass(frozen=True)
class SoftmaxMeasurement:
    """Means over many queries, each with its own keys; the norm is a median."""

    score: AttentionScore
    d_k: int
    variance: float  # of the scores
    entropy: float  # of the weights, in nats; at most the logarithm of the number of keys
    largest_weight: float
    jacobian_norm: float  # Frobenius norm of diag(p) − p p^T, the gradient of the softmax


PANELS: dict[str, Callable[[SoftmaxMeasurement], float]] = {
    "variance of the scores": lambda found: found.variance,
    "entropy of the weights, nats": lambda found: found.entropy,
    "norm of the softmax's Jacobian, median": lambda found: found.jacobian_norm,
}


@torch.no_grad()
def measure_softmax(
    score: AttentionScore, d_k: int, *, keys: int = 64, queries: int = 2_000, seed: int = 0
) -> SoftmaxMeasurement:
    """Draw queries and keys, and measure the softmax of their scores, in float64."""
    drawn = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=drawn, dtype=torch.float64)

    scores = torch.cat(
        [
            _scores(score, normal(count, 1, 1, d_k), normal(count, 1, keys, d_k), normal(1, d_k))
            for count in map(len, torch.split(torch.arange(queries), QUERIES_AT_ONCE))
        ]
    )
    weights = scores.softmax(dim=1)
    return SoftmaxMeasurement(
        score,
        d_k,
        variance=scores.var().item(),
        entropy=torch.special.entr(weights).sum(dim=1).mean().item(),
        largest_weight=weights.amax(dim=1).mean().item(),
        jacobian_norm=jacobian_norms(weights).median().item(),
    )


def jacobian_norms(weights: Tensor) -> Tensor:
    """Return the Frobenius norm of diag(p) − p p^T for each row p."""
    squares, cubes = (weights.pow(power).sum(dim=-1) for power in (2, 3))
    return (squares - 2 * cubes + squares**2).clamp(min=0).sqrt()


def _scores(score: AttentionScore, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Compare each query with its keys; v has the variance that a new model's has."""
    d_k = q.size(-1)
    if score == "additive":
        return additive_scores(q, k, v / d_k**0.5).flatten(1)
    product = (q @ k.transpose(-2, -1)).flatten(1)
    return product / d_k**0.5 if score == "scaled" else product


def draw_softmax_gradients(found: Iterable[SoftmaxMeasurement], path: Path) -> None:
    """Draw all measurements by d_k, a line for each score."""
    check_picture(path)
    from matplotlib.figure import Figure

    measurements = list(found)
    figure = Figure(figsize=(11, 3.6), dpi=150, layout="constrained")
    panels = figure.subplots(1, len(PANELS))
    for panel, (title, value) in zip(panels, PANELS.items(), strict=True):
        for score in SCORES:
            line = [each for each in measurements if each.score == score]
            panel.plot(
                [each.d_k for each in line],
                [value(each) for each in line],
                marker="o",
                markersize=3,
                color=_COLOURS[score],
                label=LABELS[score],
            )
        panel.set_xscale("log", base=2)
        panel.set_xlabel("d_k")
        style_panel(panel)
        set_title(panel, title)
    panels[0].set_yscale("log")
    panels[2].set_yscale("log")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    save_picture(figure, path)
