"""Presets of all kinds of model, by name."""

from collections.abc import Callable
from contextlib import suppress

from transduce.config.kinds import find_kind, kind_names
from transduce.config.schema import Config
from transduce.errors import ConfigError, did_you_mean


def presets_of(kind: str) -> dict[str, Callable[[], Config]]:
    """Return the presets of one kind by name."""
    return {preset.__name__: preset for preset in find_kind(kind).presets}


def all_presets() -> dict[str, Callable[[], Config]]:
    """Return the presets of every kind; if two share a name, the first kind wins."""
    found: dict[str, Callable[[], Config]] = {}
    for kind in kind_names():
        with suppress(ConfigError):  # a broken package must not keep others from being used
            found = presets_of(kind) | found
    return found


def preset_named(name: str) -> Config:
    """Return the settings of the preset with this name."""
    presets = all_presets()
    if name not in presets:
        raise ConfigError(
            f"no preset named {name!r}{did_you_mean(name, presets)}; 'transduce presets' lists them"
        )
    return presets[name]()
