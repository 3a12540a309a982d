"""Sentence splitters, scored on text whose sentence ends are known.

    python benchmarks/sentence_splitting.py FOLDER [--split test] [--lines 1000] [--joined 5]

FOLDER has a text for each language, such as test.de and test.en, one sentence a line. Every few
lines are joined to a paragraph by spaces. An end that is found within a line, and a line end that
is not found, are errors; where a line ends without a mark, nobody can find its end, so these lines
are left out. Libraries that are not installed are left out.
"""

import argparse
import re
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from transduce.text.sentences import split_sentences

Split = Callable[[str], Sequence[str]]
ENDED = re.compile(r"[.!?…。！？][\"'”’»)\]」』）]*$")


def ours(_language: str) -> Split:
    """The rules of `transduce.text.sentences`."""
    return split_sentences


def pysbd(language: str) -> Split:
    """Rules of the Pragmatic Segmenter."""
    module: Any = import_module("pysbd")
    try:
        segmenter = module.Segmenter(language=language, clean=False)
    except ValueError:  # it does not know the language
        segmenter = module.Segmenter(language="en", clean=False)
    return lambda text: [str(one) for one in segmenter.segment(text)]


def sentencex(language: str) -> Split:
    """Wikimedia's rules with lists of abbreviations for many languages."""
    module: Any = import_module("sentencex")
    return lambda text: list(module.segment(language, text))


def syntok(_language: str) -> Split:
    """Rules for English, Spanish and German."""
    module: Any = import_module("syntok.segmenter")

    def split(text: str) -> list[str]:
        return [
            "".join(token.spacing + token.value for token in sentence)
            for paragraph in module.analyze(text)
            for sentence in paragraph
        ]

    return split


def blingfire(_language: str) -> Split:
    """A finite automaton."""
    module: Any = import_module("blingfire")
    return lambda text: str(module.text_to_sentences(text)).split("\n")


SPLITTERS = {
    "ours": ours,
    "sentencex": sentencex,
    "pysbd": pysbd,
    "syntok": syntok,
    "blingfire": blingfire,
}


def ends(parts: Sequence[str]) -> set[int]:
    """Return where parts end, counted in characters that are not spaces; not the last end."""
    found, place = set(), 0
    for part in parts:
        place += len("".join(part.split()))
        found.add(place)
    return found - {place, 0}


def score(split: Split, paragraphs: Sequence[Sequence[str]], space: str) -> tuple[int, int, int]:
    """Return how many ends were right, found, and there to be found."""
    right = found = wanted = 0
    for lines in paragraphs:
        known, ours_found = ends(lines), ends(split(space.join(lines)))
        right += len(known & ours_found)
        found += len(ours_found)
        wanted += len(known)
    return right, found, wanted


def paragraphs_of(path: Path, lines: int, joined: int) -> list[list[str]]:
    """Read lines that end with a mark, and group them."""
    texts = (line.strip() for line in path.read_text(encoding="utf-8").splitlines()[:lines])
    kept = [text for text in texts if ENDED.search(text)]
    return [kept[start : start + joined] for start in range(0, len(kept), joined)]


def main() -> None:
    """Read the texts and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--split", default="test")
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--joined", type=int, default=5)
    options = parser.parse_args()
    texts = {
        path.suffix[1:]: paragraphs_of(path, options.lines, options.joined)
        for path in sorted(options.folder.glob(f"{options.split}.*"))
    }
    print(f"| F1 | {' | '.join(texts)} | all | precision | recall | µs/sentence |")
    print(f"|---|{'---:|' * (len(texts) + 4)}")
    for name, make in SPLITTERS.items():
        if name != "ours" and find_spec(name) is None:
            continue
        cells, sums, start = [], [0, 0, 0], time.perf_counter()
        for code, paragraphs in texts.items():
            counts = score(make(code), paragraphs, "" if code in ("ja", "zh", "th") else " ")
            sums = [a + b for a, b in zip(sums, counts, strict=True)]
            cells.append(f"{2 * counts[0] / (counts[1] + counts[2]):.2%}")
        took = (time.perf_counter() - start) / (sums[2] or 1)
        right, found, wanted = sums
        whole = [2 * right / (found + wanted), right / max(1, found), right / wanted]
        shown = " | ".join([*cells, *(f"{one:.2%}" for one in whole), f"{took * 1e6:.0f}"])
        print(f"| {name} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
