"""Shards: consecutive lines of a text that are translated by themselves and written to one file.

A shard is made of whole windows, as the translator would read them without shards. So a line is
translated together with the same other lines however many a shard has, and gets the same bytes.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from transduce.text.markup.marked import text_of
from transduce.translation.lines import WINDOW_CHARS, InputLine, numbered, windows

SHARD_CHARS = 32 * WINDOW_CHARS
"""A shard with more characters ends early, which bounds its memory."""


@dataclass(frozen=True)
class Shard:
    """Some lines of a text."""

    number: int  # from 0, among the shards
    first: int  # the number of its first line in the whole text, from 0
    texts: list[str]
    prefixes: list[str]  # how each translation must begin


def shards_of(
    lines: Iterable[str],
    prefixes: Iterable[str] | None,
    *,
    window: int,
    shard_lines: int,
    lines_done: Callable[[int, int], int | None] = lambda _number, _first: None,
) -> Iterator[Shard]:
    """Divide lines into shards of at least `shard_lines`, up to the end of a window.

    Without any lines there is one shard, which is empty, so that there always is a file.

    lines_done: given the numbers of a shard and of its first line, how many lines it has if it is
        done: these are skipped without a look at them. None: it is not.
    """
    sources = iter(lines)
    starts = None if prefixes is None else iter(prefixes)
    number = first = 0
    while True:
        count = lines_done(number, first)
        if count is None:
            held = _next_lines(numbered(sources, starts, first=first), window, shard_lines)
            if number and not held:
                return
            yield _shard(number, first, held)
            count = len(held)
        else:
            for given in (sources, starts or ()):
                deque(islice(given, count), maxlen=0)
        number, first = number + 1, first + count


def _next_lines(lines: Iterable[InputLine], window: int, shard_lines: int) -> list[InputLine]:
    """Read whole windows until they are enough for a shard."""
    held: list[InputLine] = []
    characters = 0
    for some in windows(lines, most=window):
        held += some
        characters += sum(len(text_of(line.source)) + len(line.prefix) for line in some)
        if len(held) >= shard_lines or characters >= SHARD_CHARS:
            break
    return held


def _shard(number: int, first: int, lines: list[InputLine]) -> Shard:
    return Shard(
        number, first, [text_of(line.source) for line in lines], [line.prefix for line in lines]
    )
