"""A tree as an SVG picture: each label above its children, the words on a line at the bottom."""

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from xml.sax.saxutils import escape

from transduce.trees.tree import Tree

FONT_PX = 14
LETTER_PX = 8.2
"""The mean width of a letter of the font, a little too much rather than too little."""
GAP_PX = 14
LEVEL_PX = 44
MARGIN_PX = 12

_STYLE = (
    "text{font:14px system-ui,sans-serif;text-anchor:middle;fill:#16324f}"
    ".tag{fill:#2f6f4f;font-size:12px}.word{fill:#1a1a1a;font-weight:600}"
    "line{stroke:#8aa0b4;stroke-width:1.2}.down{stroke-dasharray:2 3}rect{fill:#ffffff}"
)


@dataclass(frozen=True)
class _Placed:
    """Where the label of a node stands: the middle of its base line."""

    node: Tree
    x: float
    y: float


def tree_svg(tree: Tree) -> str:
    """Draw a tree; the picture is one string, with a title for those who cannot see it."""
    placed, lines, width, height = _layout(tree)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
        f"<title>{_safe(' '.join(tree.words()))}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect width="{width:.0f}" height="{height:.0f}"/>',
        *lines,
        *(text for one in placed for text in _texts(one, height)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _layout(tree: Tree) -> tuple[list[_Placed], list[str], float, float]:
    """Place all nodes: a label above the middle of its first and last child."""
    bottom = _level(max(_depths(tree)) + 1)
    placed: list[_Placed] = []
    lines: list[str] = []
    levels: list[list[_Placed]] = [[]]
    right = float(MARGIN_PX)
    for node, is_complete in tree.walk():
        if node.word is not None:
            width = LETTER_PX * max(_letters(node.word), _letters(node.label))
            levels[-1].append(_Placed(node, right + width / 2, _level(len(levels) - 1)))
            lines += _line_down(levels[-1][-1], bottom)
            right += width + GAP_PX
        elif not is_complete:
            levels.append([])
        else:
            children = levels.pop()
            middle = (children[0].x + children[-1].x) / 2
            here = _Placed(node, middle, _level(len(levels) - 1))
            lines += [_line(here, child) for child in children]
            levels[-1].append(here)
            placed += children
    [root] = levels[0]
    return [*placed, root], lines, right - GAP_PX + MARGIN_PX, bottom + MARGIN_PX


def _depths(tree: Tree) -> Iterator[int]:
    """Yield how many labels stand above each node."""
    depth = 0
    for node, is_complete in tree.walk():
        if node.word is None:
            depth += -1 if is_complete else 1
        else:
            yield depth


def _level(depth: int) -> float:
    """Return the base line of nodes that stand at a depth."""
    return MARGIN_PX + FONT_PX + LEVEL_PX * depth


def _line(parent: _Placed, child: _Placed) -> str:
    return (
        f'<line x1="{parent.x:.1f}" y1="{parent.y + 5:.1f}" '
        f'x2="{child.x:.1f}" y2="{child.y - FONT_PX:.1f}"/>'
    )


def _line_down(tag: _Placed, bottom: float) -> list[str]:
    """Connect a tag with its word at the bottom."""
    x, top, end = tag.x, tag.y + 5, bottom - FONT_PX
    return [f'<line x1="{x:.1f}" y1="{top:.1f}" x2="{x:.1f}" y2="{end:.1f}" class="down"/>']


def _texts(placed: _Placed, height: float) -> Iterator[str]:
    node, x = placed.node, placed.x
    kind = ' class="tag"' if node.word is not None else ""
    yield f'<text x="{x:.1f}" y="{placed.y:.1f}"{kind}>{_safe(node.label)}</text>'
    if node.word is not None:
        y = height - MARGIN_PX
        yield f'<text x="{x:.1f}" y="{y:.1f}" class="word">{_safe(node.word)}</text>'


def _letters(text: str) -> float:
    """Count letters; those of East Asian scripts are about twice as wide."""
    return sum(1.8 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text)


def _safe(text: str) -> str:
    """Escape a text, and leave out characters that XML cannot hold."""
    return escape("".join(sign for sign in text if sign >= " " and sign not in "\ufffe\uffff"))
