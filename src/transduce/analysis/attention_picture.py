"""The attention heads of one layer as a picture: one heat map each, with its tokens."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from transduce.analysis.pictures import check_picture, fonts_for, save_picture
from transduce.errors import InputError
from transduce.models.attention import Attention
from transduce.translation.alignment.words import words_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

AttentionKind = Literal["encoder", "decoder", "cross"]

_CELL = 0.19  # inches for a token and its label
_MARGIN = 1.2  # inches for labels
_MAX_SIDE = 160.0  # inches: at 150 dots each, less than the format's limit
_DOTS = 150
_COLOURS = ("#2f6db3", "#c05f1c", "#33834f", "#c13a4c", "#7a55b3", "#866436", "#15808f", "#b44a88")


def attention_picture(
    shown: Attention, path: Path, *, kind: AttentionKind = "cross", layer: int | None = None
) -> str:
    """Draw the heads of a layer into a .png, .svg or .pdf file, which is replaced atomically.

    Layers count from 0; if none is given, it is the last. Returns the characters that no installed
    font has, which are drawn as boxes.
    """
    check_picture(path)
    if kind not in get_args(AttentionKind):
        raise InputError(f"attention of kind {kind!r}: use {', '.join(get_args(AttentionKind))}")
    weights: NDArray[np.float32] = getattr(shown, kind)  # [N, h, T, S]
    n_layers = len(weights)
    if not n_layers:
        raise InputError(f"the model has no attention of kind {kind!r}")
    if layer is not None and not 0 <= layer < n_layers:
        raise InputError(f"layer {layer + 1}: the model has layers 1 to {n_layers}")
    chosen = weights[-1 if layer is None else layer]  # [h, T, S]
    figure = _figure(chosen)
    queries, keys = _labels(shown, kind)
    fonts, lacking = fonts_for([*queries, *keys])
    for head, panel in enumerate(figure.axes[: len(chosen)]):
        panel.set_title(f"head {head + 1}", loc="left", fontsize=10.5, color="#222222")
        _draw(panel, chosen[head], _COLOURS[head % len(_COLOURS)])
        _label(panel, queries, keys, fonts)
    save_picture(figure, path)
    return lacking


def _labels(shown: Attention, kind: AttentionKind) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the tokens that attend, and those that they attend to."""
    source, read, target = (
        words_of(tokens, are_bytes=are_bytes).tokens
        for tokens, are_bytes in (
            (shown.source, shown.source_are_bytes),
            (shown.read, shown.target_are_bytes),
            (shown.target, shown.target_are_bytes),
        )
    )
    return {"encoder": (source, source), "decoder": (target, read), "cross": (target, source)}[kind]


def _figure(weights: NDArray[np.float32]) -> "Figure":
    """Lay out a panel for each head, in a figure about as wide as high."""
    from matplotlib.figure import Figure

    h, rows, columns = weights.shape
    width, height = _CELL * columns + _MARGIN, _CELL * rows + _MARGIN
    across = min(range(1, h + 1), key=lambda count: _imbalance(h, count, width / height))
    down = -(-h // across)
    size = (min(across * width, _MAX_SIDE), min(down * height, _MAX_SIDE))
    figure = Figure(figsize=size, dpi=_DOTS, layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for panel in panels[h:]:
        panel.remove()
    return figure


def _imbalance(h: int, across: int, width_by_height: float) -> float:
    """Return how far this layout is from a square, plus the number of empty panels."""
    down = -(-h // across)
    return abs(math.log(width_by_height * across / down)) + (across * down - h)


def _draw(panel: "Axes", weights: NDArray[np.float32], colour: str) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("share", ["#f4f3f0", colour])
    panel.imshow(weights, cmap=shades, vmin=0, vmax=1, aspect="equal", interpolation="nearest")
    panel.spines[:].set_visible(False)
    panel.tick_params(length=0)


def _label(
    panel: "Axes", queries: tuple[str, ...], keys: tuple[str, ...], fonts: list[str]
) -> None:
    style: dict[str, Any] = {"fontsize": 8, "color": "#333333", "fontfamily": fonts}
    style["parse_math"] = False  # a dollar sign starts no formula
    panel.set_xticks(range(len(keys)), [*map(_shortened, keys)], rotation=90, **style)
    panel.set_yticks(range(len(queries)), [*map(_shortened, queries)], **style)


def _shortened(token: str) -> str:
    return token if len(token) <= 16 else f"{token[:15]}…"
