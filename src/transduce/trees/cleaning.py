"""The usual cleaning of treebanks: no traces, no functional labels, one label for the root."""

from functools import lru_cache

from transduce.trees.brackets import TreeError
from transduce.trees.tree import TOP, Tree

TRACE = "-NONE-"
ROOTS = frozenset({"", TOP, "ROOT", "S1", "VROOT"})
"""How treebanks and parsers label the root."""


def cleaned(tree: Tree) -> Tree:
    """Return a tree as parsers are trained on it, its root labelled TOP.

    Traces are removed, and nodes that have no words without them. `NP-SBJ-1` and `NP=2` become
    `NP`; labels that begin with a hyphen, such as `-LRB-`, stay. Chains of nodes with one child
    stay. A node without a label gives its children to its parent. Raises `TreeError` if there are
    no words.
    """
    levels: list[list[Tree]] = [[]]
    for node, is_complete in tree.walk():
        if node.word is not None:
            if node.label != TRACE:
                levels[-1].append(Tree(plain_label(node.label), word=node.word))
        elif not is_complete:
            levels.append([])
        elif children := levels.pop():
            is_kept = node.label and node is not tree
            levels[-1] += [Tree(plain_label(node.label), tuple(children))] if is_kept else children
    found = levels[0]
    if not found:
        raise TreeError("it has no words, only traces")
    label = plain_label(tree.label)
    if tree.word is not None or label in ROOTS:
        return Tree(TOP, tuple(found))
    return Tree(TOP, (Tree(label, tuple(found)),))


@lru_cache(maxsize=10_000)
def plain_label(label: str) -> str:
    """Return a label without functional labels and indices: what is before the first - or =."""
    if label.startswith("-"):
        return label
    return label.split("-", 1)[0].split("=", 1)[0] or label
