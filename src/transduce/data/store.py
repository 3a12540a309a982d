"""A corpus as numbers: ids on disk, mapped into memory, with a manifest of what made them.

A store is a folder that is complete or not there: it is built under another name, written through
to the disk, and renamed. Its name is a digest of all that decides what is in it, so other inputs,
other settings or another vocabulary make another store.
"""

import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from transduce.data.cleaning import Report, Rules, Seen, Sieve, batched, sampled
from transduce.data.corpus import Pair, Source, read_pairs, read_sentences, survey
from transduce.data.digests import Digests
from transduce.data.encoding import Encoder, Ids, Side, id_type
from transduce.disk import in_the_making, sync
from transduce.errors import InputError
from transduce.text.tokenizer import Tokenizer

FORMAT = 2
MANIFEST = "manifest"
BATCH_PAIRS = 4000
SIDES = ("src", "tgt")


@dataclass(frozen=True)
class Sentences:
    """One side of a corpus; sentence n is ids[ends[n-1]:ends[n]]."""

    ids: Ids
    ends: NDArray[np.int64]

    def __len__(self) -> int:
        return self.ends.size

    def __getitem__(self, index: int) -> Ids:
        if not 0 <= index < len(self):
            raise IndexError(index)
        start = int(self.ends[index - 1]) if index else 0
        return self.ids[start : int(self.ends[index])]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens in each sentence."""
        return np.diff(self.ends, prepend=0)

    def lengths_of(self, sentences: NDArray[np.int64]) -> NDArray[np.int64]:
        """Tokens in each of these sentences."""
        return self.ends[sentences] - np.where(sentences > 0, self.ends[sentences - 1], 0)


@dataclass(frozen=True)
class Store:
    """Both sides of a corpus."""

    src: Sentences
    tgt: Sentences
    manifest: dict[str, Any]

    def __len__(self) -> int:
        return len(self.src)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Map a store into memory; one that was cut short or altered is refused."""
        manifest = _read_manifest(folder)
        for name, expected in manifest["files"].items():
            if _fingerprint(folder / name) != expected:
                raise InputError(
                    f"{folder / name} was cut short or altered since it was written; "
                    f"delete {folder} and run again to build it anew"
                )
        kind = np.dtype(manifest["ids"])
        src, tgt = (
            Sentences(
                _mapped(folder / f"{side}.ids", kind), _mapped(folder / f"{side}.ends", np.int64)
            )
            for side in SIDES
        )
        return cls(src, tgt, manifest)


@dataclass(frozen=True)
class Recipe:
    """All that decides what is in a store: one corpus or several, the vocabulary and the rules."""

    sources: tuple[Source, ...]
    tokenizer: Path | None  # None: only to ask which pairs it takes
    rules: Rules | None = field(default_factory=Rules)  # None drops only what is held out
    held_out: Sequence[Path | Source] = ()  # texts whose sentences must not be learnt from
    is_plain: bool = False  # whether the vocabulary has plain punctuation

    def inputs(self) -> list[Path]:
        """List the files that are read, in a fixed order."""
        values: list[Any] = []
        for item in (*self.sources, *self.held_out):
            values += [item] if isinstance(item, Path) else vars(item).values()
        return [value for value in values if isinstance(value, Path)]

    def sieve(self, sample: list[Pair]) -> Sieve:
        """Make the sieve for a corpus that begins with these pairs."""
        held_out = (text for item in self.held_out for text in read_sentences(item))
        return Sieve.of(sample, rules=self.rules, held_out=held_out, is_plain=self.is_plain)

    def identity(self, cache: Path) -> dict[str, Any]:
        """Describe the recipe by content: digests of files instead of their names."""
        known = Digests(cache)
        plain = {"punctuation": "plain"} if self.is_plain else {}
        return plain | {
            "format": FORMAT,
            "sources": [_described(source, known) for source in self.sources],
            "held_out": [_described(item, known) for item in self.held_out],
            "tokenizer": known.of(self.tokenizer) if self.tokenizer else None,
            "rules": asdict(self.rules) if self.rules else None,
        }


def _described(source: Path | Source, known: Digests) -> dict[str, str]:
    if isinstance(source, Path):
        return {"kind": "text", "path": known.of(source)}
    fields = {k: known.of(v) if isinstance(v, Path) else v for k, v in vars(source).items()}
    return {"kind": type(source).__name__, **fields}


