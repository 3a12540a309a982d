"""Markdown: the text of its blocks; code, targets of links, front matter and layout stay.

markdown-it finds the blocks; the inline codes of a block are found here, with their places.
"""

import html
import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import count
from typing import Any

from transduce.errors import InputError, how_to_install
from transduce.translation.documents.edits import EditableText
from transduce.translation.documents.encodings import decode
from transduce.translation.documents.formats.html_text import add_html
from transduce.translation.documents.found_parts import FoundPart, assembled
from transduce.translation.documents.limits import (
    MAX_CODE_DEPTH,
    MAX_MARKDOWN_BYTES,
    check_size,
)
from transduce.translation.documents.segments import Path, Range, check_length

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
    |(?P<hard>(?:\\|[ ]{2,}+)\n)
    |(?P<plain>`++|_++|[ ]{2,}+)
    """,
    re.VERBOSE | re.DOTALL,
)
"""`plain` are runs that are no code: passed over as a whole, they take linear time."""
_ESCAPED = re.compile(
    r"\\(?P<escaped>[!-/:-@\[-`{-~])|&(?:\#\d{1,7}|\#[xX][\da-fA-F]{1,6}|[A-Za-z\d]{1,32});"
)
_LINE_BREAK = re.compile(r"<br(?=[\s/>])", re.IGNORECASE)
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
                check_length(len(block.text), name)
                cursor = block.end
                _InlineText(found, block, labels).add()
    return found


@dataclass(frozen=True)
class _Block:
    """The text of a block, and where each of its lines is in the file."""

    text: str
    starts: list[int]  # of each line, in this text
    places: list[int]  # of each line, in the file
    is_cell: bool  # of a table, where | is written \|

    @property
    def end(self) -> int:
        """Where the last line ends in the file."""
        return self.places[-1] + len(self.text) - self.starts[-1]

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
        self._parts: list[FoundPart] = []
        self._opened: list[tuple[int, str, int]] = []  # numbers, marks and places of codes
        self._ranges: dict[int, Range] = {}
        self._numbers = count(1)
        self._are_clear = True  # whether codes that were opened are closed in turn

    def add(self) -> None:
        """Add the segments of the block."""
        text = self._block.text
        from_, at = 0, 0  # where the text that is being read begins; where codes are looked for
        while match := _INLINE.search(text, at):
            at = match.end()
            if match["escaped"] or match["plain"]:
                continue
            self._add_text(from_, match.start())
            at = from_ = self._add_code(match)
        self._add_text(from_, len(text))
        self._flush()

    def _add_code(self, match: re.Match[str]) -> int:
        """Take note of an inline code; return where it ends."""
        kind = match.lastgroup if match.lastgroup in ("hard", "open", "close", "tag") else ""
        if match["code"] or match["address"]:
            self._keep(match["inside"] or match["address"], match)
        elif match["reference"]:
            if " ".join(match["label"].split()).upper() not in self._labels:
                self._open("[", match)
                return match.start() + match["reference"].index("[") + 1
            self._keep(match["label"], match)
        elif match["target"] or kind == "close":
            self._close("[" if match[0][0] == "]" else match[0], match)
        elif kind == "open":
            self._open(match[0].lstrip("!"), match)
        elif kind == "hard" or _LINE_BREAK.match(match[0]):
            self._flush()
        return match.end()

    @property
    def _path(self) -> Path:
        return tuple(number for number, _, _ in self._opened[:MAX_CODE_DEPTH])

    def _open(self, mark: str, match: re.Match[str]) -> None:
        self._opened.append((next(self._numbers), mark, match.start()))

    def _close(self, mark: str, match: re.Match[str]) -> None:
        """End a code; if another one was to end first, this is no emphasis, and all stay."""
        if not self._opened:
            return
        number, opened, start = self._opened.pop()
        if opened == mark and len(self._opened) < MAX_CODE_DEPTH:
            self._ranges[number] = self._range(start, match.end())
        else:
            self._are_clear = False

    def _range(self, start: int, end: int) -> Range:
        # The end is that of the last character: what is between lines belongs to what follows.
        return self._block.place(start), self._block.place(end - 1) + 1

    def _keep(self, text: str, match: re.Match[str]) -> None:
        number = next(self._numbers)
        path = (*self._path, number)
        if "\n" not in match[0]:
            self._ranges[number] = self._range(*match.span())
        self._parts.append(FoundPart([text], is_kept=True, is_code=True, path=path))

    def _add_text(self, start: int, end: int) -> None:
        if start == end:
            return
        block, is_first = self._block, start == 0 or self._block.text[start - 1] == "\n"
        encode = partial(_encoded, is_cell=block.is_cell, is_first=is_first)
        text = _ESCAPED.sub(_character, block.text[start:end])
        self._parts.append(
            FoundPart(
                [text],
                path=self._path,
                ranges=[self._range(start, end)],
                encode=encode,
                is_pinned=True,
            )
        )

    def _flush(self) -> None:
        if any(part.text.strip() and not part.is_kept for part in self._parts):
            encode = partial(_encoded, is_cell=self._block.is_cell, is_first=True)
            ranges = self._ranges if self._are_clear else {}
            text = self._found.content.text
            self._found.add(*assembled(self._parts, ranges, text=text, encode=encode))
        self._parts, self._ranges, self._are_clear = [], {}, not self._opened


def _character(match: re.Match[str]) -> str:
    """Return what an escaped character or a reference stands for."""
    return match["escaped"] or html.unescape(match[0])


def _encoded(text: str, *, is_cell: bool, is_first: bool) -> str:
    """Write text so that it is no code; is_first: it may be at the start of a line."""
    new = _SPECIAL.sub(r"\\\g<0>", " ".join(text.split("\n")))
    if is_cell:
        new = new.replace("|", r"\|")
    if is_first and _SPECIAL_AT_START.match(new):
        return f"\\{new}"
    number = _NUMBER_AT_START.match(new) if is_first else None
    return f"{number[0]}\\{new[number.end() :]}" if number else new
