"""Scores of earlier checkpoints, computed again after a change of how the metric is computed.

Another version may tokenize for BLEU in another way: scores with different signatures cannot be
compared, so the best checkpoint so far is found anew.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from transduce.models.base import Seq2Seq
from transduce.tasks.base import MetricScore
from transduce.training.dev import Evaluate
from transduce.training.run.checkpoint import Checkpoint, Checkpoints
from transduce.training.run.events import Tell, Warned
from transduce.training.run.scores import Scores
from transduce.training.step.optimiser import overwrite


@dataclass(frozen=True)
class BestSoFar:
    """The best scores of a run, and how many scorings there were since."""

    scores: Scores | None
    scorings_since: int

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> Self:
        """Read it back from its fields."""
        scores = tree["scores"]
        return cls(None if scores is None else Scores.from_json(scores), tree["scorings_since"])


def has_other_signature(checkpoints: Checkpoints, best: BestSoFar, metric: MetricScore) -> bool:
    """Whether the metric decides, and the best scores so far have another signature."""
    known = best.scores.metric if best.scores else None
    by_metric = checkpoints.criterion.by_metric
    return by_metric and known is not None and known.signature != metric.signature


def score_again(
    checkpoints: Checkpoints, model: Seq2Seq, evaluate: Evaluate, *, now: Checkpoint, tell: Tell
) -> BestSoFar:
    """Score all kept checkpoints again and return the best; the model keeps the weights of `now`.

    If it is stopped meanwhile, the next session does what is left.
    """
    tell(
        Warned(
            now.step,
            "the metric is computed in another way than before (its signature changed): the "
            "checkpoints that are kept are scored again",
        )
    )
    for checkpoint in checkpoints.scored():
        overwrite(model.state_dict(), checkpoint.weights())
        metric = evaluate(model)
        if metric is None or checkpoint.scores is None:
            break  # stopped
        scores = Scores(checkpoint.scores.loss, metric)
        checkpoints.add_scores(checkpoint, checkpoint.progress, scores)
        at = checkpoint.progress
        event = checkpoints.criterion.event(scores, step=at.step, seconds=at.seconds, is_best=False)
        tell(event)
    overwrite(model.state_dict(), now.weights())
    evaluate(model)  # so that the translations last shown are of these weights
    ranked = checkpoints.best_first()
    if not ranked:
        return BestSoFar(None, 0)
    return BestSoFar(ranked[0].scores, sum(one.step > ranked[0].step for one in ranked))
