"""What a user asks of a run: text, settings and a folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from transduce.config.load import parse_override, read_recipe
from transduce.config.presets import preset_named
from transduce.config.renamed import with_current_names
from transduce.config.schema import Tree, merge
from transduce.data.corpus import format_of
from transduce.data.languages.corpora import check_names_match, named_by_files
from transduce.errors import ConfigError

FileName = str | PathLike[str]


@dataclass(frozen=True)
class Request:
    """What the user asks for."""

    out: Path
    given: Tree  # settings, as far as they are given
    preset: str | None = None  # None: chosen by the size of the corpus
    fresh: bool = False  # start over where there is a run already
    cache: Path | None = None  # for the prepared data; None: in the run's folder
    options: Tree | None = None  # what of `given` no recipe gives; None: all of it

    def settings(self) -> Tree:
        """Return all that is asked for, with what the preset stands for."""
        if self.preset is None:
            return self.given
        preset = preset_named(self.preset)
        kind = self.given.get("model", {}).get("kind", preset.model.kind)
        if kind != preset.model.kind:
            raise ConfigError(
                f"preset {self.preset} is a {preset.model.kind} model, but model.kind={kind}: "
                "leave one of them out"
            )
        return merge(preset.model_dump(exclude_unset=True), self.given)


def make_request(
    recipe: FileName | None,
    texts: Mapping[str, FileName | Sequence[FileName]],
    settings: Mapping[str, Any] | Sequence[str],
    *,
    out: FileName | None,
    preset: str | None,
    init: FileName | None,
    cache: FileName | None,
    fresh: bool,
) -> Request:
    """Merge the recipe, the texts and the settings; later ones override earlier ones."""
    path = None if recipe is None else Path(recipe)
    if path is not None and path.suffix.lower() not in (".yaml", ".yml"):
        raise ConfigError(
            f"{path} is no recipe, whose name ends in .yaml; for a text, write --src or --tgt "
            "before each file"
        )
    named, recipe_gives = (None, {}) if path is None else read_recipe(path)
    files = {name: _names(value) for name, value in texts.items()}
    corpora = {name: named_by_files(files.pop(name, [])) for name in ("corpora", "dev_corpora")}
    for named_corpora in corpora.values():
        check_names_match(named_corpora)
    for side in ("", "dev_"):
        _take_trees_as_source(files, f"{side}src", f"{side}tgt")
    options: Tree = {"data": {n: value for n, value in (files | corpora).items() if value}}
    if init is not None:
        options = merge(options, {"run": {"init": fspath(init)}})
    changes = [settings] if isinstance(settings, Mapping) else map(parse_override, settings)
    for change in changes:
        options = merge(options, with_current_names(dict(change)))
    given = merge(recipe_gives, options)
    if out is None and path is None:
        raise ConfigError(_where_to(given))
    return Request(
        Path("runs") / path.stem if out is None and path is not None else Path(out or ""),
        {section: values for section, values in given.items() if values != {}},
        preset or named,
        fresh=fresh,
        cache=None if cache is None else Path(cache),
        options=options,
    )


def _take_trees_as_source(files: dict[str, list[str]], src: str, tgt: str) -> None:
    """Move trees that are given as target alone to the source, since they have both sides."""
    are_trees = all(format_of(Path(name)) == "trees" for name in files.get(tgt, ()))
    if files.get(tgt) and not files.get(src) and are_trees:
        files[src] = files.pop(tgt)


def _where_to(given: Tree) -> str:
    """Ask for what is missing where there is no folder: text comes first."""
    data = given.get("data")
    if isinstance(data, dict) and (data.get("src") or data.get("corpora")):
        return "where to? Name a folder for the run with --out, such as runs/mine"
    return (
        "no training text: give --src and --tgt, and a folder for the run with --out; to resume a "
        "run, --out alone"
    )


def _names(files: FileName | Sequence[FileName]) -> list[str]:
    return [fspath(files)] if isinstance(files, str | PathLike) else [fspath(f) for f in files]
