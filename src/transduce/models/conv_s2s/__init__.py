"""ConvS2S (Gehring et al. 2017) as a kind of model: settings, presets, builder.

Importing this loads no torch: the model itself is in `model`.
"""

from typing import TYPE_CHECKING

from transduce.config.kinds import ModelKind
from transduce.models.conv_s2s.presets import PRESETS
from transduce.models.conv_s2s.settings import ConvS2SConfig

if TYPE_CHECKING:
    from transduce.models.conv_s2s.model import ConvS2S

LARGE_PAIRS = 1_000_000
"""From this many pairs on, the default preset on a GPU may be the published one."""


def _build(config: ConvS2SConfig) -> "ConvS2S":
    from transduce.models.conv_s2s.model import ConvS2S

    return ConvS2S(config)


def _default_presets(pairs: int, on_gpu: bool) -> tuple[str, ...]:
    """Name the small preset, and the published one where a GPU and a corpus can train it."""
    is_large = on_gpu and pairs >= LARGE_PAIRS
    return ("conv_s2s_small", "conv_s2s") if is_large else ("conv_s2s_small",)


KIND = ModelKind("conv_s2s", ConvS2SConfig, _build, PRESETS, _default_presets)
