"""A translation memory of a million units: time and memory to index it, and time of a lookup.

    .venv/bin/python benchmarks/memory.py --src train.en --tgt train.de

Lines of a parallel text are drawn and changed at random: some words of each are replaced by words
of other lines. Every hundredth unit is looked up as it is, and with one or two words replaced.
"""

import argparse
import json
import random
import resource
import time
from collections.abc import Iterator
from pathlib import Path

from transduce.translation.memory.units import TranslationMemory

LOOKUPS = 2_000
THRESHOLD = 0.75


def main() -> None:
    """Print the figures as one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--src", type=Path, required=True)
    parser.add_argument("--tgt", type=Path, required=True)
    parser.add_argument("--units", type=int, default=1_000_000)
    arguments = parser.parse_args()
    sources, targets = (
        path.read_text(encoding="utf-8").splitlines() for path in (arguments.src, arguments.tgt)
    )
    pairs = list(zip(sources, targets, strict=True))
    words = [word for source in sources for word in source.split()]
    before, began = resident_mib(), time.process_time()
    memory = TranslationMemory(units(pairs, words, arguments.units))
    indexed = time.process_time() - began
    asked = random.Random(2).sample(pairs, min(LOOKUPS, len(pairs)))  # noqa: S311
    began = time.process_time()
    exact = sum(memory.exact(source) is not None for source, _ in asked)
    exact_us = (time.process_time() - began) / len(asked) * 1e6
    drawn = random.Random(3)  # noqa: S311
    changed = [with_other_words(source, words, drawn) for source, _ in asked]
    began = time.process_time()
    found = [memory.similar(text, threshold=THRESHOLD) for text in changed]
    similar_ms = (time.process_time() - began) / len(asked) * 1e3
    figures = {
        "units": len(memory),
        "index_s": round(indexed, 1),
        "peak_mib_over_start": round(resident_mib() - before),
        "exact_found": exact / len(asked),
        "exact_us": round(exact_us, 1),
        "similar_found": sum(one is not None for one in found) / len(asked),
        "similar_ms": round(similar_ms, 2),
    }
    print(json.dumps(figures, indent=2))


def units(pairs: list[tuple[str, str]], words: list[str], count: int) -> Iterator[tuple[str, str]]:
    """Stream the pairs, and then changed ones."""
    yield from pairs[:count]
    drawn = random.Random(1)  # noqa: S311
    for _ in range(count - len(pairs)):
        source, target = drawn.choice(pairs)
        yield with_other_words(source, words, drawn), target


def with_other_words(source: str, words: list[str], drawn: random.Random) -> str:
    """Replace one or two words."""
    own = source.split()
    for _ in range(drawn.randint(1, 2)):
        own[drawn.randrange(len(own))] = drawn.choice(words)
    return " ".join(own)


def resident_mib() -> float:
    """Return the most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
