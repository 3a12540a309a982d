"""Forced scores: the log-probabilities that a model gives to existing translations."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from transduce.data.corpus import Pair, check_fields_used, count_pairs, read_pairs, source_of
from transduce.errors import InputError, counted
from transduce.hardware.devices import choose_device, on_device
from transduce.models.folder import LoadedModel, load_model
from transduce.search.forced import forced_scores
from transduce.tasks.registry import task_of
from transduce.text.phrases.signs import shown_tokens, signed_source
from transduce.text.special_ids import BOS_ID, EOS_ID, PAD_ID
from transduce.text.spelling import readable_tokens
from transduce.translation.batches import batches_by_length
from transduce.translation.languages import tags_of

WINDOW_PAIRS = 4000
"""Pairs held in memory and sorted by length together."""

MAX_LOGITS = 2**26
"""Maximum logits of a batch, unless one sentence has more: 256 MiB in float32, and twice that
again."""


@dataclass(frozen=True)
class PairScore:
    """Natural log-probabilities of a translation's tokens, each given those before it."""

    pieces: tuple[str, ...]  # as the vocabulary writes them, EOS included
    log_probs: tuple[float, ...]
    texts: tuple[str, ...] = ()  # of the pieces, spaces included (`readable_tokens`)

    @property
    def total(self) -> float:
        """The log-probability of the whole translation, EOS included."""
        return math.fsum(self.log_probs)

    @property
    def mean(self) -> float:
        """The total divided by the number of tokens, EOS included."""
        return self.total / len(self.log_probs)


def score(
    model: str | PathLike[str] | LoadedModel,
    src: str | PathLike[str],
    tgt: str | PathLike[str] | None = None,
    *,
    fields: str = "src,tgt",
    device: str = "auto",
    to: str | None = None,
) -> Iterator[PairScore]:
    """Score existing translations with a model; return a `PairScore` for each line, as a stream.

    model: a model folder, or a model that is already loaded, which stays on its device.
    src, tgt: source text and its translations, line by line; or in `src` alone a file with both
        sides: .tsv, .csv, .jsonl, .tmx, .po or .xlf.
    fields: the two columns, fields or languages of such a file, separated by a comma.
    device: cpu, cuda, cuda:N or mps; auto takes a GPU if there is one.
    to: the language of the translations, for a model of several.

    All lines are read and checked before the first is scored: a missing file, unequal numbers of
    lines or a line that is too long for the model raise `InputError` at the call.
    """
    check_fields_used(fields, [Path(name) for name in (src, tgt) if name is not None])
    source = source_of(Path(src), None if tgt is None else Path(tgt), fields=fields)
    count_pairs(source)
    if not isinstance(model, LoadedModel):
        model = load_model(Path(model), device=choose_device(device))
    scorer = Scorer(model, to=to)
    scorer.check(read_pairs(source))
    return scorer.score(read_pairs(source))


def perplexity(log_prob: float, tokens: int) -> float:
    """Return exp(−log_prob / tokens), which may be infinite."""
    try:
        return math.exp(-log_prob / tokens)
    except OverflowError:
        return math.inf


@dataclass(frozen=True)
class _Row:
    src: list[int]  # with EOS
    tgt: list[int]  # with EOS
    values: tuple[str, ...]  # what the signs of placeholders stand for

    @property
    def length(self) -> int:
        return max(len(self.src), len(self.tgt))


class Scorer:
    """Scores any number of pairs with one model, on its device, in bounded memory."""

    def __init__(
        self, loaded: LoadedModel, *, max_tokens: int = 4096, to: str | None = None
    ) -> None:
        """Compute at most `max_tokens` padded tokens of either side at once, or one pair.

        `to` is the language of the translations, for a model of several.
        """
        self._loaded = loaded
        self._tags = tags_of(loaded.tokenizer, loaded.config.data.tag_on, to)
        self._task = task_of(loaded.config.data)
        self._are_bytes = loaded.tokenizer.is_byte_level
        self._device = next(loaded.model.parameters()).device
        self._max_tokens = max(1, min(max_tokens, MAX_LOGITS // loaded.config.model.vocab_size))

    def check(self, pairs: Iterable[Pair]) -> int:
        """Raise if a pair is too long for the model; return the number of pairs."""
        return sum(len(rows) for rows in self._encoded(pairs))

    def score(self, pairs: Iterable[Pair]) -> Iterator[PairScore]:
        """Stream the scores in the order of the pairs."""
        for rows in self._encoded(pairs):
            yield from self._scored(rows)

    def _encoded(self, pairs: Iterable[Pair]) -> Iterator[list[_Row]]:
        """Stream windows of encoded pairs, checked; messages number the pairs from 1."""
        stream = iter(pairs)
        before = 0
        while window := list(islice(stream, WINDOW_PAIRS)):
            tokenizer = self._loaded.tokenizer
            read = [self._task.to_source(" ".join(pair.src.split())) for pair in window]
            signed = [signed_source(text, tokenizer) for text in read]
            sources = _ended(tokenizer.encode_batch([s.text for s in signed]), self._tags.source)
            written = [self._task.to_target(pair.tgt) for pair in window]
            written = [one.like(text) for one, text in zip(signed, written, strict=True)]
            targets = _ended(tokenizer.encode_targets(written), self._tags.target)
            values = (one.values for one in signed)
            rows = list(map(_Row, sources, targets, values))
            for number, row in enumerate(rows, start=before + 1):
                self._check(number, row)
            before += len(rows)
            yield rows

    def _check(self, number: int, row: _Row) -> None:
        longest = self._loaded.config.model.max_length
        if longest is None:
            return
        for side, ids in (("source", row.src), ("translation", row.tgt)):
            if len(ids) > longest:
                raise InputError(
                    f"line {number:,}: its {side} has {counted(len(ids), 'token')} with EOS, but "
                    f"the model has {longest:,} positions; shorten it or take it out"
                )

    def _scored(self, rows: Sequence[_Row]) -> list[PairScore]:
        found: dict[int, PairScore] = {}
        lengths = [row.length for row in rows]
        for numbers in batches_by_length(lengths, max_tokens=self._max_tokens, cost=int):
            found |= zip(numbers, self._batch([rows[i] for i in numbers]), strict=True)
        return [found[i] for i in range(len(rows))]

    def _batch(self, rows: Sequence[_Row]) -> list[PairScore]:
        src = self._padded([row.src for row in rows])  # [B, S]
        tgt_in = self._padded([[BOS_ID, *row.tgt[:-1]] for row in rows])  # [B, T]
        tgt_out = self._padded([row.tgt for row in rows])  # [B, T]
        with on_device(self._device):
            forced = forced_scores(self._loaded.model, src, tgt_in, tgt_out)
        return [
            self._pair_score(row, log_probs[: len(row.tgt)])
            for row, log_probs in zip(rows, forced.tokens.tolist(), strict=True)
        ]

    def _pair_score(self, row: _Row, log_probs: list[float]) -> PairScore:
        tokenizer = self._loaded.tokenizer
        pieces = shown_tokens(tokenizer.tokens(row.tgt), row.values, tokenizer.target)
        texts = readable_tokens(pieces, are_bytes=self._are_bytes)
        return PairScore(tuple(pieces), tuple(log_probs), tuple(texts))

    def _padded(self, rows: list[list[int]]) -> Tensor:
        tensors = [torch.tensor(row) for row in rows]
        return pad_sequence(tensors, batch_first=True, padding_value=PAD_ID).to(self._device)


def _ended(rows: list[list[int]], tags: tuple[int, ...]) -> list[list[int]]:
    return [[*tags, *ids, EOS_ID] for ids in rows]
