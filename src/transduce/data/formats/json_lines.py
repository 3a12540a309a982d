"""Fields of JSON lines: each line is an object, whose fields may be objects themselves.

A field is named by its path, with dots: `translation.en`. A name that is not found at the top is
looked for under `translation` too, where many public corpora have their languages.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from transduce.data.formats.broken import BrokenRecord, beginning
from transduce.data.formats.lines import read_lines
from transduce.errors import InputError, did_you_mean

NEST = "translation"


def read_fields(
    path: Path, names: tuple[str, ...], *, source_only: bool = False
) -> Iterator[list[str] | BrokenRecord]:
    """Stream the texts of some fields, one object at a time.

    `source_only`: the source is all that is wanted, so an error asks for its field alone.
    """
    wanted = "the source's with --fields" if source_only else "two of them with --fields"
    for number, line in enumerate(read_lines(path), start=1):
        place = f"{path} line {number:,}"
        try:
            entry = _object(line, place)
            texts = [_text(entry, name, place, wanted) for name in names]
        except InputError as fault:
            yield BrokenRecord(fault, line)
        else:
            yield texts


def _object(line: str, place: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as malformed:
        raise InputError(
            f"{place}: not JSON: {_reason(malformed)}: {beginning(line)}; every line must be one "
            "object"
        ) from malformed
    if not isinstance(entry, dict):
        raise InputError(
            f"{place}: not an object with fields: {beginning(line)}; every line must be one"
        )
    return entry


def _reason(malformed: ValueError | RecursionError) -> str:
    """Say what is wrong, and where in the line: for the parser, each is the first."""
    if isinstance(malformed, json.JSONDecodeError):
        return f"{malformed.msg} at column {malformed.colno:,}"
    return str(malformed)


def _text(entry: dict[str, Any], name: str, place: str, wanted: str) -> str:
    text = _at(entry, name)
    if text is None:
        text = _at(entry, f"{NEST}.{name}")
    if not isinstance(text, str):
        known = list(_names(entry))
        both = f" {','.join(known)}" if len(known) == 2 and wanted.startswith("two") else ""
        raise InputError(
            f"{place}: no text in field {name!r}{did_you_mean(name, known)}; the fields are "
            f"{known}; name {wanted}{both}"
        )
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise InputError(f"{place}: field {name!r} has half of a surrogate pair")
    return text


def _at(entry: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path of names, or None; a name itself may have dots."""
    if path in entry:
        return entry[path]
    name, dot, rest = path.partition(".")
    inner = entry.get(name)
    return _at(inner, rest) if dot and isinstance(inner, dict) else None


def _names(entry: Mapping[str, Any], *, before: str = "") -> Iterator[str]:
    """Stream the paths of all fields, two levels deep."""
    for name, value in entry.items():
        if isinstance(value, dict) and value and not before:
            yield from _names(value, before=f"{name}.")
        else:
            yield before + name
