"""`transduce demo`: from nothing to a translator in a few minutes, on any machine."""

import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.data_demo import DEV, TEST, write_text

if TYPE_CHECKING:
    from transduce.cli.train_display import Display
    from transduce.config.schema import Tree
    from transduce.data.corpus import Pair
    from transduce.decoding.translator import Translator
    from transduce.evaluation.dev import DevScore

TRAIN = 60_000
STEPS, QUICK_STEPS = 1_500, 750
SHOWN = 3
"""Held-out sentences that are shown with their translations whenever the model is scored."""
WIDTH = 74
"""Longer translations are cut: a model that has just begun repeats itself without end."""
EXAMPLE = "I think that the polite soldiers told the judge the story this morning."


def demo(
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TEXT]", help="English to translate when the model is there."),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for the text, the run and the pages.")
    ] = Path("runs/demo"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Train for half the time, and less well.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Train anew, and lose the model that is there.")
    ] = False,
) -> None:
    """Train a small English-German Transformer on a built-in corpus, and try it."""
    steps, model = (QUICK_STEPS, out / "quick") if quick else (STEPS, out / "model")
    typer.echo(
        f"1. writes {TRAIN:,} English sentences with their German translations, from a\n"
        "   built-in grammar\n"
        f"2. trains a small Transformer on them, {steps:,} steps, and shows how it learns\n"
        f"3. scores it on {TEST} sentences that it has never seen\n"
        "4. draws what it looks at, and translates what you type\n"
        f"All of it goes to {out}. Ctrl-C stops, the same command goes on.\n"
    )
    began = time.monotonic()
    try:
        with _phase("text"):
            test = write_text(out / "text", train=TRAIN, dev=DEV, test=TEST)
        with _phase("training"):
            _train(model, out / "text", steps=steps, fresh=fresh)
        with _phase("scoring"):
            translator = _score(model, test)
        with _phase("pictures"):
            _draw(translator, next(filter(str.strip, texts or []), EXAMPLE), out.resolve())
        typer.echo(f"[in all: {time.monotonic() - began:.0f} s]\n")
        _try(translator, texts or [])
    except KeyboardInterrupt:
        typer.echo("\nStopped. The same command goes on from here.", err=True)
        raise typer.Exit(130) from None
    _say_what_next(model, out)


@contextmanager
def _phase(name: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    typer.echo(f"[{name}: {time.monotonic() - began:.0f} s]\n")


def _train(folder: Path, text: Path, *, steps: int, fresh: bool) -> None:
    from transduce.cli.train import train_run

    given: Tree = {
        "model": {"vocab_size": 4000, "p_drop": 0.0},
        "data": {
            "src": [str(text / "train.en")],
            "tgt": [str(text / "train.de")],
            "dev_src": str(text / "dev.en"),
            "dev_tgt": str(text / "dev.de"),
            "clean": False,
        },
        "training": {
            "batch_tokens": 1500,
            "schedule": "linear",
            "warmup_steps": 300,
            "learning_rate": 0.004,
            "steps": steps,
        },
        "run": {"checkpoint_steps": 150, "bleu_sentences": DEV, "device": "auto"},
    }
    typer.echo("At each score: sentences it does not learn from, as it translates them now.")
    train_run(folder, given, "tiny", fresh=fresh, on_score=_show_some)


def _show_some(display: "Display", pairs: "Sequence[Pair]", score: "DevScore") -> None:
    """Say how the model translates a few sentences by now."""
    for pair, hypothesis in list(zip(pairs, score.hypotheses, strict=True))[:SHOWN]:
        shown = hypothesis if len(hypothesis) <= WIDTH else f"{hypothesis[: WIDTH - 1]}…"
        right = "  (right)" if hypothesis == pair.tgt else ""
        display.say(f"  {pair.src}\n    {shown}{right}")


def _score(model: Path, test: "Sequence[Pair]") -> "Translator":
    """Load the model and say how good it is."""
    from transduce.decoding.translator import load
    from transduce.evaluation.bleu import bleu

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
    """Write the attention page of one sentence, and the picture where matplotlib is there."""
    from transduce.analysis.curves import available
    from transduce.cli.attention import draw_heads, write_page
    from transduce.decoding.options import Options

    [shown] = translator.translate([text], Options(attention=True))
    typer.echo(f"Who looks at whom in: {shown.source}\n  {shown.text}")
    write_page(shown, out / "attention.html")
    if available():
        draw_heads(shown, out / "attention.png")
    else:
        typer.echo("pip install 'transduce[plot]' for attention.png")


def _try(translator: "Translator", texts: list[str]) -> None:
    """Translate what was given, or what is typed."""
    if texts:
        for one in translator.translate(texts):
            typer.echo(f"{one.source}\n  {one.text}")
        typer.echo("")
    elif all(stream and stream.isatty() for stream in (sys.stdin, sys.stdout)):
        _translate_typed(translator)
        typer.echo("")


def _translate_typed(translator: "Translator") -> None:
    with suppress(ImportError):  # not on every system
        import readline  # noqa: F401 - lines can be edited where it is loaded
    typer.echo("Type English, in the words of its corpus, such as the sentence above.")
    typer.echo("An empty line ends.")
    with suppress(EOFError, KeyboardInterrupt):
        while text := input("> ").strip():
            valid = text.encode(errors="replace").decode()  # what was typed may not be UTF-8
            [one] = translator.translate([valid])
            typer.echo(f"  {one.text}")


def _say_what_next(model: Path, out: Path) -> None:
    program, folder, text = _program(), shlex.quote(str(model)), shlex.quote(str(out / "text"))
    mine = shlex.quote(str(out.parent / "mine"))
    typer.echo(
        "Next, with your own files in place of these:\n"
        f"  {program} translate {folder} {text}/test.en\n"
        f"  {program} evaluate {folder} \\\n"
        f"    --src {text}/test.en --ref {text}/test.de\n"
        f"  {program} train --src {text}/train.en --tgt {text}/train.de \\\n"
        f"    --out {mine} --minutes 10"
    )


def _program() -> str:
    """Name this program as the user can call it."""
    if shutil.which("transduce"):
        return "transduce"
    started = Path(sys.argv[0])
    return shlex.quote(sys.argv[0]) if started.name == "transduce" else "python -m transduce"
