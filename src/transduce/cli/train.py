"""`transduce train`: from parallel text to a model folder."""

import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import FrameType

    from transduce.cli.train_display import Display
    from transduce.config.schema import Config, Tree
    from transduce.data.corpus import Pair
    from transduce.evaluation.dev import DevScore
    from transduce.training.events import Event
    from transduce.training.loop import Evaluate
    from transduce.training.machine import Machine
    from transduce.training.prepare import Prepared
    from transduce.training.run_folder import RunFolder

    OnScore = Callable[[Display, Sequence[Pair], DevScore], None]

CURVES_EVERY_S = 60

CJK_WORD_CHARS = 12
"""Where "words" between spaces are longer than this, the script has no spaces between words."""


def train(
    recipe: Annotated[
        Path | None,
        typer.Argument(metavar="[RECIPE.yaml]", help="Settings; 'preset: NAME' starts from one."),
    ] = None,
    src: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Source text, or a .tsv or .jsonl with both sides."),
    ] = None,
    tgt: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Target text, line by line its translation."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the run; with a recipe, runs/RECIPE."),
    ] = None,
    dev_src: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Development source; without, pairs are held out."),
    ] = None,
    dev_tgt: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="Development target.")
    ] = None,
    held_out: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Text never to learn from, such as a test set."),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(help="Shape by name ('transduce presets'); without, by the corpus's size."),
    ] = None,
    init: Annotated[
        Path | None,
        typer.Option(metavar="MODEL", help="Start from this model: fine-tune it."),
    ] = None,
    minutes: Annotated[float | None, typer.Option(help="Train for so long.")] = None,
    steps: Annotated[int | None, typer.Option(help="Train for so many steps.")] = None,
    epochs: Annotated[
        float | None, typer.Option(help="Train for so many times through the data.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda, cuda:N or mps; without, a GPU if there is one.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Decides all that is random.")] = None,
    no_clean: Annotated[
        bool, typer.Option("--no-clean", help="Keep every pair, however odd.")
    ] = False,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any setting, such as run.average=10."),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep the data that is made ready here, for other runs."),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start over, and lose the run that is in the folder.")
    ] = False,
) -> None:
    """Train a model from parallel text; the same command again goes on where it stopped."""
    from transduce.config.load import parse_override, read_recipe
    from transduce.config.schema import merge
    from transduce.errors import ConfigError

    if recipe and recipe.suffix.lower() not in (".yaml", ".yml"):
        raise ConfigError(
            f"{recipe} is no recipe, whose name ends in .yaml; for a text, write --src or --tgt "
            "before each file"
        )
    named, given = read_recipe(recipe) if recipe else (None, {})
    options: dict[str, dict[str, Any]] = {
        "data": {
            "src": src,
            "tgt": tgt,
            "dev_src": dev_src,
            "dev_tgt": dev_tgt,
            "held_out": held_out,
            "clean": False if no_clean else None,
        },
        "training": {"minutes": minutes, "steps": steps, "epochs": epochs},
        "run": {"device": device, "seed": seed, "init": None if init is None else str(init)},
    }
    given = merge(given, _without_none(options))
    for change in changes or []:
        given = merge(given, parse_override(change))
    if out is None and recipe is None:
        raise ConfigError("where to? Name a folder for the run with --out, such as runs/ende")
    folder = out or Path("runs") / (recipe or Path()).stem
    train_run(folder, given, preset or named, cache=cache, fresh=fresh)


def train_run(
    folder: Path,
    given: "Tree",
    preset: str | None,
    *,
    cache: Path | None = None,
    fresh: bool = False,
    on_score: "OnScore | None" = None,
) -> None:
    """Train and show it; `on_score` may say more of the translations after each score."""
    from transduce.cli.train_display import Display
    from transduce.training.distributed import Place
    from transduce.training.memory import keep_freed_memory
    from transduce.training.run import Request, run

    keep_freed_memory()
    # Advice that torch's compiler gives: the precision is a setting of ours, and what it looks at
    # is its own affair.
    warnings.filterwarnings("ignore", message="TensorFloat32 tensor cores")
    warnings.filterwarnings("ignore", message="The .grad attribute of a Tensor that is not a leaf")
    place = Place(
        rank=int(os.environ.get("RANK", "0")),  # noqa: TID251 - torchrun says it here
        world=int(os.environ.get("WORLD_SIZE", "1")),  # noqa: TID251
        local_rank=int(os.environ.get("LOCAL_RANK", "0")),  # noqa: TID251
        address=os.environ.get("MASTER_ADDR", "localhost"),  # noqa: TID251
        port=int(os.environ.get("MASTER_PORT", "0")),  # noqa: TID251
    )
    restarts = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))  # noqa: TID251
    request = Request(folder, given, preset, fresh=fresh and restarts == 0, cache=cache)
    listener = _Listener()
    is_first = place.rank == 0
    with Display() if is_first else nullcontext() as display, ExitStack() as files:
        watcher = _Watcher(display, files, on_score) if display else _Silent()
        outcome = run(
            request,
            place=place,
            watcher=watcher,
            make_evaluate=partial(_make_evaluate, translated=watcher.translated),
            listening=listener.listening,
        )
    if display and outcome.reason is None:
        display.say("Stopped. The same command goes on from here.")
    elif display and not outcome.made_steps:
        display.say(f"The run in {folder} is finished: nothing is left to do.")
    if listener.caught:
        raise typer.Exit(128 + listener.caught)


