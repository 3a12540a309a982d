"""A text as lines, which are translated one by one; blank lines and line ends are kept."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from transduce.serving.limits import SENTENCE_TOKENS
from transduce.text.markup.marked import Line, text_of
from transduce.text.pieces import CountTokens
from transduce.text.sentences import split_sentences

_LINE_END = re.compile(r"(\r?\n)")


@dataclass(frozen=True)
class Document:
    """Lines, and the line ends between them."""

    lines: tuple[str, ...]
    ends: tuple[str, ...]  # one fewer than lines

    def with_lines(self, lines: Sequence[str]) -> str:
        """Return the text with other lines and the same line ends."""
        return "".join(part for pair in zip(lines, (*self.ends, ""), strict=True) for part in pair)


def split_lines(text: str) -> Document:
    """Split a text at its line ends."""
    parts = _LINE_END.split(text)
    return Document(tuple(parts[::2]), tuple(parts[1::2]))


def sentence_counts(lines: Sequence[Line], count_tokens: CountTokens) -> list[int]:
    """Count the sentences of each line: 0 for a blank one; a long sentence counts as several."""
    texts = [text_of(line) for line in lines]
    parts = [split_sentences(text) if text and not text.isspace() else [] for text in texts]
    tokens = iter(count_tokens([part for line in parts for part in line]))
    return [sum(1 + next(tokens) // SENTENCE_TOKENS for _ in line) for line in parts]
