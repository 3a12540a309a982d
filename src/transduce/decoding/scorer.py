"""Text in, scores out: how likely a model finds translations that it did not make itself."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from transduce.data.corpus import Pair
from transduce.decoding.device import on_device
from transduce.decoding.force import forced_scores
from transduce.errors import InputError
from transduce.models.folder import LoadedModel
from transduce.text.special_ids import BOS_ID, EOS_ID, PAD_ID

WINDOW_PAIRS = 4000
"""Pairs that are sorted by length together: so many are in memory at a time."""

MAX_LOGITS = 2**26
"""Of one batch, unless one sentence alone has more: 256 MiB in float32, and twice that again."""


@dataclass(frozen=True)
class PairScore:
    """Natural log-probabilities of a translation's tokens, each after those before it."""

    pieces: tuple[str, ...]  # as the vocabulary writes them, the end included
    log_probs: tuple[float, ...]

    @property
    def total(self) -> float:
        """Of the whole translation with its end."""
        return math.fsum(self.log_probs)

    @property
    def mean(self) -> float:
        """Of a token: the total by the number of tokens, the end counted."""
        return self.total / len(self.log_probs)


def perplexity(log_prob: float, tokens: int) -> float:
    """Raise e to the mean negative log-probability of so many tokens; it may be infinite."""
    try:
        return math.exp(-log_prob / tokens)
    except OverflowError:
        return math.inf


@dataclass(frozen=True)
class _Row:
    src: list[int]  # with its end
    tgt: list[int]  # with its end

    @property
    def length(self) -> int:
        return max(len(self.src), len(self.tgt))


class Scorer:
    """Scores pairs with one model, on the device where it is; in any number, in bounded memory."""

    def __init__(self, loaded: LoadedModel, *, max_tokens: int = 4096) -> None:
        """Take at most max_tokens padded tokens of either side at a time, or one pair."""
        self._loaded = loaded
        self._device = next(loaded.model.parameters()).device
        self._max_tokens = max(1, min(max_tokens, MAX_LOGITS // loaded.config.model.vocab_size))

    def check(self, pairs: Iterable[Pair]) -> int:
        """Raise on the first pair that is too long for the model; return how many there are."""
        return sum(len(rows) for rows in self._encoded(pairs))

    def score(self, pairs: Iterable[Pair]) -> Iterator[PairScore]:
        """Stream the scores in the order of the pairs."""
        for rows in self._encoded(pairs):
            yield from self._scored(rows)

    def _encoded(self, pairs: Iterable[Pair]) -> Iterator[list[_Row]]:
        """Stream windows of pairs as ids; a pair is known by its number, from 1."""
        stream = iter(pairs)
        before = 0
        while window := list(islice(stream, WINDOW_PAIRS)):
            tokenizer = self._loaded.tokenizer
            sources = _ended(
                tokenizer.encode_batch([" ".join(pair.src.split()) for pair in window])
            )
            targets = _ended(tokenizer.encode_targets([pair.tgt for pair in window]))
            rows = [_Row(src, tgt) for src, tgt in zip(sources, targets, strict=True)]
            for number, row in enumerate(rows, start=before + 1):
                self._check(number, row)
            before += len(rows)
            yield rows

    def _check(self, number: int, row: _Row) -> None:
        longest = self._loaded.config.model.max_positions
        for side, ids in (("source", row.src), ("translation", row.tgt)):
            if len(ids) > longest:
                raise InputError(
                    f"line {number:,}: its {side} has {len(ids):,} tokens with its end, but "
                    f"the model has {longest:,} positions; shorten it or take it out"
                )

    def _scored(self, rows: Sequence[_Row]) -> list[PairScore]:
        found: dict[int, PairScore] = {}
        for numbers in self._batches(rows):
            found |= zip(numbers, self._batch([rows[i] for i in numbers]), strict=True)
        return [found[i] for i in range(len(rows))]

    def _batches(self, rows: Sequence[_Row]) -> Iterator[list[int]]:
        """Group rows of like length, the longest first: if any is too much, it is the first."""
        by_length = sorted(range(len(rows)), key=lambda i: -rows[i].length)
        start = 0
        while start < len(by_length):
            count = max(1, self._max_tokens // rows[by_length[start]].length)
            yield by_length[start : start + count]
            start += count

    def _batch(self, rows: Sequence[_Row]) -> list[PairScore]:
        src = self._padded([row.src for row in rows])  # [B, S]
        tgt_in = self._padded([[BOS_ID, *row.tgt[:-1]] for row in rows])  # [B, T]
        tgt_out = self._padded([row.tgt for row in rows])  # [B, T]
        with on_device(self._device):
            forced = forced_scores(self._loaded.model, src, tgt_in, tgt_out)
        return [
            PairScore(
                tuple(self._loaded.tokenizer.tokens(row.tgt)), tuple(log_probs[: len(row.tgt)])
            )
            for row, log_probs in zip(rows, forced.tokens.tolist(), strict=True)
        ]

    def _padded(self, rows: list[list[int]]) -> Tensor:
        tensors = [torch.tensor(row) for row in rows]
        return pad_sequence(tensors, batch_first=True, padding_value=PAD_ID).to(self._device)


def _ended(rows: list[list[int]]) -> list[list[int]]:
    return [[*ids, EOS_ID] for ids in rows]
