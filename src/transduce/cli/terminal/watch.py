"""A training run on the terminal: its display, its curves, and Ctrl-C as a request to stop."""

import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from transduce.errors import counted, how_to_install

if TYPE_CHECKING:
    from types import FrameType

    from transduce.cli.terminal.train_display import Display
    from transduce.config.schema import Config, DataConfig
    from transduce.training.data_summary import DataSummary
    from transduce.training.distributed import ProcessRank
    from transduce.training.loop import TrainingOutcome
    from transduce.training.progress import Preparing, Settled, Translated, Working
    from transduce.training.run.events import Event, Stepped

    AnyEvent = Event | Preparing | Settled | Working | Translated

CURVES_EVERY_S = 60
SAMPLES_EVERY_S = 60
"""In a file, held-out sentences and their translations are written at most this often."""
STOPPING = b"\nStopping after this step, or while it scores; again: at once.\n"
MANY_DROPPED = 0.1
"""The share of dropped pairs from which on a user should look at some."""


@contextmanager
def watching(hint_without_budget: str = "") -> "Iterator[Watch]":
    """Show a training run, and treat Ctrl-C as a request to stop.

    If a signal was caught, the command ends with its exit code. The hint is shown at the start of a
    run whose time has no limit.
    """
    from transduce.cli.terminal.train_display import Display
    from transduce.hardware.allocator import keep_freed_memory

    keep_freed_memory()
    # Advice of torch's compiler: precision is a setting of ours, the other is about torch's code.
    warnings.filterwarnings("ignore", message="TensorFloat32 tensor cores")
    warnings.filterwarnings("ignore", message="The .grad attribute of a Tensor that is not a leaf")
    process = _process_rank()
    with ExitStack() as stack:
        display = stack.enter_context(Display()) if process.rank == 0 else None
        watch = Watch(display, stack, process, hint_without_budget=hint_without_budget)
        yield watch
    if watch.caught:
        raise typer.Exit(128 + watch.caught)


def _process_rank() -> "ProcessRank":
    from transduce.training.distributed import ProcessRank

    return ProcessRank(
        rank=int(os.environ.get("RANK", "0")),  # noqa: TID251 - set by torchrun
        world=int(os.environ.get("WORLD_SIZE", "1")),  # noqa: TID251
        local_rank=int(os.environ.get("LOCAL_RANK", "0")),  # noqa: TID251
        address=os.environ.get("MASTER_ADDR", "localhost"),  # noqa: TID251
        port=int(os.environ.get("MASTER_PORT", "0")),  # noqa: TID251
    )


