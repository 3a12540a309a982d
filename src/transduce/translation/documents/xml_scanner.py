"""XML as events with their places in the text, so that it can be edited without writing it anew.

No DTD is fetched, no external entity is read, and a file that defines entities of its own is
refused: a few lines of them can stand for gigabytes of text.
"""

from html.entities import html5
from typing import Protocol
from xml.parsers import expat

from transduce.errors import InputError
from transduce.translation.documents.limits import MAX_DEPTH

Attributes = dict[str, str]


class MarkupHandler(Protocol):
    """What is told of markup, in its order; `at` is where in the text something begins.

    It ends where the next event begins.
    """

    def start(self, name: str, attributes: Attributes, at: int) -> None:
        """Tell of a start tag."""

    def end(self, name: str, at: int) -> None:
        """Tell of an end tag; of an empty element, it begins where its tag ends."""

    def text(self, text: str, at: int) -> None:
        """Tell of some text."""

    def other(self, at: int) -> None:
        """Tell of a comment, a processing instruction or a declaration."""


def scan_xml(text: str, handler: MarkupHandler, *, name: str) -> None:
    """Tell a handler of a document; names of elements and attributes are `namespace local`."""
    _XmlScanner(text, handler, name).scan()


def tell_of_entity(reference: str, handler: MarkupHandler, at: int) -> None:
    """Tell of a name that HTML has, such as &nbsp;, as text.

    A DTD that defines others is not read. They are told of as elements that have them as their
    names and texts, so that they stay as they are.
    """
    if text := html5.get(reference[1:]):
        handler.text(text, at)
        return
    handler.start(reference, {}, at)
    handler.text(reference, at)
    handler.end(reference, at + len(reference))


class _XmlScanner:
    """Turns the places of expat, which are in bytes, into places in the text."""

    def __init__(self, text: str, handler: MarkupHandler, name: str) -> None:
        self._content = text.encode()
        self._is_ascii = len(self._content) == len(text)
        self._handler = handler
        self._name = name
        self._bytes = self._chars = 0  # the last place
        self._depth = 0
        self._parser = parser = expat.ParserCreate("utf-8", " ")
        parser.buffer_text = False
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.StartCdataSectionHandler = lambda: self._text("")  # its marks are part of the text
        parser.EndCdataSectionHandler = lambda: self._text("")
        parser.CommentHandler = lambda _: handler.other(self._at())
        parser.ProcessingInstructionHandler = lambda *_: handler.other(self._at())
        parser.EntityDeclHandler = self._refuse_entity
        parser.SkippedEntityHandler = self._named_character

    def scan(self) -> None:
        try:
            self._parser.Parse(self._content, True)
        except expat.ExpatError as malformed:
            what = expat.errors.messages.get(malformed.code, str(malformed))
            raise InputError(
                f"{self._name} line {malformed.lineno:,}: not XML: {what}"
            ) from malformed

    def _at(self) -> int:
        place = self._parser.CurrentByteIndex
        if self._is_ascii:
            return place
        self._chars += len(self._content[self._bytes : place].decode())
        self._bytes = place
        return self._chars

    def _start(self, name: str, attributes: Attributes) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._fault(f"elements are nested more than {MAX_DEPTH:,} deep")
        self._handler.start(name, attributes, self._at())

    def _end(self, name: str) -> None:
        self._depth -= 1
        self._handler.end(name, self._at())

    def _text(self, text: str) -> None:
        self._handler.text(text, self._at())

    def _refuse_entity(self, name: str, *_declaration: object) -> None:
        raise self._fault(f"it defines the entity {name[:40]!r}, which is refused for safety")

    def _named_character(self, name: str, is_parameter: bool) -> None:
        if not is_parameter:
            tell_of_entity(f"&{name};", self._handler, self._at())

    def _fault(self, what: str) -> InputError:
        return InputError(f"{self._name} line {self._parser.CurrentLineNumber:,}: {what}")
