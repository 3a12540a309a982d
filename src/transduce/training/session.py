"""A training session: where the run stands, and everything it does between two steps.

`training/loop.py` has the loop that drives it.
"""

import math
import time
from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass, field, replace

import torch

from transduce.config.schema import Config
from transduce.data.batch import Batch
from transduce.data.loader import Loader, StepBatches
from transduce.errors import DivergedError, InputError, counted
from transduce.models.base import Seq2Seq
from transduce.tasks.base import MetricScore
from transduce.training.collapse import collapse_message, has_collapsed
from transduce.training.dev import Evaluate
from transduce.training.distributed import Processes
from transduce.training.progress import Status
from transduce.training.rescoring import BestSoFar, has_other_signature, score_again
from transduce.training.run.average import MovingAverage
from transduce.training.run.checkpoint import Checkpoint, Checkpoints, Progress
from transduce.training.run.events import (
    Compiling,
    MemoryLowered,
    RolledBack,
    Saved,
    Skipped,
    Started,
    Stepped,
    Tell,
    Warned,
)
from transduce.training.run.scores import Scores
from transduce.training.score_schedule import ScoreSchedule
from transduce.training.stages import TrainingStages
from transduce.training.step.machine import Machine
from transduce.training.step.optimiser import overwrite
from transduce.training.step.schedule import learning_rate, share_spent
from transduce.training.step.train_step import StepResult, TrainStep

REPORT_STEPS = 10
"""Losses are read from the device once in this many steps: each read waits for the device."""

NO_METRIC = (
    "run.score_sentences=0: until the end the dev loss decides, for patience and the best "
    "checkpoint; then the weights are chosen by the task's metric (run.choose_by=metric)"
)

MAX_SKIPPED_IN_A_ROW = 5
MAX_ROLLBACKS = 3
"""How often a run may roll back to one checkpoint before it gives up."""


@dataclass(frozen=True)
class Setup:
    """Everything the training loop works with."""

    config: Config
    model: Seq2Seq
    machine: Machine
    loader: Loader
    dev_batches: list[Batch]  # this process's share of the development set
    checkpoints: Checkpoints
    processes: Processes
    tell: Tell
    evaluate: Evaluate
    stopped: Callable[[], bool]  # whether the run was asked to stop
    status: Status = field(default_factory=Status)  # tells what it does between steps
    stages: TrainingStages = field(default_factory=TrainingStages)
    guessing_loss: float = math.inf  # the dev loss of guessing tokens by how frequent they are


@dataclass
class _Unreported:
    """Steps whose losses have not been read yet: they are still on the device."""

    made: list[StepResult] = field(default_factory=list)
    batches: list[str] = field(default_factory=list)
    tokens: int = 0
    rate: float = 0.0
    since: float = field(default_factory=time.monotonic)


