"""An encoded corpus on disk: token ids, mapped into memory, and a manifest of their origin.

A store is a folder that is complete or absent. Its name is a digest of everything that determines
its content, so other inputs, settings or vocabularies make another store. Text is digested while it
is encoded: text that is changed meanwhile is an error, and makes no store.
"""

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, fields
from hashlib import blake2b
from itertools import compress, islice
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from transduce.data.cleaning import (
    UNREADABLE,
    CleaningReport,
    DuplicateFilter,
    PairFilter,
    Rules,
    fit_to_stream,
)
from transduce.data.corpus import (
    Pair,
    Source,
    TwoFiles,
    count_records,
    read_records,
    read_sentences,
)
from transduce.data.encoding.encoder import Encoder, TargetForm
from transduce.data.encoding.side import Ids, Side, id_type
from transduce.errors import InputError
from transduce.files.atomic import atomic_folder, sync
from transduce.files.digests import Digests, file_digest
from transduce.files.errors import reporting_read_errors, reporting_write_errors
from transduce.files.unchanged import ChangedFileError, unchanged_files
from transduce.text.tokenizer import Tokenizer

FORMAT = 2
PARSING = 2
"""The version of the rules by which tables, JSON lines and TMX become lines of text."""

MANIFEST = "manifest"
BATCH_PAIRS = 4000
SIDES = ("src", "tgt")


