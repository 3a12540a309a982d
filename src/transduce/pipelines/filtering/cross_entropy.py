"""Dual conditional cross-entropy (Junczys-Dowmunt 2018): do two models agree on a pair?"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from transduce.data.corpus import Pair
from transduce.hardware.devices import choose_device
from transduce.models.folder import LoadedModel, load_model
from transduce.text.phrases.signs import signed_source
from transduce.translation.scorer import Scorer


class PairEntropy(NamedTuple):
    """The cross-entropies of a pair, in nats per token."""

    forward: float  # of the target given the source
    reverse: float  # of the source given the target

    @property
    def agreement(self) -> float:
        """The better, the nearer to 0: −(|a − b| + (a + b) / 2) of both."""
        return -(abs(self.forward - self.reverse) + (self.forward + self.reverse) / 2)


class DualCrossEntropy:
    """Scores pairs by a model of each direction."""

    def __init__(
        self, forward: Path, reverse: Path, *, languages: tuple[str, str], device: str = "auto"
    ) -> None:
        """`languages` are those of source and target, for models that have tags of languages."""
        chosen = choose_device(device)
        source, target = languages
        self._models = load_model(forward, device=chosen), load_model(reverse, device=chosen)
        self._scorers = _scorer(self._models[0], target), _scorer(self._models[1], source)

    def score(self, pairs: Sequence[Pair]) -> Iterator[PairEntropy | None]:
        """Stream the scores of pairs; None: a pair is too long for one of the models."""
        fits = [self._fits(pair) for pair in pairs]
        short = [pair for pair, is_short in zip(pairs, fits, strict=True) if is_short]
        swapped = [Pair(pair.tgt, pair.src) for pair in short]
        forward, reverse = self._scorers
        found = (
            PairEntropy(-ahead.mean, -back.mean)
            for ahead, back in zip(forward.score(short), reverse.score(swapped), strict=True)
        )
        return (next(found) if is_short else None for is_short in fits)

    def _fits(self, pair: Pair) -> bool:
        forward, reverse = self._models
        return _is_short(forward, pair) and _is_short(reverse, Pair(pair.tgt, pair.src))


def _scorer(model: LoadedModel, language: str) -> Scorer:
    return Scorer(model, to=language if model.tokenizer.languages else None)


def _is_short(model: LoadedModel, pair: Pair) -> bool:
    longest = model.config.model.max_length
    if longest is None:
        return True
    signed = signed_source(pair.src, model.tokenizer)
    [src], [tgt] = (
        model.tokenizer.encode_batch([signed.text]),
        model.tokenizer.encode_targets([signed.like(pair.tgt)]),
    )
    taken = 1 + bool(model.tokenizer.languages)  # by EOS, and by a tag
    return max(len(src), len(tgt)) + taken <= longest