class TrainingSession:
    """Where the run stands, and what it can do next."""

    def __init__(self, setup: Setup) -> None:
        self.progress = Progress()
        self._setup = setup
        self._config = setup.config
        self.train_step = TrainStep(setup.model, setup.config, setup.machine)
        decay = setup.config.run.ema_decay
        self._moving_average = MovingAverage(setup.model, decay) if decay else None
        self._unreported = _Unreported()
        self._saved: Checkpoint | None = None  # the newest, on the first process
        self._saved_at = self._began = time.monotonic()
        self._seconds_before = 0.0
        self._skipped_batches: list[str] = []
        self._has_new_weights = True  # since the last checkpoint was written or restored
        self._skipped_since_taken = 0  # steps, whether or not it rolled back meanwhile
        self._schedule = ScoreSchedule(setup.config)
        self._loaders: dict[tuple[int, bool], Loader] = {}  # by stage and layout
        self._told_of_collapse = False
        self.is_interrupted = False  # while it was scoring

    def resume(self) -> None:
        """Continue from the newest checkpoint, scoring it if need be, or write the first."""
        setup = self._setup
        self._saved = setup.checkpoints.newest() if setup.processes.is_first else None
        found = asdict(self._saved.progress) if self._saved else None
        known = setup.processes.broadcast(found)
        if known is not None:
            self.progress = Progress.from_json(known)
            self._restore_tensors()
            self.train_step.max_tokens = self.progress.max_tokens
            self._seconds_before = self.progress.seconds
        self._report_start()
        if known is None:
            self.save()
        elif setup.processes.broadcast(bool(self._saved and self._saved.scores is None)) and (
            self.is_due() or self.ending()
        ):
            self.score()

    def rest_of_epoch(self) -> Generator[StepBatches]:
        """Stream the remaining steps of the epoch.

        An epoch ends with the batch layout it began with; the next may have another. It has the
        weights of one stage: where the next stage begins, the epoch ends.
        """
        if self.progress.batches_done and self.is_stage_over():
            self._cut_epoch()
        stage = self.progress.stage if self.progress.batches_done else self._stage_now()
        self.progress = replace(self.progress, packed=self._is_packed(), stage=stage)
        loader = self._loader(stage, packed=self.progress.packed)
        return loader.steps(self.progress.epoch, done=self.progress.batches_done)

    def is_stage_over(self) -> bool:
        """Whether the next step belongs to another stage than the epoch."""
        return self._stage_now() != self.progress.stage

    def _stage_now(self) -> int:
        return self._setup.stages.at(self._config, self.progress.spent)

    def _cut_epoch(self) -> None:
        """End the epoch here; what it lacks does not count as done."""
        rest = 1 - self.progress.batches_done / self.progress.epoch_batches
        self.next_epoch()
        self.progress = replace(self.progress, epochs_cut=self.progress.epochs_cut + rest)

    def _loader(self, stage: int, *, packed: bool) -> Loader:
        """Return the loader of a stage, always the same: it plans epochs ahead."""
        if (stage, packed) not in self._loaders:
            loader = replace(self._setup.loader, packed=packed)
            if self._setup.stages.weights:
                loader = replace(loader, weights=self._setup.stages.weights[stage])
            self._loaders[stage, packed] = loader
        return self._loaders[stage, packed]

    def _is_packed(self) -> bool:
        has_begun = self.progress.batches_done > 0
        return self.progress.packed if has_begun else self._setup.loader.packed

    @property
    def next_step(self) -> int:
        """The number of the next step, from 1."""
        return self.progress.step + 1

    def next_rate(self) -> float:
        """Return the learning rate of the next step."""
        c = self._config
        return learning_rate(c.training, c.model.d_model, self.next_step, self.progress.spent)

    def record(self, batches: StepBatches, result: StepResult, *, rate: float) -> None:
        """Count a step that was made; its loss is read from the device later."""
        if self._moving_average:
            self._moving_average.update()
        tokens = batches.src_tokens + batches.tgt_tokens
        self.progress = replace(
            self.progress,
            step=self.next_step,
            batches_done=batches.done,
            epoch_batches=batches.epoch_batches,
            tokens=self.progress.tokens + tokens,
        )
        self._unreported.made.append(result)
        self._unreported.batches.append(_named(self.progress.epoch, batches))
        self._unreported.tokens += tokens
        self._unreported.rate = rate

    def vote(self) -> tuple[bool, bool]:
        """Return whether any process was asked to stop, and whether it is time to save."""
        now = time.monotonic()
        is_long_unsaved = now - self._saved_at > 60 * self._config.run.save_minutes
        (stop, save), seconds = self._setup.processes.vote(
            self._setup.stopped(),
            is_long_unsaved,
            seconds=self._seconds_before + now - self._began,
        )
        self.progress = replace(self.progress, seconds=seconds)
        return stop, save

    def is_due(self) -> bool:
        """Whether the run scores and keeps its weights at this step."""
        spent = self.progress.scoring_seconds
        return self._schedule.is_due(self.progress.step, spent_s=spent)

    def ending(self) -> str | None:
        """Return which budget is spent, or None."""
        t, spent = self._config.training, self.progress.spent
        if spent.steps >= t.steps:
            return f"{counted(t.steps, 'step is', 'steps are')} made"
        if t.epochs is not None and spent.epochs >= t.epochs:
            return f"{counted(t.epochs, 'epoch is', 'epochs are')} done"
        if t.minutes is not None and spent.seconds >= 60 * t.minutes:
            return f"{counted(t.minutes, 'minute is', 'minutes are')} over"
        if t.patience is not None and self.progress.scorings_since_best >= t.patience:
            by = self._setup.checkpoints.criterion.name(self.progress.best)
            many = counted(t.patience, "scoring has", "scorings in a row have")
            return f"{many} not improved the {by}"
        return None

    def next_epoch(self) -> None:
        """Begin the next pass through the data."""
        if self.progress.epoch_batches == 0:
            raise InputError("an epoch has no sentence pair to train on; give more data")
        self.progress = replace(
            self.progress, epoch=self.progress.epoch + 1, batches_done=0, epoch_batches=0
        )

    def report_steps(self) -> None:
        """Read the losses of the last steps from the device, and report them."""
        unreported, count = self._unreported, len(self._unreported.made)
        if count == 0:
            return
        rows = [
            torch.stack([made.loss, made.gradient_norm, made.skipped]) for made in unreported.made
        ]
        losses, norms, skips = zip(*torch.stack(rows).tolist(), strict=True)
        lost = [name for name, skipped in zip(unreported.batches, skips, strict=True) if skipped]
        for skipped, name in zip(skips, unreported.batches, strict=True):
            self._skipped_batches = [*self._skipped_batches, name] if skipped else []
        self.progress = replace(
            self.progress,
            skipped=self.progress.skipped + len(lost),
            skipped_in_a_row=_skipped_at_end(skips, self.progress.skipped_in_a_row),
        )
        self._has_new_weights |= len(lost) < count
        self._skipped_since_taken = _skipped_at_end(skips, self._skipped_since_taken)
        taken = max(1, count - len(lost))
        kept = [i for i, skipped in enumerate(skips) if not skipped]
        self._setup.tell(
            Stepped(
                step=self.progress.step,
                epoch=self.progress.epoch + 1,
                epoch_share=self.progress.batches_done / max(1, self.progress.epoch_batches),
                loss=sum(losses[i] for i in kept) / taken if kept else math.nan,
                learning_rate=unreported.rate,
                gradient_norm=sum(norms[i] for i in kept) / taken if kept else math.nan,
                tokens=self.progress.tokens,
                tokens_per_s=unreported.tokens / (time.monotonic() - unreported.since),
                seconds=self.progress.seconds,
                share_done=share_spent(self._config.training, self.progress.spent),
            )
        )
        if lost:
            self._setup.tell(Skipped(self.progress.step, len(lost), "; ".join(lost)))
        self._report_memory()
        self._unreported = _Unreported()

    def rollback_if_diverged(self) -> None:
        """Restore the last checkpoint's weights after too many skipped steps in a row.

        The data continues from here: the batches that failed are not tried again.
        """
        if self.progress.skipped_in_a_row < MAX_SKIPPED_IN_A_ROW:
            return
        batches = "; ".join(self._skipped_batches[:MAX_SKIPPED_IN_A_ROW])
        if self.progress.rollbacks == MAX_ROLLBACKS:
            raise DivergedError(
                f"training diverged: {self.progress.skipped_in_a_row} steps in a row were skipped, "
                f"for the {MAX_ROLLBACKS + 1}th time since the last checkpoint (now at "
                f"{batches}); lower training.learning_rate or set training.clip_norm=1"
            )
        self._restore_tensors()
        self.progress = replace(
            self.progress, skipped_in_a_row=0, rollbacks=self.progress.rollbacks + 1
        )
        to = self._saved.step if self._saved else 0
        self._setup.tell(RolledBack(self.progress.step, to=to, batches=batches))

    def save(self) -> bool:
        """Write a checkpoint, unless the weights are no new ones or may be damaged.

        Returns whether this step has one.
        """
        self._saved_at = time.monotonic()
        self.report_steps()
        if not self._is_sound():
            return False
        if self.is_due():
            self.progress = replace(self.progress, rollbacks=0)
        setup, model = self._setup, self._setup.model
        self._has_new_weights = False
        if not setup.processes.is_first or (
            self._saved is not None and self._saved.step == self.progress.step
        ):
            return True
        guard = tuple(self.train_step.guard.state())
        with self.train_step.optimiser.evaluating():
            self._saved = setup.checkpoints.save(
                replace(self.progress, guard=guard, max_tokens=self.train_step.max_tokens),
                weights=model.state_dict(),
                moments=self.train_step.optimiser.tensors(),
                moving_average=self._moving_average.weights if self._moving_average else None,
            )
        setup.checkpoints.prune()
        setup.tell(Saved(self.progress.step, str(self._saved.folder)))
        self._saved_at = time.monotonic()
        self._unreported = _Unreported()
        return True

    def _is_sound(self) -> bool:
        """Whether the weights are worth a checkpoint: new, of a step that was taken, and finite.

        At the end of a run, those before skipped steps are kept all the same: they are scored, and
        the best are chosen. But a run that has come to nothing does not end well.
        """
        is_finite = all(bool(p.isfinite().all()) for p in self._setup.model.parameters())
        if self.ending() is None:
            return is_finite and self._has_new_weights and self.progress.skipped_in_a_row == 0
        at = self.progress
        if at.step and at.skipped >= at.step:
            raise DivergedError(
                f"no weights were learned: none of {counted(at.step, 'step')} could be taken, "
                "because the loss was not finite; lower training.learning_rate or set "
                "training.clip_norm=1"
            )
        if not is_finite or self._skipped_since_taken >= MAX_SKIPPED_IN_A_ROW:
            skipped = f"the last {self._skipped_since_taken:,} steps up to the end were skipped"
            raise DivergedError(
                f"training diverged: {skipped if is_finite else 'the weights are not finite'} (now "
                f"at step {at.step:,}); the checkpoints before are intact: lower "
                "training.learning_rate or set training.clip_norm=1"
            )
        return True

    def score(self) -> None:
        """Score the development set, and add the scores to the checkpoint of this step."""
        with self.train_step.optimiser.evaluating():
            self._score()

    def _score(self) -> None:
        setup, began = self._setup, time.monotonic()
        criterion = setup.checkpoints.criterion
        with setup.status("scoring"):
            loss = self.train_step.dev_loss(setup.dev_batches, setup.processes)
            metric = setup.evaluate(setup.model) if setup.processes.is_first else None
        took = time.monotonic() - began
        before = self._best_so_far(metric)
        self._unreported = _Unreported()
        self.is_interrupted = setup.processes.broadcast(setup.stopped())
        if self.is_interrupted:
            return  # perhaps before all was translated: the next session scores first
        seconds = setup.processes.broadcast(took)
        self._schedule.record(seconds)
        found = setup.processes.broadcast([asdict(Scores(loss, metric)), asdict(before)])
        scores, before = Scores.from_json(found[0]), BestSoFar.from_json(found[1])
        best = criterion.is_better(scores, before.scores)
        self.progress = replace(
            self.progress,
            scoring_seconds=self.progress.scoring_seconds + seconds,
            best=scores if best else before.scores,
            scorings_since_best=0 if best else before.scorings_since + 1,
        )
        if not setup.processes.is_first:
            return
        assert self._saved is not None
        assert self._saved.step == self.progress.step, "only a checkpoint is scored"
        held = replace(
            self.progress, guard=self._saved.progress.guard, max_tokens=self.train_step.max_tokens
        )
        self._saved = setup.checkpoints.add_scores(self._saved, held, scores)
        setup.checkpoints.prune()
        at = self.progress
        setup.tell(criterion.event(scores, step=at.step, seconds=at.seconds, is_best=best))
        self._tell_of_collapse(scores.loss)

    def _tell_of_collapse(self, loss: float) -> None:
        """Say once that the model has learnt next to nothing."""
        at, guessing = self.progress, self._setup.guessing_loss
        if not self._told_of_collapse and has_collapsed(self._config, at.spent, loss, guessing):
            self._told_of_collapse = True
            self._setup.tell(Warned(at.step, collapse_message(self._config, loss, guessing)))

    def _best_so_far(self, metric: MetricScore | None) -> BestSoFar:
        """Return the best scores before this one, found anew if the metric's signature changed."""
        setup, known = self._setup, BestSoFar(self.progress.best, self.progress.scorings_since_best)
        if metric is None or not has_other_signature(setup.checkpoints, known, metric):
            return known
        assert self._saved is not None
        with setup.status("scoring earlier checkpoints again"):
            return score_again(
                setup.checkpoints, setup.model, setup.evaluate, now=self._saved, tell=setup.tell
            )

    def _restore_tensors(self) -> None:
        """Overwrite weights, moments and averages with those of the newest checkpoint."""
        held = [self._setup.model.state_dict(), self.train_step.optimiser.tensors()]
        if self._moving_average:
            held.append(dict(self._moving_average.weights))
        if self._saved is not None:
            read = [self._saved.weights(), self._saved.moments()]
            if self._moving_average:
                read.append(self._saved.moving_average() or {})
            for tensors, values in zip(held, read, strict=True):
                overwrite(tensors, values)
        self._has_new_weights = False
        everything = [tensor for group in held for tensor in group.values()]
        self._setup.processes.copy_from_first(everything)
        self.train_step.optimiser.weights_restored()
        guard = self._saved.progress.guard if self._saved else None
        self.train_step.guard.restore(self._setup.processes.broadcast(guard))

    def _report_start(self) -> None:
        setup = self._setup
        self._setup.tell(
            Started(
                step=self.progress.step,
                pairs=len(setup.loader.store),
                parameters=sum(p.numel() for p in setup.model.parameters()),
                device=str(setup.machine.device),
                precision=setup.machine.precision,
                processes=setup.processes.world,
                seconds=self.progress.seconds,
            )
        )
        if setup.checkpoints.criterion.by_metric and self._config.run.score_sentences == 0:
            setup.tell(Warned(self.progress.step, NO_METRIC))
        if setup.machine.uses_cuda_graphs and self._is_packed():
            setup.tell(Compiling(self.progress.step))

    def _report_memory(self) -> None:
        lowered = self.train_step.max_tokens
        if lowered is not None and lowered != self.progress.max_tokens:
            self.progress = replace(self.progress, max_tokens=lowered)
            self._setup.tell(MemoryLowered(self.progress.step, lowered))


def _named(epoch: int, batches: StepBatches) -> str:
    last = f" to {batches.done}" if batches.done > batches.first + 1 else ""
    return f"epoch {epoch + 1} batch {batches.first + 1}{last}"


def _skipped_at_end(skips: tuple[float, ...], before: int) -> int:
    """Count the skipped steps in a row up to now, including those before these."""
    taken = [index for index, skipped in enumerate(skips) if not skipped]
    return len(skips) - 1 - taken[-1] if taken else before + len(skips)
