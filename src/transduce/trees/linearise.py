"""Trees as sequences of tokens, without their words and without the root, and back.

`(TOP (S (NP (DT The) (NN dog)) (VP (VBZ barks))))` is, top-down, `(S (NP DT NN ) (VP VBZ ) )`: a
bracket comes before its children. In order (Liu and Zhang, 2017), it comes after the first of them:
`DT (NP NN ) (S VBZ (VP ) )`. A word is its tag, or XX.
"""

from collections.abc import Sequence
from typing import Literal

from transduce.trees.brackets import TreeError
from transduce.trees.tree import TOP, Tree

Order = Literal["top-down", "in-order"]
Tags = Literal["predicted", "normalised"]

CLOSE = ")"
ANY_TAG = "XX"
"""Stands for every tag where tags are normalised."""


def is_open(token: str) -> bool:
    """Return whether a token opens a bracket."""
    return token.startswith("(") and len(token) > 1


def linearise(tree: Tree, *, order: Order, tags: Tags) -> list[str]:
    """Write what is below the root of a tree as tokens."""
    tokens: list[str] = []
    opened: list[Tree] = []  # in order: labels whose first child is not complete
    for node, is_complete in tree.walk():
        if node is tree:
            continue
        if node.word is not None:
            tokens.append(node.label if tags == "predicted" else ANY_TAG)
        elif is_complete:
            tokens.append(CLOSE)
        elif order == "top-down":
            tokens.append(f"({node.label}")
        else:
            opened.append(node)
            continue
        while opened and is_complete and opened[-1].children[0] is node:
            node = opened.pop()
            tokens.append(f"({node.label}")
            break
    return tokens


def rebuild(tokens: Sequence[str], words: Sequence[str], *, order: Order) -> Tree:
    """Read what `linearise` wrote, with the words in their places, below a root TOP.

    Raises `TreeError` unless it is a tree over exactly these words.
    """
    levels: list[tuple[str, list[Tree]]] = [(TOP, [])]
    place = 0
    for token in tokens:
        siblings = levels[-1][1]
        if is_open(token):
            taken = 0 if len(levels) == 1 else 1  # in order, the first child is of this bracket
            first = [] if order == "top-down" else _last_of(siblings, taken, token)
            levels.append((token[1:], first))
        elif token == CLOSE:
            if len(levels) == 1:
                raise TreeError("a bracket is closed that was not opened")
            label, children = levels.pop()
            if not children:
                raise TreeError(f"({label} has nothing in it")
            levels[-1][1].append(Tree(label, tuple(children)))
        else:
            if place == len(words):
                raise TreeError(f"it has more than {len(words)} words")
            siblings.append(Tree(token, word=words[place]))
            place += 1
    if len(levels) > 1:
        raise TreeError(f"{len(levels) - 1} of its brackets are not closed")
    if place < len(words) or not words:
        raise TreeError(f"it has {place} of {len(words)} words")
    return Tree(TOP, tuple(levels[0][1]))


def _last_of(siblings: list[Tree], taken: int, token: str) -> list[Tree]:
    """Take the node that a bracket in order is put around."""
    if len(siblings) <= taken:
        raise TreeError(f"{token} follows after no node: in order, its first child comes before")
    return [siblings.pop()]
