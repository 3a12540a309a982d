"""Settings read from a preset or a YAML file, with changes from `--set`, and written as YAML."""

import io
import os
import re
import reprlib
from collections.abc import Hashable, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any

import yaml

from transduce.config.presets import all_presets, preset_named
from transduce.config.renamed import with_current_names
from transduce.config.schema import Config, Section, Tree, merge
from transduce.config.sections.augment import AugmentConfig
from transduce.errors import ConfigError, did_you_mean
from transduce.files.regular import read_regular, read_stream

MAX_YAML_BYTES = 512 * 1024
"""Ours have some 15 KB, and 280 KB if they name 2,000 files of text."""
MAX_INTEGER = 2**64
"""No setting is larger, and a number of thousands of digits cannot even be shown in a message."""


def load_config(source: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Load settings and apply changes.

    `source` is the name of a preset, a YAML file or a model folder, whose `config.yaml` is read. A
    file may start from a preset, `preset: big`, and then state only what differs. `overrides` are
    changes as written after `--set`, such as `model.h=4`. Mistakes raise `ConfigError`.
    """
    tree = _starting_point(source)
    for override in overrides:
        tree = merge(tree, parse_override(override))
    return Config.from_tree(tree)


def read_recipe(path: Path) -> tuple[str | None, Tree]:
    """Read a YAML file without defaults: the preset it names, if any, and the settings it gives."""
    tree = read_yaml(path)
    if not isinstance(tree, dict):
        raise ConfigError(
            f"{path}: write settings in sections, such as 'model:' with names below it"
        )
    preset = tree.pop("preset", None)
    return None if preset is None else str(preset), with_current_names(tree)


def read_yaml(path: Path) -> Any:
    """Read a YAML file; one that cannot be read is a `ConfigError` that names the line."""
    return _parse(_read(path), origin=str(path))


def parse_override(override: str) -> Tree:
    """Turn `model.d_model=256` into {"model": {"d_model": 256}}; the value is read as YAML."""
    name, equals, text = override.partition("=")
    if not equals or not all(name.split(".")):
        raise ConfigError(
            f"--set {override}: write it as section.name=value, such as model.d_model=256"
        )
    tree = _parse(text, origin=f"--set {name}")
    for part in reversed(name.split(".")):
        tree = {part: tree}
    assert isinstance(tree, dict)
    current: Tree = with_current_names(tree)
    return current


def to_yaml(config: Config) -> str:
    """Write every setting with its description; `load_config` reads the same settings back.

    A setting that follows from others is written as a comment, so that it still follows them after
    an edit.
    """
    lines = []
    for section_name, section_field in Config.model_fields.items():
        lines += [f"# {section_field.description}", f"{section_name}:"]
        section = getattr(config, section_name)
        for name, field in type(section).model_fields.items():
            entry = f"{name}: {_inline(_plain(getattr(section, name)))}"
            follows = field.default_factory and name not in section.model_fields_set
            lines += [f"  # {field.description}", f"  # {entry}" if follows else f"  {entry}"]
        lines.append("")
    return "\n".join(lines)


def _plain(value: Any) -> Any:
    """Return a section within a section as a mapping; false if it is switched off."""
    if isinstance(value, tuple) and any(isinstance(one, Section) for one in value):
        return [one.model_dump() for one in value]
    if not isinstance(value, AugmentConfig):
        return value
    stated = {} if value.usual else value.rates()
    return (stated or value.model_dump()) if value.usual or stated else False


def _inline(value: Any) -> str:
    """Write a value as YAML on one line."""
    in_brackets = yaml.safe_dump(
        [value], default_flow_style=True, width=2**31, allow_unicode=True, sort_keys=False
    )
    return in_brackets.strip()[1:-1]


def _starting_point(source: str | Path) -> Tree:
    path = Path(source)
    is_name = not path.suffix and len(path.parts) < 2
    presets = all_presets() if is_name else {}
    if source in presets:
        return presets[str(source)]().model_dump(exclude_unset=True)
    if not str(source) or (not path.suffix and not os.path.lexists(path)):
        name, hint = reprlib.repr(str(source)), did_you_mean(str(source), presets)
        raise ConfigError(
            f"no preset or file named {name}{hint}; 'transduce presets' lists the presets"
        )
    preset, tree = read_recipe(path / "config.yaml" if path.is_dir() else path)
    start = {} if preset is None else preset_named(preset).model_dump(exclude_unset=True)
    return merge(start, tree)


def _read(path: Path) -> str:
    try:
        is_given = path.parts[1:2] in (
            ("dev",),
            ("proc",),
        )  # by the user's shell, such as <(command)
        read = read_stream if is_given else read_regular
        content = read(path, max_bytes=MAX_YAML_BYTES)
        return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8").read()  # any line ends
    except UnicodeDecodeError as undecodable:
        raise ConfigError(f"{path} is not UTF-8 text (byte {undecodable.start})") from undecodable
    except OSError as unreadable:
        raise ConfigError(f"cannot read {path}: {unreadable.strerror}") from unreadable


class _Loader(yaml.SafeLoader):
    """Safe YAML in which `1e-9` is a number, and a repeated key or an alias is an error.

    Nested aliases can expand a few lines until memory is full, and settings need none.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(
                problem="aliases are not allowed in settings", problem_mark=mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        mapping = super().construct_mapping(node, deep=deep)
        if len(mapping) != len(node.value):
            raise yaml.constructor.ConstructorError(
                problem="a setting is given twice", problem_mark=node.start_mark
            )
        return mapping

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        number = super().construct_yaml_int(node)
        if abs(number) > MAX_INTEGER:
            raise yaml.constructor.ConstructorError(
                problem="a number is larger than any setting can be", problem_mark=node.start_mark
            )
        return number


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


_MALFORMED = (
    yaml.YAMLError,
    # The library also lets through errors of the types that it builds, such as dates.
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


def _parse(text: str, *, origin: str) -> Any:
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader by inheritance
    except yaml.MarkedYAMLError as malformed:
        line = f" line {malformed.problem_mark.line + 1}" if malformed.problem_mark else ""
        problem = shorten(str(malformed.problem), 200)
        raise ConfigError(f"{origin}{line}: {problem}") from malformed
    except _MALFORMED as malformed:
        reason = shorten(str(malformed), 200)
        raise ConfigError(f"{origin}: cannot be read as settings ({reason})") from malformed
