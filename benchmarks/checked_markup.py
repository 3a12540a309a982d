"""Checks of translated markup by parsers that are not ours: html5lib and expat."""

from collections import Counter
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import Any
from xml.parsers import expat

import html5lib
from html5lib._tokenizer import HTMLTokenizer
from html5lib.constants import tokenTypes

from transduce.text.markup.document import MarkupFormat

_CONTENT = {
    "script": "scriptDataState",
    "plaintext": "plaintextState",
    **dict.fromkeys(("title", "textarea"), "rcdataState"),
    **dict.fromkeys(("style", "xmp", "iframe", "noembed", "noframes"), "rawtextState"),
}


def is_valid(text: str, format: MarkupFormat) -> bool:  # noqa: A002
    """Whether a strict parser reads a document without an error."""
    if format == "html":
        try:
            html5lib.HTMLParser(strict=True).parse(text)
        except (html5lib.html5parser.ParseError, KeyError):  # some errors have no message there
            return False
        return True
    parser = expat.ParserCreate()
    try:
        parser.Parse(text.encode(), True)
    except expat.ExpatError:
        return False
    return True


def tags_of(text: str, format: MarkupFormat) -> Counter[Any]:  # noqa: A002
    """Count the tags of a document with their attributes, and its comments."""
    return Counter(_html_tags(text) if format == "html" else _xml_tags(text))


def html_tags(text: str) -> list[tuple[str, str]]:
    """Return the tags of HTML in order, as (start or end, name)."""
    return [(one[0], one[1]) for one in _html_tags(text) if one[0] != "comment"]


def _html_tags(text: str) -> Iterator[tuple[str, str, str]]:
    tokens = HTMLTokenizer(text)
    for token in tokens:
        kind, name = token["type"], token.get("name", "")
        if kind == tokenTypes["StartTag"]:
            yield "start", name, repr(sorted(token["data"].items()))
            if name in _CONTENT:
                tokens.state = getattr(tokens, _CONTENT[name])
        elif kind == tokenTypes["EndTag"]:
            yield "end", name, ""
        elif kind == tokenTypes["Comment"]:
            yield "comment", "", token["data"]


def _xml_tags(text: str) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    parser = expat.ParserCreate()

    def collected(kind: str) -> Callable[..., None]:
        return lambda *given: found.append((kind, *map(repr, given)))

    parser.StartElementHandler = collected("start")
    parser.EndElementHandler = collected("end")
    parser.CommentHandler = collected("comment")
    parser.ProcessingInstructionHandler = collected("instruction")
    parser.Parse(text.encode(), True)
    return found


class _Words(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def words_of(markup: str) -> str:
    """Return the text of a part of a document, with single spaces."""
    parser = _Words()
    parser.feed(markup)
    parser.close()
    return " ".join("".join(parser.words).split())
