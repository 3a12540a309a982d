"""Recurrent models with attention as a kind of model: settings, presets, builder.

Importing this loads no torch: the model itself is in `model`.
"""

from typing import TYPE_CHECKING

from transduce.config.kinds import ModelKind
from transduce.models.rnn.presets import PRESETS
from transduce.models.rnn.settings import RNNConfig

if TYPE_CHECKING:
    from transduce.models.rnn.model import RNN

SMALL_PAIRS, GNMT_PAIRS = 5_000, 1_000_000
"""From this many pairs on, the default preset may be rnn_small, and on a GPU gnmt."""


def _build(config: RNNConfig) -> "RNN":
    from transduce.models.rnn.model import RNN

    return RNN(config)


def _default_presets(pairs: int, on_gpu: bool) -> tuple[str, ...]:
    """Name presets up to the largest that a corpus can train; on a CPU none above rnn_small."""
    if pairs < SMALL_PAIRS:
        return ("rnn_tiny",)
    names = ("rnn_tiny", "rnn_small")
    return (*names, "gnmt") if on_gpu and pairs >= GNMT_PAIRS else names


KIND = ModelKind("rnn", RNNConfig, _build, PRESETS, _default_presets)