class Watch:
    """Shows the events of a run and draws its curves; only the first process has a display.

    From `Settled` on, Ctrl-C, SIGTERM or a closed terminal ask the run to stop; a second signal
    ends it at once. Signals that the process was started to ignore, as with `nohup`, stay ignored.
    """

    def __init__(
        self,
        display: "Display | None",
        stack: ExitStack,
        process: "ProcessRank",
        *,
        hint_without_budget: str = "",
    ) -> None:
        from transduce.cli.terminal.samples import Samples

        self.process = process
        self.caught = 0  # the number of the signal; 0: none
        self._display = display
        self._hint_without_budget = hint_without_budget
        self._stack = stack
        self._samples = Samples(every_s=0 if display and display.moves else SAMPLES_EVERY_S)
        self._translated: Translated | None = None
        self._config: Config | None = None
        self._listeners: list[Callable[[Event], None]] = [display] if display else []
        self._phases: dict[str, tuple[ExitStack, Callable[[int, int], None]]] = {}
        self._folder: Path | None = None
        self._speed_check: Callable[[Stepped], str | None] = lambda _event: None
        self._drawn_at = 0.0

    @property
    def is_first_attempt(self) -> bool:
        """False if torchrun has restarted the processes: the run in the folder is then this one."""
        return os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"  # noqa: TID251

    def should_stop(self) -> bool:
        """Whether a signal asked the run to stop."""
        return bool(self.caught)

    def report_outcome(self, outcome: "TrainingOutcome") -> None:
        """Say how the call ended if no event has said it."""
        if self._display and outcome.reason is None:
            self._display.show_last_step()
            self._display.say("Stopped. The same command resumes from here.")
        elif self._display and not outcome.made_steps:
            self._display.say(f"The run in {outcome.folder} is finished: nothing is left to do.")

    def name_next_commands(self, outcome: "TrainingOutcome") -> None:
        """Say what to do with the model, if this call has finished it."""
        from transduce.cli.terminal.next_commands import model_commands
        from transduce.cli.terminal.samples import choose

        if self._display is None or outcome.reason is None:
            return
        if not outcome.made_steps:
            self._display.say("To train longer, give a larger --minutes, --epochs or --steps.")
            return
        example = "A sentence to translate."
        if self._translated is not None:
            pairs = self._translated.pairs
            example = pairs[choose(pairs)[0]].src
        self._display.say("Next: translate, score it on a test set of your own, serve it")
        for line in model_commands(outcome.folder, self._config, example=example):
            self._display.say(f"  {line}", wraps=False)

    def __call__(self, event: "AnyEvent") -> None:
        """Show an event."""
        from transduce.training.progress import Preparing, Settled, Translated, Working

        match event:
            case Settled():
                self._stack.enter_context(self._catching_signals())
                self._show_settings(event)
            case Preparing():
                self._show_preparation(event)
            case Working():
                if self._display:
                    self._display.show_work(
                        event.name, event.done, event.total, is_over=event.is_over
                    )
            case Translated():
                self._translated = event  # shown after its score
            case _:
                self._report(event)

    def _show_preparation(self, event: "Preparing") -> None:
        if self._display is None:
            return
        if event.name not in self._phases:
            shown = ExitStack()
            self._phases[event.name] = shown, shown.enter_context(self._display.phase(event.name))
        shown, progress = self._phases[event.name]
        progress(event.done, event.total)
        if event.is_over:
            del self._phases[event.name]
            shown.close()

    def _show_settings(self, event: "Settled") -> None:
        """Show what was chosen, and continue the curves after the steps already made."""
        from transduce.analysis import curves, tensorboard
        from transduce.training.plan.speed_check import SpeedCheck
        from transduce.training.run.folder import EVENTS

        if self._display is None:
            return
        self._config = event.config
        if event.planned is not None:
            self._speed_check = SpeedCheck(event.planned)
        data = describe_data(event.data, event.config.data) if event.data else []
        hint = self._budget_hint(event)
        for line in (*data, *event.notes, *hint, *_summary(event.config, event.data, event.step)):
            self._display.say(line)
        if tensorboard.available():
            points = tensorboard.EventFiles(event.folder / EVENTS, event.step)
            self._listeners.append(self._stack.enter_context(points))
        if curves.available():
            self._folder = event.folder
        else:
            self._display.say(f"For curves.png and TensorBoard: {how_to_install('plot')}")

    def _budget_hint(self, event: "Settled") -> list[str]:
        """Return the hint for a run that starts without a limit of its time."""
        is_open = event.planned is not None and event.config.training.minutes is None
        return [self._hint_without_budget] if is_open and self._hint_without_budget else []

    def _report(self, event: "Event") -> None:
        """Pass an event to the listeners; at a score, draw the curves again."""
        from transduce.analysis.curves import draw_curves
        from transduce.training.run.events import Finished, Scored, Stepped
        from transduce.training.run.folder import CURVES, JOURNAL
        from transduce.training.run.journal import read_journal

        for listener in self._listeners:
            listener(event)
        if isinstance(event, Stepped) and self._display and (line := self._speed_check(event)):
            self._display.say(line)
        if isinstance(event, Scored) and self._display and self._translated:
            for line in self._samples.lines(self._translated):
                self._display.say(line)
        now = time.monotonic()
        is_due = isinstance(event, Scored) and now - self._drawn_at > CURVES_EVERY_S
        if self._folder and (is_due or isinstance(event, Finished)):
            self._drawn_at = now
            draw_curves(read_journal(self._folder / JOURNAL), self._folder / CURVES)

    @contextmanager
    def _catching_signals(self) -> Iterator[None]:
        def catch(number: int, _frame: "FrameType | None") -> None:
            if self.caught:
                raise KeyboardInterrupt
            self.caught = number
            if number == signal.SIGINT:
                with suppress(OSError):  # a stream that is no file
                    os.write(sys.stderr.fileno(), STOPPING)  # its buffer may be in use just now

        with catching_signals(catch):
            yield


