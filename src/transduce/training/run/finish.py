"""The end of a run: choose its weights, score them, and write the model folder."""

import gc
from collections.abc import Mapping
from dataclasses import dataclass, replace

from torch import Tensor

from transduce.config.schema import Config
from transduce.data.batch import Batch
from transduce.data.prepare import Prepared
from transduce.errors import counted
from transduce.models.folder import WEIGHTS, save_weights
from transduce.tasks.base import MetricScore, Task
from transduce.tasks.registry import task_of
from transduce.training.collapse import has_collapsed
from transduce.training.distributed import Processes
from transduce.training.run.average import averaged
from transduce.training.run.card import CandidateWeights, Result, card
from transduce.training.run.checkpoint import Checkpoint, Progress
from transduce.training.run.events import Finished, Stepped, Warned
from transduce.training.run.folder import JOURNAL, RunFolder
from transduce.training.run.journal import read_journal
from transduce.training.run.scores import Scores
from transduce.training.session import Setup
from transduce.training.step.optimiser import overwrite
from transduce.training.step.train_step import dev_loss

MAX_TRANSLATED = 5_000
FEW_EPOCHS = 5


@dataclass(frozen=True)
class _Candidate:
    summary: CandidateWeights
    weights: Mapping[str, Tensor]


def sentences_at_end(config: Config, dev_pairs: int) -> int:
    """Return how many development sentences are translated with each of the weights to choose from.

    In a budget of minutes that is a few times as many as at a score, which were fitted to it.
    """
    run = config.run
    is_short = config.training.minutes is not None and run.score_sentences > 0
    return min(dev_pairs, 4 * run.score_sentences if is_short else MAX_TRANSLATED)


