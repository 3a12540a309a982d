"""Join consecutive sentences of a corpus to lines of paragraphs, to train and test on long inputs.

    python benchmarks/paragraphs.py --src train.en --tgt train.de --out paragraphs/train
        [--words 400] [--sentences 1000] [--pairs 0]

Writes OUT.src and OUT.tgt. A line gets sentence after sentence, joined by spaces, until it has
`--sentences` of them or one more would take its source over `--words` words; a longer sentence is a
line by itself, and a pair with an empty side is left out. `--pairs` reads only the first pairs. In
a corpus whose sentences are in random order, these are lines of a length, and no real paragraphs.
"""

import argparse
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from transduce.data.corpus import Pair
from transduce.data.formats.lines import read_lines


def paragraphs(pairs: Iterable[Pair], *, words: int, sentences: int) -> Iterator[Pair]:
    """Join consecutive pairs; none is left over."""
    held: list[Pair] = []
    length = 0
    for pair in pairs:
        if not (pair.src.strip() and pair.tgt.strip()):
            continue
        own = len(pair.src.split())
        if held and (len(held) == sentences or length + own > words):
            yield joined(held)
            held, length = [], 0
        held.append(pair)
        length += own
    if held:
        yield joined(held)


def joined(pairs: list[Pair]) -> Pair:
    """Return one pair of all their words."""
    sides = (" ".join(" ".join(side).split()) for side in zip(*pairs, strict=True))
    return Pair(*sides)


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--src", type=Path, required=True)
    parser.add_argument("--tgt", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="without .src and .tgt")
    parser.add_argument("--words", type=int, default=400, help="of a source, at most")
    parser.add_argument("--sentences", type=int, default=1000, help="of a line, at most")
    parser.add_argument("--pairs", type=int, default=0, help="read so many; 0: all")
    given = parser.parse_args()
    sides = zip(read_lines(given.src), read_lines(given.tgt), strict=True)
    pairs = (Pair(src, tgt) for src, tgt in islice(sides, given.pairs or None))
    given.out.parent.mkdir(parents=True, exist_ok=True)
    lines = lengths = 0
    with (
        Path(f"{given.out}.src").open("w", encoding="utf-8") as src,
        Path(f"{given.out}.tgt").open("w", encoding="utf-8") as tgt,
    ):
        for pair in paragraphs(pairs, words=given.words, sentences=given.sentences):
            src.write(f"{pair.src}\n")
            tgt.write(f"{pair.tgt}\n")
            lines, lengths = lines + 1, lengths + len(pair.src.split())
    print(f"{given.out}: {lines:,} lines of {lengths / max(lines, 1):,.1f} words on average")


if __name__ == "__main__":
    main()
