"""What a shell can complete after an option: presets, settings, kinds of model, devices, corpora.

Nothing here loads torch, so that a Tab key is answered at once.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, get_args, get_origin

Suggestion = tuple[str, str]
"""A word, and what it means."""

DEVICES = ("auto", "cpu", "cuda", "cuda:0", "mps")
ENGINES = ("auto", "torch", "ctranslate2")
PRECISIONS = ("float32", "bf16", "int8")


def complete_device(incomplete: str) -> list[str]:
    """Suggest devices."""
    return _starting(DEVICES, incomplete)


def complete_engine(incomplete: str) -> list[str]:
    """Suggest engines."""
    return _starting(ENGINES, incomplete)


def complete_precision(incomplete: str) -> list[str]:
    """Suggest precisions."""
    return _starting(PRECISIONS, incomplete)


def complete_preset(incomplete: str) -> list[Suggestion]:
    """Suggest presets of all kinds of model."""
    from transduce.config.presets import all_presets

    return [
        (name, _first_line(preset.__doc__))
        for name, preset in all_presets().items()
        if name.startswith(incomplete)
    ]


def complete_corpus(incomplete: str) -> list[str]:
    """Suggest public corpora; of OPUS, without the languages that the name ends with."""
    from transduce.data.public.catalog import CORPORA
    from transduce.data.public.opus import OPUS, PREFIX

    return _starting([*CORPORA, *(f"{PREFIX}{name}:" for name in OPUS)], incomplete)


def complete_setting(incomplete: str) -> list[Suggestion]:
    """Suggest settings of all kinds of model as `name=`; after the name, the values it may have."""
    start = incomplete.partition("=")[0]
    found = {one.name: one for one in _settings() if one.name.startswith(start)}
    if len(found) > 1 and "=" not in incomplete:
        return [(f"{name}=", one.description) for name, one in found.items()]
    return [
        (word, one.description)
        for name, one in found.items()
        for word in ([f"{name}={value}" for value in one.values] or [f"{name}="])
        if word.startswith(incomplete)
    ]


class _Setting(NamedTuple):
    name: str
    description: str
    values: list[str]  # if they can be listed


def _settings() -> Iterator[_Setting]:
    """Yield each setting of each kind of model."""
    from transduce.config.kinds import find_kind, kind_names
    from transduce.config.schema import Config
    from transduce.errors import ConfigError

    for section, field in Config.model_fields.items():
        classes: list[Any] = [field.annotation]
        if section == "model":
            classes = []
            for kind in kind_names():
                try:
                    classes.append(find_kind(kind).config)
                except ConfigError:  # of a package that is broken
                    continue
        for settings in classes:
            for name, one in settings.model_fields.items():
                values = kind_names() if name == "kind" else _values(one.annotation)
                yield _Setting(f"{section}.{name}", _first_line(one.description), values)


def _values(annotation: Any) -> list[str]:
    """Return the values of a type that has few: true and false, or the strings of a Literal."""
    if annotation is bool:
        return ["true", "false"]
    if get_origin(annotation) is Literal:
        return [str(value) for value in get_args(annotation)]
    inner = get_args(annotation)
    return [value for one in inner for value in _values(one)] if type(None) in inner else []


def _starting(words: Sequence[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]
