"""The Extended Neural GPU (Kaiser and Bengio, 2016) as a kind of model.

Importing this loads no torch: the model itself is in `model`.
"""

from typing import TYPE_CHECKING

from transduce.config.kinds import ModelKind
from transduce.models.neural_gpu.presets import PRESETS
from transduce.models.neural_gpu.settings import NeuralGPUConfig

if TYPE_CHECKING:
    from transduce.models.neural_gpu.model import NeuralGPU


def _build(config: NeuralGPUConfig) -> "NeuralGPU":
    from transduce.models.neural_gpu.model import NeuralGPU

    return NeuralGPU(config)


KIND = ModelKind("neural_gpu", NeuralGPUConfig, _build, PRESETS)
