"""The results of a sweep that was computed in parts, on several days or machines, put together.

Reports read small files alone: of each run its journal, settings, origin and translations of the
test sets, not its weights; and the references of the test sets. They are copied into one folder,
which is a sweep's like any other: what it holds counts as computed, and rows can be added.
"""

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from transduce.analysis.runs import read_runs
from transduce.config.load import load_config
from transduce.data.corpus import read_lines
from transduce.errors import InputError, TransduceError
from transduce.files.atomic import atomic_file
from transduce.files.checksums import CHECKSUMS
from transduce.files.errors import reporting_read_errors, reporting_write_errors
from transduce.files.regular import check_no_link, open_regular
from transduce.models.model_files import CARD, CONFIG, PROVENANCE, TOKENIZER
from transduce.sweeps.file import SweepTest
from transduce.sweeps.plan import PLAN, TESTS, SweepPlan, SweepRun, leaves, read_plan, write_plan
from transduce.sweeps.results import cuts_words
from transduce.sweeps.running.existing import check_folder, locked_sweep
from transduce.training.run.folder import JOURNAL, RunFolder
from transduce.training.run.resume import MACHINERY, NAMED_TEXTS, TEXTS

MAX_BYTES = 2**30
"""Of a file that is copied: parts may come from other machines and people."""
_SHARED = ("base", "budget", "search", "beam", "alpha", "compare_with")
"""What is the same in all parts of a sweep, besides the names of its test sets."""


def collect(parts: Sequence[Path], out: Path) -> SweepPlan:
    """Copy the records of all runs in folders of sweeps into another, and return its plan.

    A run that is in several of them is taken where it has come furthest; `out` may hold some
    already. Raises `InputError` if the parts are not of one sweep.
    """
    check_folder(out)
    plans = {part.resolve(): read_plan(part) for part in parts}
    if (out / PLAN).exists():
        plans = {out.resolve(): read_plan(out)} | plans
    first, *others = plans.values()
    for other in others:
        _check_one_sweep(first, other)
    _check_rows(plans.values())
    with locked_sweep(out):
        tests = [_with_references(place, list(plans.values()), out) for place in first.file.test]
        runs = [_collected(found, out, first.file.test) for found in _by_name(plans.values())]
        plan = SweepPlan(out, first.file.model_copy(update={"test": (*tests,)}), (*runs,))
        write_plan(plan)
    return plan


def _by_name(plans: Iterable[SweepPlan]) -> list[list[SweepRun]]:
    """Return every run as each part has it, in the order of the parts and their rows."""
    found: dict[str, list[SweepRun]] = {}
    for plan in plans:
        for run in plan.runs:
            found.setdefault(run.name, []).append(run)
    return list(found.values())


def _check_one_sweep(one: SweepPlan, other: SweepPlan) -> None:
    """Raise if the rows of two parts cannot stand in one table."""
    differing = [name for name in _SHARED if getattr(one.file, name) != getattr(other.file, name)]
    tests = [[test.name for test in plan.file.test] for plan in (one, other)]
    if differing or tests[0] != tests[1]:
        raise InputError(
            f"{one.folder} and {other.folder} are not parts of one sweep: their files differ in "
            f"{', '.join(differing or ['test'])}"
        )


def _check_rows(plans: Iterable[SweepPlan]) -> None:
    """Raise if a run is another one in another part, or would share its folder."""
    seen: dict[str, tuple[SweepPlan, SweepRun]] = {}  # by folder
    for plan in plans:
        for run in plan.runs:
            place = run.folder.relative_to(plan.folder).as_posix().lower()
            other, same = seen.setdefault(place, (plan, run))
            if same.name != run.name:
                raise InputError(
                    f"rows {same.variation!r} in {other.folder} and {run.variation!r} in "
                    f"{plan.folder} would share a folder: rename one of them"
                )
            if names := _other_settings(same, run):
                raise InputError(
                    f"row {run.variation!r} has other settings in {plan.folder} than in "
                    f"{other.folder}: {', '.join(names)}"
                )


