"""The journal of a run: one JSON line per event, readable even after a kill at any moment.

Each line has a checksum, so that a changed number is told instead of drawn.
"""

import json
import math
import reprlib
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any, Self, get_args, get_origin, get_type_hints

from transduce.errors import InputError
from transduce.files.atomic import atomic_file
from transduce.files.checksums import DamagedFileError, check_record, with_checksum
from transduce.files.errors import reporting_read_errors, reporting_write_errors
from transduce.files.regular import MIB, open_regular
from transduce.training.run.events import Event, RolledBack, Scored

MAX_LINE_BYTES = MIB
"""A longer line is damaged: an event has some hundred bytes."""


class Journal(AbstractContextManager["Journal"]):
    """Appends events to a file, each as one line that is written at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with reporting_write_errors(path):
            # Unbuffered: a line that could not be written must not be retried on close.
            self._file = path.open("ab", buffering=0)

    @classmethod
    def open(cls, path: Path, step: int) -> Self:
        """Resume after `step` steps: events of later steps are dropped, as those are repeated."""
        with reporting_write_errors(path):
            if path.exists():
                _cut(path, step)
        return cls(path)

    def __call__(self, event: Event) -> None:
        """Append an event."""
        line = memoryview(_line(event))
        with reporting_write_errors(self._path):
            while line:
                line = line[self._file.write(line) :]

    def close(self) -> None:
        """Close the file; every event is in it already."""
        self._file.close()

    def __exit__(self, *_raised: object) -> None:
        self.close()


def read_journal(path: Path) -> list[Event]:
    """Read a journal back; of several scores of one step only the last is kept.

    Events and fields that this version does not know are skipped, and so is an incomplete last
    line. A number that was not finite comes back as nan.
    """
    with reporting_read_errors(path):
        events = [event for event, _, _ in _whole_lines(path) if event is not None]
    last = {event.step: event for event in events if isinstance(event, Scored)}
    return [e for e in events if not isinstance(e, Scored) or last[e.step] is e]


def _line(event: Event) -> bytes:
    values = {name: _finite(value) for name, value in asdict(event).items()}
    written = with_checksum({"event": type(event).__name__} | values)
    return json.dumps(written, allow_nan=False).encode() + b"\n"


def _finite(value: Any) -> Any:
    """Write numbers that are not finite as null: JSON has none."""
    if isinstance(value, dict):
        return {name: _finite(number) for name, number in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cut(path: Path, step: int) -> None:
    """Replace the journal by one that ends with `step` and with a complete line."""
    with atomic_file(path) as making, making.open("wb") as kept:
        for _, found, line in _whole_lines(path):
            reached = found.get("step")
            if not isinstance(reached, int) or reached <= step:
                kept.write(line)


def _whole_lines(path: Path) -> Iterator[tuple[Event | None, dict[str, Any], bytes]]:
    """Stream each line's event, fields and bytes; a kill can only have cut the last line short."""
    with open_regular(path) as file:
        lines = iter(lambda: file.readline(MAX_LINE_BYTES), b"")
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n") and len(line) < MAX_LINE_BYTES:
                return
            try:
                found = _fields(line)
                check_record(found, path, "")
                event = _event(found)
            except (ValueError, DamagedFileError) as fault:
                reason = fault.reason if isinstance(fault, DamagedFileError) else fault
                raise InputError(
                    f"{path} line {number:,} is damaged ({reason}); delete that line"
                ) from fault
            yield event, found, line


def _fields(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as malformed:
        raise ValueError("it is not JSON") from malformed
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    return found


_KINDS: dict[str, type[Event]] = {kind.__name__: kind for kind in get_args(Event)}
_KINDS["WentBack"] = RolledBack  # its name in version 0.1
_HINTS = {kind: get_type_hints(kind) for kind in get_args(Event)}
_DEFAULTS = {
    kind: {field.name: field.default for field in fields(kind) if field.default is not MISSING}
    | {field.name: {} for field in fields(kind) if field.default_factory is dict}
    for kind in get_args(Event)
}


def _event(found: dict[str, Any]) -> Event | None:
    """Return the event with these fields, or None if this version does not know it."""
    kind = _KINDS.get(str(found.get("event")))
    if kind is None:
        return None
    written = _DEFAULTS[kind] | _renamed(found)
    values: dict[str, Any] = {}
    for name, hint in _HINTS[kind].items():
        if name not in written:
            raise ValueError(f"{kind.__name__} without {name}")
        if get_origin(hint) is dict:
            values[name] = _numbers(written[name])
        else:
            values[name] = _value(written[name], get_args(hint) or (hint,))
        if values[name] is _UNSUITED:
            raise ValueError(f"{name} is {reprlib.repr(written[name])}")
    return kind(**values)


def _renamed(found: dict[str, Any]) -> dict[str, Any]:
    """Name the fields of version 0.1 as they are named now: its only metric was BLEU."""
    if found["event"] != Scored.__name__ or "bleu" not in found:
        return found
    bleu = found["bleu"]
    return found | {"metric": None if bleu is None else "BLEU", "score": bleu}


_UNSUITED = object()


def _numbers(written: object) -> object:
    """Return numbers by name."""
    if not isinstance(written, dict):
        return _UNSUITED
    found = {name: _value(number, (float,)) for name, number in written.items()}
    return _UNSUITED if _UNSUITED in found.values() else found


def _value(written: object, kinds: tuple[type, ...]) -> object:
    """Return what was written as one of the types that a field may have."""
    if type(written) in kinds:
        return written
    if written is None and float in kinds:
        return math.nan
    if type(written) is int and float in kinds:
        return float(written) if abs(written) < sys.float_info.max else math.nan
    return _UNSUITED
