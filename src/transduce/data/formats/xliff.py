"""XLIFF 1.2 and 2: units with a source and a target, read as a stream.

Codes of the editor are left out; alternatives from memories, and units without a target, are
passed over.
"""

from collections.abc import Iterator
from pathlib import Path

from transduce.data.formats.tmx import CODES
from transduce.data.formats.xml_units import UnitReader
from transduce.errors import InputError

UNITS = frozenset({"trans-unit", "segment"})
MAX_DEPTH = 1_000


def read_units(path: Path) -> Iterator[list[str]]:
    """Stream the units that have both sides, as [source, target]; raise if none has."""
    found = False
    for texts in _Reader(path).units():
        found = True
        yield texts
    if not found:
        raise InputError(f"{path}: no unit has a source and a target: is it XLIFF?")


class _Reader(UnitReader):
    def __init__(self, path: Path) -> None:
        super().__init__(path, "XLIFF", namespace_separator=" ")
        self._unit: dict[str, str] = {}
        self._stack: list[str] = []
        self._passed_over = 0  # elements that are open and whose text does not count
        self._side = ""  # which side is being read

    @property
    def _counts(self) -> bool:
        return bool(self._side) and not self._passed_over

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        del attributes
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
            self._side = local
            self._begin_text()

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
                self._units.append(pair)
