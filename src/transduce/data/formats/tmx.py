"""Translation memories (TMX): the segments of two languages, read as a stream.

No DTD is fetched, no external entity is read, and a file that defines entities of its own is
refused: a few lines of them can stand for gigabytes of text. Codes of the editor (`ph`, `bpt`, …)
are left out.
"""

import html
from collections.abc import Iterator
from pathlib import Path
from xml.parsers import expat

from transduce.data.formats.lines import MAX_LINE_BYTES, read_blocks
from transduce.errors import InputError, did_you_mean

CODES = frozenset({"bpt", "ept", "it", "ph", "ut"})
"""Elements in a segment whose content is not text."""

MAX_LANGUAGES = 1000
BYTES_AT_ONCE = 1 << 16
XML_LANG = "xml:lang"


def read_segments(
    path: Path, languages: tuple[str, ...], *, source_only: bool = False
) -> Iterator[list[str]]:
    """Stream the texts of each unit that has all languages; raise if there is none.

    `source_only`: the source is all that is wanted, so an error asks for its language alone.
    """
    reader = _Reader(path, languages)
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
        raise InputError(f"{path}: {reader.why_nothing(source_only=source_only)}")


class _Reader:
    """Collects the texts of units while the parser reports their parts."""

    def __init__(self, path: Path, languages: tuple[str, ...]) -> None:
        self._path = path
        self._wanted = [_normal(language) for language in languages]
        self._given = languages
        self._seen: dict[str, None] = {}  # languages, in order
        self._units: list[list[str]] = []  # complete, not yet taken
        self._unit: dict[str, str] = {}
        self._language = ""
        self._segment: list[str] | None = None  # None: outside a segment
        self._segment_chars = 0
        self._codes = 0  # how many elements of codes are open
        self._fed = 0
        self._parser = parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.EntityDeclHandler = self._refuse_entity
        parser.SkippedEntityHandler = self._named_character

    def feed(self, block: bytes) -> list[list[str]]:
        """Read some bytes; return the units that they complete."""
        self._parse(block, is_last=False)
        self._fed += len(block)
        if self._fed - self._parser.CurrentByteIndex > MAX_LINE_BYTES + BYTES_AT_ONCE:
            raise self._fault(f"a tag of over {MAX_LINE_BYTES:,} bytes: is it TMX?")
        return self._taken()

    def close(self) -> list[list[str]]:
        """Check that the document is complete; return the units that are left."""
        if not self._fed:
            raise InputError(f"{self._path} is empty")
        self._parse(b"", is_last=True)
        return self._taken()

    def why_nothing(self, *, source_only: bool) -> str:
        """Say which languages there are."""
        if not self._seen:
            return "no translation unit (tu with tuv and seg): is it TMX?"
        known = list(self._seen)
        for language in self._given:
            if not any(_fits(_normal(language), _normal(one)) for one in known):
                meant = did_you_mean(language, known)
                wanted, example = "two", ",".join(known[:2])
                if source_only:
                    wanted, example = "the source's", known[0]
                return (
                    f"nothing in the language {language!r}{meant}; it has {', '.join(known)}: "
                    f"choose {wanted}, such as --fields {example}"
                )
        return f"no unit has all languages of --fields {','.join(self._given)}"

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

    def _fault(self, what: str) -> InputError:
        return InputError(f"{self._path} line {self._parser.CurrentLineNumber:,}: {what}")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        match name:
            case "tu":
                self._unit = {}
            case "tuv":
                self._language = attributes.get(XML_LANG) or attributes.get("lang", "")
                if len(self._seen) < MAX_LANGUAGES:
                    self._seen.setdefault(self._language)
            case "seg":
                self._segment, self._segment_chars, self._codes = [], 0, 0
            case _ if self._segment is not None and name in CODES:
                self._codes += 1

    def _end(self, name: str) -> None:
        match name:
            case "seg" if self._segment is not None:
                # Of several variants of a language the first counts.
                self._unit.setdefault(_normal(self._language), "".join(self._segment))
                self._segment = None
            case "tu":
                texts = [self._text_in(language) for language in self._wanted]
                if None not in texts:
                    self._units.append([text for text in texts if text is not None])
            case _ if self._segment is not None and name in CODES:
                self._codes -= 1

    def _text(self, text: str) -> None:
        if self._segment is not None and not self._codes:
            self._segment.append(text)
            self._segment_chars += len(text)
            if self._segment_chars > MAX_LINE_BYTES:
                raise self._fault(f"a segment of over {MAX_LINE_BYTES:,} characters: is it text?")

    def _text_in(self, language: str) -> str | None:
        if language in self._unit:
            return self._unit[language]
        regional = (text for one, text in self._unit.items() if _fits(language, one))
        return next(regional, None)

    def _refuse_entity(self, name: str, *_declaration: object) -> None:
        raise self._fault(
            f"it defines the entity {name!r}, which is refused for safety: write the text itself"
        )

    def _named_character(self, name: str, is_parameter: bool) -> None:
        """Read the names that HTML has, such as nbsp; a DTD that defines others is not read."""
        if is_parameter:
            return
        character = html.unescape(f"&{name};")
        if character == f"&{name};":
            raise self._fault(f"the entity {name!r} is not known: write the text itself")
        self._text(character)


def _normal(language: str) -> str:
    return language.strip().casefold().replace("_", "-")


def _fits(wanted: str, found: str) -> bool:
    """Whether a language is the wanted one, or its variety in a region: en-US is en."""
    return found == wanted or found.startswith(f"{wanted}-")
