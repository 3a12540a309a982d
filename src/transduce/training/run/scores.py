"""Scores on the development set, and what makes one set of weights better than another."""

import json
import math
import reprlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self, TypeVar

from pydantic import TypeAdapter, ValidationError

from transduce.tasks.base import MetricScore
from transduce.training.run.events import Scored

BestBy = Literal["loss", "metric"]
_Record = TypeVar("_Record")
_VALIDATORS: dict[object, TypeAdapter[Any]] = {}


def as_typed(kind: type[_Record], values: Mapping[str, Any]) -> _Record:
    """Make a dataclass of what was read; a value of another type is a ValueError that names it."""
    try:
        written = json.dumps(values, default=asdict)  # in JSON, an object may be a dataclass
        return _validator(kind).validate_json(written, strict=True)
    except ValidationError as malformed:
        first = malformed.errors(include_url=False)[0]
        name = ".".join(map(str, first["loc"]))
        raise ValueError(f"{name} is {reprlib.repr(first['input'])}") from malformed


def _validator(kind: type[_Record]) -> TypeAdapter[_Record]:
    """Return what reads a dataclass, built once: that takes far longer than reading."""
    found: TypeAdapter[_Record] = _VALIDATORS.get(kind) or TypeAdapter(kind)
    return _VALIDATORS.setdefault(kind, found)


@dataclass(frozen=True)
class Scores:
    """What some weights score on the development set."""

    loss: float  # in nats per target token, without label smoothing
    metric: MetricScore | None = None  # None: nothing was translated

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> Self:
        """Read scores from a checkpoint; version 0.1 knew BLEU only, and no other metric."""
        if "bleu" in tree:
            bleu = tree["bleu"]
            metric = None if bleu is None else {"name": "BLEU", "score": bleu}
            metric = metric and metric | {"signature": tree["signature"]}
        else:
            metric = tree["metric"]
        scores = {"loss": tree["loss"], "metric": metric}
        return as_typed(cls, scores)


@dataclass(frozen=True)
class Criterion:
    """Decides which weights are the best: those with the lower dev loss, or the better metric.

    By the metric, the loss decides between equal scores, such as a BLEU of 0 at the start. Scores
    without a metric come last and are ordered by their loss. So a run that translates nothing while
    it trains goes by the loss until its end.
    """

    by_metric: bool = False

    def rank(self, scores: Scores | None) -> tuple[int, float, float]:
        """Return a key that sorts the best scores first; what is not finite comes last."""
        if scores is None:
            return 1, 0.0, math.inf
        loss = scores.loss if math.isfinite(scores.loss) else math.inf
        if self.best_by(scores) == "metric" and scores.metric is not None:
            score = scores.metric.score
            return 0, -score if scores.metric.higher_is_better else score, loss
        return 1, 0.0, loss

    def is_better(self, new: Scores, old: Scores | None) -> bool:
        """Whether new scores are better than the best so far, if there are any."""
        return self.rank(new) < self.rank(old)

    def best_by(self, scores: Scores) -> BestBy:
        """Return what these scores are compared by."""
        has_metric = scores.metric is not None and math.isfinite(scores.metric.score)
        return "metric" if self.by_metric and has_metric else "loss"

    def name(self, scores: Scores | None) -> str:
        """Name what these scores are compared by, for a sentence that a user reads."""
        if scores is None or scores.metric is None or self.best_by(scores) == "loss":
            return "dev loss"
        return f"dev {scores.metric.name}"

    def event(self, scores: Scores, *, step: int, seconds: float, is_best: bool) -> Scored:
        """Return the event that reports these scores."""
        metric = scores.metric
        return Scored(
            step=step,
            loss=scores.loss,
            perplexity=math.exp(min(scores.loss, 700.0)),
            best=is_best,
            seconds=seconds,
            best_by=self.best_by(scores),
            metric=metric.name if metric else None,
            score=metric.score if metric else None,
            signature=metric.signature if metric else "",
            higher_is_better=metric.higher_is_better if metric else True,
            parts=metric.parts if metric else {},
        )
