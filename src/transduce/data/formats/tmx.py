"""Translation memories (TMX): the segments of two languages, read as a stream.

Codes of the editor (`ph`, `bpt`, …) are left out.
"""

from collections.abc import Iterator
from pathlib import Path

from transduce.data.formats.xml_units import UnitReader
from transduce.errors import InputError, did_you_mean

CODES = frozenset({"bpt", "ept", "it", "ph", "ut"})
"""Elements in a segment whose content is not text."""

MAX_LANGUAGES = 1000
XML_LANG = "xml:lang"


def read_segments(
    path: Path, languages: tuple[str, ...], *, source_only: bool = False
) -> Iterator[list[str]]:
    """Stream the texts of each unit that has all languages; raise if there is none.

    `source_only`: the source is all that is wanted, so an error asks for its language alone.
    """
    reader = _Reader(path, languages)
    found = False
    for texts in reader.units():
        found = True
        yield texts
    if not found:
        raise InputError(f"{path}: {reader.why_nothing(source_only=source_only)}")


class _Reader(UnitReader):
    def __init__(self, path: Path, languages: tuple[str, ...]) -> None:
        super().__init__(path, "TMX")
        self._wanted = [_normal(language) for language in languages]
        self._given = languages
        self._seen: dict[str, None] = {}  # languages, in order
        self._unit: dict[str, str] = {}
        self._language = ""
        self._is_in_segment = False
        self._codes = 0  # how many elements of codes are open

    @property
    def _counts(self) -> bool:
        return self._is_in_segment and not self._codes

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

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        match name:
            case "tu":
                self._unit = {}
            case "tuv":
                self._language = attributes.get(XML_LANG) or attributes.get("lang", "")
                if len(self._seen) < MAX_LANGUAGES:
                    self._seen.setdefault(self._language)
            case "seg":
                self._is_in_segment, self._codes = True, 0
                self._begin_text()
            case _ if self._is_in_segment and name in CODES:
                self._codes += 1

    def _end(self, name: str) -> None:
        match name:
            case "seg" if self._is_in_segment:
                # Of several variants of a language the first counts.
                self._unit.setdefault(_normal(self._language), "".join(self._pieces))
                self._is_in_segment = False
            case "tu":
                texts = [self._text_in(language) for language in self._wanted]
                if None not in texts:
                    self._units.append([text for text in texts if text is not None])
            case _ if self._is_in_segment and name in CODES:
                self._codes -= 1

    def _text_in(self, language: str) -> str | None:
        if language in self._unit:
            return self._unit[language]
        regional = (text for one, text in self._unit.items() if _fits(language, one))
        return next(regional, None)


def _normal(language: str) -> str:
    return language.strip().casefold().replace("_", "-")


def _fits(wanted: str, found: str) -> bool:
    """Whether a language is the wanted one, or its variety in a region: en-US is en."""
    return found == wanted or found.startswith(f"{wanted}-")
