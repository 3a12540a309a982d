"""The runs of a sweep: what its file stands for, checked before anything starts."""

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from transduce.config.load import read_recipe
from transduce.config.presets import preset_named
from transduce.config.renamed import with_current_names
from transduce.config.schema import Tree, merge
from transduce.config.sections.training import NO_LIMIT
from transduce.errors import ConfigError, InputError, TransduceError, did_you_mean
from transduce.files.atomic import atomic_file
from transduce.files.errors import reporting_read_errors, reporting_write_errors
from transduce.files.regular import MIB, parse_json, read_regular
from transduce.sweeps.file import BASE, SweepBudget, SweepFile, SweepTest, grid_row, is_recipe
from transduce.training.request import Request, make_request
from transduce.training.run.prepare import check_settings

RUNS, CACHE, PLAN, LOCK = "runs", "cache", "sweep.json", "lock"
"""In a sweep's folder: its run folders, the data they share, the plan, and a lock on all."""
TESTS = "tests"
"""In a sweep's folder that was put together of parts: the references of its test sets."""
MAX_PLAN_BYTES = 64 * MIB

BUDGETS = ("steps", "epochs", "minutes")
"""The settings of a run, in its section `training`, that a sweep's budget stands for."""
_OF_THE_TEXT = "model.vocab_size"
"""The vocabulary belongs to the text: shared settings may give it for presets of any size."""


@dataclass(frozen=True)
class SweepRun:
    """One run of a sweep: a variation with a seed."""

    variation: str  # the name of the row
    seed: int
    folder: Path  # an ordinary run folder
    settings: Tree  # all settings that are given to `transduce.train`
    preset: str | None
    grid: dict[str, Any]  # the row's values on the grid; {}: it is none of the grid's rows
    trial: dict[str, Any] = field(default_factory=dict)  # searched settings; {}: it is no trial

    @property
    def name(self) -> str:
        """The row and the seed."""
        return f"{self.variation}, seed {self.seed}"

    @property
    def fault_file(self) -> Path:
        """The file beside the run folder that says why the run failed; absent if it did not."""
        return self.folder.with_name(f"{self.folder.name}.fault")

    @property
    def pruned_file(self) -> Path:
        """The file beside the run folder that says why a trial was stopped early, if it was."""
        return self.folder.with_name(f"{self.folder.name}.pruned")

    @property
    def device(self) -> str:
        """The device that the settings name."""
        return str(self.settings.get("run", {}).get("device", "auto"))

    @property
    def translations_record(self) -> Path:
        """The file beside the run folder that says what its test translations were made from."""
        return self.folder.with_name(f"{self.folder.name}.tests.json")

    def hypotheses_file(self, test: SweepTest) -> Path:
        """Return the file with this run's translations of a test set."""
        return self.folder / f"test.{test.name}.hyp"

    def request(self, cache: Path | None = None) -> Request:
        """Return what is asked of this run."""
        return make_request(
            None,
            {},
            self.settings,
            out=self.folder,
            preset=self.preset,
            init=None,
            cache=cache,
            fresh=False,
        )


@dataclass(frozen=True)
class SweepPlan:
    """A sweep: its folder, its file and its runs, the base first, then in the file's order."""

    folder: Path
    file: SweepFile
    runs: tuple[SweepRun, ...]

    @property
    def cache(self) -> Path:
        """The prepared data, which all runs share."""
        return self.folder / CACHE

    @property
    def rows(self) -> list[str]:
        """The names of the rows, in order."""
        return list(dict.fromkeys(run.variation for run in self.runs))

    @property
    def is_by_clock(self) -> bool:
        """Whether minutes end the runs."""
        return any("minutes" in _training(run.settings) for run in self.runs)

    @property
    def is_in_epochs(self) -> bool:
        """Whether the text decides how many epochs the budget means."""
        budget = self.file.budget
        return budget is not None and (budget.tokens or budget.operations) is not None

    def with_runs(self, runs: Sequence[SweepRun]) -> "SweepPlan":
        """Copy with more runs."""
        return replace(self, runs=(*self.runs, *runs))

    def with_epochs(self, epochs_of: Mapping[str, float]) -> "SweepPlan":
        """Copy with the epochs that a budget in tokens or operations means for some rows."""
        runs = [with_epochs(run, epochs_of.get(run.variation)) for run in self.runs]
        return replace(self, runs=tuple(runs))


def with_epochs(run: SweepRun, epochs: float | None) -> SweepRun:
    """Copy a run with another number of epochs; None: as it is."""
    if epochs is None:
        return run
    return replace(run, settings=merge(run.settings, {"training": {"epochs": round(epochs, 6)}}))


