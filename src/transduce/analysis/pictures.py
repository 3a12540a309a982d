"""Pictures of matplotlib: the format by the file's suffix, and fonts that have the characters."""

import importlib.util
import logging
import unicodedata
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.errors import InputError, how_to_install
from transduce.files.atomic import atomic_file
from transduce.files.errors import reporting_write_errors

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BACKENDS = {"png": "agg", "svg": "svg", "pdf": "pdf"}
"""The formats of pictures, and what of matplotlib draws them."""
DEFAULT_FONT = "DejaVu Sans"
"""It comes with matplotlib, and has Latin, Greek, Cyrillic, Arabic and Hebrew letters."""

PLACEHOLDERS = "Last Resort"
"""A font of matplotlib whose glyphs are boxes with the name of a script."""

_PREFERRED = ("Noto Sans CJK JP", "Noto Sans JP", "Noto Sans", "Arial Unicode MS", "Segoe UI")
_CJK = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "IDEOGRAPHIC", "FULLWIDTH", "HALFWIDTH")


def available() -> bool:
    """Return whether matplotlib is installed: it comes with the extra `plot`."""
    return importlib.util.find_spec("matplotlib") is not None


def check_picture(path: Path) -> str:
    """Return the format of a picture by its suffix; raise if it cannot be drawn."""
    form = path.suffix.lower().removeprefix(".")
    if form not in BACKENDS:
        raise InputError(f"{path} is not a picture: its name must end in .png, .svg or .pdf")
    if not available():
        raise InputError(f"matplotlib is not installed: {how_to_install('plot')}")
    return form


def save_picture(figure: "Figure", path: Path) -> None:
    """Write a figure to a file in the format of its suffix; the file is replaced atomically."""
    form = check_picture(path)
    dates = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[form]
    with reporting_write_errors(path), atomic_file(path) as temporary, _without_font_notes():
        figure.savefig(temporary, format=form, backend=BACKENDS[form], metadata=dates)


@contextmanager
def _without_font_notes() -> Iterator[None]:
    """Silence what matplotlib says of fonts: a character that none has is shown as a box."""
    logger = logging.getLogger("matplotlib.font_manager")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing")
            yield
    finally:
        logger.setLevel(level)


def fonts_for(texts: Iterable[str]) -> tuple[list[str], str]:
    """Return installed fonts that have the characters of texts together, and what they lack.

    The default font is the first: matplotlib takes each character from the first font that has it.
    """
    with _without_font_notes():
        return _fonts_for(texts)


def _fonts_for(texts: Iterable[str]) -> tuple[list[str], str]:
    fonts = [DEFAULT_FONT]
    needed = {character for text in texts for character in text if not character.isspace()}
    lacking = needed - _covered(DEFAULT_FONT, needed)
    candidates = _installed_fonts() if lacking else []
    while lacking and candidates:
        found = {name: _covered(name, lacking) for name in candidates}
        best = max(candidates, key=lambda name: len(found[name]))  # of equals, the preferred one
        if not found[best]:
            break
        fonts.append(best)
        lacking -= found[best]
        candidates.remove(best)
    return fonts, "".join(sorted(lacking))


def advice_on_fonts(lacking: str) -> str:
    """Return one line on characters that no installed font has, or '' if there are none."""
    if not lacking:
        return ""
    shown = lacking if len(lacking) <= 12 else f"{lacking[:12]}…"
    names = dict.fromkeys(map(_font_with, lacking))
    return f"no installed font has {shown}: install one, such as {', '.join(names)}"


def _font_with(character: str) -> str:
    script = unicodedata.name(character, "").partition(" ")[0]
    if script.startswith(_CJK):
        return "Noto Sans CJK"
    if unicodedata.category(character) in ("So", "Sk"):
        return "Noto Emoji"
    return f"Noto Sans {script.title()}" if script.isalpha() else "Noto Sans"


def _installed_fonts() -> list[str]:
    """Return the names of installed fonts, preferred ones first.

    Fonts that were installed since matplotlib made its list of them are added to it.
    """
    from matplotlib.font_manager import findSystemFonts, fontManager

    listed = {font.fname for font in fontManager.ttflist}
    for path in findSystemFonts():
        if path not in listed:
            _add_font(path)
    names = {font.name for font in fontManager.ttflist if not font.name.startswith(PLACEHOLDERS)}
    preferred = [name for name in _PREFERRED if name in names]
    return [*preferred, *sorted(names - {*preferred, DEFAULT_FONT})]


def _add_font(path: str) -> None:
    from matplotlib.font_manager import fontManager

    try:
        fontManager.addfont(path)
    except (OSError, RuntimeError):  # not a font that matplotlib can read
        return


def _covered(name: str, characters: Iterable[str]) -> set[str]:
    """Return those characters that a font has; none if it cannot be drawn with."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    try:
        font = get_font(findfont(FontProperties(family=[name]), fallback_to_default=False))
    except (OSError, RuntimeError, ValueError):
        return set()
    if not font.scalable:  # of coloured pictures, as some fonts of emoji
        return set()
    return {character for character in characters if font.get_char_index(ord(character))}