@contextmanager
def catching_signals(catch: "Callable[[int, FrameType | None], None]") -> Iterator[None]:
    """Catch Ctrl-C, SIGTERM and a closed terminal, unless they were ignored from the start."""
    wanted = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    caught = [number for number in wanted if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, catch) for number in caught}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def describe_data(data: "DataSummary", settings: "DataConfig") -> "Iterator[str]":
    """Say what became of the pairs, and if the vocabulary is smaller than requested."""
    from transduce.data.cleaning import describe_dropped

    given = f"{counted(data.dev, 'pair')} given"
    dev = f"{data.held_out:,} held out" if data.held_out else given
    read = f"{counted(data.read, 'pair')} read"
    yield f"data: {read}, {data.trained:,} trained on, {dev} for development"
    dropped = sum(data.dropped.values())
    if dropped:
        yield f"dropped {counted(dropped, 'pair')}: {describe_dropped(data.dropped)}"
    if dropped > MANY_DROPPED * data.read:
        yield "'transduce data check' shows examples; --no-clean keeps what only looks odd"
    requested = data.requested_vocab_size
    if requested is None or requested <= data.vocab_size:
        return
    if data.tokenizer is not None:
        reason = f"{data.tokenizer} has no more"
    elif (kind := settings.tgt_subwords or settings.subwords) in ("whitespace", "characters"):
        pieces = "words" if kind == "whitespace" else "characters"
        reason = f"the training text has no more {pieces}"
    else:
        reason = "the training text has no more to learn, its words are entries already"
    entries = counted(data.vocab_size, "entry", "entries")
    yield f"vocabulary: {entries}, not the {requested:,} requested: {reason}"


def _summary(config: "Config", data: "DataSummary | None", done: int) -> "Iterator[str]":
    """Describe the run, of which some steps may be done, in a few lines."""
    from transduce.config.sections.training import NO_LIMIT

    m, t, r = config.model, config.training, config.run
    yield f"model: {m.summary()}"
    yield (
        f"batches: {counted(t.batch_tokens, 'token')} per side, "
        f"{m.sizes()} subwords ({config.data.kinds}), "
        f"label smoothing {t.eps_ls}, seed {r.seed}"
    )
    rate = f", peak {t.learning_rate:g}" if t.learning_rate else ""
    warmup = counted(t.warmup_steps, "step")
    yield f"learning rate: schedule {t.schedule}, warm-up {warmup}{rate}"
    ends = [counted(t.steps, "step")] if t.steps < NO_LIMIT else []
    ends += [counted(t.epochs, "epoch")] if t.epochs else []
    ends += [counted(t.minutes, "minute")] if t.minutes else []
    ends += [f"{counted(t.patience, 'score')} without improvement"] if t.patience else []
    yield f"ends after {' or '.join(ends)}"
    sentences = min(r.score_sentences, data.dev if data else r.score_sentences)
    yield _scoring(config, sentences, done=done)


def _scoring(config: "Config", sentences: int, *, done: int) -> str:
    """Say when a run is scored, on how many sentences, and what its scores decide."""
    r = config.run
    if sentences == 0:
        chosen = "nothing is translated, the dev loss decides which weights are kept"
    else:
        by = "their score" if r.choose_by == "metric" else "the dev loss"
        many = counted(sentences, "sentence is", "sentences are")
        chosen = f"{many} translated, {by} decides which weights are kept"
    return f"scores: {_moments(config, done)}at the end; {chosen}"


def _moments(config: "Config", done: int) -> str:
    """Say when a run is scored before its end, after the steps that are done."""
    r, interval = config.run, config.run.checkpoint_steps
    first = min(r.first_score_steps or interval, interval)
    if first >= config.training.steps:
        return ""
    every = "every step" if interval == 1 else f"every {interval:,} steps"
    if max(first, done) < interval:
        begin = "" if first <= done else f"first after {counted(first, 'step')}, then "
        every = f"{begin}at doubling distances up to every {interval:,} steps"
    is_limited = config.training.minutes is not None and r.scoring_share < 1
    share = f" while scores take at most {r.scoring_share:.0%} of the time" if is_limited else ""
    return f"{every}{share}, and "
