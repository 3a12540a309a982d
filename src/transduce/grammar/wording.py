"""Reading the tables of the lexicon, and joining words."""

import re

from transduce.data.corpus import Pair

NOTHING = Pair("", "")


def words(text: str) -> tuple[str, ...]:
    """Split a text at spaces."""
    return tuple(text.split())


def rows(table: str) -> list[str]:
    """Split a table into rows; a line that starts with | continues the line above."""
    return re.sub(r"\n\s*\|", " |", table.strip()).splitlines()


def pairs(table: str) -> tuple[Pair, ...]:
    """Read a table of English/German entries."""
    return tuple(Pair(*entry.strip().split("/")) for entry in table.split(","))


def join(*words: str) -> str:
    """Join words with spaces, skipping empty ones."""
    return " ".join(word for word in words if word)
