"""How the tables are read and how words are put in a row."""

import re

from transduce.data.corpus import Pair

NOTHING = Pair("", "")


def words(text: str) -> tuple[str, ...]:
    """Split a row of words."""
    return tuple(text.split())


def rows(table: str) -> list[str]:
    """Split a table into its rows; a line that starts with | continues the one above."""
    return re.sub(r"\n\s*\|", " |", table.strip()).splitlines()


def pairs(table: str) -> tuple[Pair, ...]:
    """Read a table of English/German."""
    return tuple(Pair(*entry.strip().split("/")) for entry in table.split(","))


def join(*words: str) -> str:
    """Put words in a row; an empty one leaves no gap."""
    return " ".join(word for word in words if word)
