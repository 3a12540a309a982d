"""JSON: the string values, edited in place; names of fields and all else stay as they are."""

import json
import re
from collections.abc import Iterator

from transduce.errors import InputError
from transduce.translation.documents.edits import EditableText, Slot
from transduce.translation.documents.encodings import decode
from transduce.translation.documents.limits import MAX_DEPTH
from transduce.translation.documents.segments import Segment, SegmentPart

_TOKEN = re.compile(
    r"""[ \t\r\n]*+(?:
    (?P<string>"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+")
    |(?P<mark>[\[\]{}:,])
    |(?P<other>-?(?:0|[1-9]\d*+)(?:\.\d++)?(?:[eE][+-]?\d++)?|true|false|null)
    )""",
    re.VERBOSE | re.ASCII,
)
ESCAPED_LINE = re.compile(r"(?P<line>(?:[^\\]|\\[^rn])++)|\\[rn]")
"""A line of a string between double quotes, as it is written, or a line break."""


def parse_json_strings(content: bytes, name: str) -> EditableText:
    """Find the string values; of a text of several lines, each line is a segment."""
    found = EditableText(decode(content, name))
    text = found.content.text
    escape = _escape_all if text.isascii() and "\\u" in text else _escape
    for start, end in _values(text, name):
        for line in ESCAPED_LINE.finditer(text, start + 1, end - 1):
            said = _unescaped(line["line"] or "")
            if said.strip():
                found.add(Segment((SegmentPart(said),)), [Slot((line.span(),), escape)])
    return found


def _unescaped(line: str) -> str:
    """Return what a part of a string says; half of a surrogate pair says nothing."""
    said: str = json.loads(f'"{line}"')
    return said.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escape(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _escape_all(text: str) -> str:
    """Escape all that is not ASCII, for a file that does so."""
    return json.dumps(text)[1:-1]


_ALLOWED = {
    "value": frozenset({"string", "other", "[", "{"}),
    "first value": frozenset({"string", "other", "[", "{", "]"}),
    "name": frozenset({"string"}),
    "first name": frozenset({"string", "}"}),
    "colon": frozenset({":"}),
    "after a value": frozenset({",", "]", "}"}),
}
"""What may follow, by what was read."""


def _values(text: str, name: str) -> Iterator[tuple[int, int]]:
    """Yield where the string values are, with their quotes; raise if it is not JSON."""
    opened: list[str] = []  # how each open list or object ends
    state, at, end = "value", 0, len(text.rstrip(" \t\r\n"))
    while at < end:
        token = _TOKEN.match(text, at)
        kind = (token["mark"] or ("string" if token["string"] else "other")) if token else ""
        if token is None or kind not in _ALLOWED[state]:
            raise _fault(text, at, name)
        if kind == "string" and state in ("value", "first value"):
            yield token.span("string")
        at = token.end()
        state = _next_state(state, kind, opened)
        if not state:
            raise _fault(text, at, name)
        if len(opened) > MAX_DEPTH:
            raise InputError(f"{name}: nested more than {MAX_DEPTH:,} deep")
    if opened or state != "after a value":
        raise _fault(text, len(text), name)


def _next_state(state: str, kind: str, opened: list[str]) -> str:
    """Return what comes next, or nothing if an end does not fit its beginning."""
    match kind:
        case "[" | "{":
            opened.append("]" if kind == "[" else "}")
            return "first value" if kind == "[" else "first name"
        case "]" | "}":
            return "after a value" if opened and opened.pop() == kind else ""
        case ",":
            return ("value" if opened[-1] == "]" else "name") if opened else ""
        case ":":
            return "value"
        case _:
            return "colon" if "name" in state else "after a value"


def _fault(text: str, at: int, name: str) -> InputError:
    line = text.count("\n", 0, at) + 1
    return InputError(f"{name} line {line:,}: not JSON")
