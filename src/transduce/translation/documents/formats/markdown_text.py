"""Markdown: the text of its blocks; code, targets of links, front matter and layout stay.

markdown-it finds the blocks; the inline codes of a block are found here, with their places.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from transduce.errors import InputError, how_to_install
from transduce.translation.documents.edits import EditableText, Slot
from transduce.translation.documents.encodings import decode
from transduce.translation.documents.formats.html_text import add_html
from transduce.translation.documents.limits import MAX_MARKDOWN_BYTES, check_size
from transduce.translation.documents.segments import Segment, SegmentPart

FRONT_MATTER = re.compile(
    r"(---|\+\+\+)[ \t]*\r?\n.*?^\1[ \t]*(?:\r?\n|$)", re.DOTALL | re.MULTILINE
)
_LINE_END = re.compile(r"\r\n?|\n")
_INLINE = re.compile(
    r"""
    (?P<escaped>\\[!-/:-@\[-`{-~])
    |(?P<code>(?P<ticks>`++)(?P<inside>(?:[^`]|(?!(?P=ticks)(?!`))`++){1,2000}?)(?P=ticks)(?!`))
    |(?P<address><[A-Za-z][A-Za-z0-9+.-]{1,31}:[^<>\s]*+>|https?://[^\s<>()\[\]]++)
    |(?P<tag></?[A-Za-z][^<>]{0,2000}>|<!--[^<]{0,2000}?-->|\[\^[^\]\s]{1,100}\]:?|^\[[ xX]\](?=\s))
    |(?P<reference>!?\[(?P<label>[^\[\]]{1,1000})\](?![(\[:]))
    |(?P<target>\](?:\((?:[^()\\]|\\.|\([^()]*+\)){0,2000}+\)|\[[^\[\]]{0,1000}+\]))
    |(?P<open>!?\[|(?<![\w*])\*++(?=\S)|(?<!\w)_++(?=\S)|~~(?=\w))
    |(?P<close>\]|\*++|_++(?!\w)|~~)
    |(?P<hard>(?:\\|[ ]{2,})\n)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_SPECIAL = re.compile(r"[\\`*\[\]<]|(?<!\w)_|_(?!\w)|&(?=#?\w+;)")
_SPECIAL_AT_START = re.compile(r"[#>+=~-]")
_NUMBER_AT_START = re.compile(r"\d{1,9}(?=[.)])")


def parse_markdown(content: bytes, name: str) -> EditableText:
    """Find the text of paragraphs, headings, list items, table cells and blocks of HTML."""
    check_size(len(content), MAX_MARKDOWN_BYTES, name)
    found = EditableText(decode(content, name))
    text = found.content.text
    front = FRONT_MATTER.match(text)
    start = front.end() if front else 0
    tokens, labels = _blocks(text[start:])
    lines = [start, *(start + end.end() for end in _LINE_END.finditer(text[start:])), len(text)]
    cursor = 0
    for token in tokens:
        if token.map is None:
            continue
        first, last = lines[token.map[0]], lines[min(token.map[1], len(lines) - 1)]
        if token.type == "html_block" and token.level == 0:
            add_html(found, text[first:last], start=first)
        elif token.type == "inline" and token.content:
            block = _block(text, token.content, max(cursor, first), last)
            if block is not None:  # else it stays as it is
                cursor = block.places[-1] + 1
                _InlineText(found, block, labels).add()
    return found


@dataclass(frozen=True)
class _Block:
    """The text of a block, and where each of its lines is in the file."""

    text: str
    starts: list[int]  # of each line, in this text
    places: list[int]  # of each line, in the file
    is_cell: bool  # of a table, where | is written \|

    def place(self, at: int) -> int:
        """Return where a character of this text is in the file."""
        line = bisect_right(self.starts, at) - 1
        return self.places[line] + at - self.starts[line]


def _blocks(text: str) -> tuple[list[Any], frozenset[str]]:
    """Return the blocks of a text, and the labels of its links."""
    try:
        library = import_module("markdown_it")
    except ImportError:
        raise InputError(f"Markdown needs markdown-it-py: {how_to_install('files')}") from None
    parser = library.MarkdownIt("commonmark").enable("table")
    parser.core.ruler.disable("inline")
    environment: dict[str, Any] = {}
    tokens: list[Any] = parser.parse(text, environment)
    return tokens, frozenset(environment.get("references", {}))


def _block(text: str, content: str, start: int, end: int) -> _Block | None:
    """Find the lines of a block in the file, where they have marks of quotes or lists before."""
    is_cell = "\n" not in content and text[start:end].count("|") > content.count("|")
    if is_cell:
        content = content.replace("|", r"\|")
    lines = [line.lstrip() for line in content.split("\n")]
    starts, places, at = [], [], 0
    for line in lines:
        place = text.find(line, start, end)
        if place < 0:
            return None
        starts.append(at)
        places.append(place)
        at += len(line) + 1
        start = place + len(line)
    return _Block("\n".join(lines), starts, places, is_cell)


class _InlineText:
    """Divides a block at its inline codes, and into segments at its hard line breaks."""

    def __init__(self, found: EditableText, block: _Block, labels: frozenset[str]) -> None:
        self._found, self._block, self._labels = found, block, labels
        self._parts: list[SegmentPart] = []
        self._slots: list[Slot] = []
        self._depth = 0

    def add(self) -> None:
        """Add the segments of the block."""
        text = self._block.text
        from_, at = 0, 0  # where the text that is being read begins; where codes are looked for
        while match := _INLINE.search(text, at):
            at = match.end()
            if match["escaped"]:
                continue
            self._add_text(from_, match.start())
            at = from_ = self._add_code(match)
        self._add_text(from_, len(text))
        self._flush()

    def _add_code(self, match: re.Match[str]) -> int:
        """Take note of an inline code; return where it ends."""
        kind = match.lastgroup if match.lastgroup in ("hard", "open", "close", "tag") else ""
        if match["code"] or match["address"]:
            self._keep(match["inside"] or match["address"])
        elif match["reference"]:
            if " ".join(match["label"].split()).upper() not in self._labels:
                self._depth += 1
                return match.start() + match["reference"].index("[") + 1
            self._keep(match["label"])
        elif match["target"] or kind == "close":
            self._depth -= 1
        elif kind == "open":
            self._depth += 1
        elif kind == "hard":
            self._flush()
        return match.end()

    def _keep(self, text: str) -> None:
        self._parts.append(SegmentPart(text, True, self._depth + 1))
        self._slots.append(Slot((), str))

    def _add_text(self, start: int, end: int) -> None:
        if start == end:
            return
        block, is_first = self._block, start == 0 or self._block.text[start - 1] == "\n"

        def encode(text: str) -> str:
            new = _SPECIAL.sub(r"\\\g<0>", " ".join(text.split("\n")))
            if block.is_cell:
                new = new.replace("|", r"\|")
            if is_first and _SPECIAL_AT_START.match(new):
                return f"\\{new}"
            number = _NUMBER_AT_START.match(new) if is_first else None
            return f"{number[0]}\\{new[number.end() :]}" if number else new

        self._parts.append(
            SegmentPart(_ESCAPED.sub(r"\1", block.text[start:end]), depth=self._depth)
        )
        # The end is that of the last character: what is between lines belongs to what follows.
        self._slots.append(Slot(((block.place(start), block.place(end - 1) + 1),), encode))

    def _flush(self) -> None:
        if any(part.text.strip() and not part.is_kept for part in self._parts):
            self._found.add(Segment(tuple(self._parts)), self._slots)
        self._parts, self._slots = [], []