def selected_rows(rows: Sequence[str], only: Sequence[str], skip: Sequence[str]) -> set[str]:
    """Return the rows that `only` names, all without it, except those in `skip`.

    Both hold names of rows, in which * stands for anything.
    """
    wanted = set(rows) if not only else _rows_named(rows, only, "--only")
    return wanted - _rows_named(rows, skip, "--skip")


def _rows_named(rows: Sequence[str], patterns: Sequence[str], option: str) -> set[str]:
    found: set[str] = set()
    for pattern in patterns:
        named = {row for row in rows if row == pattern or fnmatchcase(row, pattern)}
        if not named:
            hint = did_you_mean(pattern, rows) or f": known are {', '.join(rows)}"
            raise InputError(f"{option} {pattern}: the sweep has no such row{hint}")
        found |= named
    return found


def make_plan(file: SweepFile, folder: Path) -> SweepPlan:
    """Expand a sweep file into its runs; a wrong setting raises an error that names the row.

    A budget in tokens or operations becomes epochs only when the text is prepared.
    """
    rows = list(_rows(file))
    _check_rows(rows, file.compare_with)
    runs = [
        SweepRun(
            row.name,
            seed,
            folder / RUNS / row.folder / f"seed-{seed}",
            merge(row.settings, {"run": {"seed": seed}}),
            row.preset,
            row.grid,
        )
        for row in rows
        for seed in row.seeds
    ]
    for run in runs:
        with naming_row(run.variation):
            check_settings(run.request())
    return SweepPlan(folder, file, tuple(runs))


def write_plan(plan: SweepPlan) -> None:
    """Write the plan into the sweep's folder, so that a report needs nothing else."""
    file = plan.file.model_dump(mode="json")
    for test in file["test"]:
        test |= {side: _place(Path(test[side]), plan.folder) for side in ("src", "tgt")}
    runs = [
        vars(run) | {"folder": run.folder.relative_to(plan.folder).as_posix()} for run in plan.runs
    ]
    record = {"file": file, "runs": runs}
    path = plan.folder / PLAN
    with reporting_write_errors(path):
        plan.folder.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as making:
            making.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _place(path: Path, folder: Path) -> str:
    """Return where a file is: relative to the sweep's folder, if it is in there."""
    path, folder = path.absolute(), folder.absolute()
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path)


def read_plan(folder: Path) -> SweepPlan:
    """Read the plan of a sweep that was started in this folder."""
    path = folder / PLAN
    if not path.exists():
        raise InputError(f"{folder} is not the folder of a sweep: it has no {PLAN}")
    with reporting_read_errors(path):
        content = read_regular(path, max_bytes=MAX_PLAN_BYTES)
    try:
        record = parse_json(content.decode())
        runs = [
            SweepRun(**(run | {"folder": folder / _run_folder(run["folder"])}))
            for run in record["runs"]
        ]
        for test in record["file"]["test"]:
            test |= {side: str(folder / test[side]) for side in ("src", "tgt")}
        return SweepPlan(folder, SweepFile.from_tree(record["file"]), tuple(runs))
    except (ValueError, LookupError, TypeError, AttributeError, TransduceError) as fault:
        raise InputError(f"{path} is damaged: run the sweep again to write it") from fault


def _run_folder(place: str) -> str:
    """Raise unless this is where a run is in a sweep's folder: a plan may come from a stranger."""
    above, *below = place.split("/")
    if above != RUNS or len(below) != 2 or {"", ".", ".."} & {*below}:
        raise ValueError(f"{place!r} is no folder of a run")
    return place


@contextmanager
def naming_row(row: str) -> Iterator[None]:
    """Name the row in errors about its settings and files."""
    try:
        yield
    except (ConfigError, InputError) as fault:
        raise type(fault)(f"row {row!r}: {fault}") from fault


def settings_tree(settings: Mapping[str, Any]) -> Tree:
    """Nest settings whose names have dots: `{"model.h": 1}` is `{"model": {"h": 1}}`."""
    tree: Tree = {}
    for name, value in settings.items():
        below = settings_tree(value) if isinstance(value, Mapping) else value
        for part in reversed(str(name).split(".")):
            below = {part: below}
        tree = merge(tree, below)
    current: Tree = with_current_names(tree)
    return current


