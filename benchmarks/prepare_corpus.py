"""Prepare a corpus for training, phase by phase; or do as much with SentencePiece and NumPy.

    python benchmarks/prepare_corpus.py transduce --src A.de B.de --tgt A.en B.en --processes 2
    python benchmarks/prepare_corpus.py sentencepiece --src A.de B.de --tgt A.en B.en --processes 2
    python benchmarks/prepare_corpus.py transduce --src A.de --tgt A.en --pairs 36000000 --work DIR

Both read the files, learn a BPE vocabulary from a sample and write the ids of all pairs. Only
transduce cleans the pairs, drops duplicates, holds out a development set and digests the files.
With --pairs, the corpus is made larger first: each copy of a pair has a number at its end, so that
none is a duplicate. Copies and what is prepared are written below --work and removed at the end.
Memory is that of all processes, and what they share is counted once (PSS; Linux only).
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from threading import Event, Thread

import numpy as np
import sentencepiece

from transduce.config.schema import DataConfig
from transduce.data.corpus import Source, count_records, read_pairs, source_of
from transduce.data.prepare import find_corpora, prepare
from transduce.data.subwords import LEARN_PAIRS

BATCH_PAIRS = 4000


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("system", choices=("transduce", "sentencepiece"))
    parser.add_argument("--src", nargs="+", required=True)
    parser.add_argument("--tgt", nargs="+", required=True)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--vocab-size", type=int, default=16_000)
    parser.add_argument("--pairs", type=int, help="make so many of them, by numbered copies")
    parser.add_argument("--work", type=Path, help="a folder on a disk with room enough")
    asked = parser.parse_args()
    measure = with_transduce if asked.system == "transduce" else with_sentencepiece
    with tempfile.TemporaryDirectory(dir=asked.work) as folder:
        if asked.pairs:
            asked.src, asked.tgt = numbered_copies(asked, Path(folder))
        with peak_memory(), phase("all"):
            measure(asked, Path(folder))


def with_transduce(asked: argparse.Namespace, folder: Path) -> None:
    """Prepare as `transduce train` does."""
    config = DataConfig(src=tuple(asked.src), tgt=tuple(asked.tgt))
    corpora = find_corpora(config, folder, seed=1, phase=phase)
    prepared = prepare(
        config,
        corpora,
        folder,
        vocab_size=asked.vocab_size,
        processes=asked.processes,
        phase=phase,
    )
    print(f"{len(prepared.train):,} of {corpora.pairs:,} pairs, {prepared.train.manifest['files']}")


def with_sentencepiece(asked: argparse.Namespace, folder: Path) -> None:
    """Learn a vocabulary from as many pairs, and write the ids of all pairs."""
    sources = [source_of(Path(s), Path(t)) for s, t in zip(asked.src, asked.tgt, strict=True)]
    with phase("counting pairs"):
        every = -(-sum(map(count_records, sources)) // LEARN_PAIRS)
    with phase("learning subwords"):
        sample = islice(pairs_of(sources), 0, None, every)
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=chain.from_iterable(sample),
            model_prefix=str(folder / "spm"),
            model_type="bpe",
            vocab_size=asked.vocab_size,
            num_threads=asked.processes,
            minloglevel=2,
        )
    vocabulary = sentencepiece.SentencePieceProcessor(model_file=str(folder / "spm.model"))
    with phase("encoding"), (folder / "ids").open("wb") as ids:
        stream = pairs_of(sources)
        while batch := list(islice(stream, BATCH_PAIRS)):
            for texts in zip(*batch, strict=True):
                rows = vocabulary.encode(list(texts), num_threads=asked.processes)
                ids.write(np.concatenate(rows).astype(np.uint16).tobytes())


def numbered_copies(asked: argparse.Namespace, folder: Path) -> tuple[list[str], list[str]]:
    """Write copies of all pairs until there are as many as asked for; a file a copy and side."""
    sources = [source_of(Path(s), Path(t)) for s, t in zip(asked.src, asked.tgt, strict=True)]
    names: tuple[list[str], list[str]] = ([], [])
    left, copy = asked.pairs, 0
    while left:
        copy += 1
        files = [folder / f"copy-{copy}.{side}" for side in ("src", "tgt")]
        with (
            files[0].open("w", encoding="utf-8") as src,
            files[1].open("w", encoding="utf-8") as tgt,
        ):
            for one, other in islice(pairs_of(sources), left):
                src.write(f"{one} {copy}\n")
                tgt.write(f"{other} {copy}\n")
                left -= 1
        for side, file in zip(names, files, strict=True):
            side.append(str(file))
    return names


def pairs_of(sources: list[Source]) -> Iterator[tuple[str, str]]:
    """Stream all pairs."""
    return chain.from_iterable(map(read_pairs, sources))


@contextmanager
def phase(name: str) -> Iterator[Callable[[int, int], None]]:
    """Print how long the block takes, and the CPU time of this process and of ended children."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    yield lambda _done, _total: None
    spent = cpu_seconds() - cpu
    print(f"{name:20} {time.perf_counter() - wall:7.1f} s {spent:7.1f} CPU s", flush=True)


def cpu_seconds() -> float:
    """Return user and system time of this process and of its children that have ended."""
    both = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


@contextmanager
def peak_memory() -> Iterator[None]:
    """Print the most memory that this process and its children had together."""
    peak, done = 0, Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.5):
            peak = max(peak, sum(map(memory_kib, processes())))

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    yield
    done.set()
    watcher.join()
    print(f"{'peak memory':20} {peak / 2**20:7.2f} GiB")


def processes() -> list[Path]:
    """Return the folders in /proc of this process and of its children."""
    own = Path("/proc/self").resolve()
    children = (own / "task" / own.name / "children").read_text().split()
    return [own, *(own.parent / child for child in children)]


def memory_kib(process: Path) -> int:
    """Return a process's share of memory in KiB; 0 if it has ended."""
    try:
        lines = (process / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


if __name__ == "__main__":
    main()
