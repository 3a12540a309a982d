"""Records that cannot be read among others that can, and text in another encoding than UTF-8."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from transduce.errors import InputError

SHOWN_CHARS = 40


@dataclass(frozen=True)
class BrokenRecord:
    """A record that cannot be read; the records after it can."""

    error: InputError  # names its place, what is wrong and what to do
    text: str  # the record as it is in the file


def beginning(text: str) -> str:
    """Return the beginning of a text in quotes, with unprintable characters escaped."""
    return repr(text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…")


def how_to_convert(path: Path, found: bytes) -> str:
    """Say how to convert a file of which some bytes are not UTF-8."""
    if _is_binary(found):
        return "is it text?"
    encoding = _likely_encoding(found)
    name, suffix = path.stem, path.suffix
    converted = path.with_name(f"{name}.utf8{suffix}")
    command = (
        f"iconv -f {encoding} -t UTF-8 {shlex.quote(str(path))} > {shlex.quote(str(converted))}"
    )
    return f"if it is {encoding}, convert it: {command}"


def how_to_convert_stream(found: bytes) -> str:
    """Say how to convert what comes through a pipe."""
    if _is_binary(found):
        return "is it text?"
    encoding = _likely_encoding(found)
    return f"if it is {encoding}, pipe it through: iconv -f {encoding} -t UTF-8"


def _is_binary(found: bytes) -> bool:
    return b"\0" in found and not found.startswith((b"\xff\xfe", b"\xfe\xff"))


def _likely_encoding(found: bytes) -> str:
    """Guess the encoding: ISO-8859-1 has no characters where Windows has its quotes and dashes."""
    if found.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16"
    return "WINDOWS-1252" if any(0x80 <= byte < 0xA0 for byte in found) else "ISO-8859-1"
