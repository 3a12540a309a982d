"""The folder of a pipeline: what each stage is made from, and the outcomes of those that are done.

An outcome is a file or a folder that is complete or absent, or one that continues what was begun.
`pipeline.json` describes what the stages are made from. A command that would make a stage from
other things is refused while the outcome of that stage, or of a later one, is there.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transduce.errors import InputError
from transduce.files.atomic import atomic_file
from transduce.files.checksums import (
    RECORD_CHECKSUM,
    DamagedFileError,
    check_record,
    with_checksum,
)
from transduce.files.errors import reporting_read_errors, reporting_write_errors
from transduce.files.locks import locked
from transduce.files.regular import read_json
from transduce.files.resumable import Change, content_digest
from transduce.models.model_files import find_model

DESCRIPTION, LOCK = "pipeline.json", "lock"
NAME = "pipeline"
"""The key of the description under which the kind of pipeline is."""


@dataclass(frozen=True)
class PipelineStage:
    """A part of a pipeline: its outcome, and what decides it beside the stages before it."""

    outcome: str  # the name of its file or folder
    made_from: Mapping[str, Any]


@contextmanager
def pipeline_folder(folder: Path, name: str, stages: Sequence[PipelineStage]) -> Iterator[None]:
    """Hold the folder of a pipeline; raise `InputError` if it was begun with other things.

    The folder is created if it is not there. Another process that works in it is an error too.
    """
    with reporting_write_errors(folder):
        _check_is_ours(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / LOCK).touch()
    try:
        with locked(folder / LOCK, wait=False):
            _begin(folder, name, stages)
            yield
    except BlockingIOError:
        raise InputError(f"another command is writing {folder}: let it end") from None


def digest_of_model(folder: Path) -> str:
    """Return a digest of the files that are a model: settings, vocabulary and weights."""
    paths = find_model(folder).paths
    if not all(path.is_file() for path in paths):  # of another engine
        paths = tuple(path for path in sorted(folder.glob("*")) if path.is_file())
    if not paths:
        raise InputError(f"{folder} is no model folder: give one that transduce has trained")
    return content_digest(paths)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write an object to a file that is complete or absent, with its checksum."""
    text = json.dumps(with_checksum(content), indent=1, ensure_ascii=False)
    with reporting_write_errors(path), atomic_file(path) as making:
        making.write_text(f"{text}\n", encoding="utf-8")


REMOVE_OUTCOME = "remove it: the same command makes it again"


def read_outcome(path: Path, remedy: str = REMOVE_OUTCOME) -> dict[str, Any]:
    """Read what `write_json` wrote; raise `DamagedFileError` if it is not as it was written."""
    try:
        with reporting_read_errors(path):
            content = read_json(path)
        check_record(content, path, remedy)
        found = dict(content)
    except (ValueError, TypeError) as malformed:
        raise DamagedFileError(path, "it is no outcome of a stage", remedy) from malformed
    found.pop(RECORD_CHECKSUM, None)
    return found


def _check_is_ours(folder: Path) -> None:
    """Raise if there is a file instead of a folder, or a folder with the files of others."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"{folder} is a file: --out names a folder")
    if (folder / DESCRIPTION).exists():
        return
    others = sorted(path.name for path in folder.iterdir() if not path.name.startswith(_own_names))
    if others:
        raise InputError(
            f"{folder} has other files ({others[0]}): choose a new or an empty folder for --out"
        )


_own_names = (LOCK, f"{DESCRIPTION}.")
"""What a process leaves that was killed before it had written the description."""


def _begin(folder: Path, name: str, stages: Sequence[PipelineStage]) -> None:
    """Compare the description with that of the command that began, and write it."""
    path = folder / DESCRIPTION
    now: dict[str, Any] = {NAME: name} | {stage.outcome: dict(stage.made_from) for stage in stages}
    now = json.loads(json.dumps(now))  # as it is read back
    before = _described(path) if path.exists() else {NAME: name}
    if before.get(NAME) != name:
        raise InputError(f"{folder} is of {before.get(NAME)}, not of {name}: choose another --out")
    for number, stage in enumerate(stages):
        changes = _changes(before.get(stage.outcome, {}), now[stage.outcome])
        later = [folder / one.outcome for one in stages[number:]]
        if changes and (there := [str(one) for one in later if one.exists()]):
            raise InputError(
                f"{folder} was begun with {'; '.join(map(str, changes))}: give the same command "
                f"again to go on; to start over from there, remove {' and '.join(there)}, or "
                "choose another --out"
            )
    known = before | now  # with the stages of a command of more rounds
    if known != before or not path.exists():
        write_json(path, known)


def _changes(before: Any, now: Any, name: str = "") -> list[Change]:
    """Return what differs between two descriptions; of settings, those that differ alone."""
    if before == now:
        return []
    if not all(isinstance(one, dict | None) for one in (before, now)):
        return [Change(name, before, now)]
    before, now = before or {}, now or {}
    inner = name + "." if name else ""
    names = dict.fromkeys([*now, *before])
    return [
        change
        for one in names
        for change in _changes(before.get(one), now.get(one), f"{inner}{one}")
    ]


def _described(path: Path) -> dict[str, Any]:
    remedy = "remove the folder, or choose another --out"
    found = read_outcome(path, remedy)
    if not all(isinstance(value, dict) for name, value in found.items() if name != NAME):
        raise DamagedFileError(path, "it is no description of a pipeline", remedy)
    return found
