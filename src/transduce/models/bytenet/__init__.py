"""ByteNet (Kalchbrenner et al. 2016) as a kind of model: settings, presets, builder.

Importing this loads no torch: the model itself is in `model`.
"""

from typing import TYPE_CHECKING

from transduce.config.kinds import ModelKind
from transduce.models.bytenet.presets import PRESETS
from transduce.models.bytenet.settings import ByteNetConfig

if TYPE_CHECKING:
    from transduce.models.bytenet.model import ByteNet

LARGE_PAIRS = 1_000_000
"""From this many pairs on, the default preset on a GPU may be the published one."""


def _build(config: ByteNetConfig) -> "ByteNet":
    from transduce.models.bytenet.model import ByteNet

    return ByteNet(config)


def _default_presets(pairs: int, on_gpu: bool) -> tuple[str, ...]:
    """Name the small preset, and the published one where a GPU and a corpus can train it."""
    is_large = on_gpu and pairs >= LARGE_PAIRS
    return ("bytenet_small", "bytenet") if is_large else ("bytenet_small",)


KIND = ModelKind("bytenet", ByteNetConfig, _build, PRESETS, _default_presets)
