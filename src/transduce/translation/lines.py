"""Input lines, numbered, checked and grouped in windows, so that any amount fits in memory."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat

from transduce.errors import InputError
from transduce.text.markup.marked import Line, text_of

MAX_LINE_CHARS = 500_000
WINDOW_CHARS = 1 << 20


@dataclass(frozen=True)
class InputLine:
    """A text to translate."""

    number: int  # from 0
    source: Line
    prefix: str  # how its translation must begin


def numbered(
    sources: Iterable[Line], prefixes: Iterable[str] | None, *, first: int = 0
) -> Iterator[InputLine]:
    """Pair texts with the prefixes of their translations; raise on anything that is not text.

    There is one prefix for each text; `itertools.repeat` gives all of them the same. `first` is the
    number of the first text, if these are a part of more.
    """
    given = repeat("") if prefixes is None else iter(prefixes)
    count = first
    for number, source in enumerate(sources, start=first):
        prefix = next(given, None)
        if prefix is None:
            raise InputError(f"line {number + 1:,} has no prefix: give one for every line")
        _check(text_of(source), number)
        if prefix != "":
            _check(prefix, number)
        count += 1
        yield InputLine(number, source, prefix)
    is_endless = prefixes is None or isinstance(prefixes, repeat)
    if not is_endless and next(given, None) is not None:
        raise InputError(f"there are more prefixes than lines ({count:,}): give one for every line")


def windows(lines: Iterable[InputLine], *, most: int) -> Iterator[list[InputLine]]:
    """Yield windows of at most `most` lines; fewer if they are long."""
    window: list[InputLine] = []
    characters = 0
    for line in lines:
        window.append(line)
        characters += len(text_of(line.source)) + len(line.prefix)
        if len(window) == most or characters >= WINDOW_CHARS:
            yield window
            window, characters = [], 0
    if window:
        yield window


def count_in_whole_windows(lines: Iterable[InputLine], done: int, *, most: int) -> int:
    """Count the lines of those windows whose lines are all among the first `done`."""
    count = 0
    for window in windows(lines, most=most):
        if count + len(window) > done:
            break
        count += len(window)
    return count


def check_length(text: str, place: Callable[[], str]) -> None:
    """Raise if a text is so long that it is hardly a line of text."""
    if len(text) > MAX_LINE_CHARS:
        raise InputError(
            f"{place()} has {len(text):,} characters, but the maximum is {MAX_LINE_CHARS:,}: "
            "is it text? Put every sentence or paragraph on a line of its own"
        )


def _check(text: str, number: int) -> None:
    if not isinstance(text, str):
        kind = type(text).__name__
        raise InputError(f"line {number + 1:,} is of type {kind}, but must be a text")
    check_length(text, lambda: f"line {number + 1:,}")
    try:
        text.encode()
    except UnicodeEncodeError as half:
        raise InputError(f"line {number + 1:,} has half of a surrogate pair") from half