def leaves(tree: Tree, above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield settings by their full names, such as model.h."""
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


@dataclass(frozen=True)
class _Row:
    """A variation, before its seeds are taken apart."""

    name: str
    preset: str | None
    settings: Tree
    seeds: tuple[int, ...]
    grid: dict[str, Any]

    @property
    def folder(self) -> str:
        """The name as that of a folder."""
        return re.sub(r"[^\w.=+,-]+", "_", self.name).lstrip(".") or "_"


def _rows(file: SweepFile) -> Iterator[_Row]:
    preset, start = _base(file)
    own = {row.name: row for row in file.variations if row.name == BASE}
    base_seeds = own[BASE].seeds if own else ()
    yield _Row(BASE, preset, _with_budget(start, {}, file, BASE), base_seeds or file.seeds, {})
    for variation in file.variations:
        if variation.name == BASE:
            continue
        changes = settings_tree(variation.set)
        with naming_row(variation.row):
            if variation.preset is not None:
                _check_preset(variation.preset, preset, start, changes)
        yield _Row(
            variation.row,
            variation.preset or preset,
            _with_budget(start, changes, file, variation.row),
            variation.seeds or file.seeds,
            {},
        )
    for values in itertools.product(*file.grid.values()) if file.grid else ():
        point = dict(zip(file.grid, values, strict=True))
        name, changes = grid_row(point), settings_tree(point)
        yield _Row(name, preset, _with_budget(start, changes, file, name), file.seeds, point)


def _base(file: SweepFile) -> tuple[str | None, Tree]:
    """Return the preset and the settings that all rows start from."""
    preset: str | None = file.base
    recipe: Tree = {}
    if is_recipe(file.base):
        preset, recipe = read_recipe(Path(file.base))
    if preset is not None:
        preset_named(preset)
    if file.budget is not None:  # in place of the recipe's
        kept = {
            name: value
            for name, value in _training(recipe).items()
            if name not in (*BUDGETS, "patience")
        }
        recipe = {name: section for name, section in recipe.items() if name != "training"}
        recipe |= {"training": kept} if kept else {}
    return preset, merge(recipe, settings_tree(file.settings))


def _check_preset(preset: str, base: str | None, start: Tree, changes: Tree) -> None:
    """Raise if what all rows share would undo what makes a row's preset differ from the base's."""
    usual = {} if base is None else dict(leaves(preset_named(base).model_dump()))
    shared, own = dict(leaves(start)), dict(leaves(changes))
    free = {_OF_THE_TEXT, *(f"training.{name}" for name in BUDGETS)}
    for name, value in leaves(preset_named(preset).model_dump(exclude_unset=True)):
        if name in free | own.keys() or value == usual.get(name):
            continue
        if name in shared and shared[name] != value:
            raise ConfigError(
                f"{name} is {value} in preset {preset}, but {shared[name]} in what all rows share; "
                f"say which under set of this row, such as {{{name}: {value}}}"
            )


def _with_budget(start: Tree, changes: Tree, file: SweepFile, row: str) -> Tree:
    """Return the settings of a row, which ends by the budget of all."""
    settings = merge(start, changes)
    if "seed" in _section(settings, "run"):
        raise ConfigError(f"row {row!r}: run.seed: give it under seeds")
    if file.budget is None:
        return settings
    stated = [name for name in BUDGETS if name in _training(settings)]
    if stated:
        raise ConfigError(
            f"row {row!r}: training.{stated[0]}: the budget is the same for all rows; leave this "
            "setting out, or the budget"
        )
    return merge(settings, {"training": _budget_settings(file.budget)})


def _budget_settings(budget: SweepBudget) -> Tree:
    if budget.steps is not None:
        return {"steps": budget.steps}
    if budget.minutes is not None:
        return {"steps": NO_LIMIT, "minutes": float(budget.minutes)}
    return {"steps": NO_LIMIT, "epochs": 1.0}  # the epochs are known when the text is prepared


def _training(settings: Tree) -> dict[str, Any]:
    return _section(settings, "training")


def _section(settings: Tree, name: str) -> dict[str, Any]:
    """Return a section; what makes no sense as one is reported with the settings."""
    section = settings.get(name)
    return section if isinstance(section, dict) else {}


def _check_rows(rows: Sequence[_Row], compare_with: str) -> None:
    names: dict[str, str] = {}  # by folder
    for row in rows:
        other = names.setdefault(row.folder.lower(), row.name)
        if other == row.name and sum(one.name == row.name for one in rows) > 1:
            raise ConfigError(f"two rows are named {row.name!r}: give one another name")
        if other != row.name:
            raise ConfigError(
                f"rows {other!r} and {row.name!r} would share a folder: rename one of them"
            )
    known = [row.name for row in rows]
    if compare_with not in known:
        hint = did_you_mean(compare_with, known) or f": known are {', '.join(known)}"
        raise ConfigError(f"compare_with={compare_with}: no such row{hint}")
