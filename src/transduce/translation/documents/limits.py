"""How large a file to translate may be: what bounds the memory and time that one can take."""

import sys

from transduce.errors import InputError

MAX_FILE_BYTES = 64 << 20
"""Of a file; one with pictures in it may be large."""
MAX_TEXT_BYTES = 16 << 20
"""Of a text, or of a part of an archive that has text."""
MAX_MARKDOWN_BYTES = 1 << 20
"""Of Markdown, which takes longer to read than other text."""
MAX_DECODED_BYTES = 32 << 20
"""Of the text of a file in memory, of all parts of an archive together.

A character takes 1 byte if all are of Latin-1, 2 if one is not, 4 if one is beyond U+FFFF.
"""
MAX_UNPACKED_BYTES = 256 << 20
"""Of all members of an archive, unpacked."""
MAX_RATIO = 200
"""How many times its size an archive may be unpacked; office files reach about 20."""
MAX_MEMBERS = 10_000
"""Of an archive."""
MAX_DEPTH = 1_000
"""Elements of XML that are open at the same time; lists and maps likewise."""
MAX_CODE_DEPTH = 32
"""Inline codes in each other that are moved with their words; deeper ones stay where they are."""
MAX_SEGMENTS = 100_000
"""Paragraphs, cells, cues or strings of a file."""
MAX_PARTS = 200_000
"""Pieces of text between inline codes, of all segments together."""
MAX_SEGMENT_CHARS = 200_000
"""Of one segment."""


def decoded_bytes(text: str) -> int:
    """Return how much memory a text takes."""
    return sys.getsizeof(text)


def check_size(size: int, most: int, what: str) -> None:
    """Raise if something has more bytes than it may."""
    if size > most:
        raise InputError(f"{what} has {size:,} bytes, but at most {most:,} are translated")
