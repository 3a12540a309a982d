"""How well a model translates a development set while it is being trained."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from transduce.data.corpus import Pair
from transduce.decoding.options import Options
from transduce.decoding.translator import Translator
from transduce.errors import InputError
from transduce.evaluation.bleu import bleu
from transduce.models.base import Searchable, State
from transduce.text.tokenizer import Tokenizer


class TrainedModel(Searchable[State], Protocol[State]):
    """A model that behaves differently while it is trained, as modules of torch do."""

    training: bool

    def train(self, mode: bool = True) -> object:
        """Choose between training and use."""
        ...


@dataclass(frozen=True)
class DevScore:
    """BLEU from 0 to 100, how it was computed, and what it was computed of, in the given order."""

    bleu: float
    signature: str
    hypotheses: tuple[str, ...]


class DevBleu:
    """Translates a development set as every user of the model would, only greedily."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        pairs: Sequence[Pair],
        *,
        device: torch.device | str,
        max_positions: int,
        max_tokens: int,
        by_sentence: bool = False,
        autocast: torch.dtype | None = None,
        tokenize: str = "13a",
    ) -> None:
        if not pairs:
            raise InputError("the development set is empty: give at least one sentence pair")
        self._pairs = pairs
        self._references = [tokenizer.as_decoded(pair.tgt) for pair in pairs]
        self._tokenize = tokenize
        self._options = Options(beam=1, second_try=False, max_batch_tokens=max_tokens)
        self._translator: Callable[[Searchable[Any]], Translator] = lambda model: Translator(
            model,
            tokenizer,
            max_positions=max_positions,
            by_sentence=by_sentence,
            device=device,
            autocast=autocast,
        )
        # In the order of their lengths, so that a part of them makes full batches.
        self._order = sorted(range(len(pairs)), key=lambda place: len(pairs[place].src))
        self._at_once = 64 if torch.device(device).type == "cpu" else 4096

    def __call__(
        self, model: TrainedModel[State], *, stopped: Callable[[], bool] = lambda: False
    ) -> DevScore | None:
        """Score a model; None if `stopped` said so in the middle."""
        sources = [self._pairs[place].src for place in self._order]
        hypotheses = [""] * len(sources)
        with _in_use(model):
            translations = self._translator(model).stream(
                sources, self._options, window=self._at_once
            )
            for number, place in enumerate(self._order):
                if number % self._at_once == 0 and stopped():
                    return None
                hypotheses[place] = next(translations).text
        score = bleu(hypotheses, self._references, tokenize=self._tokenize)
        return DevScore(score.score, score.signature, tuple(hypotheses))


@contextmanager
def _in_use(model: TrainedModel[State]) -> Iterator[None]:
    """Put a model in eval mode, and afterwards back into the mode that it was in."""
    was_training = model.training
    model.train(False)
    try:
        yield
    finally:
        model.train(was_training)
