"""How well a model translates a development set while it is being trained."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from transduce.data.corpus import Pair
from transduce.decoding.answer import answer_limits
from transduce.decoding.engine import batched
from transduce.decoding.greedy import greedy
from transduce.errors import InputError
from transduce.evaluation.bleu import bleu
from transduce.models.base import Seq2Seq, State
from transduce.text.special_ids import EOS_ID, PAD_ID
from transduce.text.tokenizer import Tokenizer


class TrainedModel(Seq2Seq[State], Protocol[State]):
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
    """Translates the sources of a development set greedily and compares with its targets.

    Sentences of like length are translated together: as many as fit into max_tokens, where a
    sentence takes the padded source and the longest translation that it may get.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        pairs: Sequence[Pair],
        *,
        device: torch.device | str,
        max_positions: int,
        max_tokens: int,
        autocast: torch.dtype | None = None,
        tokenize: str = "13a",
    ) -> None:
        if not pairs:
            raise InputError("the development set is empty: give at least one sentence pair")
        self._tokenizer = tokenizer
        self._references = [pair.tgt for pair in pairs]
        self._device = torch.device(device)
        self._max_positions = max_positions
        self._autocast = autocast
        self._tokenize = tokenize
        # Cut where the model has no more positions: a dev score skips no sentence.
        ids = tokenizer.encode_batch([pair.src for pair in pairs])
        self._sources = [torch.tensor([*row[: max_positions - 1], EOS_ID]) for row in ids]
        self._batches = list(batched([len(row) for row in self._sources], max_tokens=max_tokens))

    def __call__(
        self, model: TrainedModel[State], *, stopped: Callable[[], bool] = lambda: False
    ) -> DevScore | None:
        """Score a model; None if `stopped` said so between two batches."""
        answers: dict[int, list[int]] = {}
        with _in_use(model):
            for batch in self._batches:
                if stopped():
                    return None
                rows = [self._sources[sentence] for sentence in batch]
                src = pad_sequence(rows, batch_first=True, padding_value=PAD_ID)  # [B, S]
                answers |= zip(batch, self._translate(model, src), strict=True)
        hypotheses = self._tokenizer.decode_batch(answers[i] for i in range(len(answers)))
        score = bleu(hypotheses, self._references, tokenize=self._tokenize)
        return DevScore(score.score, score.signature, tuple(hypotheses))

    def _translate(self, model: Seq2Seq[State], src: Tensor) -> list[list[int]]:
        limits = answer_limits(src, max_positions=self._max_positions)
        enabled = self._autocast is not None
        with torch.autocast(self._device.type, dtype=self._autocast, enabled=enabled):
            return greedy(model, src.to(self._device), max_tokens=limits)


@contextmanager
def _in_use(model: TrainedModel[State]) -> Iterator[None]:
    """Put a model in eval mode, and afterwards back into the mode that it was in."""
    was_training = model.training
    model.train(False)
    try:
        yield
    finally:
        model.train(was_training)
