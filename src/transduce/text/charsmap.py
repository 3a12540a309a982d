"""SentencePiece's precompiled normalisation, checked before a library looks text up in it.

Its bytes are the size of a trie, the trie as a double array of 32-bit units, and the replacements,
each ended by a zero byte. A unit holds the byte that leads to it, whether a text may end there, and
where the units after it begin. Nothing in a library checks these, so every unit that some text can
reach is visited here: it must lie in the trie, and its replacement must be a short text.
"""

import numpy as np
import numpy.typing as npt

from transduce.errors import InputError

MAX_BYTES = 2**20
"""Those of SentencePiece's own rules have 250 KB."""
MAX_REPLACEMENT = 64
"""Bytes. The longest of NFKC has 33, for one letter of three bytes."""
BLOCK = 256
"""Where the units after one begin is combined with any byte of a text, by exclusive or."""

_Units = npt.NDArray[np.int64]


def check_charsmap(content: bytes) -> None:
    """Raise an InputError unless every text can be looked up, and none becomes much longer."""
    size = int.from_bytes(content[:4], "little")
    if not (len(content) <= MAX_BYTES and 0 < size <= len(content) - 4 and size % 4 == 0):
        raise _damaged("its size is wrong")
    units = np.frombuffer(content[4 : 4 + size], dtype="<u4").astype(np.int64)
    replacements = content[4 + size :]
    starts = _replacement_starts(units)
    ends = np.array([place for place, byte in enumerate(replacements) if byte == 0], dtype=np.int64)
    if starts.size and (not ends.size or starts[-1] > ends[-1]):
        raise _damaged("a replacement lies outside it")
    lengths = ends[np.searchsorted(ends, starts)] - starts
    if (lengths > MAX_REPLACEMENT).any():
        raise _damaged("a replacement is too long")
    try:
        replacements.decode()
    except UnicodeDecodeError as undecodable:
        raise _damaged("a replacement is not UTF-8") from undecodable
    letters = np.frombuffer(replacements, dtype=np.uint8)
    if ((letters[starts] & 0xC0) == 0x80).any():
        raise _damaged("a replacement begins within a letter")


def _replacement_starts(units: _Units) -> _Units:
    """Return where the replacements begin that texts can reach, in order."""
    bases = _within(_offset(units[:1]), units)
    seen = np.zeros(units.size, dtype=bool)
    found: list[_Units] = []
    letters = np.arange(1, BLOCK, dtype=np.int64)
    while bases.size:
        bases = np.unique(bases)
        bases = bases[~seen[bases]]
        seen[bases] = True
        after: list[_Units] = []
        for some in np.array_split(bases, 1 + bases.size // 4096):
            places = some[:, None] ^ letters
            followed = units[places]
            leads = (followed & (2**31 | 0xFF)) == letters
            places, followed = places[leads], followed[leads]
            onward = _within(places ^ _offset(followed), units)
            found.append(units[onward[(followed >> 8 & 1).astype(bool)]] & (2**31 - 1))
            after.append(onward)
        bases = np.concatenate(after) if after else bases[:0]
    return np.unique(np.concatenate(found)) if found else units[:0]


def _offset(units: _Units) -> _Units:
    return (units >> 10) << ((units & 2**9) >> 6)


def _within(places: _Units, units: _Units) -> _Units:
    if ((places | (BLOCK - 1)) >= units.size).any():
        raise _damaged("it leads outside itself")
    return places


def _damaged(why: str) -> InputError:
    return InputError(f"its table of normalised letters is damaged: {why}")
