"""The Transformer (§3) as a kind of model: settings, presets, builder.

Importing this loads no torch: the model itself is in `model`.
"""

from typing import TYPE_CHECKING

from transduce.config.kinds import ModelKind
from transduce.models.transformer.presets import PRESETS
from transduce.models.transformer.settings import TransformerConfig

if TYPE_CHECKING:
    from transduce.models.transformer.model import Transformer

SMALL_PAIRS, BASE_PAIRS = 5_000, 300_000
"""From this many pairs on, the default preset may be small, and on a GPU base."""


def _build(config: TransformerConfig) -> "Transformer":
    from transduce.models.transformer.assemble import assemble

    return assemble(config)


def _default_presets(pairs: int, on_gpu: bool) -> tuple[str, ...]:
    """Name presets up to the largest that a corpus can train; on a CPU none larger than small."""
    if pairs < SMALL_PAIRS:
        return ("tiny",)
    return ("tiny", "small", "base") if on_gpu and pairs >= BASE_PAIRS else ("tiny", "small")


KIND = ModelKind("transformer", TransformerConfig, _build, PRESETS, _default_presets)
