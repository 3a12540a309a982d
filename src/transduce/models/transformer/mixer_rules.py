"""Which mixers go together with which other settings of a Transformer."""

from collections.abc import Iterator
from typing import Any, Literal

Mixers = tuple[str, ...]
ENCODER_MIXERS = ("attention", "window", "longformer", "linformer", "performer", "s4", "mamba")
NOT_CAUSAL = {
    "longformer": "whose global tokens see what comes after them",
    "linformer": "which sums the keys of all positions",
}
"""The mixers that a decoder cannot have, and why."""
DECODER_MIXERS = tuple(name for name in ENCODER_MIXERS if name not in NOT_CAUSAL)
CrossMixer = Literal["attention", "linformer"]
BY_DISTANCE = ("relative", "t5", "alibi")
"""Positions that are added to the scores of pairs of positions."""


def mixer_of_layer(names: Mixers, layer: int) -> str:
    """Return the mixer of a layer, counted from 0: the names are repeated when they are used up."""
    return names[layer % len(names)]


def mixers_of_layers(names: Mixers, layers: int) -> Mixers:
    """Return the mixer of each layer."""
    return tuple(mixer_of_layer(names, layer) for layer in range(layers))


def broken_mixer_rule(c: Any) -> str | None:
    """Return what is wrong with the mixers of a `TransformerConfig`, or None."""
    return next(_complaints(c), None)


def _complaints(c: Any) -> Iterator[str]:
    for side, known in (("encoder", ENCODER_MIXERS), ("decoder", DECODER_MIXERS)):
        names: Mixers = getattr(c, f"{side}_mixers")
        yield from _unknown(side, names, known, getattr(c, f"n_{side}_layers"))
    used = {*c.encoder_mixers, *c.decoder_mixers}
    without_scores = [name for name in ("linformer", "performer") if name in used]
    if without_scores and c.positions in BY_DISTANCE:
        yield (
            f"model.positions={c.positions} adds to the scores of pairs of positions, which "
            f"{without_scores[0]} does not compute; use sinusoidal, learned, rotary or none"
        )
    if "performer" in used and c.attention_score == "additive":
        yield (
            "model.attention_score=additive has no random features, but a mixer is performer; use "
            "scaled"
        )
    if "performer" in used and c.p_drop_attention > 0:
        yield (
            f"model.p_drop_attention={c.p_drop_attention} drops attention weights, which performer "
            "does not compute; set it to 0"
        )
    if "s4" in used and c.d_state % 2:
        yield f"model.d_state={c.d_state} is odd, but the numbers of s4 come in pairs; add 1"


def _unknown(side: str, names: Mixers, known: Mixers, layers: int) -> Iterator[str]:
    if len(names) > layers:
        yield (
            f"model.{side}_mixers names {len(names)} mixers, but there are {layers} layers: name "
            "one for each layer, or fewer, which are repeated"
        )
    for name in names:
        if side == "decoder" and name in NOT_CAUSAL:
            yield (
                f"model.decoder_mixers has {name}, {NOT_CAUSAL[name]}: it has no causal form; use "
                f"{', '.join(known)}"
            )
        elif name not in known:
            yield f"model.{side}_mixers has {name!r}; use {', '.join(known)}"
