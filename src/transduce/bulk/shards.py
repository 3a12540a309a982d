"""Shards: consecutive lines of a text that are translated by themselves and written to one file.

A shard is made of whole windows, as the translator would read them without shards. So a line is
translated together with the same other lines however many a shard has, and gets the same bytes.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

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
    lines: Iterable[str], prefixes: Iterable[str] | None, *, window: int, shard_lines: int
) -> Iterator[Shard]:
    """Divide lines into shards of at least `shard_lines`, up to the end of a window.

    Without any lines there is one shard, which is empty, so that there always is a file.
    """
    number = first = characters = 0
    held: list[InputLine] = []
    for some in windows(numbered(lines, prefixes), most=window):
        held += some
        characters += sum(len(text_of(line.source)) + len(line.prefix) for line in some)
        if len(held) >= shard_lines or characters >= SHARD_CHARS:
            yield _shard(number, first, held)
            number, first = number + 1, first + len(held)
            held, characters = [], 0
    if held or number == 0:
        yield _shard(number, first, held)


def _shard(number: int, first: int, lines: list[InputLine]) -> Shard:
    return Shard(
        number, first, [text_of(line.source) for line in lines], [line.prefix for line in lines]
    )
