"""The training loop (§5): from wherever the run stands until its budget is spent."""

import math
import time
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace

import torch

from transduce.config.schema import Config
from transduce.data.batch import Batch
from transduce.data.loader import Loader, Share
from transduce.errors import InputError, TransduceError
from transduce.models.base import Learnable
from transduce.training.average import MovingAverage
from transduce.training.checkpoint import Checkpoint, Checkpoints, Progress, Scores
from transduce.training.distributed import Processes
from transduce.training.events import (
    Compiling,
    MemoryLowered,
    Saved,
    Scored,
    Skipped,
    Started,
    Stepped,
    Tell,
    WentBack,
)
from transduce.training.learner import Learner, Made
from transduce.training.machine import Machine
from transduce.training.optimiser import moments, overwrite
from transduce.training.schedule import Spent, learning_rate, share_spent

LOOK_STEPS = 10
"""Losses are read from the device once in so many steps: each time, it has to be waited for."""

MAX_SKIPPED_IN_A_ROW = 5
MAX_TIMES_BACK = 3
"""How often a run may go back to one checkpoint before it gives up."""

Evaluate = Callable[[Learnable], tuple[float, str] | None]
"""Translates the development set: (BLEU, signature), or nothing where that is not asked for."""


@dataclass(frozen=True)
class Setup:
    """All that the loop works with."""

    config: Config
    model: Learnable
    machine: Machine
    loader: Loader
    dev_batches: list[Batch]  # this process's share of the development set
    checkpoints: Checkpoints
    processes: Processes
    tell: Tell
    evaluate: Evaluate
    stopped: Callable[[], bool]  # whether the user wants the run to stop


def train(setup: Setup) -> str | None:
    """Train until a budget is spent and say which; None if the user stopped it before."""
    run = _Run(setup)
    run.take_up()
    while run.ending() is None and not run.is_interrupted:
        with closing(run.rest_of_epoch()) as shares:
            for share in shares:
                run.step(share)
                stop, save = run.agree()
                is_due = run.is_due() or run.ending() is not None
                if is_due or run.progress.step % LOOK_STEPS == 0:
                    run.look()
                    run.go_back_if_lost()
                if save or stop or is_due:
                    run.save()
                if is_due and run.is_sound() and not stop:  # else the next sitting scores first
                    run.score()
                if stop or run.is_interrupted:
                    return None
                if run.ending():
                    break
            else:
                run.next_epoch()
    return None if run.is_interrupted else run.ending()


@dataclass
class _Unseen:
    """Steps that were made and not yet looked at: their numbers are still on the device."""

    made: list[Made] = field(default_factory=list)
    batches: list[str] = field(default_factory=list)
    tokens: int = 0
    rate: float = 0.0
    since: float = field(default_factory=time.monotonic)