def open_or_build(
    recipe: Recipe,
    cache: Path,
    *,
    pairs: int | None = None,
    processes: int = 2,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Store:
    """Open the store of a recipe, or build it first; progress is told pairs done and in all.

    Where it is not said how many pairs there are, they are counted first.
    """
    identity = recipe.identity(cache)
    name = blake2b(json.dumps(identity, sort_keys=True).encode(), digest_size=12).hexdigest()
    folder = cache / name
    if not folder.exists():
        total = sum(map(survey, recipe.sources)) if pairs is None else pairs
        try:
            with in_the_making(folder) as making:
                manifest = _build(recipe, making, processes, lambda done: progress(done, total))
                _write_manifest(making, manifest | {"identity": identity})
        except OSError as fault:
            raise InputError(f"cannot write the store {folder}: {fault.strerror}") from fault
    return Store.open(folder)


def _build(
    recipe: Recipe, folder: Path, processes: int, done: Callable[[int], None]
) -> dict[str, Any]:
    """Write the arrays and return what the manifest says of them."""
    assert recipe.tokenizer is not None, "a store needs a vocabulary"
    report, seen, ends = Report(), Seen(), []
    writers = {side: _SideWriter(folder, side) for side in SIDES}
    for source in recipe.sources:  # what is typical is typical of each by itself
        sample, pairs = sampled(read_pairs(source))
        sieve = recipe.sieve(sample)
        batches = batched(pairs, BATCH_PAIRS)
        encoder = Encoder(recipe.tokenizer, sieve)
        for batch, encoded in encoder.encode_all(batches, processes=processes):
            repeated = seen.add(encoded.digests) if recipe.rules else [False] * len(batch)
            caught = report.told(batch, encoded.faults, repeated)
            kept = [c is None for c, f in zip(caught, encoded.faults, strict=True) if not f]
            writers["src"].append(encoded.src.only(np.array(kept, dtype=bool)))
            writers["tgt"].append(encoded.tgt.only(np.array(kept, dtype=bool)))
            done(report.pairs)
        ends.append(report.kept)
    return {
        "format": FORMAT,
        "pairs": report.kept,
        "source_ends": ends,
        "read": report.pairs,
        "dropped": dict(report.dropped),
        "names": [str(path) for path in recipe.inputs()],
        "ids": id_type(len(Tokenizer.load(recipe.tokenizer))).name,
        "files": writers["src"].close() | writers["tgt"].close(),
    }


class _SideWriter:
    """Appends ids and sentence ends to two files, and knows their fingerprints."""

    def __init__(self, folder: Path, side: str) -> None:
        self._names = (f"{side}.ids", f"{side}.ends")
        self._streams = [(folder / name).open("wb") for name in self._names]
        self._sizes, self._sums = [0, 0], [0, 0]
        self._end = 0

    def append(self, side: Side) -> None:
        ends = self._end + np.cumsum(side.lengths)
        self._end += int(side.lengths.sum())
        for index, array in enumerate((side.ids, ends)):
            data = array.tobytes()
            self._streams[index].write(data)
            self._sizes[index] += len(data)
            self._sums[index] = zlib.crc32(data, self._sums[index])

    def close(self) -> dict[str, list[int]]:
        """Write everything through and return each file's fingerprint."""
        for stream in self._streams:
            stream.close()
            sync(Path(stream.name))
        prints = map(list, zip(self._sizes, self._sums, strict=True))
        return dict(zip(self._names, prints, strict=True))


def _write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest with a checksum before it."""
    text = json.dumps(manifest, indent=1)
    (folder / MANIFEST).write_text(f"{zlib.crc32(text.encode())}\n{text}", encoding="utf-8")
    sync(folder / MANIFEST)


def _read_manifest(folder: Path) -> dict[str, Any]:
    again = f"delete {folder} and run again to build it anew"
    try:
        checksum, _, text = (folder / MANIFEST).read_text(encoding="utf-8").partition("\n")
    except (OSError, ValueError) as unreadable:
        raise InputError(f"{folder} is not a whole store: {again} ({unreadable})") from unreadable
    if checksum != str(zlib.crc32(text.encode())):
        raise InputError(f"{folder / MANIFEST} was altered since it was written; {again}")
    manifest: dict[str, Any] = json.loads(text)
    if manifest["format"] != FORMAT:
        raise InputError(f"{folder} has format {manifest['format']} instead of {FORMAT}: {again}")
    return manifest


def _mapped(path: Path, kind: Any) -> NDArray[Any]:
    if path.stat().st_size == 0:
        return np.empty(0, dtype=kind)
    return np.memmap(path, dtype=kind, mode="r")


def _fingerprint(path: Path) -> list[int]:
    """Return size and CRC-32: enough to notice a fault, not to withstand a forger."""
    size, total = 0, 0
    try:
        with path.open("rb") as stream:
            while block := stream.read(1 << 22):
                size, total = size + len(block), zlib.crc32(block, total)
    except OSError as unreadable:
        raise InputError(f"cannot read {path}: {unreadable.strerror}") from unreadable
    return [size, total]
