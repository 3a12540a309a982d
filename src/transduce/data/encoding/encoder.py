"""Encoding pairs to ids in several processes, in order and in bounded memory."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from transduce.data.cleaning import PairFilter
from transduce.data.corpus import Pair
from transduce.data.encoding.placeholders import with_signs
from transduce.data.encoding.side import Side, id_type
from transduce.data.encoding.word_cache import WordCache
from transduce.data.worker_processes import follow_parent, in_processes
from transduce.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Encoded:
    """An encoded batch of pairs; a pair with a fault has no ids."""

    faults: list[str | None]
    digests: list[int]  # none where duplicates are kept
    src: Side
    tgt: Side


@dataclass(frozen=True)
class TargetForm:
    """How target text is written for the model, where that is not as the file has it."""

    name: str  # stands for `write` in the identity of what is encoded
    write: Callable[[str], str]  # must be picklable


@dataclass(frozen=True)
class Encoder:
    """How pairs are filtered and encoded; small enough to be sent to every process."""

    tokenizer: Path
    pair_filter: PairFilter
    target_form: TargetForm | None = None  # None: target text as it is

    def encode_all(
        self, batches: Iterator[list[Pair]], *, processes: int
    ) -> Iterator[tuple[list[Pair], Encoded]]:
        """Stream the batches, each with its encoding, a few batches ahead of the reader.

        One process is this one: starting another takes longer than encoding little text.
        """
        if processes == 1:
            vocabularies = BothSides(Tokenizer.load(self.tokenizer))
            for batch in batches:
                yield batch, self.encode(batch, vocabularies)
            return
        yield from in_processes(_encode, batches, processes, start=_start, shared=self)

    def encode(self, batch: list[Pair], vocabularies: "BothSides") -> Encoded:
        """Filter and encode one batch."""
        faults = self.pair_filter.faults(batch)
        fit = [pair for pair, fault in zip(batch, faults, strict=True) if fault is None]
        if vocabularies.has_placeholders:
            fit = [with_signs(pair) for pair in fit]
        form = self.target_form
        return Encoded(
            faults,
            self.pair_filter.digests(batch) if self.pair_filter.rules else [],
            vocabularies.source.encode([pair.src for pair in fit]),
            vocabularies.target.encode(
                [form.write(pair.tgt) if form else pair.tgt for pair in fit]
            ),
        )


class BothSides:
    """The vocabularies of source and target; a shared one keeps its words once."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Start with no words."""
        kind = id_type(tokenizer)
        self.has_placeholders = tokenizer.has_placeholders
        self.source = self.target = WordCache(tokenizer.source, kind)
        if tokenizer.target is not tokenizer.source:
            self.target = WordCache(tokenizer.target, kind)


class _Process:
    """What a worker process keeps between batches."""

    encoder: Encoder
    vocabularies: BothSides


def _start(encoder: Encoder) -> None:
    follow_parent()
    # The library would start a thread for every core in each of these processes.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # noqa: TID251 - set, not read
    _Process.encoder = encoder
    _Process.vocabularies = BothSides(Tokenizer.load(encoder.tokenizer))


def _encode(batch: list[Pair]) -> Encoded:
    return _Process.encoder.encode(batch, _Process.vocabularies)
