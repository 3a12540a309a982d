"""Runs that an earlier command began: whether they are still what the sweep asks for."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path

from transduce.config.schema import Config, Tree
from transduce.errors import ConfigError, InputError
from transduce.files.errors import reporting_read_errors, reporting_write_errors
from transduce.files.locks import locked
from transduce.sweeps.plan import BUDGETS, CACHE, LOCK, PLAN, RUNS, TESTS, SweepRun, naming_row
from transduce.training.request import Request
from transduce.training.run.folder import RunFolder
from transduce.training.run.resume import OtherSettingsError, resume, settings_to_resume

_HARMLESS = (".*", "*.log", "*.out", "*.yaml", "*.yml")
"""What may lie in a new sweep's folder: its log and its file."""


def check_folder(folder: Path) -> None:
    """Raise if this is not a folder, or one that is neither a sweep's nor empty."""
    if not folder.exists() or (folder / PLAN).exists():
        return
    if not folder.is_dir():
        raise InputError(f"{folder} is a file: --out names a folder")
    with reporting_read_errors(folder):
        names = sorted(entry.name for entry in folder.iterdir())
    # A sweep that was killed before it wrote its plan leaves these.
    own = (LOCK, CACHE, RUNS, TESTS) if LOCK in names else ()
    foreign = [
        name
        for name in names
        if name not in own and not any(fnmatch(name, pattern) for pattern in _HARMLESS)
    ]
    if foreign:
        more = len(foreign) - 3
        shown = ", ".join(foreign[:3]) + (f" and {more:,} more" if more > 0 else "")
        raise InputError(
            f"{folder} is not the folder of a sweep but holds {shown}: choose a new folder with "
            f"--out, such as {folder / 'sweep'}"
        )


@contextmanager
def locked_sweep(folder: Path) -> Iterator[None]:
    """Hold the sweep's folder, so that no other command computes the same runs."""
    with reporting_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / LOCK).touch()
    try:
        with locked(folder / LOCK, wait=False):
            yield
    except BlockingIOError:
        raise InputError(
            f"another process computes the sweep in {folder}: wait for it, or choose another --out"
        ) from None


def check_same_settings(runs: Sequence[SweepRun], cache: Path) -> None:
    """Raise if a run has begun with other settings than its row has now."""
    for run in runs:
        request, folder = run.request(cache), RunFolder(run.folder)
        with naming_row(run.variation):
            folder.check()
        settled = _settled(folder, request)
        if settled is None:
            continue
        try:
            resume(folder, settled, request)
        except OtherSettingsError as other:
            raise ConfigError(
                f"row {run.variation!r} has begun with other settings: "
                f"{'; '.join(other.differences)}; give the row a new name, or remove {run.folder} "
                "to train it again"
            ) from other


def check_budgets(runs: Sequence[SweepRun]) -> None:
    """Raise if a run has begun with another budget than its row has now."""
    for run in runs:
        is_finished(run)


def is_finished(run: SweepRun) -> bool:
    """Whether a run has spent its budget; raise if it was begun with another one.

    The budget decides the learning rate at each step and, if they are open, other settings: a run
    that goes on past its end is not the one that a larger budget would have made.
    """
    folder = RunFolder(run.folder)
    settled = _settled(folder, run.request())
    if settled is None:
        return False
    given: Tree = run.settings.get("training", {})
    for name in BUDGETS:
        then = getattr(settled.training, name)
        was_given = name in folder.given().get("training", {})
        now = given.get(name, None if was_given else then)
        if then != now:
            raise ConfigError(
                f"row {run.variation!r} has begun with training.{name}={_shown(then)}, not "
                f"{_shown(now)}, and rows with other budgets cannot be compared: choose another "
                f"--out, restore the budget, or remove {run.folder} to train it again"
            )
    return folder.has_ended()


def _settled(folder: RunFolder, request: Request) -> Config | None:
    """Return the settings of a run that has begun; None: it has not, or has saved no step."""
    return folder.settings() if folder.is_record() else settings_to_resume(folder, request)


def _shown(value: float | None) -> str:
    return "none" if value is None else f"{value:g}"
