"""PO files of gettext: messages with their translations, read as a stream.

The message is the source and its translation the target, whatever they are called. Messages that
are fuzzy, obsolete or not translated are passed over, and so is the header. Of a message with a
plural, the singular and the first form are a pair, and the plural and the last form another.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from transduce.data.formats.broken import beginning
from transduce.data.formats.lines import MAX_LINE_BYTES, read_lines
from transduce.errors import InputError

KEYWORD = re.compile(
    r"[ \t]*+(?P<key>msgctxt|msgid_plural|msgid|msgstr(?:\[\d{1,3}\])?)?[ \t]*+"
    r'"(?P<text>(?:[^"\\]|\\.)*+)"[ \t]*+'
)
"""A keyword and a string in quotes; a line without a keyword goes on with the string before."""
FUZZY = re.compile(r",[ \t]*+fuzzy\b")
"""What a line of flags, which begins with `#,`, says of a translation that may be wrong."""
_ESCAPE = re.compile(r"\\([0-7]{1,3}|x[0-9a-fA-F]{1,2}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def unescaped(text: str) -> str:
    """Return what a string between quotes says."""
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def read_messages(path: Path) -> Iterator[list[str]]:
    """Stream the messages that have a translation, as [message, translation]; raise if none has."""
    found = 0
    for message in _messages(path):
        for pair in _pairs(message):
            found += 1
            yield pair
    if not found:
        raise InputError(f"{path}: no message has a translation: is it a PO file?")


def _messages(path: Path) -> Iterator[dict[str, str]]:
    """Stream messages by keyword; a fuzzy one is empty."""
    strings: dict[str, list[str]] = {}
    key, size, is_fuzzy = "", 0, False
    for number, line in enumerate(read_lines(path), start=1):
        content = line.strip()
        if not content or content.startswith("#"):
            if strings:
                yield {} if is_fuzzy else _joined(strings)
                strings, size, is_fuzzy = {}, 0, False
            key = ""
            is_fuzzy = is_fuzzy or (content.startswith("#,") and bool(FUZZY.search(content)))
            continue
        match = KEYWORD.fullmatch(line)
        if match is None or not (match["key"] or key):
            raise InputError(
                f"{path} line {number:,}: not a keyword with a string in quotes: "
                f"{beginning(content)}: is it a PO file?"
            )
        if match["key"] in ("msgctxt", "msgid") and "msgid" in strings:
            yield {} if is_fuzzy else _joined(strings)
            strings, size, is_fuzzy = {}, 0, False
        key = match["key"] or key
        strings.setdefault(key, []).append(unescaped(match["text"]))
        size += len(line)
        if size > MAX_LINE_BYTES:
            raise InputError(f"{path} line {number:,}: a message of over {MAX_LINE_BYTES:,} bytes")
    if strings:
        yield {} if is_fuzzy else _joined(strings)


def _joined(strings: dict[str, list[str]]) -> dict[str, str]:
    return {key: "".join(pieces) for key, pieces in strings.items()}


def _pairs(message: dict[str, str]) -> Iterator[list[str]]:
    source, plural = message.get("msgid", ""), message.get("msgid_plural", "")
    forms = [text for key, text in message.items() if key.startswith("msgstr") and text]
    if source and forms:
        yield [source, forms[0]]
        if plural and len(forms) > 1:
            yield [plural, forms[-1]]


def _character(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] in "01234567":
        return chr(int(code, 8))
    if code[0] == "x" and len(code) > 1:
        return chr(int(code[1:], 16))
    return _ESCAPED.get(code, code)
