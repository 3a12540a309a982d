"""The journal: what happened in a run, one JSON line an event, readable whatever was killed."""

import json
import math
import reprlib
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self, get_args, get_type_hints

from transduce.disk import replacing
from transduce.errors import InputError
from transduce.training.events import Event, Scored


class Journal(AbstractContextManager["Journal"]):
    """Writes down every event it is told, each at once and as a line of its own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with plainly(path):
            # Unbuffered: a line that could not be written must not be tried again at the close.
            self._file = path.open("ab", buffering=0)

    @classmethod
    def open(cls, path: Path, step: int) -> Self:
        """Go on after `step` steps: what was written of later ones is dropped, to be made again."""
        with plainly(path):
            if path.exists():
                _cut(path, step)
        return cls(path)

    def __call__(self, event: Event) -> None:
        """Write one event down."""
        line = memoryview(_line(event))
        with plainly(self._path):
            while line:
                line = line[self._file.write(line) :]

    def close(self) -> None:
        """Let go of the file; all that was told is in it already."""
        self._file.close()

    def __exit__(self, *_raised: object) -> None:
        self.close()


def read_journal(path: Path) -> list[Event]:
    """Read a journal back; of several scores of one step the last counts.

    What a newer version writes besides is passed over, and so is a last line that was not written
    to its end. A number that was not finite comes back as nan.
    """
    events = []
    with plainly(path, doing="read"):
        for number, fields, _ in _whole_lines(path):
            try:
                event = _event(fields)
            except ValueError as damaged:
                raise _damaged(path, number, damaged) from damaged
            if event is not None:
                events.append(event)
    last = {event.step: event for event in events if isinstance(event, Scored)}
    return [e for e in events if not isinstance(e, Scored) or last[e.step] is e]


@contextmanager
def plainly(path: Path, *, doing: str = "write") -> Iterator[None]:
    """Turn what the system says about a file into one line that names it."""
    try:
        yield
    except OSError as refused:
        raise InputError(f"cannot {doing} {path}: {refused.strerror or refused}") from refused


def _line(event: Event) -> bytes:
    fields = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in asdict(event).items()
    }
    return json.dumps({"event": type(event).__name__} | fields, allow_nan=False).encode() + b"\n"


def _cut(path: Path, step: int) -> None:
    """Put a journal in this one's place that ends with `step` and with a whole line."""
    with replacing(path) as making, making.open("wb") as kept:
        for _, fields, line in _whole_lines(path):
            reached = fields.get("step")
            if not isinstance(reached, int) or reached <= step:
                kept.write(line)


def _whole_lines(path: Path) -> Iterator[tuple[int, dict[str, Any], bytes]]:
    """Give each line with its number and as it stands; a kill can only have torn the last."""
    fault: ValueError | None = None
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if fault is not None:
                raise _damaged(path, number - 1, fault) from fault
            try:
                fields = _fields(line)
            except ValueError as torn:
                fault = torn
                continue
            yield number, fields, line


def _fields(line: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as malformed:
        raise ValueError("it is not JSON") from malformed
    if not isinstance(fields, dict) or not line.endswith(b"\n"):
        raise ValueError("it is not a whole JSON object")
    return fields


def _damaged(path: Path, number: int, fault: ValueError) -> InputError:
    return InputError(f"{path} line {number:,} is damaged ({fault}); delete that line")


_KINDS: dict[str, type[Event]] = {kind.__name__: kind for kind in get_args(Event)}
_HINTS = {kind: get_type_hints(kind) for kind in get_args(Event)}


def _event(fields: dict[str, Any]) -> Event | None:
    """Make the event again, or nothing of one that this version does not know."""
    kind = _KINDS.get(str(fields.get("event")))
    if kind is None:
        return None
    values: dict[str, Any] = {}
    for name, hint in _HINTS[kind].items():
        if name not in fields:
            raise ValueError(f"{kind.__name__} without {name}")
        values[name] = _value(fields[name], get_args(hint) or (hint,))
        if values[name] is _UNSUITED:
            raise ValueError(f"{name} is {reprlib.repr(fields[name])}")
    return kind(**values)


_UNSUITED = object()


def _value(written: object, kinds: tuple[type, ...]) -> object:
    """Take what was written as one of the kinds that a field may be."""
    if type(written) in kinds:
        return written
    if written is None and float in kinds:
        return math.nan
    if type(written) is int and float in kinds:
        return float(written) if abs(written) < sys.float_info.max else math.nan
    return _UNSUITED
