"""A run's folder: its settings and provenance, and the check that its data is still the same."""

import json
import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatch
from functools import cache
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from transduce.config.load import load_config, to_yaml
from transduce.config.renamed import with_current_names
from transduce.config.schema import Config, Tree, merge
from transduce.data.corpus import Pair
from transduce.data.development_set import SPLIT_SEED
from transduce.errors import InputError
from transduce.files.atomic import atomic_file
from transduce.files.checksums import (
    CHECKSUMS,
    is_as_written,
    with_checksum,
    write_checksums,
)
from transduce.files.digests import file_digest
from transduce.files.errors import reporting_read_errors, reporting_write_errors
from transduce.files.locks import is_locked, locked
from transduce.models.model_files import (
    BUDGET_CHANGES,
    CARD,
    CHECKPOINTS,
    CONFIG,
    PROVENANCE,
    TOKENIZER,
    WAS_FINISHED,
    WEIGHTS,
    checkpoint_folders,
    find_model,
    last_end,
)
from transduce.models.run_records import read_provenance

JOURNAL, CURVES = "journal.jsonl", "curves.png"
CACHE, EVENTS = "data", "tensorboard"
LOCK = "lock"
FILES = (WEIGHTS, CARD, JOURNAL, CURVES, CONFIG, TOKENIZER, CHECKSUMS)
FOLDERS = (CHECKPOINTS, EVENTS)
"""What a run writes and --fresh removes, besides the provenance."""

_HARMLESS = (".*", "*.log", "*.out", "*.yaml", "*.yml")

_ALWAYS_RECORDED = ("began", "versions", "commit", "seed", "data", "given")

BudgetChange = Mapping[str, tuple[Any, Any]]
"""Budgets that change when a run resumes: their values before and after, by name."""


