"""Typographic punctuation, and its replacement by what a keyboard has."""

PLAIN = {
    "“”„‟«»": '"',
    "‘’‚‛‹›´": "'",
    "‐‑‒–—―−": "-",
    "…": "...",
    "\u00a0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u202f\u205f\u3000": " ",
}
"""Quotes, apostrophes, dashes, ellipses and spaces, each group with its plain replacement."""

_TABLE = str.maketrans({sign: plain for signs, plain in PLAIN.items() for sign in signs})


def with_plain_punctuation(text: str) -> str:
    """Replace typographic characters by those of a keyboard."""
    return text.translate(_TABLE)
