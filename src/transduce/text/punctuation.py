"""Typographic signs, and those of a keyboard in their place."""

PLAIN = {
    "“”„‟«»": '"',
    "‘’‚‛‹›´": "'",
    "‐‑‒–—―−": "-",
    "…": "...",
    "\u00a0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u202f\u205f\u3000": " ",
}
"""Quotes, apostrophes, dashes, dots and spaces, and what is written instead of each."""

_TABLE = str.maketrans({sign: plain for signs, plain in PLAIN.items() for sign in signs})


def plainly(text: str) -> str:
    """Write a text with the signs of a keyboard."""
    return text.translate(_TABLE)
