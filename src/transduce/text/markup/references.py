"""References such as `&amp;`, read and written."""

import html
import re
from dataclasses import dataclass
from typing import Protocol

_XML_REFERENCE = re.compile(r"&(?:(lt|gt|amp|quot|apos)|#([0-9]{1,7})|#x([0-9A-Fa-f]{1,6}));")
_XML_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_XML_ENTITY = re.compile(r"(&(?!(?:lt|gt|amp|quot|apos|#[0-9]{1,7}|#x[0-9A-Fa-f]{1,6});)[^;\s&]+;)")
# Control characters, surrogates and noncharacters: neither HTML nor XML may have them.
_FORBIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"
    + "".join(f"{chr(plane << 16 | 0xFFFE)}{chr(plane << 16 | 0xFFFF)}" for plane in range(1, 17))
    + "]"
)
_REPLACEMENT = "\ufffd"


class TextReader(Protocol):
    """How text is written in a format."""

    def parts(self, source: str) -> list[str]:
        """Cut text at what is no text, which has odd indices."""

    def text(self, source: str) -> str:
        """Return what text stands for."""

    def written(self, text: str) -> str:
        """Write a text so that it is no markup, whatever it is."""


@dataclass(frozen=True)
class Reader:
    """How text is written in HTML or XML."""

    is_xml: bool

    def parts(self, source: str) -> list[str]:
        """Cut text at the entities that only a DTD defines, which have odd indices."""
        return _XML_ENTITY.split(source) if self.is_xml and "&" in source else [source]

    def text(self, source: str) -> str:
        """Return what text stands for. Entities of a DTD are not expanded."""
        if "&" not in source:
            return source
        return _XML_REFERENCE.sub(_character, source) if self.is_xml else html.unescape(source)

    def written(self, text: str) -> str:
        """Write a text so that it is no markup, whatever it is."""
        return html.escape(_FORBIDDEN.sub(_REPLACEMENT, text), quote=False)


def _character(match: re.Match[str]) -> str:
    if match[1]:
        return _XML_NAMED[match[1]]
    code = int(match[2]) if match[2] else int(match[3], 16)
    is_character = code < 0x110000 and not 0xD800 <= code < 0xE000
    return chr(code) if is_character else _REPLACEMENT
