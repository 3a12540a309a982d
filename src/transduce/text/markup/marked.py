"""A text with inline markup: the words that a model reads, and the tags around them."""

from dataclasses import dataclass

from transduce.text.markup.references import TextReader


@dataclass(frozen=True)
class Inline:
    """A tag pair around words, something between words, or words that stay as they are."""

    start: int  # characters of the text that it is around; both the same: it has none
    end: int
    opening: str  # as it is written
    closing: str  # "" if it is no pair of tags
    parent: int  # index of the element that it is in; -1: none
    is_kept: bool = False  # `opening` is all of it, and replaces its characters
    follows_space: bool = False  # a space stands before it
    precedes_space: bool = False  # and one after it, before the next word

    @property
    def is_point(self) -> bool:
        """Whether it has no characters."""
        return self.start == self.end


@dataclass(frozen=True)
class MarkedText:
    """A text without its tags, and what it takes to put them back."""

    text: str  # with single spaces between words
    inlines: tuple[Inline, ...]  # each after what it is in
    source: str  # as it is written
    reader: TextReader  # how the text of a translation is written

    def __str__(self) -> str:
        return self.source


Line = str | MarkedText
"""What is translated by itself: a text, or one with markup."""


def text_of(line: Line) -> str:
    """Return the words of a line."""
    return line.text if isinstance(line, MarkedText) else line
