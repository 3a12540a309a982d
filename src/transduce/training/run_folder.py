"""A run's folder: what it was asked for and with what, and whether that is asked for again."""

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
from transduce.config.schema import Config, Tree, merge
from transduce.disk import locked, replacing
from transduce.errors import ConfigError, InputError
from transduce.models.folder import CONFIG, TOKENIZER, WEIGHTS

PROVENANCE, CARD, JOURNAL, CURVES = "provenance.json", "README.md", "journal.jsonl", "curves.png"
CHECKPOINTS, CACHE, EVENTS = "checkpoints", "data", "tensorboard"
LOCK = "lock"
FILES = (WEIGHTS, CARD, JOURNAL, CURVES, CONFIG, TOKENIZER)
FOLDERS = (CHECKPOINTS, EVENTS)
"""What a run writes and --fresh removes, besides the provenance."""

ENDS = {"training.steps", "training.epochs", "training.minutes", "training.patience"}
MACHINERY = {
    "run.compile",
    "run.device",
    "run.save_minutes",
    "run.timeout_s",
    "run.bleu_sentences",
}
"""Settings that leave true what a run has computed so far."""


@dataclass(frozen=True)
class RunFolder:
    """Where everything of a run lies; it becomes the model folder when the run is over."""

    path: Path

    def check(self) -> None:
        """Raise if this is no folder, or one with somebody else's files by a run's names."""
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
        """Keep other runs out for as long as this process lives."""
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

    def begun(self) -> Config | None:
        """Return the settings of the run that is there, if there is one."""
        if not (self.path / PROVENANCE).exists():
            return None
        return load_config(self.path / CONFIG)

    def given(self) -> Tree:
        """Return what the user gave when the run began."""
        given: Tree = self.provenance()["given"]
        return given

    def provenance(self) -> dict[str, Any]:
        """Read where the run comes from."""
        path = self.path / PROVENANCE
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as damaged:
            raise InputError(
                f"{path} is damaged ({damaged}): train anew with --fresh or into another --out"
            ) from damaged
        return found

    def write_start(
        self, config: Config, *, given: Tree, tokenizer: Path, digests: dict[str, str]
    ) -> None:
        """Write what the run is, its origin last: without that, it has not begun."""
        self._write(CONFIG, to_yaml(config))
        self._write(TOKENIZER, tokenizer.read_text(encoding="utf-8"))
        self._write(PROVENANCE, json.dumps(_origin(config, given, digests), indent=1))

    def reopen(self, config: Config) -> None:
        """Go on with settings that have changed since the run began, or since it ended."""
        (self.path / CARD).unlink(missing_ok=True)
        self._write(CONFIG, to_yaml(config))

    def is_finished(self) -> bool:
        """Whether the run is over and the model folder whole; the card is written last."""
        return (self.path / CARD).exists() and (self.path / WEIGHTS).exists()

    def write_card(self, text: str) -> None:
        """Write what a person reads first."""
        self._write(CARD, text)

    def clear(self) -> None:
        """Remove a run, but not the data that was made ready for it."""
        (self.path / PROVENANCE).unlink(missing_ok=True)
        for name in FOLDERS:
            shutil.rmtree(self.path / name, ignore_errors=True)
        for name in FILES:
            (self.path / name).unlink(missing_ok=True)

    def _write(self, name: str, text: str) -> None:
        path = self.path / name
        try:
            with replacing(path) as making:
                making.write_text(text, encoding="utf-8")
        except OSError as fault:
            raise InputError(f"cannot write {path}: {fault.strerror}") from fault


def taken_up(folder: RunFolder, settled: Config, given_now: Tree) -> Config:
    """Return the settings to go on with; raise if others are asked for than the run has.

    What is not given now stays as it was. Budgets may change, unless the learning rate was planned
    for them, and so may what only says how the numbers are computed.
    """
    settled.with_changes(given_now)  # raises if one is unknown or has no such value
    given_then = dict(_leaves(folder.given()))
    settled_leaves = dict(_leaves(settled.model_dump()))
    free = MACHINERY if settled.training.schedule == "linear" else MACHINERY | ENDS
    changes: Tree = {}
    differences = []
    for name, value in _leaves(given_now):
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
    """Raise if the data is no longer what the run began with, wherever it lies now."""
    before = folder.provenance()["data"]
    changed = [name for name, digest in digests.items() if digest not in before.values()]
    if changed:
        # What was made of a changed file has changed too, but is not what the user knows.
        named = [name for name in changed if name in before] or changed
        raise InputError(
            f"{folder.path} began with other data: {', '.join(named)} changed since; bring it "
            "back, choose another --out, or start over with --fresh"
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


def _commit() -> str | None:
    """Name the commit of this package's source, where it runs from a repository of its own."""
    here = Path(__file__)
    git = shutil.which("git")
    if git is None:
        return None

    def asked(*arguments: str) -> str | None:
        done = subprocess.run(  # noqa: S603 - fixed words
            [git, "-C", str(here.parent), *arguments], capture_output=True, text=True, check=False
        )
        return done.stdout.strip() if done.returncode == 0 else None

    if asked("ls-files", "--error-unmatch", here.name) is None:
        return None
    changed = "" if asked("status", "--porcelain", "--untracked-files=no") == "" else "+changes"
    return f"{asked('rev-parse', 'HEAD')}{changed}"


def _leaves(tree: Tree, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _leaves(value, f"{name}.")
        else:
            yield name, value


def _plain(value: Any) -> Any:
    """Compare as JSON would: a tuple is a list, and one value stands for a list of it."""
    return list(value) if isinstance(value, list | tuple) else [value]
