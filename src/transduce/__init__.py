"""Sequence transduction with attention: "Attention Is All You Need" as software.

The public names below are imported when first used, so that `import transduce` stays quick:
torch is loaded only by what computes with it.
"""

import importlib
from typing import TYPE_CHECKING, Any

from transduce.errors import ConfigError, InputError, TransduceError

if TYPE_CHECKING:
    from transduce.config.load import load_config
    from transduce.config.schema import Config
    from transduce.decoding.options import Options, Translation
    from transduce.decoding.translator import Translator, load
    from transduce.models.base import Seq2Seq
    from transduce.models.build import build_model

__version__ = "0.1.0"
__all__ = [
    "Config",
    "ConfigError",
    "InputError",
    "Options",
    "Seq2Seq",
    "TransduceError",
    "Translation",
    "Translator",
    "__version__",
    "build_model",
    "load",
    "load_config",
]

_HOME = {
    "Config": "transduce.config.schema",
    "Options": "transduce.decoding.options",
    "Seq2Seq": "transduce.models.base",
    "Translation": "transduce.decoding.options",
    "Translator": "transduce.decoding.translator",
    "build_model": "transduce.models.build",
    "load": "transduce.decoding.translator",
    "load_config": "transduce.config.load",
}


if not TYPE_CHECKING:  # to a type checker, a name that is not above does not exist

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module 'transduce' has no attribute {name!r}")
        return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
