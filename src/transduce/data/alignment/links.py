"""The links of a store: for each target token the source token that it translates.

They lie beside the store in the cache, in a folder that is complete or absent, and are named by a
digest of the store's origin. Chunks of pairs are aligned in several processes, in order, so the
links do not depend on how many these are.
"""

import zlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from transduce.data.alignment.aligner import Aligner, Links, train_aligner
from transduce.data.alignment.grids import cells_of
from transduce.data.encoding.side import Side
from transduce.data.store import (
    FORMAT,
    Sentences,
    Store,
    identity_digest,
    open_files,
    write_manifest,
)
from transduce.data.worker_processes import WorkerPool, follow_parent, result_of
from transduce.files.atomic import atomic_folder, sync
from transduce.files.errors import reporting_write_errors

VERSION = 1
"""Of the aligner: another makes other links."""
FILE = "links"
SAMPLE_CELLS = 1 << 26
"""The aligner learns from pairs with at most this many cells, spread evenly over the store."""
CHUNK_PAIRS = 4000

Progress = Callable[[int, int], None]


def with_links(store: Store, cache: Path, *, processes: int, progress: Progress) -> Store:
    """Return a store with its links, aligning it first if they are not in the cache.

    `progress` gets the number of pairs done and their total.
    """
    identity = {"links of": store.manifest["identity"], "aligner": VERSION}
    folder = cache / identity_digest(identity)
    if not folder.exists():
        with reporting_write_errors(folder), atomic_folder(folder) as making:
            size, checksum = 0, 0
            with (making / FILE).open("wb") as stream:
                for done, links in _aligned(store, processes):
                    data = links.tobytes()
                    stream.write(data)
                    size, checksum = size + len(data), zlib.crc32(data, checksum)
                    progress(done, len(store))
            sync(making / FILE)
            files = {FILE: [size, checksum]}
            write_manifest(making, {"format": FORMAT, "files": files, "identity": identity})
    _, mapped = open_files(folder, {FILE: np.dtype(np.uint16)})
    return replace(store, links=Sentences(mapped[FILE], store.tgt.ends))


def _aligned(store: Store, processes: int) -> Iterator[tuple[int, Links]]:
    """Stream how many pairs are aligned, and the links of the last of them."""
    aligner = train_aligner(*sides_of(store, sample_of(store))).pruned()
    starts = range(0, len(store), CHUNK_PAIRS)
    chunks = (np.arange(start, min(start + CHUNK_PAIRS, len(store))) for start in starts)
    if processes == 1 or len(starts) == 1:
        for chunk in chunks:
            yield int(chunk[-1]) + 1, aligner.links(*sides_of(store, chunk))
        return
    with WorkerPool(processes, _start, aligner) as pool:
        waiting: deque[tuple[int, Future[Links]]] = deque()
        try:
            for chunk in chunks:
                future = pool.submit(_links, *sides_of(store, chunk))
                waiting.append((int(chunk[-1]) + 1, future))
                if len(waiting) > 2 * processes:
                    yield _finished(*waiting.popleft())
            while waiting:
                yield _finished(*waiting.popleft())
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def sample_of(store: Store) -> NDArray[np.int64]:
    """Return the pairs to learn from: all, or every n-th."""
    cells = int(cells_of(store.src.lengths, store.tgt.lengths).sum())
    return np.arange(0, len(store), -(-cells // SAMPLE_CELLS) or 1)


def sides_of(store: Store, pairs: NDArray[np.int64]) -> tuple[Side, Side]:
    """Return both sides of some pairs."""
    src, tgt = (Side(one.gather(pairs), one.lengths_of(pairs)) for one in (store.src, store.tgt))
    return src, tgt


def _finished(done: int, future: Future[Links]) -> tuple[int, Links]:
    return done, result_of(future)


class _Process:
    """What a process keeps between chunks."""

    aligner: Aligner


def _start(aligner: Aligner) -> None:
    follow_parent()
    _Process.aligner = aligner


def _links(src: Side, tgt: Side) -> Links:
    return _Process.aligner.links(src, tgt)
