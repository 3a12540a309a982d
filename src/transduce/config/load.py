"""Settings from a preset or a YAML file, with changes from `--set`, and back to YAML."""

import os
import re
import reprlib
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import yaml

from transduce.config.presets import PRESETS, preset_named
from transduce.config.schema import Config, Tree, merge, nearest
from transduce.errors import ConfigError


def load_config(source: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Resolve a preset's name or a YAML file, then `--set`-style changes such as `model.h=4`.

    A file may start from a preset: `preset: big`, and below it only what differs. A model's folder
    stands for its `config.yaml`.
    """
    tree = _starting_point(source)
    for override in overrides:
        tree = merge(tree, parse_override(override))
    return Config.from_tree(tree)


def read_recipe(path: Path) -> tuple[str | None, Tree]:
    """Read a YAML file as it stands: the preset that it names, and the settings that it gives."""
    tree = _parse(_read(path), origin=str(path))
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: settings are sections such as 'model:' with names below them")
    preset = tree.pop("preset", None)
    return None if preset is None else str(preset), tree


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
    return tree


def to_yaml(config: Config) -> str:
    """Write every setting with its description; `load_config` reads it back to the same thing.

    A setting that follows from others is written as a comment, so that it goes on following them.
    """
    lines = []
    for section_name, section_field in Config.model_fields.items():
        lines += [f"# {section_field.description}", f"{section_name}:"]
        section = getattr(config, section_name)
        for name, field in type(section).model_fields.items():
            entry = f"{name}: {_inline(getattr(section, name))}"
            follows = field.default_factory and name not in section.model_fields_set
            lines += [f"  # {field.description}", f"  # {entry}" if follows else f"  {entry}"]
        lines.append("")
    return "\n".join(lines)


def _inline(value: Any) -> str:
    """Write a value as YAML on one line."""
    in_brackets = yaml.safe_dump([value], default_flow_style=True, width=2**31, allow_unicode=True)
    return in_brackets.strip()[1:-1]


def _starting_point(source: str | Path) -> Tree:
    if source in PRESETS:
        return preset_named(str(source)).model_dump(exclude_unset=True)
    path = Path(source)
    if not str(source) or (not path.suffix and not os.path.lexists(path)):
        raise ConfigError(
            f"no preset or file named {reprlib.repr(str(source))}{nearest(str(source), PRESETS)}; "
            "'transduce presets' lists the presets"
        )
    preset, tree = read_recipe(path / "config.yaml" if path.is_dir() else path)
    start = {} if preset is None else preset_named(preset).model_dump(exclude_unset=True)
    return merge(start, tree)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as undecodable:
        raise ConfigError(f"{path} is not UTF-8 text (byte {undecodable.start})") from undecodable
    except OSError as unreadable:
        raise ConfigError(f"cannot read {path}: {unreadable.strerror}") from unreadable


class _Loader(yaml.SafeLoader):
    """Plain YAML, but `1e-9` is a number, a key given twice is an error, and so is an alias.

    Aliases of aliases are how a few lines grow to fill the memory, and settings need none.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(problem="settings take no aliases", problem_mark=mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        mapping = super().construct_mapping(node, deep=deep)
        if len(mapping) != len(node.value):
            raise yaml.constructor.ConstructorError(
                problem="a setting is given twice", problem_mark=node.start_mark
            )
        return mapping


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


def _parse(text: str, *, origin: str) -> Any:
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader by inheritance
    except yaml.MarkedYAMLError as malformed:
        line = f" line {malformed.problem_mark.line + 1}" if malformed.problem_mark else ""
        raise ConfigError(f"{origin}{line}: {malformed.problem}") from malformed
    except (yaml.YAMLError, ValueError, AttributeError, RecursionError) as malformed:
        # Besides its own errors the library lets through those of the types it builds, like dates.
        reason = " ".join(str(malformed).split())
        raise ConfigError(f"{origin}: cannot be read as settings ({reason})") from malformed
