"""The store of corpora in several languages: every text once, and pairs as numbers of sentences.

Thirty directions between seven languages are seven texts and thirty lists of numbers. The tag of
the target language is in no text: it is put before a sentence when a batch is made.
"""

import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain, compress, islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from transduce.data.cleaning import SAMPLE_PAIRS, PairFilter
from transduce.data.corpus import Pair
from transduce.data.encoding.encoder import TargetForm
from transduce.data.encoding.side import Ids, Side, id_type
from transduce.data.encoding.word_cache import WordCache
from transduce.data.languages.corpora import Direction, Multiway, Row
from transduce.data.languages.judging import FIT, Codes, RowFilter, RowReport
from transduce.data.store import (
    FORMAT,
    PARSING,
    Sentences,
    SideWriter,
    Store,
    StoreSpec,
    Tags,
    check_vocabulary_unchanged,
    identity_digest,
    open_files,
    write_manifest,
)
from transduce.data.worker_processes import follow_parent, in_processes
from transduce.files.atomic import atomic_folder, sync
from transduce.files.digests import Digests
from transduce.files.errors import reporting_write_errors
from transduce.files.unchanged import unchanged_files
from transduce.text.tokenizer import Tokenizer

LAYOUT = 2
"""The version of what a store of several languages holds."""
BATCH_ROWS = 1000


@dataclass(frozen=True)
class NumberedSentences(Sentences):
    """Sentences of a text, in any order and any number of times."""

    numbers: NDArray[np.unsignedinteger]  # of each sentence in the text

    def __len__(self) -> int:
        return self.numbers.size

    def __getitem__(self, index: int) -> Ids:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self._text[int(self.numbers[index])]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of tokens of each sentence, without EOS."""
        return self._text.lengths_of(self.numbers.astype(np.int64))

    def lengths_of(self, sentences: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of tokens of each of these sentences, without EOS."""
        return self._text.lengths_of(self.numbers[sentences].astype(np.int64))

    def total_tokens(self) -> int:
        """Count the tokens of all sentences, without EOS."""
        return int(self.lengths.sum())

    def gather(self, sentences: NDArray[np.int64]) -> Ids:
        """Concatenate sentences, without EOS."""
        return self._text.gather(self.numbers[sentences].astype(np.int64))

    @property
    def _text(self) -> Sentences:
        return Sentences(self.ids, self.ends)


@dataclass(frozen=True)
class LanguageSpec:
    """Everything that determines the content of a store of several languages."""

    corpora: tuple[Multiway, ...]
    directions: tuple[Direction, ...]
    judging: StoreSpec  # its rules and held-out texts; it has no sources
    tokenizer: Path | None = None  # None: the spec only serves to judge pairs
    target_form: TargetForm | None = field(default=None, init=False)

    @property
    def is_plain(self) -> bool:
        """Whether the vocabulary has plain punctuation."""
        return self.judging.is_plain

    def inputs(self) -> list[Path]:
        """Return the files that are read, in a fixed order."""
        files = [path for corpus in self.corpora for path in corpus.files]
        return [*dict.fromkeys(files), *self.judging.inputs()]

    def parts(self) -> list[tuple[Multiway, Direction]]:
        """Return each corpus with each of its directions, in the order of a store's pairs."""
        return [
            (corpus, direction)
            for corpus in self.corpora
            for direction in corpus.directions(self.directions)
        ]

    def judged_pairs(self, chosen: Iterable[int]) -> Iterator[tuple[int, Pair, str | None]]:
        """Stream the texts of the chosen rows in pairs, each with the filter that drops it, if any.

        `chosen` has a 1 or a 0 for each row. Of an odd number of languages, the last comes with the
        first.
        """
        before, wanted = 0, iter(chosen)
        base = self.judging.fit_filter([])
        for corpus in self.corpora:
            row_filter, batches = _fitted(corpus, base)
            judges = dict(zip(row_filter.pairs, row_filter.filters, strict=True))
            count = len(corpus.languages)
            together = [sorted((n, (n + 1) % count)) for n in range(0, count, 2)]
            for batch in batches:
                for number, row in compress(
                    enumerate(batch, start=before), islice(wanted, len(batch))
                ):
                    for one, other in together:
                        pair = Pair(row[one], row[other])
                        yield number, pair, judges[one, other].faults([pair])[0]
                before += len(batch)

    def identity(self, cache: Path) -> dict[str, Any]:
        """Describe the spec by content: with digests of files instead of their names."""
        known = Digests(cache)
        return self.judging.identity(cache) | {
            "layout": LAYOUT,
            "parsing": PARSING,
            "corpora": [
                [corpus.name, *zip(corpus.languages, map(known.of, corpus.files), strict=True)]
                for corpus in self.corpora
            ],
            "directions": list(map(str, self.directions)),
            "tokenizer": known.of(self.tokenizer) if self.tokenizer else None,
        }


