"""XLIFF 1.2 and 2: units with a source and a target, read as a stream.

As in TMX, no DTD is fetched, and a file that defines entities of its own is refused. Codes of the
editor are left out; alternatives from memories, and units without a target, are passed over.
"""

from collections.abc import Iterator
from pathlib import Path
from xml.parsers import expat

from transduce.data.formats.lines import MAX_LINE_BYTES, read_blocks
from transduce.data.formats.tmx import BYTES_AT_ONCE, CODES
from transduce.errors import InputError

UNITS = frozenset({"trans-unit", "segment"})
MAX_DEPTH = 1_000


def read_units(path: Path) -> Iterator[list[str]]:
    """Stream the units that have both sides, as [source, target]; raise if none has."""
    reader = _Reader(path)
    found = 0
    for block in read_blocks(path):
        for start in range(0, len(block), BYTES_AT_ONCE):
            for texts in reader.feed(block[start : start + BYTES_AT_ONCE]):
                found += 1
                yield texts
    for texts in reader.close():
        found += 1
        yield texts
    if not found:
        raise InputError(f"{path}: no unit has a source and a target: is it XLIFF?")


class _Reader:
    """Collects the texts of units while the parser reports their parts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pairs: list[list[str]] = []  # complete, not yet taken
        self._unit: dict[str, str] = {}
        self._stack: list[str] = []
        self._passed_over = 0  # elements that are open and whose text does not count
        self._side = ""  # which side is being read
        self._pieces: list[str] = []
        self._chars = self._fed = 0
        self._parser = parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.EntityDeclHandler = self._refuse_entity

    def feed(self, block: bytes) -> list[list[str]]:
        """Read some bytes; return the pairs that they complete."""
        self._parse(block, is_last=False)
        self._fed += len(block)
        if self._fed - self._parser.CurrentByteIndex > MAX_LINE_BYTES + BYTES_AT_ONCE:
            raise self._fault(f"a tag of over {MAX_LINE_BYTES:,} bytes: is it XLIFF?")
        return self._taken()

    def close(self) -> list[list[str]]:
        """Check that the document is complete; return the pairs that are left."""
        if not self._fed:
            raise InputError(f"{self._path} is empty")
        self._parse(b"", is_last=True)
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
        pairs, self._pairs = self._pairs, []
        return pairs

    def _start(self, name: str, _attributes: dict[str, str]) -> None:
        local = name.rpartition(" ")[2]
        is_in_unit = bool(self._stack) and self._stack[-1] in UNITS
        self._stack.append(local)
        if len(self._stack) > MAX_DEPTH:
            raise self._fault(f"elements are nested more than {MAX_DEPTH:,} deep")
        if self._passed_over or local == "alt-trans" or (self._side and local in CODES):
            self._passed_over += 1
        elif local in UNITS:
            self._unit = {}
        elif is_in_unit and local in ("source", "target"):
            self._side, self._pieces, self._chars = local, [], 0

    def _end(self, name: str) -> None:
        local = name.rpartition(" ")[2]
        self._stack.pop()
        if self._passed_over:
            self._passed_over -= 1
        elif local == self._side and self._stack[-1] in UNITS:
            self._unit[local] = "".join(self._pieces)
            self._side = ""
        elif local in UNITS:
            pair = [self._unit.get(side, "") for side in ("source", "target")]
            if all(text.strip() for text in pair):
                self._pairs.append(pair)

    def _text(self, text: str) -> None:
        if not self._side or self._passed_over:
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

    def _fault(self, what: str) -> InputError:
        return InputError(f"{self._path} line {self._parser.CurrentLineNumber:,}: {what}")
