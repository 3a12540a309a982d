"""The heads of one layer as a picture: a heat map each, tokens beside and below it."""

import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from transduce.analysis.curves import available
from transduce.analysis.words import words_of
from transduce.decoding.attention import Attention
from transduce.disk import replacing
from transduce.errors import InputError
from transduce.training.journal import plainly

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Kind = Literal["encoder", "decoder", "cross"]

_CELL = 0.19  # inches that a token takes: room for its label
_MARGIN = 1.2  # inches for labels
_MOST = 160.0  # inches a side: at 150 dots each, less than what the format holds
_DOTS = 150
_COLOURS = ("#2f6db3", "#c05f1c", "#33834f", "#c13a4c", "#7a55b3", "#866436", "#15808f", "#b44a88")
_OTHER_SCRIPTS = ("Noto Sans CJK JP", "Noto Sans", "Arial Unicode MS", "Segoe UI", "PingFang SC")


def attention_picture(
    shown: Attention, path: Path, *, kind: Kind = "cross", layer: int | None = None
) -> None:
    """Draw the heads of a layer, from 0 or the last one, into a PNG file.

    It replaces an older file when it is whole.
    """
    if not available():
        raise InputError("matplotlib is not installed: pip install 'transduce[plot]'")
    if kind not in get_args(Kind):
        raise InputError(f"attention of kind {kind!r}: use {', '.join(get_args(Kind))}")
    weights: NDArray[np.float32] = getattr(shown, kind)  # [N, h, T, S]
    n_layers = len(weights)
    if layer is not None and not 0 <= layer < n_layers:
        raise InputError(f"layer {layer + 1}: the model has layers 1 to {n_layers}")
    chosen = weights[-1 if layer is None else layer]  # [h, T, S]
    figure = _figure(chosen)
    looking, looked_at = _labels(shown, kind)
    for head, panel in enumerate(figure.axes[: len(chosen)]):
        panel.set_title(f"head {head + 1}", loc="left", fontsize=10.5, color="#222222")
        _draw(panel, chosen[head], _COLOURS[head % len(_COLOURS)])
        _label(panel, looking, looked_at)
    with plainly(path), replacing(path) as making, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # shown as a box
        figure.savefig(making, format="png", backend="agg")


def _labels(shown: Attention, kind: Kind) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Give the tokens that look, and those that are looked at."""
    source, read, target = (
        words_of(tokens, are_bytes=shown.are_bytes).tokens
        for tokens in (shown.source, shown.read, shown.target)
    )
    return {"encoder": (source, source), "decoder": (target, read), "cross": (target, source)}[kind]


def _figure(weights: NDArray[np.float32]) -> "Figure":
    """Make room for all heads, about as wide as high, each cell large enough for its label."""
    from matplotlib.figure import Figure

    h, rows, columns = weights.shape
    width, height = _CELL * columns + _MARGIN, _CELL * rows + _MARGIN
    across = min(range(1, h + 1), key=lambda count: _oddness(h, count, width / height))
    down = -(-h // across)
    size = (min(across * width, _MOST), min(down * height, _MOST))
    figure = Figure(figsize=size, dpi=_DOTS, layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for panel in panels[h:]:
        panel.remove()
    return figure


def _oddness(h: int, across: int, width_by_height: float) -> float:
    """Say how far from a square so many heads in a row are, and from having no gap at the end."""
    down = -(-h // across)
    return abs(math.log(width_by_height * across / down)) + (across * down - h)


def _draw(panel: "Axes", weights: NDArray[np.float32], colour: str) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("share", ["#f4f3f0", colour])
    panel.imshow(weights, cmap=shades, vmin=0, vmax=1, aspect="equal", interpolation="nearest")
    panel.spines[:].set_visible(False)
    panel.tick_params(length=0)


def _label(panel: "Axes", looking: tuple[str, ...], looked_at: tuple[str, ...]) -> None:
    style: dict[str, Any] = {"fontsize": 8, "color": "#333333", "fontfamily": _fonts()}
    style["parse_math"] = False  # a dollar sign is a dollar sign
    panel.set_xticks(range(len(looked_at)), [*map(_short, looked_at)], rotation=90, **style)
    panel.set_yticks(range(len(looking)), [*map(_short, looking)], **style)


def _short(token: str) -> str:
    return token if len(token) <= 16 else f"{token[:15]}…"


def _fonts() -> list[str]:
    """Name the fonts to take letters from, those of other scripts where they are installed."""
    from matplotlib.font_manager import get_font_names

    installed = set(get_font_names())
    return ["DejaVu Sans", *(name for name in _OTHER_SCRIPTS if name in installed)]
