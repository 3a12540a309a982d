"""A text as its lines: they are translated one by one, and blank ones and all line ends stay."""

import re
from dataclasses import dataclass

from transduce.serving.limits import SENTENCE_BYTES
from transduce.text.sentences import sentences

_END = re.compile(r"(\r?\n)")


@dataclass(frozen=True)
class Document:
    """Lines, and what stands between them."""

    lines: tuple[str, ...]
    ends: tuple[str, ...]  # one fewer

    def with_lines(self, lines: list[str]) -> str:
        """Put other lines in the place of these."""
        return "".join(part for pair in zip(lines, (*self.ends, ""), strict=True) for part in pair)


def document(text: str) -> Document:
    """Cut a text at its line ends."""
    parts = _END.split(text)
    return Document(tuple(parts[::2]), tuple(parts[1::2]))


def weight(line: str) -> int:
    """Count sentences; 0 if it is blank. Long ones count as several."""
    return sum(1 + len(part.encode()) // SENTENCE_BYTES for part in sentences(line))