class _Listener:
    """Takes Ctrl-C, SIGTERM or a lost terminal for a wish to stop; a second one ends it at once.

    What the process was started to ignore, as `nohup` does, stays ignored.
    """

    def __init__(self) -> None:
        self.caught = 0

    @contextmanager
    def listening(self) -> "Iterator[Callable[[], bool]]":
        def note(number: int, _frame: "FrameType | None") -> None:
            if self.caught:
                raise KeyboardInterrupt
            self.caught = number

        wishes = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        heard = [number for number in wishes if signal.getsignal(number) != signal.SIG_IGN]
        before = {number: signal.signal(number, note) for number in heard}
        try:
            yield lambda: bool(self.caught)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class _Watcher:
    """Shows a run, and keeps its curves."""

    def __init__(self, display: "Display", files: ExitStack, on_score: "OnScore | None") -> None:
        self.phase = display.phase
        self._on_score = on_score
        self._translated: tuple[Sequence[Pair], DevScore] | None = None
        self._display = display
        self._files = files
        self._tell: list[Callable[[Event], None]] = [display]
        self._folder: RunFolder | None = None
        self._drawn_at = 0.0

    def begin(self, folder: "RunFolder", config: "Config", step: int) -> None:
        """Say what was chosen, and go on with the curves after so many steps."""
        from transduce.analysis import curves, tensorboard
        from transduce.training.run_folder import EVENTS

        for line in _chosen(config):
            self._display.say(line)
        if tensorboard.available():
            points = tensorboard.EventFiles(folder.path / EVENTS, step)
            self._tell.append(self._files.enter_context(points))
        if curves.available():
            self._folder = folder
        else:
            self._display.say("Install 'transduce[plot]' for curves.png and TensorBoard.")

    def translated(self, pairs: "Sequence[Pair]", score: "DevScore") -> None:
        """Keep the translations of the development set until their score is told."""
        self._translated = pairs, score

    def __call__(self, event: "Event") -> None:
        """Pass an event on; scores make new points of a curve."""
        from transduce.analysis.curves import draw_curves
        from transduce.training.events import Finished, Scored
        from transduce.training.journal import read_journal
        from transduce.training.run_folder import CURVES, JOURNAL

        for tell in self._tell:
            tell(event)
        if self._on_score and self._translated and isinstance(event, Scored):
            self._on_score(self._display, *self._translated)
        now = time.monotonic()
        due = isinstance(event, Scored) and now - self._drawn_at > CURVES_EVERY_S
        if self._folder and (due or isinstance(event, Finished)):
            self._drawn_at = now
            draw_curves(read_journal(self._folder.path / JOURNAL), self._folder.path / CURVES)


class _Silent:
    """Watches for a process that is not the first."""

    def translated(self, pairs: "Sequence[Pair]", score: "DevScore") -> None:
        """Take no notice."""

    def phase(self, name: str) -> "AbstractContextManager[Callable[[int, int], None]]":
        """Take no notice."""
        del name
        return nullcontext(lambda _done, _total: None)

    def begin(self, folder: "RunFolder", config: "Config", step: int) -> None:
        """Take no notice."""

    def __call__(self, event: "Event") -> None:
        """Take no notice."""


def _make_evaluate(
    prepared: "Prepared",
    config: "Config",
    machine: "Machine",
    *,
    sentences: int,
    stopped: "Callable[[], bool]",
    translated: "Callable[[Sequence[Pair], DevScore], None]",
) -> "Evaluate":
    from transduce.evaluation.dev import DevBleu

    pairs = prepared.some_dev_pairs(sentences)
    if not pairs:
        return lambda _model: None
    words = " ".join(pair.tgt for pair in pairs).split()
    has_spaces = sum(map(len, words)) <= CJK_WORD_CHARS * len(words)
    dev = DevBleu(
        prepared.tokenizer,
        pairs,
        device=machine.device,
        max_positions=config.model.max_positions,
        max_tokens=4 * config.training.batch_tokens,
        by_sentence=config.data.lines == "sentences",
        autocast=machine.autocast,
        tokenize="13a" if has_spaces else "char",
    )

    def evaluate(model: Any) -> tuple[float, str] | None:
        with machine.eagerly():
            score = dev(model, stopped=stopped)
        if score:
            translated(pairs, score)
        return (score.bleu, score.signature) if score else None

    return evaluate


def _chosen(config: "Config") -> "Iterator[str]":
    """Say in a few lines what the run is."""
    m, t, r = config.model, config.training, config.run
    yield (
        f"model: {m.n_layers}+{m.n_layers} layers, d_model {m.d_model}, d_ff {m.d_ff}, {m.h} heads,"
        f" dropout {m.p_drop}"
    )
    yield (
        f"steps: {t.batch_tokens:,} tokens a side, {m.vocab_size:,} subwords "
        f"({config.data.subwords}), label smoothing {t.eps_ls}, seed {r.seed}"
    )
    rate = f", peak {t.learning_rate:g}" if t.learning_rate else ""
    yield f"learning rate: schedule {t.schedule}, warm-up {t.warmup_steps:,} steps{rate}"
    ends = [f"{t.steps:,} steps"]
    ends += [f"{t.epochs:g} epochs"] if t.epochs else []
    ends += [f"{t.minutes:g} minutes"] if t.minutes else []
    ends += [f"{t.patience} scorings without a better dev loss"] if t.patience else []
    yield f"ends after {' or '.join(ends)}; scores and keeps weights every {r.checkpoint_steps:,}"


def _without_none(options: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    given = {
        section: {name: value for name, value in values.items() if value not in (None, [])}
        for section, values in options.items()
    }
    return {section: values for section, values in given.items() if values}
