"""HTML and XML cut into tags, text and the rest; the tokens concatenated are the document.

Tags are found by the rules of the HTML standard, so that every text has tokens, and in time that is
linear: whatever is not closed goes on to the end of the document. XML must be well-formed in this
respect. Entities are not expanded: references are left in the text.
"""

import re
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from transduce.errors import InputError
from transduce.text.markup.elements import FOREIGN, RAW, RCDATA, VOID


class MarkupKind(Enum):
    """What a token is."""

    TEXT = "text"
    START = "start tag"
    END = "end tag"
    EMPTY = "element without content"
    OTHER = "comment, declaration, instruction or raw text"


class Token(NamedTuple):
    """A part of a document, as it is written."""

    kind: MarkupKind
    source: str
    name: str = ""  # of a tag: in HTML in lower case


_SPACE = r"[\t\n\f\r ]"
# Nothing that was matched is given back (`++`), so that no text takes more than linear time.
_ATTRIBUTES = (
    r"(?>[\t\n\f\r /]++|[^\t\n\f\r />][^\t\n\f\r />=]*+"
    rf"(?>{_SPACE}*+={_SPACE}*+"
    r"""(?>"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|(?!["'])[^\t\n\f\r >]*+))?+)*+"""
)
_HTML_TAG = re.compile(rf"<(/?)([A-Za-z][^\t\n\f\r />]*+){_ATTRIBUTES}>")
_HTML_COMMENT_END = re.compile(r"--!?>")
_HTML_TAG_START = re.compile(r"</?[A-Za-z]")
_HTML_TEXT = re.compile(r"(?>[^<]++|<(?![A-Za-z/!?])|</\Z)++")
_ATTRIBUTE = re.compile(
    rf"([^\t\n\f\r />][^\t\n\f\r />=]*+)(?>{_SPACE}*+={_SPACE}*+"
    r"""(?>"([^"]*+)"|'([^']*+)'|([^\t\n\f\r >"']?[^\t\n\f\r >]*+)))?+"""
)
_SCRIPT_PART = re.compile(r"<!--|-->|</?script(?=[\t\n\f\r />])", re.IGNORECASE)

_XML_NAME = r"[^\s<>/=\"'!?\[\]&][^\s<>/=\"'\[\]&]*+"
_XML_TAG = re.compile(
    rf"<(/?)({_XML_NAME})(?>\s++{_XML_NAME}\s*+=\s*+(?>\"[^\"<]*+\"|'[^'<]*+'))*+\s*+(/?)>"
)
_XML_OTHER = re.compile(
    r"<!--(?s:.)*?-->|<!\[CDATA\[(?s:.)*?\]\]>|<\?(?s:.)*?\?>"
    r"""|<!DOCTYPE(?>[^\[\]"'<>]++|"[^"]*+"|'[^']*+'"""
    r"""|\[(?>[^\]"'<]++|"[^"]*+"|'[^']*+'|<!--(?s:.)*?-->|<\?(?s:.)*?\?>|<(?!!--|\?))*+\])*+>"""
)


def html_tokens(text: str) -> Iterator[Token]:
    """Cut HTML into tokens; whatever it is, it has some."""
    place = 0
    while place < len(text):
        token = _html_token(text, place)
        yield token
        place += len(token.source)
        if token.kind is MarkupKind.START and token.name in RAW:
            end = _raw_end(text, place, token.name)
            if end > place:
                is_text = token.name in RCDATA
                yield Token(MarkupKind.TEXT if is_text else MarkupKind.OTHER, text[place:end])
            place = end


def xml_tokens(text: str) -> Iterator[Token]:
    """Cut XML into tokens; raise if a tag is not well-formed."""
    place = 0
    while place < len(text):
        if text[place] != "<":
            end = text.find("<", place)
            end = len(text) if end < 0 else end
            yield Token(MarkupKind.TEXT, text[place:end])
        elif match := _XML_TAG.match(text, place):
            end = match.end()
            kind = MarkupKind.EMPTY if match[3] else MarkupKind.START
            yield Token(MarkupKind.END if match[1] else kind, match[0], match[2])
        elif match := _XML_OTHER.match(text, place):
            end = match.end()
            yield Token(MarkupKind.OTHER, match[0])
        else:
            raise InputError(f"{line_of(text, place)}: a tag that is not well-formed XML")
        place = end


def attributes_of(tag: str) -> dict[str, str]:
    """Return the attributes of a tag by name, in lower case; the first of a name counts."""
    found: dict[str, str] = {}
    name = re.match(r"</?[^\t\n\f\r />]*", tag)
    for match in _ATTRIBUTE.finditer(tag, name.end() if name else 0, len(tag) - 1):
        value = next((value for value in match.groups()[1:] if value is not None), "")
        found.setdefault(match[1].lower(), value)
    return found


def line_of(text: str, place: int) -> str:
    """Return the line of a place in a text, for messages."""
    return f"line {text.count(chr(10), 0, place) + 1:,}"


def _html_token(text: str, place: int) -> Token:
    if match := _HTML_TEXT.match(text, place):
        return Token(MarkupKind.TEXT, match[0])
    if match := _HTML_TAG.match(text, place):
        name = match[2].lower()
        if match[1]:
            return Token(MarkupKind.END, match[0], name)
        is_empty = name in VOID or (name in FOREIGN and match[0].endswith("/>"))
        return Token(MarkupKind.EMPTY if is_empty else MarkupKind.START, match[0], name)
    if _HTML_TAG_START.match(text, place):  # a tag without an end
        return Token(MarkupKind.OTHER, text[place:])
    return Token(MarkupKind.OTHER, text[place : _end_of_other(text, place)])


def _end_of_other(text: str, place: int) -> int:
    """Return the end of a comment, a declaration, or of what a browser takes for a comment."""
    if text.startswith("<!--", place):
        for short in ("<!-->", "<!--->"):
            if text.startswith(short, place):
                return place + len(short)
        match = _HTML_COMMENT_END.search(text, place + 4)
        return match.end() if match else len(text)
    end = text.find(">", place)
    return len(text) if end < 0 else end + 1


def _raw_end(text: str, place: int, name: str) -> int:
    """Return where the content of an element ends in which `<` begins no tag."""
    if name == "plaintext":
        return len(text)
    if name == "script":
        return _script_end(text, place)
    match = re.compile(rf"</{name}(?=[\t\n\f\r />])", re.IGNORECASE).search(text, place)
    return match.start() if match else len(text)


def _script_end(text: str, place: int) -> int:
    """Return where a script ends: not within `<!-- <script> … </script> -->`."""
    is_comment = is_inner = False
    for match in _SCRIPT_PART.finditer(text, place):
        part = match[0].lower()
        if part == "<!--":
            # `<!-->` and `<!--->` begin a comment and end it.
            is_comment = is_comment or not re.compile("-?>").match(text, match.end())
        elif part == "-->":
            is_comment = is_inner = False
        elif part == "<script":
            is_inner = is_comment
        elif is_inner:
            is_inner = False
        else:
            return match.start()
    return len(text)
