"""`transduce demo`: from nothing to a translator in a few minutes, on any machine."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from transduce.cli.train_display import Display
    from transduce.config.schema import Tree
    from transduce.data.corpus import Pair
    from transduce.decoding.translator import Translator
    from transduce.evaluation.dev import DevScore

TRAIN, DEV, TEST = 60_000, 200, 500
STEPS, QUICK_STEPS = 1_500, 300
SHOWN = 3
"""Held-out sentences that are shown with their translations whenever the model is scored."""
EXAMPLE = "The old king gives his daughter a book because she likes to read."


def demo(
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TEXT]", help="English to translate when the model is there."),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for the text, the run and the pages.")
    ] = Path("runs/demo"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Train for a fifth of the time, and less well.")
    ] = False,
) -> None:
    """Train a small English-German Transformer on a built-in corpus, and try it."""
    typer.echo(
        f"This writes {TRAIN:,} English sentences with their German translations from a built-in\n"
        "grammar, trains a small Transformer on them, scores it on sentences that it has never\n"
        f"seen, and lets you try it. All of it goes to {out}; Ctrl-C stops, the same command goes\n"
        "on.\n"
    )
    with _phase("text"):
        test = _write_text(out / "text")
    with _phase("training"):
        _train(out / "model", out / "text", steps=QUICK_STEPS if quick else STEPS)

    from transduce.decoding.translator import load

    translator = load(out / "model")
    with _phase("scoring"):
        _score(translator, test)
    with _phase("pictures"):
        _draw(translator, texts[0] if texts else EXAMPLE, out)
    _try(translator, texts or [])
    _say_what_next(out)


@contextmanager
def _phase(name: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    typer.echo(f"[{name}: {time.monotonic() - began:.0f} s]\n")


def _write_text(folder: Path) -> "Sequence[Pair]":
    """Write the corpus, part by part; return the test set."""
    from transduce.cli.text_output import text_output
    from transduce.data.grammar import split

    folder.mkdir(parents=True, exist_ok=True)
    corpus = split(train=TRAIN, dev=DEV, test=TEST)
    for name in ("train", "dev", "test"):
        pairs: Sequence[Pair] = getattr(corpus, name)
        for place, language in enumerate(("en", "de")):
            with text_output(folder / f"{name}.{language}") as write:
                for pair in pairs:
                    write(pair[place])
    typer.echo(f"{TRAIN:,} pairs to learn from, {DEV} to watch, {TEST} to test, such as")
    for pair in corpus.test[:SHOWN]:
        typer.echo(f"  {pair.src}\n  {pair.tgt}")
    return corpus.test


def _train(folder: Path, text: Path, *, steps: int) -> None:
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
    train_run(folder, given, "tiny", on_score=_show_some)


def _show_some(display: "Display", pairs: "Sequence[Pair]", score: "DevScore") -> None:
    """Say how the model translates a few sentences by now."""
    for pair, hypothesis in list(zip(pairs, score.hypotheses, strict=True))[:SHOWN]:
        mark = "=" if hypothesis == pair.tgt else " "
        display.say(f"   {pair.src}\n {mark} {hypothesis}")


def _score(translator: "Translator", test: "Sequence[Pair]") -> None:
    from transduce.evaluation.bleu import bleu

    found = [one.text for one in translator.translate([pair.src for pair in test])]
    score = bleu(found, [pair.tgt for pair in test])
    exact = sum(text == pair.tgt for text, pair in zip(found, test, strict=True))
    typer.echo(
        f"On {len(test)} sentences that it has never seen: BLEU {score.score:.1f}, "
        f"{exact / len(test):.0%} exactly as in the reference\n({score.signature})"
    )


def _draw(translator: "Translator", text: str, out: Path) -> None:
    """Write the attention page of one sentence, and the picture where matplotlib is there."""
    from transduce.analysis.attention_page import attention_page
    from transduce.cli.text_output import text_output
    from transduce.decoding.options import Options

    [shown] = translator.translate([text], Options(attention=True))
    page = attention_page(shown.attention, source=shown.source, translation=shown.text)
    with text_output(out / "attention.html") as write:
        write(page)
    typer.echo(f"Who looked at whom, every layer and head: {(out / 'attention.html').resolve()}")


def _try(translator: "Translator", texts: list[str]) -> None:
    """Translate what was given, or what is typed."""
    for one in translator.translate(texts):
        typer.echo(f"{one.source}\n  {one.text}")
    if texts or not (sys.stdin and sys.stdin.isatty()):
        return
    typer.echo(f"Type English (it knows the words of its corpus, as in: {EXAMPLE})")
    typer.echo("An empty line ends.")
    while text := input("> ").strip():
        [one] = translator.translate([text])
        typer.echo(f"  {one.text}")


def _say_what_next(out: Path) -> None:
    typer.echo(
        f"\nNext, for example:\n"
        f"  transduce translate {out / 'model'}\n"
        f"  transduce evaluate {out / 'model'} --src {out / 'text/test.en'} "
        f"--ref {out / 'text/test.de'} --lang de\n"
        f"  transduce train --src YOUR.en --tgt YOUR.de --out runs/yours"
    )
