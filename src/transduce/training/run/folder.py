"""A run's folder: its settings and provenance, and the check that a resumed run is the same run."""

import json
import platform
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from transduce.config.load import load_config, to_yaml
from transduce.config.renamed import with_current_names
from transduce.config.schema import Config, Tree, merge
from transduce.errors import ConfigError, InputError
from transduce.files.atomic import atomic_file
from transduce.files.errors import reporting_write_errors
from transduce.files.locks import locked
from transduce.models.folder import CONFIG, TOKENIZER, WEIGHTS

PROVENANCE, CARD, JOURNAL, CURVES = "provenance.json", "README.md", "journal.jsonl", "curves.png"
CHECKPOINTS, CACHE, EVENTS = "checkpoints", "data", "tensorboard"
LOCK = "lock"
FILES = (WEIGHTS, CARD, JOURNAL, CURVES, CONFIG, TOKENIZER)
FOLDERS = (CHECKPOINTS, EVENTS)
"""What a run writes and --fresh removes, besides the provenance."""

BUDGETS = {"training.steps", "training.epochs", "training.minutes", "training.patience"}
MACHINERY = {"run.compile", "run.device", "run.save_minutes", "run.timeout_s"}
"""Settings that may change when a run resumes: what it has computed so far stays valid."""


@dataclass(frozen=True)
class RunFolder:
    """The folder with all files of a run; it becomes the model folder when the run ends."""

    path: Path

    def check(self) -> None:
        """Raise if this is not a folder, or holds files of others under names that a run uses."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path} is a file: --out names a folder")
        if (self.path / PROVENANCE).exists() or (self.path / LOCK).exists():
            return
        foreign = [name for name in (*FILES, *FOLDERS) if (self.path / name).exists()]
        if foreign:
            raise InputError(
                f"{self.path} is not the folder of a run but holds {', '.join(foreign)}, which a "
                "run would replace: choose another --out"
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
                raise InputError(
                    f"another process is training in {self.path}: wait for it, or choose another "
                    "--out"
                ) from None
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
        path = self.path / PROVENANCE
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as damaged:
            raise InputError(
                f"{path} is damaged ({damaged}): start over with --fresh, or choose another --out"
            ) from damaged
        return found

    def write_start(
        self, config: Config, *, given: Tree, tokenizer: Path, digests: dict[str, str]
    ) -> None:
        """Write the settings and the tokenizer, then the provenance: with it, the run has begun."""
        self._write(CONFIG, to_yaml(config))
        self._write(TOKENIZER, tokenizer.read_text(encoding="utf-8"))
        self._write(PROVENANCE, json.dumps(_origin(config, given, digests), indent=1))

    def reopen(self, config: Config) -> None:
        """Write changed settings and mark the run as unfinished."""
        (self.path / CARD).unlink(missing_ok=True)
        self._write(CONFIG, to_yaml(config))

    def is_finished(self) -> bool:
        """Whether the run has ended and the model folder is complete: the card is written last."""
        return (self.path / CARD).exists() and (self.path / WEIGHTS).exists()

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

    def _write(self, name: str, text: str) -> None:
        path = self.path / name
        with reporting_write_errors(path), atomic_file(path) as making:
            making.write_text(text, encoding="utf-8")


def resumed_settings(folder: RunFolder, settled: Config, given_now: Tree) -> Config:
    """Return the settings to resume with; raise if the user gives other settings than the run has.

    What is not given now stays as it was. Budgets may change, unless the learning rate was planned
    for them, and so may settings that only say how the numbers are computed.
    """
    kind = given_now.get("model", {}).get("kind", settled.model.kind)
    if kind == settled.model.kind:
        settled.with_changes(given_now)  # raises if a setting is unknown or has no such value
    given_then = dict(_leaves(folder.given()))
    settled_leaves = dict(_leaves(settled.model_dump()))
    free = _free_settings(settled)
    changes: Tree = {}
    differences = []
    for name, value in _leaves(with_current_names(given_now)):
        before = given_then.get(name, settled_leaves.get(name))
        if name in free:
            section, _, key = name.partition(".")
            changes = merge(changes, {section: {key: value}})
        elif _plain(value) != _plain(before):
            differences.append(f"{name} is {before} there, not {value}")
    if differences:
        raise ConfigError(
            f"{folder.path} holds a run with other settings: {'; '.join(differences)}; "
            "choose another --out, or start over with --fresh"
        )
    return settled.with_changes(changes)


def check_data(folder: RunFolder, digests: dict[str, str]) -> None:
    """Raise if the data differs from what the run started with, wherever the files are now."""
    before = folder.provenance()["data"]
    changed = [name for name, digest in digests.items() if digest not in before.values()]
    if changed:
        # Files derived from a changed file have changed too, but the user does not know those.
        named = [name for name in changed if name in before] or changed
        raise InputError(
            f"{folder.path} started with other data: {', '.join(named)} changed since; restore "
            "it, choose another --out, or start over with --fresh"
        )


def _free_settings(settled: Config) -> set[str]:
    """Name the settings that may change when this run resumes."""
    free = set(MACHINERY)
    if settled.training.schedule != "linear":
        free |= BUDGETS
    if settled.run.choose_by == "loss":
        free.add("run.score_sentences")  # else it decides which weights are the best
    return free


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


def _leaves(tree: Tree, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _leaves(value, f"{name}.")
        else:
            yield name, value


def _plain(value: Any) -> Any:
    """Return a value to compare: a tuple equals a list, and one value equals a list of it."""
    return list(value) if isinstance(value, list | tuple) else [value]