@dataclass(frozen=True)
class Sentences:
    """The ids of one side of a corpus; sentence n is ids[ends[n-1]:ends[n]]."""

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
        """The number of tokens of each sentence, without EOS."""
        return np.diff(self.ends, prepend=0)

    def lengths_of(self, sentences: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of tokens of each of these sentences, without EOS."""
        return self.ends[sentences] - np.where(sentences > 0, self.ends[sentences - 1], 0)

    def total_tokens(self) -> int:
        """Count the tokens of all sentences, without EOS."""
        return self.ids.size

    def gather(self, sentences: NDArray[np.int64]) -> Ids:
        """Concatenate sentences, without EOS.

        All in one operation: with a Python object for each sentence, a full garbage collection
        every hundred batches would take longer than the work that a GPU has queued.
        """
        lengths = self.lengths_of(sentences).astype(np.int64)
        shifts = self.ends[sentences] - np.cumsum(lengths)
        gathered: Ids = self.ids[np.arange(lengths.sum()) + np.repeat(shifts, lengths)]
        return gathered


@dataclass(frozen=True)
class Tags:
    """The token that goes before each sentence of one side: the language to translate into."""

    side: Literal["src", "tgt"]
    ids: NDArray[np.int64]  # of each corpus of a store
    ends: NDArray[np.int64]  # where the pairs of each corpus end

    def of(self, pairs: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the tag of each of these pairs."""
        return self.ids[np.searchsorted(self.ends, pairs, side="right")]


@dataclass(frozen=True)
class Store:
    """The ids of both sides of a corpus, and the manifest."""

    src: Sentences
    tgt: Sentences
    manifest: dict[str, Any]
    links: Sentences | None = None
    """For each target token the number of the source token that it translates, from 1; 0: none."""
    tags: Tags | None = None  # put before sentences when batches are made

    def __len__(self) -> int:
        return len(self.src)

    def tags_of(self, side: str, pairs: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Return the tags before the sentences of a side; None: they have none."""
        return None if self.tags is None or self.tags.side != side else self.tags.of(pairs)

    def total_tokens(self, side: Literal["src", "tgt"]) -> int:
        """Count the tokens of a side, with EOS and tags."""
        added = 1 if self.tags is None or self.tags.side != side else 2
        sentences: Sentences = getattr(self, side)
        return sentences.total_tokens() + added * len(self)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Map a store into memory; raise if a file was truncated or changed."""
        kinds = {f"{side}.ends": np.dtype(np.int64) for side in SIDES}
        manifest, files = open_files(folder, kinds)
        src, tgt = (Sentences(files[f"{side}.ids"], files[f"{side}.ends"]) for side in SIDES)
        return cls(src, tgt, manifest)


@dataclass(frozen=True)
class StoreSpec:
    """Everything that determines the content of a store: corpora, vocabulary and rules."""

    sources: tuple[Source, ...]
    tokenizer: Path | None  # None: the spec only serves to judge pairs
    rules: Rules | None = field(default_factory=Rules)  # None: drop only held-out sentences
    held_out: Sequence[Path | Source] = ()  # texts whose sentences must not be trained on
    is_plain: bool = False  # whether the vocabulary has plain punctuation
    target_form: TargetForm | None = None  # None: target text as it is
    held_out_by_source: bool = False  # whether targets may be in the held-out texts

    def inputs(self) -> list[Path]:
        """Return the files that are read, in a fixed order."""
        values: list[Any] = []
        for item in (*self.sources, *self.held_out):
            values += [item] if isinstance(item, Path) else vars(item).values()
        return [value for value in values if isinstance(value, Path)]

    def fit_filter(self, sample: list[Pair]) -> PairFilter:
        """Fit the filter for a corpus that starts with these pairs."""
        held_out = (text for item in self.held_out for text in read_sentences(item))
        return PairFilter.fit(
            sample,
            rules=self.rules,
            held_out=held_out,
            is_plain=self.is_plain,
            by_source=self.held_out_by_source,
        )

    def judged_pairs(self, chosen: Iterable[int]) -> Iterator[tuple[int, Pair, str | None]]:
        """Stream the number of each chosen pair, the pair and the filter that drops it, if any.

        `chosen` has a 1 or a 0 for each pair, in order; only the chosen are judged. No pair is
        dropped as a duplicate. All text is read, whatever is chosen.
        """
        before, wanted = 0, iter(chosen)
        for source in self.sources:
            pair_filter, batches = fit_to_stream(
                read_records(source), self.fit_filter, batch_pairs=BATCH_PAIRS
            )
            for batch in batches:
                numbered = enumerate(batch, start=before)
                picked = [*compress(numbered, islice(wanted, len(batch)))]
                faults = pair_filter.faults([pair for _, pair in picked])
                for (number, pair), fault in zip(picked, faults, strict=True):
                    yield number, pair, fault
                before += len(batch)

    def identity(self, cache: Path) -> dict[str, Any]:
        """Describe the spec by content: with digests of files instead of their names."""
        known = Digests(cache)
        plain = {"punctuation": "plain"} if self.is_plain else {}
        form = {"target_form": self.target_form.name} if self.target_form else {}
        by_source = {"held_out_by": "source"} if self.held_out_by_source else {}
        return (
            plain
            | form
            | by_source
            | {
                "format": FORMAT,
                "sources": [_described(source, known) for source in self.sources],
                "held_out": [_described(item, known) for item in self.held_out],
                "tokenizer": known.of(self.tokenizer) if self.tokenizer else None,
                "rules": asdict(self.rules) if self.rules else None,
            }
        )


def _described(source: Path | Source, known: Digests) -> dict[str, str | int]:
    if isinstance(source, Path):
        return {"kind": "text", "path": known.of(source)}
    described: dict[str, str | int] = {"kind": type(source).__name__}
    if not isinstance(source, TwoFiles):
        described["parsing"] = PARSING
    for one in fields(source):
        value = getattr(source, one.name)
        if value != one.default:  # so that a new choice leaves the older digests as they are
            described[one.name] = known.of(value) if isinstance(value, Path) else value
    return described


def identity_digest(identity: dict[str, Any]) -> str:
    """Return the digest of an identity: the name of what is made from it in the cache."""
    return blake2b(json.dumps(identity, sort_keys=True).encode(), digest_size=12).hexdigest()


@unchanged_files()
def open_or_build(
    spec: StoreSpec,
    cache: Path,
    *,
    pairs: int | None = None,
    processes: int = 2,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Store:
    """Open the store of a spec, building it first if it is not in the cache.

    `progress` gets the number of pairs done and their total; `pairs` is the total, which is counted
    first if it is not given.
    """
    identity = spec.identity(cache)
    folder = cache / identity_digest(identity)
    if not folder.exists():
        total = sum(map(count_records, spec.sources)) if pairs is None else pairs
        with reporting_write_errors(folder), atomic_folder(folder) as making:
            manifest = _build(spec, making, processes, lambda done: progress(done, total))
            check_vocabulary_unchanged(spec.tokenizer, identity)
            write_manifest(making, manifest | {"identity": identity})
    return Store.open(folder)


def check_vocabulary_unchanged(tokenizer: Path | None, identity: dict[str, Any]) -> None:
    """Raise if the vocabulary was changed meanwhile; texts are compared when they are read."""
    assert tokenizer is not None, "a store needs a vocabulary"
    if file_digest(tokenizer) != identity["tokenizer"]:
        raise ChangedFileError(tokenizer)


def _build(
    spec: StoreSpec, folder: Path, processes: int, report_done: Callable[[int], None]
) -> dict[str, Any]:
    """Write the arrays and return their part of the manifest."""
    with closing(SideWriter(folder, "src")) as src, closing(SideWriter(folder, "tgt")) as tgt:
        return _encode(spec, src, tgt, processes, report_done)


def _encode(
    spec: StoreSpec,
    src: "SideWriter",
    tgt: "SideWriter",
    processes: int,
    report_done: Callable[[int], None],
) -> dict[str, Any]:
    assert spec.tokenizer is not None, "a store needs a vocabulary"
    report, duplicates, ends = CleaningReport(), DuplicateFilter(), []
    for source in spec.sources:  # each has a filter of its own
        pair_filter, batches = fit_to_stream(
            read_records(source), spec.fit_filter, batch_pairs=BATCH_PAIRS
        )
        encoder = Encoder(spec.tokenizer, pair_filter, spec.target_form)
        for batch, encoded in encoder.encode_all(batches, processes=processes):
            faults = encoded.faults
            if spec.rules:
                faults = duplicates.mark(faults, encoded.digests)
            report.record_all(batch, faults)
            # Pairs with a fault were not encoded; of the others, duplicates are dropped here.
            both = zip(faults, encoded.faults, strict=True)
            kept = np.array([fault is None for fault, before in both if before is None], dtype=bool)
            src.append(encoded.src.only(kept))
            tgt.append(encoded.tgt.only(kept))
            report_done(report.pairs)
        ends.append(report.kept)
    return {
        "format": FORMAT,
        "pairs": report.kept,
        "source_ends": ends,
        "read": report.pairs,
        "dropped": dict(report.dropped),
        "unreadable": [pair.src for _, pair in report.examples.get(UNREADABLE, [])],
        "names": [str(path) for path in spec.inputs()],
        "ids": id_type(Tokenizer.load(spec.tokenizer)).name,
        "files": src.finish() | tgt.finish(),
    }


class SideWriter:
    """Appends ids and sentence ends to two files, and computes their fingerprints."""

    def __init__(self, folder: Path, side: str) -> None:
        """Begin the files of a side, which is part of their names."""
        self._names = (f"{side}.ids", f"{side}.ends")
        self._streams = [(folder / name).open("wb") for name in self._names]
        self._sizes, self._sums = [0, 0], [0, 0]
        self._end = 0

    def append(self, side: Side) -> None:
        """Write sentences."""
        ends = self._end + np.cumsum(side.lengths)
        self._end += int(side.lengths.sum())
        for index, array in enumerate((side.ids, ends)):
            data = array.tobytes()
            self._streams[index].write(data)
            self._sizes[index] += len(data)
            self._sums[index] = zlib.crc32(data, self._sums[index])

    def close(self) -> None:
        """Close the files, whatever they hold."""
        for stream in self._streams:
            stream.close()

    def finish(self) -> dict[str, list[int]]:
        """Flush the files to disk and return the fingerprint of each."""
        self.close()
        for stream in self._streams:
            sync(Path(stream.name))
        prints = map(list, zip(self._sizes, self._sums, strict=True))
        return dict(zip(self._names, prints, strict=True))


def open_files(
    folder: Path, kinds: dict[str, np.dtype[Any]]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the manifest of a folder, and its files mapped into memory, by name.

    `kinds` has the types of arrays; those that it does not name are of ids. Raises if a file was
    truncated or changed.
    """
    manifest = _read_manifest(folder)
    for name, expected in manifest["files"].items():
        if _fingerprint(folder / name) != expected:
            raise InputError(
                f"{folder / name} was truncated or changed after it was written; "
                f"delete {folder} and run the command again to rebuild it"
            )
    return manifest, {
        name: _mapped(folder / name, kinds.get(name) or np.dtype(manifest["ids"]))
        for name in manifest["files"]
    }


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest, with its checksum in the first line."""
    text = json.dumps(manifest, indent=1)
    (folder / MANIFEST).write_text(f"{zlib.crc32(text.encode())}\n{text}", encoding="utf-8")
    sync(folder / MANIFEST)


def _read_manifest(folder: Path) -> dict[str, Any]:
    remedy = f"delete {folder} and run the command again to rebuild it"
    try:
        checksum, _, text = (folder / MANIFEST).read_text(encoding="utf-8").partition("\n")
    except (OSError, ValueError) as unreadable:
        raise InputError(
            f"{folder} is not a complete store ({unreadable}); {remedy}"
        ) from unreadable
    if checksum != str(zlib.crc32(text.encode())):
        raise InputError(f"{folder / MANIFEST} was changed after it was written; {remedy}")
    manifest: dict[str, Any] = json.loads(text)
    if manifest["format"] != FORMAT:
        raise InputError(f"{folder} has format {manifest['format']} instead of {FORMAT}; {remedy}")
    return manifest


def _mapped(path: Path, kind: Any) -> NDArray[Any]:
    if path.stat().st_size == 0:
        return np.empty(0, dtype=kind)
    return np.memmap(path, dtype=kind, mode="r")


def _fingerprint(path: Path) -> list[int]:
    """Return size and CRC-32, which detect an accident, not a forgery."""
    size, crc = 0, 0
    with reporting_read_errors(path), path.open("rb") as stream:
        while block := stream.read(1 << 22):
            size, crc = size + len(block), zlib.crc32(block, crc)
    return [size, crc]
