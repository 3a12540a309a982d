"""A text as its lines: they are translated one by one, and blank ones and all line ends stay."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from transduce.decoding.sentences import CountTokens
from transduce.serving.limits import SENTENCE_TOKENS
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


def weights(lines: Sequence[str], count_tokens: CountTokens) -> list[int]:
    """Count the sentences of each line; a blank one has none, and long ones count as several."""
    parts = [sentences(line) for line in lines]
    tokens = iter(count_tokens([part for line in parts for part in line]))
    return [sum(1 + next(tokens) // SENTENCE_TOKENS for _ in line) for line in parts]
