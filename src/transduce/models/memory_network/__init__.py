"""The end-to-end memory network (Sukhbaatar et al., 2015) as a kind of model.

Importing this loads no torch: the model itself is in `model`.
"""

from typing import TYPE_CHECKING

from transduce.config.kinds import ModelKind
from transduce.models.memory_network.presets import PRESETS
from transduce.models.memory_network.settings import MemoryNetworkConfig

if TYPE_CHECKING:
    from transduce.models.memory_network.model import MemoryNetwork


def _build(config: MemoryNetworkConfig) -> "MemoryNetwork":
    from transduce.models.memory_network.model import MemoryNetwork

    return MemoryNetwork(config)


KIND = ModelKind("memory_network", MemoryNetworkConfig, _build, PRESETS)
