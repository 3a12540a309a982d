"""How many planted bad pairs `transduce data filter` drops, by kind, as JSON.

Of a corpus of two files, 5 % of the targets are spoilt: shuffled, in another language, truncated
or copied. The text of the other language is a file. From the scores follows also what other weights
of the lengths would have dropped.
"""

import argparse
import json
import math
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from transduce.data.corpus import Pair, read_lines
from transduce.pipelines.filtering.filter_corpus import FilteredCorpus, filter_corpus
from transduce.pipelines.filtering.lengths import LENGTH_WEIGHT
from transduce.pipelines.filtering.planting import plant
from transduce.pipelines.filtering.scores import Selection
from transduce.pipelines.translated_pairs import best_share
from transduce.pipelines.watcher import PipelineWatcher

WEIGHTS = (0, 0.1, 0.2, 0.3, 0.5, 1)


class Lines(PipelineWatcher):
    """Prints when each stage begins."""

    def stage(self, title: str, *, is_done: bool = False) -> None:
        """Print the title."""
        print(f"{time.strftime('%H:%M:%S')} {title}{': done before' * is_done}", flush=True)


def main() -> None:
    """Plant, filter, and print what was found."""
    options = parsed()
    began = time.monotonic()
    other = list(islice((line for line in read_lines(options.other) if len(line) > 40), 20_000))
    pairs = list(islice(read(options.src, options.tgt), options.pairs))
    spoilt, kinds = plant(pairs, share=options.planted, seed=options.seed, other=other)
    done = filtered(spoilt, options)
    parts = sorted((options.to / "filtered" / "scores").glob("part-*"))
    selection = Selection(parts, keep=options.keep)
    planted = Counter(kinds.values())
    caught = Counter(kind for number, kind in kinds.items() if not selection.is_kept[number])
    reasons = Counter(f"{kind}: {selection.reason(number)}" for number, kind in kinds.items())
    found = {
        "pairs": done.pairs,
        "kept": done.kept,
        "dropped": done.dropped,
        "planted": dict(planted),
        "recall": {kind: caught[kind] / count for kind, count in planted.items()},
        "recall of all": caught.total() / planted.total(),
        "reasons": dict(reasons),
        "dropped by weight of lengths": {
            weight: dict(dropped(parts, kinds, weight, keep=options.keep)) for weight in WEIGHTS
        },
        "seconds": round(time.monotonic() - began, 1),
    }
    print(json.dumps(found, indent=1))


def dropped(
    parts: list[Path], kinds: dict[int, str], weight: float, *, keep: float
) -> Counter[str]:
    """Count the planted pairs that another weight of the lengths would drop."""
    records = [json.loads(line) for part in parts for line in read_lines(part)]
    scores = [
        math.nan if one["reason"] else one["score"] + (LENGTH_WEIGHT - weight) * one["length"]
        for one in records
    ]
    is_kept = best_share(np.array(scores, dtype=np.float32), keep)
    return Counter(kind for number, kind in kinds.items() if not is_kept[number])


def read(src: list[Path], tgt: list[Path]) -> Iterator[Pair]:
    """Stream the pairs of several files."""
    for one, other in zip(src, tgt, strict=True):
        yield from map(Pair, read_lines(one), read_lines(other))


def filtered(pairs: list[Pair], options: argparse.Namespace) -> FilteredCorpus:
    """Write the pairs, and filter them."""
    options.to.mkdir(parents=True, exist_ok=True)
    files = [options.to / f"planted.{language}" for language in options.languages.split(",")]
    for side, path in enumerate(files):
        path.write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    return filter_corpus(
        *files,
        to=options.to / "filtered",
        keep=options.keep,
        models=tuple(options.models) if options.models else None,
        preset=options.preset,
        settings=options.set,
        sample_pairs=options.sample,
        detect=not options.no_detect,
        device=options.device,
        watcher=Lines(),
    )


def parsed() -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--src", type=Path, nargs="+", required=True)
    parser.add_argument("--tgt", type=Path, nargs="+", required=True)
    parser.add_argument("--other", type=Path, required=True, help="text of another language")
    parser.add_argument("--languages", default="en,de")
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=200_000)
    parser.add_argument("--planted", type=float, default=0.05)
    parser.add_argument("--keep", type=float, default=0.9)
    parser.add_argument("--models", type=Path, nargs=2)
    parser.add_argument("--preset", default="small")
    parser.add_argument("--set", action="append", default=[], help="setting of the small models")
    parser.add_argument("--sample", type=int, default=200_000)
    parser.add_argument("--no-detect", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="auto")
    return parser.parse_args()


if __name__ == "__main__":
    main()
