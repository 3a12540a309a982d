"""Units of XML files (TMX, XLIFF), read as a stream.

No DTD is fetched, no external entity is read, and a file that defines entities of its own is
refused: a few lines of them can stand for gigabytes of text.
"""

import html
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from xml.parsers import expat

from transduce.data.formats.lines import MAX_LINE_BYTES, read_blocks
from transduce.errors import InputError

BYTES_AT_ONCE = 1 << 16


class UnitReader(ABC):
    """Collects the texts of units while the parser reports their parts."""

    def __init__(self, path: Path, kind: str, *, namespace_separator: str | None = None) -> None:
        """Take the file, and the name of its format for messages."""
        self._path, self._kind = path, kind
        self._units: list[list[str]] = []  # complete, not yet taken
        self._pieces: list[str] = []  # of the text that is being read
        self._chars = self._fed = 0
        self._parser = parser = expat.ParserCreate(namespace_separator=namespace_separator)
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.EntityDeclHandler = self._refuse_entity
        parser.SkippedEntityHandler = self._named_character

    def units(self) -> Iterator[list[str]]:
        """Stream the texts of each complete unit."""
        for block in read_blocks(self._path):
            for start in range(0, len(block), BYTES_AT_ONCE):
                yield from self._feed(block[start : start + BYTES_AT_ONCE])
        if not self._fed:
            raise InputError(f"{self._path} is empty")
        self._parse(b"", is_last=True)
        yield from self._taken()

    @property
    @abstractmethod
    def _counts(self) -> bool:
        """Whether text belongs to a unit here."""

    @abstractmethod
    def _start(self, name: str, attributes: dict[str, str]) -> None:
        """Take note of an element."""

    @abstractmethod
    def _end(self, name: str) -> None:
        """Take note of the end of an element."""

    def _begin_text(self) -> None:
        self._pieces, self._chars = [], 0

    def _fault(self, what: str) -> InputError:
        return InputError(f"{self._path} line {self._parser.CurrentLineNumber:,}: {what}")

    def _feed(self, block: bytes) -> list[list[str]]:
        self._parse(block, is_last=False)
        self._fed += len(block)
        if self._fed - self._parser.CurrentByteIndex > MAX_LINE_BYTES + BYTES_AT_ONCE:
            raise self._fault(f"a tag of over {MAX_LINE_BYTES:,} bytes: is it {self._kind}?")
        return self._taken()

    def _parse(self, block: bytes, *, is_last: bool) -> None:
        try:
            self._parser.Parse(block, is_last)
        except expat.ExpatError as malformed:
            what = expat.errors.messages.get(malformed.code, str(malformed))
            raise InputError(
                f"{self._path} line {malformed.lineno:,}: not XML: {what}"
            ) from malformed

    def _taken(self) -> list[list[str]]:
        units, self._units = self._units, []
        return units

    def _text(self, text: str) -> None:
        if not self._counts:
            return
        self._pieces.append(text)
        self._chars += len(text)
        if self._chars > MAX_LINE_BYTES:
            raise self._fault(f"a segment of over {MAX_LINE_BYTES:,} characters: is it text?")

    def _refuse_entity(self, name: str, *_declaration: object) -> None:
        raise self._fault(
            f"it defines the entity {name[:40]!r}, which is refused for safety: write the text "
            "itself"
        )

    def _named_character(self, name: str, is_parameter: bool) -> None:
        """Read the names that HTML has, such as nbsp; a DTD that defines others is not read."""
        if is_parameter:
            return
        character = html.unescape(f"&{name};")
        if character == f"&{name};":
            raise self._fault(f"the entity {name[:40]!r} is not known: write the text itself")
        self._text(character)
