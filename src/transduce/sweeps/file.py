"""A sweep file: a base, its variations, seeds, and the budget that all runs share.

The settings of a row, later ones over earlier ones: the preset, which is the row's own or else the
base's; the base's recipe; `settings`, which all rows share; the row's `set` or its place on the
grid; the seed and the budget. So what all rows share would also hold against a row's own preset.
Where that undoes what makes the preset differ from the base's, the row is refused: it has to say
the value under `set`. Only the vocabulary's size and budgets are taken from what rows share as a
matter of course.
"""

import reprlib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from transduce.config.load import read_yaml
from transduce.config.rules import broken_rule
from transduce.config.schema import LargeCount, Positive, Section
from transduce.errors import ConfigError, did_you_mean
from transduce.sweeps.searching.ranges import SettingRange, SweepPruning, SweepSearch

BASE = "base"
"""The name of the row that the variations differ from."""

DEV = "dev"
"""The name of the development set among the test sets of a report."""

Name = Annotated[str, Field(min_length=1, max_length=100)]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]


def _as_tuple(value: Any) -> Any:
    """Accept one entry where a list is expected."""
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _with_tuple_values(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {name: _as_tuple(values) for name, values in value.items()}


Seeds = Annotated[tuple[Seed, ...], BeforeValidator(_as_tuple)]


class SweepBudget(Section):
    """How long each run trains: one of these, the same for all."""

    steps: LargeCount | None = Field(default=None, description="steps")
    tokens: Positive | None = Field(default=None, description="source and target tokens")
    minutes: Positive | None = Field(default=None, description="minutes of training")
    operations: Annotated[float, Field(gt=0, lt=1e30)] | None = Field(
        default=None,
        description="multiplications and additions of matrix products, forward and backward",
    )

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        given = [name for name in SweepBudget.model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise ValueError(
                f"budget: give one of {', '.join(SweepBudget.model_fields)}, not {found}"
            )
        return self


class SweepVariation(Section):
    """One row: a preset in place of the base's, settings that differ from the base, or both."""

    name: Name | None = Field(default=None, description="name of the row")
    preset: str | None = Field(default=None, description="preset in place of the base's")
    set: dict[str, Any] = Field(
        default_factory=dict, description="settings, such as {model.h: 1, model.d_k: 512}"
    )
    seeds: Seeds = Field(default=(), description="in place of the seeds of all rows")

    @model_validator(mode="before")
    @classmethod
    def _by_preset(cls, section: Any) -> Any:
        """Accept the name of a preset alone."""
        return {"preset": section} if isinstance(section, str) else section

    @property
    def row(self) -> str:
        """The name of the row: the given one, or what differs from the base."""
        if self.name is not None:
            return self.name
        return " ".join([*([self.preset] if self.preset else []), *_shown_values(self.set)])

    @model_validator(mode="after")
    def _check_something_differs(self) -> Self:
        if self.preset is None and not self.set and self.name != BASE:
            named = "" if self.name is None else f" of {self.name!r}"
            raise ValueError(f"variations: nothing differs in the row{named}: give preset or set")
        if self.name == BASE and (self.preset is not None or self.set):
            raise ValueError(f"variations: {BASE!r} is the base itself: give another name")
        return self


class SweepTest(Section):
    """A test set: source sentences, and their references line by line."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")] = Field(
        description="letters, digits, '.', '_' and '-'; by default the name of src"
    )
    src: str = Field(description="file with source sentences")
    tgt: str = Field(description="file with references")

    @model_validator(mode="before")
    @classmethod
    def _named_by_src(cls, section: Any) -> Any:
        if not isinstance(section, dict) or "name" in section or "src" not in section:
            return section
        return section | {"name": Path(str(section["src"])).name.partition(".")[0] or "test"}

    @model_validator(mode="after")
    def _check_name(self) -> Self:
        if self.name == DEV:
            raise ValueError(f"test: {DEV!r} is the development set in the results: give a name")
        return self


class SweepFile(Section):
    """All that a sweep file says."""

    base: str = Field(description="recipe, whose name ends in .yaml, or preset")
    settings: dict[str, Any] = Field(
        default_factory=dict, description="settings that all runs share"
    )
    variations: Annotated[tuple[SweepVariation, ...], BeforeValidator(_as_tuple)] = Field(
        default=(), description="rows that differ from the base"
    )
    grid: Annotated[dict[str, tuple[Any, ...]], BeforeValidator(_with_tuple_values)] = Field(
        default_factory=dict, description="settings with their values: a row for each combination"
    )
    search: SweepSearch | None = Field(
        default=None, description="settings that are searched within ranges, with --search"
    )
    seeds: Seeds = Field(default=(1,), description="random seeds: a run for each")
    budget: SweepBudget | None = Field(
        default=None, description="how long each run trains; by default as its settings say"
    )
    test: Annotated[tuple[SweepTest, ...], BeforeValidator(_as_tuple)] = Field(
        default=(), description="test sets, translated when a run has finished"
    )
    beam: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=4, description="hypotheses kept for each test sentence (§6.1)"
    )
    alpha: Annotated[float, Field(ge=0, lt=100)] = Field(
        default=0.6, description="exponent of the length penalty on the test sets (§6.1)"
    )
    compare_with: str = Field(default=BASE, description="row that the others are tested against")

    @model_validator(mode="after")
    def _check_values(self) -> Self:
        if not self.seeds:
            raise ValueError("seeds: give at least one, such as [1]")
        for name, values in self.grid.items():
            if not values:
                raise ValueError(f"grid: {name} has no values: give a list, such as [1, 2]")
        for seeds in (self.seeds, *(variation.seeds for variation in self.variations)):
            _refuse_repeated("seeds", seeds)
        _refuse_repeated("test: the name", [test.name for test in self.test])
        if self.search is not None and len(self.seeds) > 1:
            raise ValueError(
                "seeds: a search trains each trial with one seed; name one, and train the best "
                "settings with several afterwards"
            )
        return self

    @classmethod
    def from_tree(cls, tree: Any) -> Self:
        """Validate what was read; all that is wrong is reported in one line, as a ConfigError."""
        try:
            return cls.model_validate(tree)
        except ValidationError as invalid:
            raise ConfigError("; ".join(_complaints(invalid))) from invalid


def read_sweep_file(path: Path) -> SweepFile:
    """Read a sweep file; a recipe that it names as its base may lie beside it."""
    tree = read_yaml(path)
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: a sweep file has 'base:' and 'variations:' or 'grid:'")
    try:
        file = SweepFile.from_tree(tree)
    except ConfigError as mistake:
        raise ConfigError(f"{path}: {mistake}") from mistake
    beside = path.parent / file.base
    if is_recipe(file.base) and not Path(file.base).exists() and beside.exists():
        return file.model_copy(update={"base": str(beside)})
    return file


def is_recipe(base: str) -> bool:
    """Whether a base is a recipe rather than a preset."""
    return Path(base).suffix.lower() in (".yaml", ".yml")


def grid_row(values: Mapping[str, Any]) -> str:
    """Name a row by its values on the grid: `h=4 d_ff=1024`."""
    return " ".join(_shown_values(values))


def _shown_values(values: Mapping[str, Any]) -> Iterator[str]:
    """Write settings without their section where that is clear: `h=1`, but `training.x=1`."""
    for name, value in values.items():
        text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        yield f"{name.removeprefix('model.')}={text}"


def _refuse_repeated(what: str, values: Any) -> None:
    repeated = [value for value, count in Counter(values).items() if count > 1]
    if repeated:
        raise ValueError(f"{what} {repeated[0]} is given twice")


def _complaints(invalid: ValidationError) -> Iterator[str]:
    for error in invalid.errors(include_url=False):
        place = [part + 1 if isinstance(part, int) else part for part in error["loc"]]
        name = ".".join(map(str, place))
        found = reprlib.repr(error["input"])
        match error["type"]:
            case "missing":
                yield f"{name} is missing{_meaning(name)}"
            case "extra_forbidden":
                known = _known_names(place[:-1])
                hint = did_you_mean(str(place[-1]), known) or f": known are {', '.join(known)}"
                yield f"unknown entry {name}{hint}"
            case "value_error":
                yield str(error["ctx"]["error"])
            case "model_type" | "dict_type":
                yield f"{name or 'the file'} must be a mapping of names to values: found {found}"
            case _:
                rule = broken_rule(error, description=_description(place))
                yield f"{name}={found}: {rule}"


def _section_at(place: list[Any]) -> type[Section]:
    names: dict[tuple[str, ...], type[Section]] = {
        ("search", "ranges"): SettingRange,
        ("search", "prune"): SweepPruning,
        ("search",): SweepSearch,
        ("variations",): SweepVariation,
        ("test",): SweepTest,
        ("budget",): SweepBudget,
    }
    above = tuple(map(str, place))
    return next((names[above[:n]] for n in (2, 1) if above[:n] in names), SweepFile)


def _known_names(place: list[Any]) -> list[str]:
    return list(_section_at(place).model_fields)


def _description(place: list[Any]) -> str:
    section = _section_at(place[:-1]) if len(place) > 1 else SweepFile
    field = section.model_fields.get(str(place[-1]))
    return (field.description or "") if field else ""


def _meaning(name: str) -> str:
    field = SweepFile.model_fields.get(name)
    return f": {field.description}" if field and field.description else ""
