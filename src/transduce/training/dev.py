"""Development sets translated and scored by the task's metric while a model is being trained."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import torch

from transduce.config.schema import Config
from transduce.data.corpus import Pair
from transduce.data.prepare import DevPart, Prepared
from transduce.errors import InputError
from transduce.models.base import Searchable, Seq2Seq, State
from transduce.tasks.base import Metric, MetricScore, Task
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
        parts: Sequence[DevPart] = (),
        tag_on: Literal["source", "target"] = "source",
    ) -> None:
        """Take the model's task and limits, and the metric that `data.metric` names.

        Each of the parts, which are all of the pairs, is scored by itself too. If they have
        languages to translate into, the score of the set is the mean of theirs.
        """
        if not pairs:
            raise InputError("the development set is empty: give at least one sentence pair")
        self._pairs = pairs
        self._references = [tokenizer.as_decoded(pair.tgt) for pair in pairs]
        self._parts = parts
        self._choose: Callable[[Sequence[str]], Metric] = lambda references: (
            task.dev_metric(references)
            if metric is None
            else choose_metric(task, metric, references)
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
            tag_on=tag_on,
        )
        # Sorted by length, so that each window of them makes full batches.
        self._order = {
            target: sorted(places, key=lambda place: len(pairs[place].src))
            for target, places in self._by_target().items()
        }
        self._window = 64 if torch.device(device).type == "cpu" else 4096

    def __call__(
        self,
        model: TrainedModel[State],
        *,
        stopped: Callable[[], bool] = lambda: False,
        on_progress: OnProgress = lambda _done, _total: None,
    ) -> DevScore | None:
        """Score a model; None if `stopped` returned True before the end."""
        hypotheses = [""] * len(self._pairs)
        done = 0
        with _in_eval_mode(model):
            translator = self._translator(model)
            for target, order in self._order.items():
                translations = translator.into(target).stream(
                    [self._pairs[place].src for place in order], self._options, window=self._window
                )
                for number, place in enumerate(order):
                    if number % self._window == 0:
                        if stopped():
                            return None
                        on_progress(done + number, len(hypotheses))
                    hypotheses[place] = next(translations).text
                done += len(order)
        return DevScore(self._score(hypotheses), tuple(hypotheses))

    def _by_target(self) -> dict[str | None, list[int]]:
        """Group the pairs by the language to translate into; None: the model has one."""
        found: dict[str | None, list[int]] = {}
        for part in self._parts or [DevPart("", 0, len(self._pairs))]:
            found.setdefault(part.target, []).extend(range(part.start, part.end))
        return found

    def _score(self, hypotheses: list[str]) -> MetricScore:
        """Score all hypotheses, and those of each part."""
        scores = {}
        for part in self._parts:
            own = slice(part.start, part.end)
            metric = self._choose(self._references[own])
            scores[part.name] = metric.score(hypotheses[own], self._references[own])
        numbers = {name: score.score for name, score in scores.items()}
        if any(part.target for part in self._parts):
            first = next(iter(scores.values()))
            signatures = "; ".join(dict.fromkeys(score.signature for score in scores.values()))
            mean = sum(numbers.values()) / len(numbers)
            signature = f"{signatures}|mean of {len(numbers)} directions"
            return replace(first, score=mean, signature=signature, parts=numbers)
        whole = self._choose(self._references).score(hypotheses, self._references)
        return replace(whole, parts=numbers)


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
        parts=prepared.parts_of(sentences),
        tag_on=config.data.tag_on,
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
