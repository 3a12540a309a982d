"""Development sets translated and scored by the task's metric while a model is being trained."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from transduce.config.schema import Config
from transduce.data.corpus import Pair
from transduce.data.prepare import Prepared
from transduce.errors import InputError
from transduce.models.base import Searchable, Seq2Seq, State
from transduce.tasks.base import MetricScore, Task
from transduce.tasks.registry import choose_metric, task_of
from transduce.text.tokenizer import Tokenizer
from transduce.training.step.machine import Machine
from transduce.translation.options import Options
from transduce.translation.translator import Translator

Evaluate = Callable[[Seq2Seq], MetricScore | None]
"""Translates and scores the development set; None: nothing is translated, or it was stopped."""


class TrainedModel(Searchable[State], Protocol[State]):
    """A model that behaves differently during training, as modules of torch do."""

    training: bool

    def train(self, mode: bool = True) -> object:
        """Choose between training and evaluation mode."""
        ...


@dataclass(frozen=True)
class DevScore:
    """The score of a development set, and the hypotheses in the order of its pairs."""

    metric: MetricScore
    hypotheses: tuple[str, ...]


OnTranslated = Callable[[Sequence[Pair], DevScore], None]
"""Called with each scored development set, for displays that show translations."""

OnProgress = Callable[[int, int], None]
"""Called with the number of sentences translated so far, and of all."""


class DevScorer:
    """Translates a development set as every user of the model would, but greedily, and scores it.

    References are the target text as its tokens are decoded, so text that was cut into words
    beforehand is scored in whole words.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        pairs: Sequence[Pair],
        *,
        task: Task,
        device: torch.device | str,
        max_length: int | None,
        max_tokens: int,
        by_sentence: bool = False,
        autocast: torch.dtype | None = None,
        metric: str | None = None,
    ) -> None:
        """Take the model's task and limits, and the metric that `data.metric` names."""
        if not pairs:
            raise InputError("the development set is empty: give at least one sentence pair")
        self._pairs = pairs
        self._references = [tokenizer.as_decoded(pair.tgt) for pair in pairs]
        self._metric = (
            task.dev_metric(self._references)
            if metric is None
            else choose_metric(task, metric, self._references)
        )
        self._options = Options(beam=1, second_try=False, max_batch_tokens=max_tokens)
        self._translator: Callable[[Searchable[Any]], Translator] = lambda model: Translator(
            model,
            tokenizer,
            task=task,
            max_positions=max_length,
            by_sentence=by_sentence,
            device=device,
            autocast=autocast,
        )
        # Sorted by length, so that each window of them makes full batches.
        self._order = sorted(range(len(pairs)), key=lambda place: len(pairs[place].src))
        self._window = 64 if torch.device(device).type == "cpu" else 4096

    def __call__(
        self,
        model: TrainedModel[State],
        *,
        stopped: Callable[[], bool] = lambda: False,
        on_progress: OnProgress = lambda _done, _total: None,
    ) -> DevScore | None:
        """Score a model; None if `stopped` returned True before the end."""
        sources = [self._pairs[place].src for place in self._order]
        hypotheses = [""] * len(sources)
        with _in_eval_mode(model):
            translations = self._translator(model).stream(
                sources, self._options, window=self._window
            )
            for number, place in enumerate(self._order):
                if number % self._window == 0:
                    if stopped():
                        return None
                    on_progress(number, len(sources))
                hypotheses[place] = next(translations).text
        return DevScore(self._metric.score(hypotheses, self._references), tuple(hypotheses))


def make_evaluate(
    prepared: Prepared,
    config: Config,
    machine: Machine,
    *,
    sentences: int,
    stopped: Callable[[], bool],
    on_translated: OnTranslated = lambda _pairs, _score: None,
    on_progress: OnProgress = lambda _done, _total: None,
) -> Evaluate:
    """Return a function that scores models on that many sentences of a run's development set.

    With 0 sentences it returns None. It stops between windows of sentences if `stopped` says so.
    """
    pairs = prepared.some_dev_pairs(sentences) if sentences else []
    if not pairs:
        return lambda _model: None
    scorer = DevScorer(
        prepared.tokenizer,
        pairs,
        task=task_of(config.data),
        device=machine.device,
        max_length=config.model.max_length,
        max_tokens=4 * config.training.batch_tokens,
        by_sentence=config.data.lines == "sentences",
        autocast=machine.autocast,
        metric=config.data.metric,
    )

    def evaluate(model: Seq2Seq) -> MetricScore | None:
        with machine.uncompiled():
            score = scorer(model, stopped=stopped, on_progress=on_progress)
        if score is None:
            return None
        on_translated(pairs, score)
        return score.metric

    return evaluate


@contextmanager
def _in_eval_mode(model: TrainedModel[State]) -> Iterator[None]:
    """Put a model in evaluation mode, and afterwards back into its previous mode."""
    was_training = model.training
    model.train(False)
    try:
        yield
    finally:
        model.train(was_training)
