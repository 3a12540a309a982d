"""Plain text, a paragraph a line; and SRT and VTT subtitles, a cue a segment."""

import html
import re
from collections.abc import Iterator

from transduce.translation.documents.edits import EditableText, Encode, Slot
from transduce.translation.documents.encodings import decode
from transduce.translation.documents.found_parts import FoundPart, assembled
from transduce.translation.documents.limits import MAX_CODE_DEPTH
from transduce.translation.documents.segments import Range, Segment, SegmentPart

LINE = re.compile(r"[^\r\n]+")
_BLOCK = re.compile(r"[^\r\n]++(?:\r?\n[^\r\n]++)*+")
"""Lines without a blank one between them."""
_TIMES = re.compile(r"^[^\r\n]*-->[^\r\n]*(?:\r?\n|$)", re.MULTILINE)
_NEXT_TIMES = re.compile(
    r"^(?:[ \t]*+\d++[ \t]*+\r?\n)?[ \t]*+\d[\d:.,]*+[ \t]*+-->[ \t]*+\d[^\r\n]*+(?:\r?\n|$)",
    re.MULTILINE,
)
"""Times in the same block, with the number before: the blank line before them is missing."""
_CODE = re.compile(r"<[^<>\r\n]*>|\{\\[^{}\r\n]*\}")
"""Tags and, in SRT, positions such as {\\an8}."""
_TAG_NAME = re.compile(r"<(/?)([a-z]+)", re.IGNORECASE)
_SPEAKERS = re.compile(r"^[^\S\r\n]*+[-–—]", re.MULTILINE)


def _same(text: str) -> str:
    return text


def parse_text(content: bytes, name: str) -> EditableText:
    """Find the lines of a text."""
    found = EditableText(decode(content, name))
    for line in LINE.finditer(found.content.text):
        if not line[0].isspace():
            found.add(Segment((SegmentPart(line[0]),)), [Slot((line.span(),), _same)])
    return found


def parse_srt(content: bytes, name: str) -> EditableText:
    """Find the cues of SubRip subtitles."""
    return _parse_cues(content, name, decode_text=_same, encode=_in_srt)


def parse_vtt(content: bytes, name: str) -> EditableText:
    """Find the cues of WebVTT subtitles, in which & < > are written as in HTML."""
    return _parse_cues(content, name, decode_text=html.unescape, encode=_in_vtt)


def _in_srt(text: str) -> str:
    """Write text without a blank line, and without what would be read as times or a tag."""
    return text.replace("-->", "->").replace("<", "‹").replace("{\\", "{ \\")


def _in_vtt(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _parse_cues(content: bytes, name: str, *, decode_text: Encode, encode: Encode) -> EditableText:
    found = EditableText(decode(content, name))
    text = found.content.text
    end_of_line = "\r\n" if "\r\n" in text else "\n"

    def write(new: str) -> str:
        return encode(new).replace("\n", end_of_line)

    for block in _BLOCK.finditer(text):
        times = _TIMES.search(text, block.start(), block.end())
        if times is None:  # a header, a note, a style
            continue
        for start, end in _cue_texts(text, times.end(), block.end()):
            parts, ranges = _cue_parts(text, start, end, decode_text)
            if parts:
                lines = text.count("\n", start, end) + 1
                found.add(*assembled(parts, ranges, text=text, encode=write, lines=lines))
    return found


def _cue_texts(text: str, start: int, end: int) -> Iterator[Range]:
    """Yield the texts of the cues of a block, from the end of its first times."""
    for times in _NEXT_TIMES.finditer(text, start, end):
        yield from _speakers(text, start, max(start, _end_of_line(text, times.start())))
        start = times.end()
    yield from _speakers(text, start, end)


def _end_of_line(text: str, start: int) -> int:
    """Return where the line ends before the one that begins here."""
    return start - (2 if text[start - 2 : start] == "\r\n" else 1)


def _speakers(text: str, start: int, end: int) -> Iterator[Range]:
    """Yield the text of a cue; if each line is of another speaker, that of each line."""
    if len(_SPEAKERS.findall(text[start:end])) < 2:
        yield start, end
        return
    for line in LINE.finditer(text, start, end):
        yield line.span()


def _cue_parts(
    text: str, start: int, end: int, decode_text: Encode
) -> tuple[list[FoundPart], dict[int, Range]]:
    """Divide the text of a cue at its tags; also return where its elements are."""
    parts: list[FoundPart] = []
    ranges: dict[int, Range] = {}
    opened: list[tuple[int, str, int]] = []  # numbers, names and places of elements
    for number, code in enumerate([*_CODE.finditer(text, start, end), None], start=1):
        until = code.start() if code else end
        if until > start:
            path = tuple(one for one, _, _ in opened[:MAX_CODE_DEPTH])
            piece = decode_text(text[start:until])
            parts.append(FoundPart([piece], path=path, ranges=[(start, until)], is_pinned=True))
        if code is None:
            break
        start = code.end()
        name = _TAG_NAME.match(code[0])
        if name and not name[1]:
            opened.append((number, name[2], code.start()))
        elif name and opened and opened[-1][1] == name[2]:
            ended, _, began = opened.pop()
            ranges[ended] = (began, code.end())
    return parts, ranges