@dataclass(frozen=True)
class RunFolder:
    """The folder with all files of a run; it becomes the model folder when the run ends."""

    path: Path

    def check(self) -> None:
        """Raise if this is not a folder, or one that is neither a run's nor empty."""
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise InputError(f"{self.path} is a file: --out names a folder")
        if (self.path / PROVENANCE).exists() or (self.path / LOCK).exists():
            return
        with reporting_read_errors(self.path):
            names = sorted(entry.name for entry in self.path.iterdir())
        foreign = [name for name in names if not self._is_harmless(name)]
        if foreign:
            more = len(foreign) - 3
            shown = ", ".join(foreign[:3]) + (f" and {more:,} more" if more > 0 else "")
            raise InputError(
                f"{self.path} is not the folder of a run but holds {shown}: choose a new folder "
                f"with --out, such as {self.path / 'run'}"
            )

    def _is_harmless(self, name: str) -> bool:
        """Whether a run may begin beside this entry: prepared data, its log, its recipe."""
        if name == CACHE:  # left by a start that failed
            return (self.path / CACHE / LOCK).exists()
        return name not in FILES and any(fnmatch(name, pattern) for pattern in _HARMLESS)

    def check_unlocked(self) -> None:
        """Raise if another process is training in the folder."""
        if is_locked(self.path / LOCK):
            raise self._is_training()

    def _is_training(self) -> InputError:
        return InputError(
            f"another process is training in {self.path}: wait for it, or choose another --out"
        )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder against other runs until this process ends."""
        with ExitStack() as stack:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                (self.path / LOCK).touch()
                stack.enter_context(locked(self.path / LOCK, wait=False))
            except BlockingIOError:
                raise self._is_training() from None
            except OSError as fault:
                raise InputError(f"cannot write in {self.path}: {fault.strerror}") from fault
            yield

    def settings(self) -> Config | None:
        """Return the settings of the run in this folder; None: there is no run yet."""
        if not (self.path / PROVENANCE).exists():
            return None
        return load_config(self.path / CONFIG)

    def given(self) -> Tree:
        """Return the settings that the user gave when the run started."""
        given: Tree = with_current_names(self.provenance()["given"])
        return given

    def provenance(self) -> dict[str, Any]:
        """Read the provenance: versions, data digests and the settings that the user gave."""
        path, remedy = self.path / PROVENANCE, "start over with --fresh, or choose another --out"
        found = read_provenance(path, remedy=remedy)
        missing = [name for name in _ALWAYS_RECORDED if name not in found]
        if missing:
            raise InputError(f"{path} is damaged ({missing[0]} is missing): {remedy}")
        return found

    def last_step(self) -> int:
        """Return the step of the newest checkpoint; 0 if nothing was trained yet."""
        return max(checkpoint_folders(self.path), default=0)

    def has_trained(self) -> bool:
        """Whether the folder holds trained weights."""
        return self.last_step() > 0 or (self.path / WEIGHTS).exists()

    def split_seed(self, settled: Config | None) -> int:
        """Return the seed by which the development set is held out; None: for a new run.

        It is one for all runs, so that the set follows from the data. Before that was so, a run's
        own seed decided, and then it was not recorded.
        """
        if settled is None:
            return SPLIT_SEED
        return int(self.provenance().get("split_seed", settled.run.seed))

    def loss_pairs(self) -> int | None:
        """Return on how many pairs the dev loss is computed while the run trains; None: on all.

        Before the number was recorded, it was computed on all.
        """
        found: int | None = self.provenance().get("loss_pairs")
        return found

    def write_start(
        self,
        config: Config,
        *,
        given: Tree,
        tokenizer: Path,
        digests: dict[str, str],
        preset: str | None = None,
        dev_pairs: Sequence[Pair] = (),
        loss_pairs: int | None = None,
    ) -> None:
        """Write the settings and the tokenizer, then the provenance: with it, the run has begun."""
        self._write(CONFIG, to_yaml(config))
        self._write(TOKENIZER, tokenizer.read_bytes())
        write_checksums(self.path, [CONFIG, TOKENIZER])
        init = config.run.init
        origin = _origin(config, given, digests) | {
            "preset": preset,
            "split_seed": SPLIT_SEED,
            "dev_set": _digest_of_pairs(dev_pairs),
            "loss_pairs": _sample_size(dev_pairs, loss_pairs),
            "tokenizer": file_digest(self.path / TOKENIZER),
            "init": None if init is None else file_digest(find_model(Path(init)).weights),
        }
        self._write(PROVENANCE, json.dumps(with_checksum(origin), indent=1))

    def resume(self, config: Config, budgets: BudgetChange) -> None:
        """Write the settings to resume with; changed budgets reopen a run that is finished."""
        if self.is_finished() and not budgets:
            self._write_settings(config)
            return
        if (self.path / WEIGHTS).exists() and not checkpoint_folders(self.path):
            raise InputError(
                f"the checkpoints of {self.path} are gone, so it cannot go on: start another run "
                f"from its model with --init {self.path} and another --out"
            )
        if budgets:
            self._record(budgets)
            (self.path / CARD).unlink(missing_ok=True)
        self._write_settings(config)

    def _write_settings(self, config: Config) -> None:
        if config != self.settings():
            self._write(CONFIG, to_yaml(config))
        if not is_as_written(self.path / CONFIG):  # a user has edited it, or the line above has
            write_checksums(self.path, [CONFIG])

    def budget_changes(self) -> list[str]:
        """Describe every change of the budget, in order: `at step 20: steps 20 → 40`."""
        return [
            f"at step {change['step']:,}: {describe_budgets(change['changed'])}"
            for change in self.provenance().get(BUDGET_CHANGES, [])
        ]

    def _record(self, budgets: BudgetChange) -> None:
        """Add a change of the budget to the provenance."""
        origin = self.provenance()
        before = origin.get(BUDGET_CHANGES, [])
        change = {"step": self.last_step(), "changed": {k: list(v) for k, v in budgets.items()}}
        # If they are the same, it was killed before it could write the settings.
        if not before or any(before[-1][name] != value for name, value in change.items()):
            # Weights without a card are those of an end too, unless they are of the one before.
            is_first = (self.path / WEIGHTS).exists() and last_end(origin) is None
            origin[BUDGET_CHANGES] = [
                *before,
                change | {WAS_FINISHED: self.is_finished() or is_first},
            ]
        for name, (_, now) in budgets.items():
            section, _, key = name.partition(".")
            origin["given"] = merge(origin["given"], {section: {key: now}})
        self._write(PROVENANCE, json.dumps(with_checksum(origin), indent=1))

    def is_finished(self) -> bool:
        """Whether the run has ended and the model folder is complete: the card is written last."""
        return (self.path / CARD).exists() and (self.path / WEIGHTS).exists()

    def is_record(self) -> bool:
        """Whether only the records of a finished run are here: its weights were left elsewhere."""
        return (self.path / CARD).exists() and not self.has_trained()

    def has_ended(self) -> bool:
        """Whether the run is finished, wherever its weights are."""
        return self.is_finished() or self.is_record()

    def write_card(self, text: str) -> None:
        """Write the model card."""
        self._write(CARD, text)

    def clear(self) -> None:
        """Remove the run, but not its prepared data."""
        (self.path / PROVENANCE).unlink(missing_ok=True)
        for name in FOLDERS:
            shutil.rmtree(self.path / name, ignore_errors=True)
        for name in FILES:
            (self.path / name).unlink(missing_ok=True)

    def _write(self, name: str, content: str | bytes) -> None:
        path = self.path / name
        with reporting_write_errors(path), atomic_file(path) as making:
            making.write_bytes(content.encode() if isinstance(content, str) else content)


def describe_budgets(budgets: Mapping[str, Sequence[Any]]) -> str:
    """Describe a change of budgets: `steps 20 → 40, minutes none → 5`."""
    return ", ".join(
        f"{name.partition('.')[2]} {_amount(before)} → {_amount(now)}"
        for name, (before, now) in sorted(budgets.items())
    )


def _amount(value: float | None) -> str:
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def check_data(folder: RunFolder, digests: dict[str, str]) -> None:
    """Raise if the data differs from what the run started with, wherever the files are now."""
    before = folder.provenance()["data"]
    changed = [name for name, digest in digests.items() if digest not in before.values()]
    if not changed and len(digests) == len(before):  # one may be in the place of another
        both = zip(digests.items(), before.values(), strict=True)
        changed = [name for (name, digest), other in both if digest != other]
    if changed:
        # Files derived from a changed file have changed too, but the user does not know those.
        named = [name for name in changed if name in before] or changed
        raise InputError(
            f"{folder.path} started with other data: {', '.join(named)} changed since; restore "
            "it, choose another --out, or start over with --fresh"
        )


def _origin(config: Config, given: Tree, digests: dict[str, str]) -> dict[str, Any]:
    return {
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {
            "transduce": _own_version(),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "tokenizers": version("tokenizers"),
            "platform": platform.platform(),
        },
        "commit": _commit(),
        "seed": config.run.seed,
        "data": digests,
        "given": json.loads(json.dumps(given)),
    }


def _own_version() -> str:
    try:
        return version("transduce")
    except PackageNotFoundError:
        return "from source, not installed"


@cache
def _commit() -> str | None:
    """Return the commit of this package's source, where it runs from its own repository."""
    here = Path(__file__)
    git = shutil.which("git")
    if git is None:
        return None

    def output_of(*arguments: str) -> str | None:
        done = subprocess.run(  # noqa: S603 - fixed words
            [git, "-C", str(here.parent), *arguments], capture_output=True, text=True, check=False
        )
        return done.stdout.strip() if done.returncode == 0 else None

    if output_of("ls-files", "--error-unmatch", here.name) is None:
        return None
    changed = "" if output_of("status", "--porcelain", "--untracked-files=no") == "" else "+changes"
    return f"{output_of('rev-parse', 'HEAD')}{changed}"


def _sample_size(pairs: Sequence[Pair], most: int | None) -> int | None:
    """Return how many of the pairs are taken; None: all."""
    return None if most is None or len(pairs) <= most else most


def _digest_of_pairs(pairs: Sequence[Pair]) -> str:
    """Return a digest of sentence pairs, in whatever files they are."""
    digest = blake2b(digest_size=16)
    for pair in pairs:
        digest.update(json.dumps(pair).encode())
    return digest.hexdigest()
