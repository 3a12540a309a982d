"""Texts as they come, numbered and checked, some at a time: input of any size fits in memory."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat

from transduce.errors import InputError

MAX_LINE_CHARS = 500_000
WINDOW_CHARS = 1 << 20


@dataclass(frozen=True)
class Line:
    """A text to translate."""

    number: int  # from 0
    source: str
    prefix: str  # how its translation must begin


def numbered(sources: Iterable[str], prefixes: Iterable[str] | None) -> Iterator[Line]:
    """Pair texts with the beginnings of their translations, and refuse what is no text."""
    beginnings = repeat("") if prefixes is None else iter(prefixes)
    count = 0
    for number, source in enumerate(sources):
        prefix = next(beginnings, None)
        if prefix is None:
            raise InputError(f"line {number + 1:,} has no prefix: give one for every line")
        for text in (source, prefix):
            _check(text, f"line {number + 1:,}")
        count += 1
        yield Line(number, source, prefix)
    if prefixes is not None and next(beginnings, None) is not None:
        raise InputError(f"there are more prefixes than the {count:,} lines")


def windows(lines: Iterable[Line], *, most: int) -> Iterator[list[Line]]:
    """Read so many lines at a time; fewer if they are long."""
    window: list[Line] = []
    characters = 0
    for line in lines:
        window.append(line)
        characters += len(line.source) + len(line.prefix)
        if len(window) == most or characters >= WINDOW_CHARS:
            yield window
            window, characters = [], 0
    if window:
        yield window


def check_length(text: str, place: str) -> None:
    """Refuse what is so long that it is hardly text."""
    if len(text) > MAX_LINE_CHARS:
        raise InputError(
            f"{place} has {len(text):,} characters, and the most is {MAX_LINE_CHARS:,}: "
            "is it text? Put every sentence or paragraph on a line of its own"
        )


def _check(text: str, place: str) -> None:
    if not isinstance(text, str):
        raise InputError(f"{place}: a {type(text).__name__} where a text is expected")
    check_length(text, place)
    try:
        text.encode()
    except UnicodeEncodeError as half:
        raise InputError(f"{place} has half of a surrogate pair") from half
