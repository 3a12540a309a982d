"""A document in HTML or XML as texts to translate, and all that stays between them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from transduce.errors import InputError
from transduce.text.markup.marked import MarkedText
from transduce.text.markup.references import Reader
from transduce.text.markup.segments import segment_parts
from transduce.text.markup.structure import html_structure, xml_structure
from transduce.text.markup.tokens import html_tokens, xml_tokens

MAX_CHARACTERS = 20_000_000

MarkupFormat = Literal["html", "xml"]


@dataclass(frozen=True)
class MarkupDocument:
    """Texts to translate, and what stands before, between and after them."""

    lines: tuple[MarkedText, ...]
    between: tuple[str, ...]  # one more than lines, as it is written

    def with_lines(self, translations: Sequence[str]) -> str:
        """Return the document with translations, in which markup is already put back."""
        rest = zip(translations, self.between[1:], strict=True)
        return "".join([self.between[0], *(part for pair in rest for part in pair)])


def read_markup(text: str, format: MarkupFormat) -> MarkupDocument:  # noqa: A002 - as users say it
    """Divide a document into texts; XML that is not well-formed raises `InputError`."""
    if format not in ("html", "xml"):
        raise InputError(f"format={format!r}: use text, html or xml")
    if len(text) > MAX_CHARACTERS:
        raise InputError(
            f"a document of {len(text):,} characters, but the maximum is {MAX_CHARACTERS:,}: "
            "divide it"
        )
    reader = Reader(is_xml=format == "xml")
    if format == "xml":
        structure = xml_structure(list(xml_tokens(text)), text)
    else:
        structure = html_structure(list(html_tokens(text)))
    return _document(segment_parts(structure, reader))


def _document(parts: Iterable[tuple[str, MarkedText | None]]) -> MarkupDocument:
    """Collect texts, each with the markup before it; the last part has none."""
    lines: list[MarkedText] = []
    between: list[str] = []
    stays: list[str] = []
    for before, line in parts:
        stays.append(before)
        if line is not None:
            between.append("".join(stays))
            lines.append(line)
            stays = []
    return MarkupDocument(tuple(lines), (*between, "".join(stays)))
