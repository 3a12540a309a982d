"""HTML and XHTML as events with their places in the text, however broken it is.

It follows the tokenization of the HTML standard where that decides what is text. It reads every
character once or twice, whatever the input.
"""

import html
import re

from transduce.translation.documents.xml_scanner import Attributes, MarkupHandler

RAW_TEXT = frozenset({"script", "style", "xmp", "iframe", "noembed", "noframes"})
"""Elements whose content is neither text nor markup."""
ONLY_TEXT = frozenset({"title", "textarea"})
"""Elements whose content is text, without tags."""
VOID = frozenset(
    "area base br col embed hr img input link meta param source track wbr".split()  # noqa: SIM905
)
"""Elements without content, which have no end tag."""

_TAG = re.compile(
    r"<(?P<end>/?)(?P<name>[A-Za-z][^\s/>]*+)"
    r"""(?P<rest>(?:=\s*+(?:"[^"]*+"|'[^']*+')|[^>])*+)>"""
)
_ATTRIBUTE = re.compile(r"""\b(translate|class)\s*=\s*["']?([\w -]*+)""", re.IGNORECASE)
_BEGINS_TAG = re.compile(r"<(?:[A-Za-z!?]|/[A-Za-z])")


def scan_html(text: str, handler: MarkupHandler, *, is_xml: bool = False, start: int = 0) -> None:
    """Tell a handler of HTML, with names in lower case; places are counted from `start`.

    is_xml: of XHTML, where `<title/>` has no content.
    """
    at = 0
    while at < len(text):
        opening = _BEGINS_TAG.search(text, at)
        until = opening.start() if opening else len(text)
        if until > at:
            handler.text(html.unescape(text[at:until]), start + at)
        if opening is None:
            break
        at = _tag(text, until, handler, is_xml=is_xml, start=start)
    handler.other(start + len(text))


def _tag(text: str, at: int, handler: MarkupHandler, *, is_xml: bool, start: int) -> int:
    """Tell of a tag or a comment; return where it ends."""
    if text[at + 1] in "!?":
        handler.other(start + at)
        return _end_of_other(text, at)
    tag = _TAG.match(text, at)
    if tag is None:  # it does not end before the file does, so nothing is left
        handler.other(start + at)
        return len(text)
    name, end = tag["name"].lower(), tag.end()
    if tag["end"]:
        handler.end(name, start + at)
        return end
    handler.start(name, _attributes(tag["rest"]), start + at)
    if name in VOID or (is_xml and tag["rest"].endswith("/")):
        handler.end(name, start + end)
        return end
    if name not in RAW_TEXT and name not in ONLY_TEXT:
        return end
    closing = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(text, end)
    stop = closing.start() if closing else len(text)
    if name in ONLY_TEXT and stop > end:
        handler.text(html.unescape(text[end:stop]), start + end)
    elif stop > end:
        handler.other(start + end)
    return stop


def _end_of_other(text: str, at: int) -> int:
    """Return where a comment, a CDATA section, a declaration or an instruction ends."""
    for opening, closing in (("<!--", "-->"), ("<![CDATA[", "]]>"), ("<", ">")):
        if text.startswith(opening, at):
            shortest = at + 2 if opening == "<!--" else at  # <!--> is a comment
            end = text.find(closing, shortest)
            return len(text) if end < 0 else end + len(closing)
    raise AssertionError("it begins with <")


def _attributes(rest: str) -> Attributes:
    return {match[1].lower(): match[2].lower() for match in _ATTRIBUTE.finditer(rest)}
