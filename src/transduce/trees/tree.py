"""A constituency tree. Trees may be very deep, so nothing here calls itself."""

from collections.abc import Iterator

TOP = "TOP"
"""The label of the root, which is no part of what a parser predicts."""


class Tree:
    """A node: a part-of-speech tag over a word, or a label over one or more nodes.

    Treebanks have millions, and a frozen dataclass is slower to make.
    """

    __slots__ = ("children", "label", "word")

    def __init__(
        self, label: str, children: tuple["Tree", ...] = (), word: str | None = None
    ) -> None:
        """Take either children or a word."""
        assert bool(children) == (word is None), "a node has either children or a word"
        self.label = label
        self.children = children
        self.word = word

    def __repr__(self) -> str:
        return f"Tree({self.label!r}, {len(self.children)} children, {self.word!r})"

    def walk(self) -> Iterator[tuple["Tree", bool]]:
        """Stream the nodes in order: a tag once, with True; a label before and after its children.

        The second item is True where the node is complete.
        """
        waiting: list[tuple[Tree, bool]] = [(self, self.word is not None)]
        while waiting:
            node, is_complete = waiting.pop()
            yield node, is_complete
            if not is_complete:
                waiting.append((node, True))
                waiting += [(child, child.word is not None) for child in node.children[::-1]]

    def leaves(self) -> list["Tree"]:
        """Return the tags over words, from left to right."""
        return [node for node, _ in self.walk() if node.word is not None]

    def words(self) -> list[str]:
        """Return the words, from left to right."""
        return [node.word for node, _ in self.walk() if node.word is not None]
