"""`transduce demo`: a translator from scratch in a few minutes, on any machine."""

import select
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.data.demo import DEV, TEST, has_text, write_text
from transduce.cli.terminal.next_commands import program

if TYPE_CHECKING:
    from transduce.config.schema import Tree
    from transduce.data.corpus import Pair
    from transduce.translation.translator import Translator

TRAIN = 60_000
PRESET, STEPS, QUICK_STEPS = "modern_tiny", 550, 300
EXAMPLE = "I think that the polite soldiers told the judge the story this morning."
SAMPLES = (
    "Below a score: two development sentences as the model translates them by then; in a log at "
    "most once a minute."
)


def demo(
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="English to translate when the model is trained."),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for the text, the runs and the pages.")
    ] = Path("runs/demo"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Train half as long, for a worse model.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Delete the model of an earlier demo and start over.")
    ] = False,
) -> None:
    """Train a small English-German Transformer on a built-in corpus, and try it."""
    from transduce.grammar import split
    from transduce.models.model_files import trained_so_far

    steps, model = (QUICK_STEPS, out / "quick") if quick else (STEPS, out / "model")
    done, seconds = (0, 0.0) if fresh else trained_so_far(model)
    _introduce(out, model, done=done, steps=steps)
    began = time.monotonic() - (seconds if done < steps else 0)
    try:
        test: Sequence[Pair]
        if done >= steps and has_text(out / "text"):
            test = split(train=0, dev=0, test=TEST).test
        else:
            with _phase("text"):
                test = write_text(out / "text", train=TRAIN, dev=DEV, test=TEST)
        with _phase("training"):
            if done < steps:
                typer.echo(SAMPLES)
            _train(model, out / "text", steps=steps, fresh=fresh)
        with _phase("scoring"):
            translator = _score(model, test)
        with _phase("pictures"):
            _draw(translator, next(filter(str.strip, texts or []), EXAMPLE), out.resolve())
        earlier = f", with {seconds:.0f} s of training before" if 0 < done < steps else ""
        typer.echo(f"[total: {time.monotonic() - began:.0f} s{earlier}]\n")
        _try(translator, texts or [])
    except KeyboardInterrupt:
        typer.echo("\nStopped. The same command resumes from here.", err=True)
        raise typer.Exit(130) from None
    _print_next_commands(model, out)


def _introduce(out: Path, model: Path, *, done: int, steps: int) -> None:
    """Say what the demo will do, or where an earlier one stands."""
    if done >= steps:
        typer.echo(f"The model in {model} is trained already; --fresh starts over.\n")
        return
    if done:
        typer.echo(
            f"Resuming the demo in {out} after {done:,} of {steps:,} steps; --fresh starts over.\n"
        )
        return
    typer.echo(
        f"1. generates {TRAIN:,} English sentences with German translations, from a\n"
        "   built-in grammar\n"
        f"2. trains a small Transformer on them for {steps:,} steps, and shows how it learns\n"
        f"3. scores it on {TEST} sentences that it has never seen\n"
        "4. draws its attention, and translates what you type\n"
        f"Everything is written to {out}. Ctrl-C stops; the same command resumes.\n"
    )


