"""Treebanks: the words of each tree and the tree itself, cleaned, as a pair of lines."""

from collections.abc import Iterator
from pathlib import Path

from transduce.data.formats.broken import BrokenRecord, beginning
from transduce.data.formats.lines import read_lines
from transduce.errors import InputError
from transduce.trees.brackets import TreeError, TreeText, parse_brackets, split_trees, to_brackets
from transduce.trees.cleaning import cleaned


def read_trees(path: Path) -> Iterator[list[str] | BrokenRecord]:
    """Stream the words of each tree, separated by spaces, and the tree in brackets, on one line.

    Traces and functional labels are removed (`trees.cleaning`).
    """
    for found in split_trees(read_lines(path)):
        try:
            if found.fault:
                raise TreeError(found.fault)
            tree = cleaned(parse_brackets(found.text))
        except TreeError as fault:
            yield _broken(path, found, fault)
        else:
            yield [" ".join(tree.words()), to_brackets(tree)]


def _broken(path: Path, found: TreeText, fault: TreeError) -> BrokenRecord:
    place = f"{path} line {found.line:,}"
    error = InputError(f"{place}: {beginning(found.text)} is no tree: {fault}")
    return BrokenRecord(error, found.text)
