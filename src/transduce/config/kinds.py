"""Kinds of model by name: those of this package, and those of other installed packages.

A kind has its own class of settings, which `config` looks up by name, so it imports no
architecture. Another package adds a kind with an entry point in the group `transduce.models`. A
settings file can only choose among installed kinds: it never says what to import.
"""

import reprlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from transduce.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from transduce.config.schema import Config, ModelConfig

DEFAULT_KIND = "transformer"
ENTRY_POINTS = "transduce.models"
_OWN = {
    "transformer": "transduce.models.transformer",
    "conv_s2s": "transduce.models.conv_s2s",
    "bytenet": "transduce.models.bytenet",
    "rnn": "transduce.models.rnn",
    "neural_gpu": "transduce.models.neural_gpu",
    "memory_network": "transduce.models.memory_network",
}
"""The kinds of this package, each in a module with a `KIND`."""


@dataclass(frozen=True)
class ModelKind:
    """An architecture: its settings, how it is built, and its presets."""

    name: str
    config: "type[ModelConfig]"
    build: Callable[[Any], Any]  # settings -> a `models.base.Seq2Seq`, weights not yet initialised
    presets: "tuple[Callable[[], Config], ...]" = ()  # a preset's name is its function's
    default_presets: "Callable[[int, bool], Sequence[str]] | None" = None
    """Names presets that suit a corpus: (pairs, on a GPU) -> names, the smallest model first."""


def kind_names() -> list[str]:
    """Return the names of all kinds, those of this package first."""
    return [*_OWN, *sorted(_installed().keys() - _OWN.keys())]


@cache
def find_kind(name: str) -> ModelKind:
    """Look a kind up by its name."""
    if name in _OWN:
        found = import_module(_OWN[name]).KIND
    elif name in _installed():
        try:
            found = _installed()[name].load()
        except Exception as fault:  # another package's code may raise anything
            raise ConfigError(
                f"the kind of model {name!r} is installed but cannot be loaded: {fault!r}"
            ) from fault
    else:
        known = kind_names()
        raise ConfigError(
            f"no kind of model named {reprlib.repr(name)}{did_you_mean(name, known)}: "
            f"model.kind is one of {', '.join(known)}"
        )
    if not isinstance(found, ModelKind) or found.name != name:
        raise ConfigError(f"the entry point {name!r} of {ENTRY_POINTS} is not a ModelKind {name!r}")
    return found


@cache
def _installed() -> dict[str, Any]:
    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}
