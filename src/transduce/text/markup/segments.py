"""The texts between what divides them, with their inline tags."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from transduce.text.markup.marked import Inline, MarkedText
from transduce.text.markup.references import TextReader
from transduce.text.markup.structure import Item, Role
from transduce.text.sentences import split_sentences

MAX_SHOWN = 80
"""The most characters of something untranslatable that a model is shown as part of a sentence."""

_SPACE = r"(?:\s|&nbsp;|&#160;|&#[xX][aA]0;)"
_LEADING = re.compile(rf"{_SPACE}*+")
_TRAILING = re.compile(rf"{_SPACE}\Z")


def segment_parts(
    items: Sequence[Item], reader: TextReader
) -> Iterator[tuple[str, MarkedText | None]]:
    """Yield texts, each with all that stands before it; None: there is no text after it."""
    start = 0
    for end in range(len(items) + 1):
        if end < len(items) and items[end].role is not Role.DIVIDER:
            continue
        yield from _segment(items, start, end, reader)
        if end < len(items):
            yield items[end].source, None
        start = end + 1


def _segment(
    items: Sequence[Item], start: int, end: int, reader: TextReader
) -> Iterator[tuple[str, MarkedText | None]]:
    if not _has_words(items[start:end], reader):
        yield "".join(item.source for item in items[start:end]), None
        return
    first, last = _without_edges(items, start, end)
    leading, trailing, inner = _trimmed(items[first:last])
    before = "".join(item.source for item in items[start:first])
    after = "".join(item.source for item in items[last:end])
    yield before + leading, marked_text(inner, reader)
    yield trailing + after, None


def marked_text(items: Sequence[Item], reader: TextReader) -> MarkedText:
    """Return the words of a text, and the places of its tags, which match."""
    return _Segment(items, reader).line()


def _has_words(items: Sequence[Item], reader: TextReader) -> bool:
    return any(
        character.isalnum()
        for item in items
        if item.role is Role.TEXT
        for part in reader.parts(item.source)[::2]
        for character in reader.text(part)
    )


def _without_edges(items: Sequence[Item], start: int, end: int) -> tuple[int, int]:
    """Leave out what is around all words: spaces, comments, images, tags around the whole."""
    while True:
        first, last = items[start], items[end - 1]
        if _is_edge(first):
            start += 1
        elif _is_edge(last):
            end -= 1
        elif first.role is Role.OPENING and first.partner == end - 1:
            start, end = start + 1, end - 1
        else:
            return start, end


def _is_edge(item: Item) -> bool:
    return item.role is Role.POINT or (item.role is Role.TEXT and not item.source.strip())


class _Segment:
    """Collects the words of a text and the places of its tags."""

    def __init__(self, items: Sequence[Item], reader: TextReader) -> None:
        self._reader = reader
        self._items = items
        self._pieces: list[str] = []
        self._length = 0
        self._has_space = False  # since the last word
        self._inlines: list[Inline] = []
        self._opened: list[tuple[int, int]] = []  # indices of inlines and of items

    def line(self) -> MarkedText:
        for index, item in enumerate(self._items):
            if item.role is Role.TEXT:
                self._read_text(item.source)
            elif item.role is Role.POINT:
                self._add_point(item.source)
            elif item.role is Role.KEPT:
                self._keep(item)
            elif item.role is Role.OPENING:
                self._opened.append((len(self._inlines), index))
                self._add(Inline(self._place, self._place, item.source, "", self._parent(-2)))
            else:
                self._close(index)
        text = "".join(self._pieces)
        source = "".join(item.source for item in self._items)
        last = len(text)  # what follows a space at the end has no word after it
        inlines = (
            replace(i, start=min(i.start, last), end=min(i.end, last)) for i in self._inlines
        )
        return MarkedText(text, tuple(inlines), source, self._reader)

    @property
    def _place(self) -> int:
        """Where the next word begins."""
        return self._length + (self._has_space and self._length > 0)

    def _parent(self, place: int = -1) -> int:
        return self._opened[place][0] if len(self._opened) >= -place else -1

    def _add(self, inline: Inline) -> None:
        self._inlines.append(replace(inline, follows_space=self._has_space))

    def _add_point(self, source: str) -> None:
        self._add(Inline(self._place, self._place, source, "", self._parent()))

    def _add_text(self, text: str) -> None:
        words = " ".join(text.split())
        self._has_space |= text[:1].isspace()
        if not words:
            return
        self._pieces += [" "] * (self._place - self._length) + [words]
        self._length = self._place + len(words)
        self._has_space = text[-1].isspace()

    def _read_text(self, source: str) -> None:
        for number, part in enumerate(self._reader.parts(source)):
            if number % 2:
                self._add_point(part)
            else:
                self._add_text(self._reader.text(part))

    def _keep(self, item: Item) -> None:
        shown = " ".join(self._reader.text(item.shown).split())
        if not 0 < len(shown) <= MAX_SHOWN or len(split_sentences(shown)) != 1:
            self._add_point(item.source)
            return
        start, had_space = self._place, self._has_space
        self._add_text(shown)
        kept = Inline(start, self._length, item.source, "", self._parent(), is_kept=True)
        self._inlines.append(replace(kept, follows_space=had_space))

    def _close(self, index: int) -> None:
        place, opened_at = self._opened.pop()
        opened = self._inlines[place]
        if self._length > opened.start:
            closing = self._items[index].source
            self._inlines[place] = replace(opened, end=self._length, closing=closing)
            return
        # Without words it is one thing, with all that is in it.
        whole = "".join(item.source for item in self._items[opened_at : index + 1])
        self._inlines[place:] = [replace(opened, opening=whole)]


def _trimmed(items: Sequence[Item]) -> tuple[str, str, list[Item]]:
    """Take the spaces at both ends of a text away, as they are written."""
    trimmed = list(items)
    leading = trailing = ""
    if trimmed[0].role is Role.TEXT:
        source = trimmed[0].source
        match = _LEADING.match(source)
        leading = match[0] if match else ""
        trimmed[0] = replace(trimmed[0], source=source[len(leading) :])
    if trimmed[-1].role is Role.TEXT:
        source = trimmed[-1].source
        end = len(source)
        while match := _TRAILING.search(source, max(0, end - 6), end):
            end = match.start()
        trailing = source[end:]
        trimmed[-1] = replace(trimmed[-1], source=source[:end])
    return leading, trailing, trimmed
