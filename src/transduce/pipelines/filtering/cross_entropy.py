"""Dual conditional cross-entropy (Junczys-Dowmunt 2018): do two models agree on a pair?"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from transduce.data.corpus import Pair
from transduce.hardware.devices import choose_device
from transduce.models.folder import LoadedModel, load_model
from transduce.translation.scorer import Scorer


class PairEntropy(NamedTuple):
    """How a pair was scored: the better, the nearer to 0."""

    score: float
    forward: float  # cross-entropy of the target given the source, in nats per token
    reverse: float  # of the source given the target


class DualCrossEntropy:
    """Scores pairs by a model of each direction: −(|a − b| + (a + b) / 2) of both entropies."""

    def __init__(self, forward: Path, reverse: Path, *, device: str = "auto") -> None:
        chosen = choose_device(device)
        self._models = load_model(forward, device=chosen), load_model(reverse, device=chosen)
        self._scorers = tuple(map(Scorer, self._models))

    def score(self, pairs: Sequence[Pair]) -> list[PairEntropy | None]:
        """Score pairs; None: a pair is too long for one of the models."""
        fits = [self._fits(pair) for pair in pairs]
        short = [pair for pair, is_short in zip(pairs, fits, strict=True) if is_short]
        swapped = [Pair(pair.tgt, pair.src) for pair in short]
        forward, reverse = self._scorers
        found = (
            _entropy(-ahead.mean, -back.mean)
            for ahead, back in zip(forward.score(short), reverse.score(swapped), strict=True)
        )
        return [next(found) if is_short else None for is_short in fits]

    def _fits(self, pair: Pair) -> bool:
        forward, reverse = self._models
        return _is_short(forward, pair) and _is_short(reverse, Pair(pair.tgt, pair.src))


def _is_short(model: LoadedModel, pair: Pair) -> bool:
    longest = model.config.model.max_length
    if longest is None:
        return True
    [src], [tgt] = (
        model.tokenizer.encode_batch([pair.src]),
        model.tokenizer.encode_targets([pair.tgt]),
    )
    return max(len(src), len(tgt)) < longest  # EOS takes one


def _entropy(forward: float, reverse: float) -> PairEntropy:
    return PairEntropy(-(abs(forward - reverse) + (forward + reverse) / 2), forward, reverse)
