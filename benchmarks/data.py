"""From parallel files to batches: time by phase, memory, padding, and `tokenizers` used directly.

    python benchmarks/data.py SRC TGT [SRC TGT ...] [--repeat N] [--vocab-size 32000] [--work DIR]
        [--augment] [--epochs 6]

With --augment, batches also come with noise at its usual rates (`data.augment=true`), over several
epochs.

The files may be compressed. They are joined to one corpus, N times over, in DIR (a temporary folder
unless given), with the number of the copy before each sentence, so that no pair is a duplicate.
"""

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path

import torch
from process_tree import resident_bytes

from transduce.config.sections.augment import USUAL_RATES
from transduce.data.corpus import TwoFiles, read_lines, read_pairs
from transduce.data.loader import Loader
from transduce.data.noise import epochs
from transduce.data.store import Store, StoreSpec, open_or_build
from transduce.text.tokenizer import Tokenizer


@contextmanager
def measured(name: str, results: dict[str, float]) -> Iterator[None]:
    """Print the seconds and the peak memory of a phase."""
    done, peak = threading.Event(), 0

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.1):
            peak = max(peak, resident_bytes(os.getpid()))

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    yield
    results[name] = time.perf_counter() - start
    done.set()
    watcher.join()
    print(f"{results[name]:8.2f} s  peak {peak / 2**20:6,.0f} MiB  {name}", flush=True)


def joined(files: list[Path], side: int, repeat: int, path: Path) -> Path:
    """Write one side of all files, `repeat` times, with the copy's number before each sentence."""
    with path.open("w", encoding="utf-8") as stream:
        for copy in range(repeat):
            prefix = f"{copy} " if copy else ""
            for file in files[side::2]:
                stream.writelines(f"{prefix}{line}\n" for line in read_lines(file))
    return path


def main() -> None:
    """Run all phases and print the claims."""
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--vocab-size", type=int, default=32_000)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--direct", action="store_true", help="also encode with tokenizers alone")
    parser.add_argument("--augment", action="store_true", help="also stream epochs with noise")
    parser.add_argument("--epochs", type=int, default=6, help="with noise")
    options = parser.parse_args()
    work = options.work or Path(tempfile.mkdtemp())
    seconds: dict[str, float] = {}

    with measured("join the files", seconds):
        paths = [
            joined(options.files, i, options.repeat, work / n) for i, n in ((0, "src"), (1, "tgt"))
        ]
    source, vocabulary = TwoFiles(*paths), work / "tokenizer.json"
    if not vocabulary.exists():
        with measured("learn the subwords", seconds):
            lines = chain.from_iterable(read_pairs(source))
            Tokenizer.learn(lines, vocab_size=options.vocab_size).save(vocabulary)
    recipe = StoreSpec((source,), vocabulary)
    with measured("build the store", seconds):
        store = open_or_build(recipe, work / "store")
    with measured("open it again", seconds):
        open_or_build(recipe, work / "store")
    if options.direct:
        tokenizer = Tokenizer.load(vocabulary)
        with measured("tokenizers alone: read and encode", seconds):
            stream = chain.from_iterable(read_pairs(source))
            while texts := list(islice(stream, 8000)):
                tokenizer.encode_batch(texts)
        overhead = seconds["build the store"] / seconds["tokenizers alone: read and encode"] - 1
        print(f"our overhead over tokenizers alone: {overhead:.0%} (claim: at most 25 %)")

    torch.set_num_threads(1)
    loader = Loader(store)
    with measured("plan an epoch", seconds):
        plan = loader.plan(0)
    tokens = positions = 0
    start = time.perf_counter()
    for batch in islice(loader.batches(0), 1000):
        tokens += batch.src_tokens + batch.tgt_tokens
        positions += batch.src.numel() + batch.tgt_out.numel()
    rate = tokens / (time.perf_counter() - start)
    print(f"{len(store):,} pairs, {len(plan):,} batches, dropped {store.manifest['dropped']}")
    print(f"padding {1 - tokens / positions:.1%} (claim: at most 5 %)")
    print(f"{rate / 1e6:.1f}M tokens/s, the plan's time included (claim: at least 5M)")
    if options.augment:
        stream_noise(store, vocabulary, options.epochs)


def stream_noise(store: Store, vocabulary: Path, count: int) -> None:
    """Stream epochs with noise, and print tokens per second of this process's time.

    That is the time of one core, whatever else the machine does. First other processes make the
    noise, as in a run; then this one does, and its time has all of the work.
    """
    for few_pairs, makers in ((0, "other processes"), (len(store), "this process")):
        epochs.FEW_PAIRS = few_pairs
        with epochs.EpochNoise(USUAL_RATES, vocabulary) as noise:
            loader = Loader(store, noise=noise)
            speeds, start = [], time.process_time()
            for epoch in range(count):
                tokens = sum(batch.src_tokens + batch.tgt_tokens for batch in loader.batches(epoch))
                now = time.process_time()
                speeds.append(f"{tokens / (now - start) / 1e6:.1f}")
                start = now
        print(f"noise made by {makers}, M tokens/s of CPU by epoch: {', '.join(speeds)}")


if __name__ == "__main__":
    main()
