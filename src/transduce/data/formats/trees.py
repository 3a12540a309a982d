"""Treebanks: the words of each tree and the tree itself, cleaned, as a pair of lines."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from transduce.data.formats.broken import BrokenRecord, beginning
from transduce.data.formats.lines import read_lines
from transduce.errors import InputError
from transduce.trees.brackets import TreeError, TreeText, parse_brackets, split_trees, to_brackets
from transduce.trees.cleaning import cleaned


def read_trees(path: Path) -> Iterator[list[str] | BrokenRecord]:
    """Stream the words of each tree, separated by spaces, and the tree in brackets, on one line.

    Traces and functional labels are removed (`trees.cleaning`). A file without trees is an error.
    """
    found = None
    for found in split_trees(read_lines(path)):
        try:
            if found.fault:
                raise TreeError(found.fault)
            words, brackets = _words_and_brackets(found.text)
        except TreeError as fault:
            yield _broken(path, found, fault)
        else:
            yield [words, brackets]
    if found is None:
        raise InputError(f"{path} has no trees")


@lru_cache(maxsize=50_000)
def _words_and_brackets(text: str) -> tuple[str, str]:
    """Read a tree; those of a treebank of usual size only once, though it is read several times."""
    tree = cleaned(parse_brackets(text))
    return " ".join(tree.words()), to_brackets(tree)


def _broken(path: Path, found: TreeText, fault: TreeError) -> BrokenRecord:
    place = f"{path} line {found.line:,}"
    error = InputError(f"{place}: {beginning(found.text)} is no tree: {fault}")
    return BrokenRecord(error, found.text)
