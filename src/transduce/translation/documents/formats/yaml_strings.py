"""YAML: the string values, edited in place; keys, numbers, comments and layout stay as they are."""

import json
import re
from collections.abc import Callable, Iterable, Iterator

import yaml

from transduce.errors import InputError
from transduce.translation.documents.edits import EditableText, Encode, Slot
from transduce.translation.documents.encodings import decode
from transduce.translation.documents.formats.json_strings import ESCAPED_LINE
from transduce.translation.documents.formats.plain_text import LINE
from transduce.translation.documents.limits import MAX_DEPTH
from transduce.translation.documents.segments import Segment, SegmentPart

STRING_TAGS = (None, "!", "tag:yaml.org,2002:str")
_SAFE_PLAIN = re.compile(r"[^\W\d_](?:[^\n\r:#\[\]{},&*!|>'\"%@`\\]|(?<=\w):(?=\w))*+")
"""What needs no quotes wherever it is."""
_PARAGRAPH = re.compile(r"[^\r\n]++(?:\r?\n[ \t]*+[^\r\n \t][^\r\n]*+)*+")
"""Lines without a blank one between them, which YAML reads as one."""
_PROPERTIES = re.compile(r"(?:[&!]\S*+\s++)*+")
"""The anchor and the tag of a value."""
_RESOLVER = yaml.SafeLoader("")


def parse_yaml_strings(content: bytes, name: str) -> EditableText:
    """Find the string values; of a block of several lines, each line is a segment."""
    found = EditableText(decode(content, name))
    try:
        for value in _string_values(found.content.text, name):
            _add(found, value)
    except yaml.YAMLError as fault:
        mark = getattr(fault, "problem_mark", None)
        line = f" line {mark.line + 1:,}" if mark else ""
        what = getattr(fault, "problem", None) or "it cannot be read"
        raise InputError(f"{name}{line}: not YAML: {what}") from fault
    return found


def _string_values(text: str, name: str) -> Iterator[yaml.ScalarEvent]:
    """Yield the strings that are values; aliases are not followed, so none can multiply."""
    expects_key: list[bool | None] = []  # of each open collection; None: it is a list
    for event in yaml.parse(text, Loader=getattr(yaml, "CLoader", yaml.Loader)):
        if isinstance(event, yaml.CollectionEndEvent):
            expects_key.pop()
            continue
        if not isinstance(event, yaml.NodeEvent):
            continue
        is_key = bool(expects_key) and expects_key[-1] is True
        if expects_key and expects_key[-1] is not None:
            expects_key[-1] = not expects_key[-1]
        if isinstance(event, yaml.CollectionStartEvent):
            expects_key.append(True if isinstance(event, yaml.MappingStartEvent) else None)
            if len(expects_key) > MAX_DEPTH:
                raise InputError(f"{name}: nested more than {MAX_DEPTH:,} deep")
        elif isinstance(event, yaml.ScalarEvent) and not is_key and _is_string(event):
            yield event


def _is_string(event: yaml.ScalarEvent) -> bool:
    if event.tag not in STRING_TAGS:
        return False
    if event.tag or event.style in ("'", '"', "|", ">"):
        return True
    return _reads_as_string(event.value)


def _reads_as_string(text: str) -> bool:
    """Whether a value without quotes is a string, and no number, date or the like."""
    resolve: Callable[..., object] = _RESOLVER.resolve
    return resolve(yaml.ScalarNode, text, (True, False)) == STRING_TAGS[-1]


def _add(found: EditableText, value: yaml.ScalarEvent) -> None:
    text = found.content.text
    assert value.start_mark is not None
    assert value.end_mark is not None
    start, end = value.start_mark.index, value.end_mark.index
    properties = _PROPERTIES.match(text, start, end)
    start = properties.end() if properties else start
    while end > start and text[end - 1] in " \t\r\n":  # a block ends where the next thing begins
        end -= 1
    match text[start : start + 1] if value.style else "":
        case "|" | ">":
            header = text.find("\n", start, end)
            spans = (
                [_indented(line) for line in LINE.finditer(text, header, end)] if header > 0 else []
            )
            _add_spans(found, spans, _one_line, _same)
        case "'":
            spans = [line.span() for line in _PARAGRAPH.finditer(text, start + 1, end - 1)]
            _add_spans(found, spans, _in_single_quotes, lambda raw: _read(f"'{raw}'"))
        case '"':
            spans = [
                line.span()
                for paragraph in _PARAGRAPH.finditer(text, start + 1, end - 1)
                for line in ESCAPED_LINE.finditer(text, *paragraph.span())
                if line["line"]
            ]
            _add_spans(found, spans, _in_double_quotes, lambda raw: _read(f'"{raw}"'))
        case _ if "\n" not in value.value:
            _add_spans(found, [(start, end)], _plain, lambda _: value.value)


def _add_spans(
    found: EditableText, spans: Iterable[tuple[int, int]], encode: Encode, decode_text: Encode
) -> None:
    for start, end in spans:
        said = decode_text(found.content.text[start:end])
        if said.strip():
            found.add(Segment((SegmentPart(said),)), [Slot(((start, end),), encode)])


def _indented(line: re.Match[str]) -> tuple[int, int]:
    """Return where the text of a line is, after its indentation."""
    return line.end() - len(line[0].lstrip()), line.end()


def _same(text: str) -> str:
    return text


def _read(scalar: str) -> str:
    return str(yaml.safe_load(scalar))


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())


def _in_single_quotes(text: str) -> str:
    return _one_line(text).replace("'", "''")


def _in_double_quotes(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _plain(text: str) -> str:
    """Write a text without quotes, if it reads as the same text then."""
    is_safe = _SAFE_PLAIN.fullmatch(text) and text == text.strip()
    return text if is_safe and _reads_as_string(text) else f'"{_in_double_quotes(text)}"'