def finish(setup: Setup, folder: RunFolder, prepared: Prepared, reason: str) -> bool:
    """Write the best of the last weights, their averages and the best checkpoint, with a card.

    Returns False if the user stopped it; the next session does it again.
    """
    if setup.model.projection.is_cuda:
        gc.collect()  # CUDA graphs of the training step hold memory until then
    criterion = setup.checkpoints.criterion
    for note in setup.checkpoints.set_aside_damaged_weights():
        setup.tell(Warned(folder.last_step(), note))
    candidates = _scored_candidates(setup)
    translated = sentences_at_end(setup.config, len(prepared.dev_pairs))
    best = min(candidates, key=lambda found: criterion.rank(found.summary.scores))
    metric = best.summary.scores.metric
    if metric is None:
        overwrite(setup.model.state_dict(), best.weights)
        with setup.status("scoring the chosen weights"):
            metric = setup.evaluate(setup.model.eval())
    if setup.stopped():
        return False
    newest = setup.checkpoints.newest()
    assert newest is not None, "a run that has ended has a checkpoint"
    with setup.status("writing the model"):
        save_weights(folder.path / WEIGHTS, best.weights, metadata={})
    if metric:
        _advise(setup, best.summary.scores.loss, metric, newest, pairs=len(prepared.train))
    choice = _choice(setup, [found.summary for found in candidates], translated)
    setup.tell(_finished(newest, reason, best.summary, metric, choice=choice))
    stepped = [e for e in read_journal(folder.path / JOURNAL) if isinstance(e, Stepped)]
    result = Result(
        reason=reason,
        progress=newest.progress,
        chosen=best.summary,
        chosen_by=criterion.best_by(best.summary.scores),
        candidates=[found.summary for found in candidates],
        metric=metric,
        dev_pairs=len(prepared.dev_pairs),
        translated_pairs=translated,
        tokens_per_s=sorted(e.tokens_per_s for e in stepped)[len(stepped) // 2] if stepped else 0,
        machine=setup.machine,
        processes=setup.processes.world,
    )
    folder.write_card(card(folder, setup.config, setup.model, prepared, result))
    return True


def _finished(
    newest: Checkpoint,
    reason: str,
    chosen: CandidateWeights,
    metric: MetricScore | None,
    *,
    choice: str,
) -> Finished:
    """Return the event that reports the end, with the scores of the chosen weights."""
    end = Finished(
        step=newest.step,
        reason=reason,
        weights=chosen.name,
        seconds=newest.progress.seconds,
        choice=choice,
        loss=chosen.scores.loss,
    )
    if metric is None:
        return end
    return replace(
        end,
        metric=metric.name,
        score=metric.score,
        signature=metric.signature,
        higher_is_better=metric.higher_is_better,
        parts=metric.parts,
    )


def _choice(setup: Setup, candidates: list[CandidateWeights], translated: int) -> str:
    """Say by which scores the weights were chosen, the best first."""
    criterion = setup.checkpoints.criterion
    ranked = sorted(candidates, key=lambda found: criterion.rank(found.scores))
    metric = ranked[0].scores.metric
    if metric is None or criterion.best_by(ranked[0].scores) == "loss":
        return "by dev loss: " + _with_scores(
            {found.name: f"{found.scores.loss:.3f}" for found in ranked}
        )
    earlier = min(setup.config.run.score_sentences, translated)
    before = f", not {earlier:,} as before" if 0 < earlier < translated else ""
    on = f"on {counted(translated, 'development sentence')}{before}"
    scores = {
        found.name: f"{found.scores.metric.score:.2f}" if found.scores.metric else "?"
        for found in ranked
    }
    return f"by {metric.name} {on}: {_with_scores(scores)}"


def _with_scores(scores: Mapping[str, str]) -> str:
    return ", ".join(f"{name.partition(' (steps')[0]} {score}" for name, score in scores.items())


def _advise(
    setup: Setup, loss: float, metric: MetricScore, newest: Checkpoint, *, pairs: int
) -> None:
    """Say what helps if the model cannot be used, unless it was said that it has collapsed.

    Only a task knows what its own metric means.
    """
    config, at = setup.config, newest.progress
    if config.data.metric is not None:
        return
    if has_collapsed(config, at.spent, loss, setup.guessing_loss):
        return
    advice = _advice(task_of(config.data), metric, at, pairs)
    if advice is not None:
        setup.tell(Warned(newest.step, advice))


def _advice(task: Task, metric: MetricScore, progress: Progress, pairs: int) -> str | None:
    """Say what helps if the model cannot be used, or None."""
    limit = task.hardly_usable
    sign = 1 if metric.higher_is_better else -1
    if limit is None or sign * metric.score > sign * limit:
        return None
    epochs = progress.epoch + progress.batches_done / max(1, progress.epoch_batches)
    helps = (
        f"more training helps most: it has seen its text {counted(epochs, 'time', form='.2g')}"
        if epochs < FEW_EPOCHS
        else f"more text helps most: it had {counted(pairs, 'pair')}"
    )
    return (
        f"{metric.name} {metric.score:.2f} on the development set: the output can hardly be used; "
        f"{helps}"
    )


def _scored_candidates(setup: Setup) -> list[_Candidate]:
    with setup.status("averaging checkpoints"):
        found = _candidates(setup)
    scored = []
    for number, (name, weights) in enumerate(found.items(), start=1):
        with setup.status(f"choosing the weights, {number} of {len(found)}"):
            scored.append(_scored(setup, name, weights))
    return scored


def _candidates(setup: Setup) -> dict[str, Mapping[str, Tensor]]:
    """Return the weights to choose from, by name; often the first, the average, is the best."""
    checkpoints, keep = setup.checkpoints, setup.config.run.average
    scored, newest = checkpoints.scored(), checkpoints.newest()
    assert newest is not None
    found: dict[str, Mapping[str, Tensor]] = {}
    last = scored[-keep:]
    if len(last) > 1:
        steps = ", ".join(f"{one.step:,}" for one in last)
        found[f"average of the last {len(last)} checkpoints (steps {steps})"] = averaged(last)
    moving_average = newest.moving_average()
    if moving_average is not None:
        found["moving average"] = newest.weights() | moving_average  # buffers have no average
    best = next(iter(checkpoints.best_first()), newest)
    found[f"best checkpoint (step {best.step:,})"] = best.weights()
    if best.step != newest.step:
        found[f"last checkpoint (step {newest.step:,})"] = newest.weights()
    return found


def _scored(setup: Setup, name: str, weights: Mapping[str, Tensor]) -> _Candidate:
    """Score weights on the whole development set; by the metric only where it decides."""
    overwrite(setup.model.state_dict(), weights)
    loss = dev_loss(setup.model, _dev_batches(setup), setup.machine, Processes())
    by_metric = setup.checkpoints.criterion.by_metric
    metric = setup.evaluate(setup.model.eval()) if by_metric else None
    return _Candidate(CandidateWeights(name, Scores(loss, metric)), weights)


def _dev_batches(setup: Setup) -> list[Batch]:
    """Return the batches of the development set, split as far as training had to split them."""
    newest = setup.checkpoints.newest()
    most = newest.progress.max_tokens if newest else None
    if most is None:
        return setup.dev_batches
    return [piece for batch in setup.dev_batches for piece in batch.split(most)]
