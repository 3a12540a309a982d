"""How long the aligner takes for a corpus, and how much memory.

    .venv/bin/python benchmarks/aligning.py train.en train.de --vocab-size 16000 --cache /tmp/cache

The text is prepared first, which is not timed. The cache keeps it, but the links are made anew.
"""

import argparse
import resource
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from transduce.config.schema import DataConfig
from transduce.data.alignment.aligner import train_aligner
from transduce.data.alignment.links import CHUNK_PAIRS, sample_of, sides_of
from transduce.data.prepare import find_corpora, prepare


def main() -> None:
    """Prepare, learn and align, in this process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("src", type=Path)
    parser.add_argument("tgt", type=Path)
    parser.add_argument("--vocab-size", type=int, default=16_000)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--pairs", type=int, help="to align, at most; all by default")
    given = parser.parse_args()
    config = DataConfig(src=(str(given.src),), tgt=(str(given.tgt),))
    corpora = find_corpora(config, given.cache, seed=1, phase=silent)
    store = prepare(
        config, corpora, given.cache, vocab_size=given.vocab_size, processes=2, phase=silent
    ).train
    sample = sample_of(store)
    began = time.process_time()
    learnt = train_aligner(*sides_of(store, sample))
    aligner = learnt.pruned()
    print(
        f"learnt from {len(sample):,} of {len(store):,} pairs in {time.process_time() - began:.0f} "
        f"s of processor time: {learnt.table.taken:,} pairs of tokens, {aligner.table.taken:,} kept"
    )
    del learnt
    began, linked, tokens = time.process_time(), 0, 0
    count = min(len(store), given.pairs or len(store))
    for start in range(0, count, CHUNK_PAIRS):
        links = aligner.links(*sides_of(store, np.arange(start, min(start + CHUNK_PAIRS, count))))
        linked, tokens = linked + int((links > 0).sum()), tokens + links.size
    took = time.process_time() - began
    print(f"aligned {count:,} pairs in {took:.0f} s, {count / took:,.0f} pairs/s in one process")
    print(f"{linked / tokens:.1%} of target tokens have a link")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


def silent(_name: str) -> Any:
    """Report nothing."""
    return nullcontext(lambda _done, _total: None)


if __name__ == "__main__":
    main()