def _other_settings(one: SweepRun, other: SweepRun) -> list[str]:
    """Name the settings in which two runs differ, besides the places of texts and machinery."""
    free = {*TEXTS, *MACHINERY, "training.epochs"}  # a budget in tokens decides the last

    def stated(run: SweepRun) -> dict[str, Any]:
        found = {"preset": run.preset, **dict(leaves(run.settings))}
        kept = {
            name: value
            for name, value in found.items()
            if name not in free and not name.startswith(NAMED_TEXTS)
        }
        plain: dict[str, Any] = json.loads(json.dumps(kept))  # as a plan that was read has it
        return plain

    here, there = stated(one), stated(other)
    return sorted(name for name in here | there if here.get(name) != there.get(name))


def _collected(found: Sequence[SweepRun], out: Path, tests: Sequence[SweepTest]) -> SweepRun:
    """Copy the records of a run from where it has come furthest, and return the run there."""
    best = max(found, key=lambda run: _reached(run, tests))  # the first of equal ones
    here = replace(best, folder=out / best.folder.relative_to(best.folder.parents[2]))
    if best.folder.resolve() == here.folder.resolve() or not any(_reached(best, tests)):
        return here
    if RunFolder(here.folder).has_trained():
        raise InputError(
            f"{best.name}: has come further in {best.folder} than in {here.folder}: remove the "
            "latter, or choose another --out"
        )
    for source, target in _files(best, here, tests):
        with reporting_read_errors(source):
            check_no_link(source)
        _copy(source, target)
    return here


def _reached(run: SweepRun, tests: Sequence[SweepTest]) -> tuple[int, int, int]:
    """Rank how far a run has come: its state, its test translations, its steps."""
    try:
        [found] = read_runs([run.folder], lambda _line: None)
    except InputError:  # it has not begun, or its journal is damaged
        return int(run.fault_file.exists()), 0, 0
    is_over = found.finished or run.pruned_file.exists()
    translated = sum(run.hypotheses_file(test).exists() for test in tests)
    return 3 if is_over else 2, translated, found.steps


def _files(run: SweepRun, to: SweepRun, tests: Sequence[SweepTest]) -> Iterator[tuple[Path, Path]]:
    """Yield the files that a report reads and their copies; the journal, which counts, is last."""
    yield run.fault_file, to.fault_file
    yield run.pruned_file, to.pruned_file
    yield run.translations_record, to.translations_record
    for test in tests:
        yield run.hypotheses_file(test), to.hypotheses_file(test)
    names = [CONFIG, CHECKSUMS, CARD, PROVENANCE, JOURNAL]
    if _needs_tokenizer(run):
        names.insert(0, TOKENIZER)
    for name in names:
        yield run.folder / name, to.folder / name


def _needs_tokenizer(run: SweepRun) -> bool:
    try:
        return cuts_words(load_config(run.folder))
    except TransduceError:  # the report says what is wrong with its settings
        return False


def _with_references(test: SweepTest, plans: Sequence[SweepPlan], out: Path) -> SweepTest:
    """Copy the references of a test set from the first part that has them, all having the same."""
    paths = [
        Path(place.tgt) for plan in plans for place in plan.file.test if place.name == test.name
    ]
    found = [path for path in paths if path.exists()]
    if not found:
        return test  # the report says that it cannot be read
    first, *others = found
    for other in others:
        if list(read_lines(first)) != list(read_lines(other)):
            raise InputError(f"test {test.name}: {first} and {other} are different references")
    target = out / TESTS / test.name / first.name
    if target.resolve() != first.resolve():
        _copy(first, target)
    return test.model_copy(update={"tgt": str(target)})


def _copy(source: Path, target: Path) -> None:
    """Copy a file; what the source has not, the copy has not either."""
    with reporting_write_errors(target):
        if not source.exists():
            target.unlink(missing_ok=True)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        with (
            reporting_read_errors(source),
            open_regular(source, max_bytes=MAX_BYTES) as content,
            atomic_file(target) as making,
            making.open("wb") as copy,
        ):
            shutil.copyfileobj(content, copy)
