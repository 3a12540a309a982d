"""Scripts: which are written without spaces between words, and which language a text shows."""

import re
import unicodedata

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
