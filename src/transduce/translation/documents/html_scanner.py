"""HTML and XHTML as events with their places in the text, cut as `text.markup` cuts them.

HTML may be broken. XHTML is XML: what is no tag of it is refused, and so are entities of its own.
"""

import html
import re

from transduce.errors import InputError
from transduce.text.markup.references import Reader
from transduce.text.markup.tokens import (
    MarkupKind,
    Token,
    attributes_of,
    html_tokens,
    line_of,
    xml_tokens,
)
from transduce.translation.documents.xml_scanner import Attributes, MarkupHandler, tell_of_entity

_ENTITY = re.compile(r"<!ENTITY\s+(?:%\s+)?([^\s>]{1,40})")


def scan_html(text: str, handler: MarkupHandler, *, start: int = 0) -> None:
    """Tell a handler of HTML, with names in lower case; places are counted from `start`."""
    at = start
    for token in html_tokens(text):
        if token.kind is MarkupKind.TEXT:
            handler.text(html.unescape(token.source), at)
        else:
            _tell_of_tag(token, handler, at)
        at += len(token.source)
    handler.other(at)


def scan_xhtml(text: str, handler: MarkupHandler, *, name: str) -> None:
    """Tell a handler of XHTML; `name` is that of the file."""
    at, reader = 0, Reader(is_xml=True)
    try:
        for token in xml_tokens(text):
            if token.kind is MarkupKind.TEXT:
                _tell_of_text(reader.parts(token.source), handler, at)
            else:
                _refuse_entities(token, text, at)
                _tell_of_tag(token, handler, at)
            at += len(token.source)
    except InputError as fault:
        raise InputError(f"{name} {fault}") from fault
    handler.other(at)


def _tell_of_text(parts: list[str], handler: MarkupHandler, at: int) -> None:
    """Tell of text, and of the entities that only a DTD defines, which have odd indices."""
    for number, part in enumerate(parts):
        if number % 2:
            tell_of_entity(part, handler, at)
        elif part:
            handler.text(html.unescape(part), at)
        at += len(part)


def _tell_of_tag(token: Token, handler: MarkupHandler, at: int) -> None:
    if token.kind is MarkupKind.OTHER:
        handler.other(at)
    elif token.kind is MarkupKind.END:
        handler.end(token.name, at)
    else:
        handler.start(token.name, _attributes(token.source), at)
        if token.kind is MarkupKind.EMPTY:
            handler.end(token.name, at + len(token.source))


def _attributes(tag: str) -> Attributes:
    """Return the attributes of a tag that say that it is not translated."""
    if "translate" not in tag.lower():
        return {}
    return {name: value.lower() for name, value in attributes_of(tag).items()}


def _refuse_entities(token: Token, text: str, at: int) -> None:
    if token.source.startswith("<!DOCTYPE") and (entity := _ENTITY.search(token.source)):
        raise InputError(
            f"{line_of(text, at)}: it defines the entity {entity[1]!r}, which is refused for safety"
        )