class _Run:
    """Where the run stands, and all that it can do next."""

    def __init__(self, setup: Setup) -> None:
        self.progress = Progress()
        self._setup = setup
        self._config = setup.config
        self._learner = Learner(setup.model, setup.config, setup.machine)
        decay = setup.config.run.ema_decay
        self._moving_average = MovingAverage(setup.model, decay) if decay else None
        self._unseen = _Unseen()
        self._saved: Checkpoint | None = None  # the newest, on the first process
        self._saved_at = self._began = time.monotonic()
        self._seconds_before = 0.0
        self._lost_batches: list[str] = []
        self.is_interrupted = False  # while it was scoring

    def take_up(self) -> None:
        """Go on from the newest checkpoint, or write the first; score it if that was cut short."""
        setup = self._setup
        self._saved = setup.checkpoints.newest() if setup.processes.is_first else None
        found = asdict(self._saved.progress) if self._saved else None
        known = setup.processes.from_first(found)
        if known is not None:
            self.progress = Progress(**known | {"guard": tuple(known["guard"])})
            self._restore_tensors()
            self._learner.max_tokens = self.progress.max_tokens
            self._seconds_before = self.progress.seconds
        self._tell_started()
        if known is None:
            self.save()
        elif setup.processes.from_first(bool(self._saved and self._saved.scores is None)) and (
            self.is_due() or self.ending()
        ):
            self.score()

    def rest_of_epoch(self) -> Generator[Share]:
        """Stream the steps of the epoch that are still to be made.

        One that was begun goes on with the batches it was begun with; the next may have others.
        """
        self.progress = replace(self.progress, in_rows=self._in_rows())
        loader = self._setup.loader
        if loader.in_rows != self.progress.in_rows:
            loader = replace(loader, in_rows=self.progress.in_rows)
        return loader.steps(self.progress.epoch, done=self.progress.batches_done)

    def _in_rows(self) -> bool:
        has_begun = self.progress.batches_done > 0
        return self.progress.in_rows if has_begun else self._setup.loader.in_rows

    def step(self, share: Share) -> None:
        """Learn from one share of the data."""
        number = self.progress.step + 1
        rate = learning_rate(
            self._config.training, self._config.model.d_model, number, self._spent()
        )
        made = self._learner.step(share, number=number, rate=rate, processes=self._setup.processes)
        if self._moving_average:
            self._moving_average.follow()
        tokens = share.src_tokens + share.tgt_tokens
        self.progress = replace(
            self.progress,
            step=number,
            batches_done=share.done,
            epoch_batches=share.of,
            tokens=self.progress.tokens + tokens,
        )
        self._unseen.made.append(made)
        self._unseen.batches.append(_named(self.progress.epoch, share))
        self._unseen.tokens += tokens
        self._unseen.rate = rate

    def agree(self) -> tuple[bool, bool]:
        """Learn whether some process was told to stop, and whether it is time to save."""
        now = time.monotonic()
        is_long_unsaved = now - self._saved_at > 60 * self._config.run.save_minutes
        (stop, save), seconds = self._setup.processes.agree(
            self._setup.stopped(),
            is_long_unsaved,
            seconds=self._seconds_before + now - self._began,
        )
        self.progress = replace(self.progress, seconds=seconds)
        return stop, save

    def is_due(self) -> bool:
        """Whether this step is one at which the run scores and keeps its weights."""
        step = self.progress.step
        return step > 0 and step % self._config.run.checkpoint_steps == 0

    def ending(self) -> str | None:
        """Say which budget is spent, if one is."""
        t, spent = self._config.training, self._spent()
        if spent.steps >= t.steps:
            return f"{t.steps:,} steps are made"
        if t.epochs is not None and spent.epochs >= t.epochs:
            return f"{t.epochs:g} epochs are done"
        if t.minutes is not None and spent.seconds >= 60 * t.minutes:
            return f"{t.minutes:g} minutes are over"
        if t.patience is not None and self.progress.scorings_since_best >= t.patience:
            return f"{t.patience} scorings in a row have not improved the dev loss"
        return None

    def next_epoch(self) -> None:
        """Begin the next pass through the data."""
        if self.progress.epoch_batches == 0:
            raise InputError("an epoch has no pair to learn from; give more data")
        self.progress = replace(
            self.progress, epoch=self.progress.epoch + 1, batches_done=0, epoch_batches=0
        )

    def look(self) -> None:
        """Read from the device what became of the last steps, and tell."""
        unseen, count = self._unseen, len(self._unseen.made)
        if count == 0:
            return
        rows = [torch.stack([made.loss, made.gradient_norm, made.skipped]) for made in unseen.made]
        losses, norms, skips = zip(*torch.stack(rows).tolist(), strict=True)
        lost = [name for name, skipped in zip(unseen.batches, skips, strict=True) if skipped]
        for skipped, name in zip(skips, unseen.batches, strict=True):
            self._lost_batches = [*self._lost_batches, name] if skipped else []
        self.progress = replace(
            self.progress,
            skipped=self.progress.skipped + len(lost),
            skipped_in_a_row=_at_the_end(skips, self.progress.skipped_in_a_row),
        )
        taken = max(1, count - len(lost))
        kept = [i for i, skipped in enumerate(skips) if not skipped]
        self._setup.tell(
            Stepped(
                step=self.progress.step,
                epoch=self.progress.epoch + 1,
                epoch_share=self.progress.batches_done / max(1, self.progress.epoch_batches),
                loss=sum(losses[i] for i in kept) / taken if kept else math.nan,
                learning_rate=unseen.rate,
                gradient_norm=sum(norms[i] for i in kept) / taken if kept else math.nan,
                tokens=self.progress.tokens,
                tokens_per_s=unseen.tokens / (time.monotonic() - unseen.since),
                seconds=self.progress.seconds,
                share_done=share_spent(self._config.training, self._spent()),
            )
        )
        if lost:
            self._setup.tell(Skipped(self.progress.step, len(lost), "; ".join(lost)))
        self._tell_of_memory()
        self._unseen = _Unseen()

    def go_back_if_lost(self) -> None:
        """Take up the last checkpoint's weights where too many steps in a row were skipped.

        The data goes on from here: what cannot be learnt from is not tried again.
        """
        if self.progress.skipped_in_a_row < MAX_SKIPPED_IN_A_ROW:
            return
        batches = "; ".join(self._lost_batches[:MAX_SKIPPED_IN_A_ROW])
        if self.progress.went_back == MAX_TIMES_BACK:
            raise TransduceError(
                f"the loss is lost: {self.progress.skipped_in_a_row} steps in a row could not be "
                f"taken, for the {MAX_TIMES_BACK + 1}th time since the last checkpoint (now at "
                f"{batches}); lower training.learning_rate or set training.clip_norm=1"
            )
        self._restore_tensors()
        self.progress = replace(
            self.progress, skipped_in_a_row=0, went_back=self.progress.went_back + 1
        )
        to = self._saved.step if self._saved else 0
        self._setup.tell(WentBack(self.progress.step, to=to, batches=batches))

    def is_sound(self) -> bool:
        """Whether the last step could be taken: if not, the weights themselves may be spoilt.

        At the end they are kept all the same: they are scored, and the best are taken.
        """
        return self.progress.skipped_in_a_row == 0 or self.ending() is not None

    def save(self) -> None:
        """Write a checkpoint, unless this step has one or its weights may be spoilt."""
        self._saved_at = time.monotonic()
        self.look()
        if not self.is_sound():
            return
        if self.is_due():
            self.progress = replace(self.progress, went_back=0)
        setup, model = self._setup, self._setup.model
        if not setup.processes.is_first or (
            self._saved is not None and self._saved.step == self.progress.step
        ):
            return
        guard = tuple(self._learner.guard.state())
        self._saved = setup.checkpoints.save(
            replace(self.progress, guard=guard, max_tokens=self._learner.max_tokens),
            weights=model.state_dict(),
            moments=moments(model, self._learner.optimiser),
            moving_average=self._moving_average.weights if self._moving_average else None,
        )
        setup.checkpoints.prune()
        setup.tell(Saved(self.progress.step, str(self._saved.folder)))
        self._saved_at = time.monotonic()
        self._unseen = _Unseen()

    def score(self) -> None:
        """Score the development set, and write that down with the checkpoint of this step."""
        setup = self._setup
        loss = self._learner.dev_loss(setup.dev_batches, setup.processes)
        translated = setup.evaluate(setup.model) if setup.processes.is_first else None
        self._unseen = _Unseen()
        self.is_interrupted = setup.processes.from_first(setup.stopped())
        if self.is_interrupted:
            return  # perhaps in the middle of it: the next sitting scores first
        before = self.progress.best_loss
        best = loss < (math.inf if before is None else before)
        self.progress = replace(
            self.progress,
            best_loss=loss if best else self.progress.best_loss,
            scorings_since_best=0 if best else self.progress.scorings_since_best + 1,
        )
        if not setup.processes.is_first:
            return
        bleu, signature = translated or (None, "")
        assert self._saved is not None
        assert self._saved.step == self.progress.step, "only a checkpoint is scored"
        held = replace(
            self.progress, guard=self._saved.progress.guard, max_tokens=self._learner.max_tokens
        )
        self._saved = setup.checkpoints.add_scores(self._saved, held, Scores(loss, bleu, signature))
        setup.checkpoints.prune()
        setup.tell(
            Scored(
                step=self.progress.step,
                loss=loss,
                perplexity=math.exp(min(loss, 700.0)),
                bleu=bleu,
                signature=signature,
                best=best,
                seconds=self.progress.seconds,
            )
        )

    def _restore_tensors(self) -> None:
        """Overwrite weights, moments and averages with those of the newest checkpoint."""
        model, optimiser = self._setup.model, self._learner.optimiser
        held = [model.state_dict(), moments(model, optimiser)]
        if self._moving_average:
            held.append(dict(self._moving_average.weights))
        if self._saved is not None:
            read = [self._saved.weights(), self._saved.moments()]
            if self._moving_average:
                read.append(self._saved.moving_average() or {})
            for tensors, values in zip(held, read, strict=True):
                overwrite(tensors, values)
        everything = [tensor for group in held for tensor in group.values()]
        self._setup.processes.copy_from_first(everything)
        guard = self._saved.progress.guard if self._saved else None
        self._learner.guard.restore(self._setup.processes.from_first(guard))

    def _spent(self) -> Spent:
        epochs = self.progress.epoch + self.progress.batches_done / max(
            1, self.progress.epoch_batches
        )
        return Spent(self.progress.step, epochs, self.progress.seconds)

    def _tell_started(self) -> None:
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
        if setup.machine.records and self._in_rows():
            setup.tell(Compiling(self.progress.step))

    def _tell_of_memory(self) -> None:
        lowered = self._learner.max_tokens
        if lowered is not None and lowered != self.progress.max_tokens:
            self.progress = replace(self.progress, max_tokens=lowered)
            self._setup.tell(MemoryLowered(self.progress.step, lowered))


def _named(epoch: int, share: Share) -> str:
    last = f" to {share.done}" if share.done > share.first + 1 else ""
    return f"epoch {epoch + 1} batch {share.first + 1}{last}"


def _at_the_end(skips: tuple[float, ...], before: int) -> int:
    """Count the skipped steps in a row up to now, with those before these."""
    taken = [index for index, skipped in enumerate(skips) if not skipped]
    return len(skips) - 1 - taken[-1] if taken else before + len(skips)