@contextmanager
def _phase(name: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    typer.echo(f"[{name}: {time.monotonic() - began:.0f} s]\n")


def _train(folder: Path, text: Path, *, steps: int, fresh: bool) -> None:
    from transduce.cli.terminal.watch import watching
    from transduce.training.loop import train

    with watching() as watch:
        outcome = train(
            out=folder,
            preset=PRESET,
            settings=settings_of(text, steps=steps),
            fresh=fresh,
            progress=watch,
            should_stop=watch.should_stop,
        )
        watch.report_outcome(outcome)


def settings_of(text: Path, *, steps: int) -> "Tree":
    """Return what the demo's run changes of its preset."""
    return {
        "model": {"vocab_size": 4000, "p_drop": 0.0},
        "data": {
            "src": [str(text / "train.en")],
            "tgt": [str(text / "train.de")],
            "dev_src": [str(text / "dev.en")],
            "dev_tgt": [str(text / "dev.de")],
            "clean": False,
        },
        "training": {
            "batch_tokens": 1500,
            "schedule": "linear",
            "warmup_steps": 55,
            "steps": steps,
        },
        "run": {"checkpoint_steps": 110, "score_sentences": DEV, "device": "auto"},
    }


def _score(model: Path, test: "Sequence[Pair]") -> "Translator":
    """Load the model, score it on the test set and print the score."""
    from transduce.tasks.metrics import bleu
    from transduce.translation.load import load

    translator = load(model)
    found = [one.text for one in translator.translate([pair.src for pair in test])]
    score = bleu(found, [pair.tgt for pair in test])
    exact = sum(text == pair.tgt for text, pair in zip(found, test, strict=True))
    typer.echo(
        f"On {len(test)} sentences that it has never seen: BLEU {score.score:.1f}, "
        f"{exact / len(test):.0%} exactly right\n({score.signature})"
    )
    return translator


def _draw(translator: "Translator", text: str, out: Path) -> None:
    """Write the attention page of one sentence, and a picture if matplotlib is installed."""
    from transduce.analysis.curves import available
    from transduce.cli.attention import draw_heads, write_page
    from transduce.errors import how_to_install
    from transduce.translation.options import Options

    [shown] = translator.translate([text], Options(attention=True))
    typer.echo(f"Attention in: {shown.source}\n  {shown.text}")
    write_page(shown, out / "attention.html")
    if available():
        draw_heads(shown, out / "attention.png")
    else:
        typer.echo(f"for attention.png: {how_to_install('plot')}")


def _try(translator: "Translator", texts: list[str]) -> None:
    """Translate the given texts, or else what is piped in or typed."""
    is_typed = all(stream and stream.isatty() for stream in (sys.stdin, sys.stdout))
    texts = texts or list(_piped())
    if texts:
        for one in translator.translate(texts):
            typer.echo(f"{one.source}\n  {one.text}")
        typer.echo("")
    elif is_typed:
        _translate_typed(translator)
        typer.echo("")
    else:
        typer.echo(f"For sentences of your own: {program()} demo 'A sentence.'\n")


def _piped() -> Iterator[str]:
    """Read the lines of standard input, if it is no terminal and something has been written."""
    from transduce.cli.terminal.text_input import text_of
    from transduce.data.corpus import STANDARD_INPUT

    if sys.stdin is None or sys.stdin.isatty():
        return
    with suppress(OSError, ValueError):  # no file of the system: it can be read without waiting
        if not select.select([sys.stdin], [], [], 0)[0]:
            return
    yield from filter(str.strip, text_of(STANDARD_INPUT))


def _translate_typed(translator: "Translator") -> None:
    with suppress(ImportError):  # not on every system
        import readline  # noqa: F401 - makes typed lines editable
    typer.echo("Type an English sentence with words of the corpus, like the one above.")
    typer.echo("An empty line quits.")
    with suppress(EOFError, KeyboardInterrupt):
        while text := input("> ").strip():
            valid = text.encode(errors="replace").decode()  # input may not be valid UTF-8
            [one] = translator.translate([valid])
            typer.echo(f"  {one.text}")


def _print_next_commands(model: Path, out: Path) -> None:
    call, folder, text = program(), shlex.quote(str(model)), shlex.quote(str(out / "text"))
    mine = shlex.quote(str(out.parent / "mine"))
    typer.echo(
        "Next, with your own files instead of these:\n"
        f"  {call} translate {folder} {text}/test.en\n"
        f"  {call} evaluate {folder} \\\n"
        f"    --src {text}/test.en --ref {text}/test.de\n"
        f"  {call} train --src {text}/train.en --tgt {text}/train.de \\\n"
        f"    --out {mine} --minutes 10"
    )
