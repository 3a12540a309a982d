"""Trees in Penn brackets, `(S (NP (NN dogs)) (VP (VBP bark)))`, one a line or over lines."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from transduce.errors import InputError
from transduce.trees.tree import Tree

MAX_DEPTH = 10_000
"""Deeper trees are refused: no sentence has one."""
MAX_CHARS = 1 << 20
"""Of the brackets of one tree."""

_PART = re.compile(r"\(\s*([^\s()]+)\s+([^\s()]+)\s*\)|[()]|[^\s()]+")
"""A tag over a word in its brackets, most of a tree, is one part."""
_COMMENT = "*x*"
"""How the lines above the trees of the Switchboard and Brown corpora begin."""
_ESCAPES = {"(": "-LRB-", ")": "-RRB-"}
_BRACKET = re.compile(r"[()]")


class TreeError(InputError):
    """A text that is no tree; the message says what is wrong, but not where."""


@dataclass(frozen=True)
class TreeText:
    """A stretch of a file that should be one tree."""

    text: str
    line: int  # on which it begins, from 1
    fault: str = ""  # why it is none; "": its brackets balance


def escaped(word: str) -> str:
    """Write the brackets in a word as treebanks do, -LRB- and -RRB-."""
    return _BRACKET.sub(lambda found: _ESCAPES[found[0]], word)


def to_brackets(tree: Tree) -> str:
    """Write a tree on one line."""
    parts: list[str] = []
    for node, is_complete in tree.walk():
        if node.word is not None:
            parts.append(f" ({node.label} {node.word})")
        else:
            parts.append(")" if is_complete else f" ({node.label}")
    return "".join(parts)[1:]


def parse_brackets(text: str) -> Tree:
    """Read one tree, with traces and functional labels; a node without a label has the label "".

    Raises `TreeError`.
    """
    opened: list[_Open] = []
    root: Tree | None = None
    for found in _PART.finditer(text):
        part, tag, word = found.group(0, 1, 2)
        if root is not None:
            raise TreeError(f"{part[:1] if tag else part!r} follows after the end of the tree")
        if part == "(":
            if len(opened) == MAX_DEPTH:
                raise TreeError(f"it is nested deeper than {MAX_DEPTH:,} brackets")
            opened.append(_Open())
        elif not tag and not opened:
            raise TreeError(f"{part!r} stands outside of all brackets")
        elif not tag and part != ")":
            opened[-1].add_text(part)
        else:
            node = Tree(tag, word=word) if tag else opened.pop().closed()
            if opened:
                opened[-1].children.append(node)
            else:
                root = node
    if root is None:
        raise TreeError(
            f"{len(opened)} of its brackets are not closed" if opened else "it has no brackets"
        )
    return root


class _Open:
    """A bracket that is not closed yet."""

    __slots__ = ("children", "texts")

    def __init__(self) -> None:
        self.texts: list[str] = []  # its label, perhaps a word
        self.children: list[Tree] = []

    def add_text(self, text: str) -> None:
        if self.children:
            raise TreeError(f"{text!r} follows after a bracket: a word needs brackets of its own")
        self.texts.append(text)

    def closed(self) -> Tree:
        label = self.texts[0] if self.texts else ""
        if self.children:
            if len(self.texts) > 1:
                raise TreeError(f"({label} has both the word {self.texts[1]!r} and brackets")
            return Tree(label, tuple(self.children))
        if len(self.texts) != 2:
            found = "no word" if len(self.texts) < 2 else f"{len(self.texts) - 1} words"
            raise TreeError(f"({' '.join(self.texts)}) has {found}: a tag has exactly one")
        return Tree(label, word=self.texts[1])


def split_trees(lines: Iterable[str]) -> Iterator[TreeText]:
    """Stream the trees of a text as they are written, without reading them.

    A tree begins on a line of its own or after another one. While one is open, a bracket at the
    start of a line begins the next, so that one broken tree does not take all others with it.
    """
    waiting = _Waiting()
    for number, line in enumerate(lines, start=1):
        if line.startswith("(") and waiting.depth:
            yield waiting.taken("it is not closed before the next tree begins")
        if not waiting.depth and line.startswith(_COMMENT):
            continue
        yield from waiting.read(line, number)
    if waiting.depth:
        yield waiting.taken("it is not closed before the end of the file")


class _Waiting:
    """The part of a tree that was read so far."""

    def __init__(self) -> None:
        self.depth = 0
        self.line = 0
        self._lines: list[str] = []
        self._chars = 0

    def read(self, line: str, number: int) -> Iterator[TreeText]:
        """Read a line; yield the trees that end on it."""
        start = 0
        for found in _BRACKET.finditer(line):
            if found[0] == "(":
                if not self.depth:
                    yield from _outside(line[start : found.start()], number)
                    start, self.line = found.start(), number
                self.depth += 1
            elif self.depth:
                self.depth -= 1
                if not self.depth:
                    self.add(line[start : found.end()])
                    yield self.taken()
                    start = found.end()
        if self.depth:
            self.add(line[start:])
        else:
            yield from _outside(line[start:], number)

    def add(self, text: str) -> None:
        """Keep some text of the tree that is open."""
        self._chars += len(text) + 1
        if self._chars <= MAX_CHARS:
            self._lines.append(text)

    def taken(self, fault: str = "") -> TreeText:
        """Return the tree, and start with the next."""
        if self._chars > MAX_CHARS:
            fault = f"it has over {MAX_CHARS:,} characters"
        text = TreeText(" ".join(self._lines), self.line, fault)
        self.depth, self._chars, self._lines = 0, 0, []
        return text


def _outside(text: str, line: int) -> Iterator[TreeText]:
    """Report text between two trees, unless it is blank."""
    if text.strip():
        yield TreeText(text.strip(), line, "it stands outside of all brackets")