@unchanged_files()
def open_or_build_languages(
    spec: LanguageSpec,
    cache: Path,
    *,
    tag_on: Literal["source", "target"],
    rows: int,
    processes: int = 2,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Store:
    """Open the store of a spec, building it first if it is not in the cache.

    `progress` gets the number of rows done, and of all.
    """
    identity = spec.identity(cache)
    folder = cache / identity_digest(identity)
    if not folder.exists():
        with reporting_write_errors(folder), atomic_folder(folder) as making:
            manifest = _build(spec, making, processes, lambda done: progress(done, rows))
            check_vocabulary_unchanged(spec.tokenizer, identity)
            write_manifest(making, manifest | {"identity": identity})
    return _opened(folder, spec, tag_on)


def _opened(folder: Path, spec: LanguageSpec, tag_on: Literal["source", "target"]) -> Store:
    """Map a store into memory; its pairs have tags if the vocabulary has."""
    assert spec.tokenizer is not None, "a store needs a vocabulary"
    kinds = {f"{side}.pairs": np.dtype(np.uint32) for side in ("src", "tgt")}
    manifest, files = open_files(folder, {"text.ends": np.dtype(np.int64)} | kinds)
    ids, ends = files["text.ids"], files["text.ends"]
    src, tgt = (NumberedSentences(ids, ends, files[name]) for name in kinds)
    tag_of = Tokenizer.load(spec.tokenizer).target.tags
    if not tag_of:
        return Store(src, tgt, manifest)
    tags = np.array([tag_of[direction.target] for _, direction in spec.parts()], dtype=np.int64)
    side: Literal["src", "tgt"] = "src" if tag_on == "source" else "tgt"
    return Store(src, tgt, manifest, tags=Tags(side, tags, np.array(manifest["source_ends"])))


def _build(
    spec: LanguageSpec, folder: Path, processes: int, report_done: Callable[[int], None]
) -> dict[str, Any]:
    """Write texts and pairs, and return their part of the manifest."""
    assert spec.tokenizer is not None, "a store needs a vocabulary"
    report, base, done, sentences = RowReport(), spec.judging.fit_filter([]), 0, 0
    pairs = {side: _NumberWriter(folder / f"{side}.pairs") for side in ("src", "tgt")}
    ends: list[int] = []
    with closing(SideWriter(folder, "text")) as text:
        for corpus in spec.corpora:
            row_filter, batches = _fitted(corpus, base)
            encoder = _RowEncoder(spec.tokenizer, row_filter, has_rules=base.rules is not None)
            codes, numbers = [], []
            for encoded in encoder.encode_all(batches, processes=processes):
                for ids in encoded.sides:
                    text.append(ids)
                count = encoded.codes.shape[1]
                shape = len(corpus.languages), count
                numbers.append(np.arange(sentences, sentences + shape[0] * count).reshape(shape))
                sentences += shape[0] * count
                codes.append(report.mark_repeated(encoded.codes, encoded.digests))
                done += count
                report_done(done)
            _write_pairs(spec, corpus, (codes, numbers), pairs, report, ends)
        files = text.finish()
    for side, writer in pairs.items():
        files[f"{side}.pairs"] = writer.finish()
    return {
        "format": FORMAT,
        "pairs": ends[-1] if ends else 0,
        "source_ends": ends,
        "directions": [[corpus.name, str(direction)] for corpus, direction in spec.parts()],
        "read": report.read,
        "dropped": dict(report.dropped),
        "unreadable": [],
        "names": [str(path) for path in spec.inputs()],
        "ids": id_type(Tokenizer.load(spec.tokenizer)).name,
        "files": files,
    }


def _write_pairs(
    spec: LanguageSpec,
    corpus: Multiway,
    encoded: tuple[list[Codes], list[NDArray[np.int64]]],
    pairs: dict[str, "_NumberWriter"],
    report: RowReport,
    ends: list[int],
) -> None:
    """Write the pairs of each direction of a corpus that have no fault."""
    codes = np.concatenate(encoded[0], axis=1) if encoded[0] else np.zeros((0, 0), dtype=np.uint8)
    places = {pair: number for number, pair in enumerate(corpus.pairs)}
    for direction in corpus.directions(spec.directions):
        src, tgt = (corpus.languages.index(one) for one in (direction.source, direction.target))
        own = codes[places[min(src, tgt), max(src, tgt)]] if codes.size else codes[:0].ravel()
        report.record(own)
        fit = own == FIT
        for side, place in (("src", src), ("tgt", tgt)):
            all_numbers = np.concatenate([one[place] for one in encoded[1]] or [np.arange(0)])
            pairs[side].append(all_numbers[fit])
        ends.append((ends[-1] if ends else 0) + int(fit.sum()))


def _fitted(corpus: Multiway, base: PairFilter) -> tuple[RowFilter, Iterator[list[Row]]]:
    """Fit the filter to the first rows; return it and all rows, in batches."""
    stream = corpus.rows()
    sample = list(islice(stream, SAMPLE_PAIRS))
    row_filter = RowFilter.fit(corpus, sample, base)
    return row_filter, _batched(chain(sample, stream))


def _batched(rows: Iterable[Row]) -> Iterator[list[Row]]:
    stream = iter(rows)
    while batch := list(islice(stream, BATCH_ROWS)):
        yield batch


class _NumberWriter:
    """Appends numbers to a file, and computes its fingerprint."""

    def __init__(self, path: Path) -> None:
        self._path, self._size, self._sum = path, 0, 0
        path.touch()

    def append(self, numbers: NDArray[np.int64]) -> None:
        assert not numbers.size or numbers.max() < 2**32, "more sentences than 32 bits can number"
        data = numbers.astype(np.uint32).tobytes()
        with self._path.open("ab") as stream:
            stream.write(data)
        self._size += len(data)
        self._sum = zlib.crc32(data, self._sum)

    def finish(self) -> list[int]:
        sync(self._path)
        return [self._size, self._sum]


@dataclass(frozen=True)
class _EncodedRows:
    """The ids of each language of some rows, and the faults of each pair of languages."""

    sides: list[Side]
    codes: Codes  # [pairs, rows]
    digests: list[int]  # none where duplicates are kept


@dataclass(frozen=True)
class _RowEncoder:
    """How rows are judged and encoded; small enough to be sent to every process."""

    tokenizer: Path
    row_filter: RowFilter
    has_rules: bool

    def encode_all(self, batches: Iterator[list[Row]], *, processes: int) -> Iterator[_EncodedRows]:
        """Stream the batches, encoded, a few ahead of the reader."""
        if processes == 1:
            cache = _word_cache(self.tokenizer)
            yield from (self.encode(batch, cache) for batch in batches)
            return
        for _, encoded in in_processes(_encode, batches, processes, start=_start, shared=self):
            yield encoded

    def encode(self, rows: list[Row], cache: WordCache) -> _EncodedRows:
        """Judge and encode some rows."""
        columns: Sequence[Row] = list(zip(*rows, strict=True))
        digests = self.row_filter.digests(rows) if self.has_rules else []
        sides = [cache.encode(column) for column in columns]
        return _EncodedRows(sides, self.row_filter.codes(rows), digests)


def _word_cache(tokenizer: Path) -> WordCache:
    loaded = Tokenizer.load(tokenizer)
    return WordCache(loaded.source, id_type(loaded))


class _Process:
    """What a worker process keeps between batches."""

    encoder: _RowEncoder
    cache: WordCache


def _start(encoder: _RowEncoder) -> None:
    follow_parent()
    # The library would start a thread for every core in each of these processes.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # noqa: TID251 - set, not read
    _Process.encoder = encoder
    _Process.cache = _word_cache(encoder.tokenizer)


def _encode(rows: list[Row]) -> _EncodedRows:
    return _Process.encoder.encode(rows, _Process.cache)
