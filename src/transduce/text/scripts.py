"""Scripts: of a text, of a vocabulary, and which are written without spaces between words."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import cache

_UNSPACED = re.compile(
    "["
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f"  # Burmese
    "\u1780-\u17ff"  # Khmer
    "\u2e80-\u2fdf"  # radicals of Chinese characters
    "\u3001-\u30ff\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff"  # punctuation, kana, Bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese characters
    "\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff9f"  # wide punctuation, half-width kana
    "]"
)
_EAST_ASIAN = {
    "ja": re.compile("[\u3041-\u30ff\uff66-\uff9f]"),  # kana
    "ko": re.compile("[\u1100-\u11ff\uac00-\ud7af]"),
    "zh": re.compile("[\u3400-\u4dbf\u4e00-\u9fff]"),
}


def has_unspaced_script(text: str) -> bool:
    """Return whether a text has a character of a script without spaces, such as Japanese."""
    return _UNSPACED.search(text) is not None


def continues_character(character: str) -> bool:
    """Return whether a character belongs to the one before it, as an accent does."""
    return unicodedata.category(character) in ("Mn", "Mc", "Me")


def east_asian_language(text: str) -> str:
    """Return ja, ko or zh by the script of a text, which its fonts depend on; '' for others."""
    return next((name for name, letters in _EAST_ASIAN.items() if letters.search(text)), "")


_NOT_ASCII_LETTERS = bytes(n for n in range(128) if not chr(n).isalpha())
_CONTINUATIONS = bytes(range(0x80, 0xC0))  # bytes of UTF-8 that start no character
_ACCENTS = ""
_NOT_ASCII = re.compile("[^\x00-\x7f]+")
LATIN = "LATIN"
"""The script of ASCII's letters."""


def ascii_letters(text: str) -> int:
    """Count the letters of ASCII."""
    return len(text.encode("ascii", "ignore").translate(None, _NOT_ASCII_LETTERS))


def letters_by_script(text: str) -> dict[str, int]:
    """Count the letters of each script; accents are counted under ""."""
    letters = {LATIN: ascii_letters(text)}
    if not text.isascii():
        for character, count in Counter("".join(_NOT_ASCII.findall(text))).items():
            script = _script(character)
            if script is not None:
                letters[script] = letters.get(script, 0) + count
    return letters


@cache
def _script(character: str) -> str | None:
    """Return a letter's script: the first word of its Unicode name, or "" for accents."""
    category = unicodedata.category(character)
    if category[0] not in "LM":
        return None
    name = unicodedata.name(character, "").partition(" ")[0]
    return _ACCENTS if name in ("COMBINING", "MODIFIER", "") else name


def main_script(text: str) -> str | None:
    """Return the script that more than half of the letters are in; None: there is none."""
    letters = letters_by_script(text)
    letters.pop(_ACCENTS, None)
    script = max(letters, key=lambda one: letters[one])
    return script if 2 * letters[script] > sum(letters.values()) else None


def scripts_of_pieces(pieces: Iterable[bytes]) -> frozenset[str]:
    """Return the scripts of the letters in pieces of UTF-8, of which the last may be cut off."""
    found = {script for piece in pieces for script, n in _letters_of_piece(piece).items() if n}
    return frozenset(found - {_ACCENTS})


def _letters_of_piece(piece: bytes) -> dict[str, int]:
    # The bytes that complete a cut character hardly matter: those that start alike are one script.
    whole = (piece + b"\x80" * missing for missing in range(4))
    for candidate in whole:
        try:
            return letters_by_script(candidate.lstrip(_CONTINUATIONS).decode())
        except UnicodeDecodeError:
            pass
    return {}


def name_of_script(script: str) -> str:
    """Return how people call a script: `CYRILLIC` is Cyrillic."""
    return {"CJK": "Chinese characters"}.get(script, script.capitalize())
