"""`transduce translate`: text in, text out, line by line."""

import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from transduce.cli.text_input import TextInput
    from transduce.decoding.options import Translation
    from transduce.decoding.sample import Sampling


def translate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a model.")],
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="Text, line by line; without, standard input."),
    ] = None,
    ensemble: Annotated[
        list[Path] | None,
        typer.Option(metavar="MODEL", help="Another model to translate with, as one."),
    ] = None,
    beam: Annotated[int, typer.Option(help="Hypotheses kept (§6.1); 1 is greedy search.")] = 4,
    alpha: Annotated[float, typer.Option(help="Of the length penalty (§6.1); 0 for none.")] = 0.6,
    n_best: Annotated[
        int | None,
        typer.Option(metavar="N", help="Print the N best: line from 0 ||| text ||| score."),
    ] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Draw by chance instead of searching.")
    ] = False,
    temperature: Annotated[
        float | None, typer.Option(help="Of the draws: below 1 nearer to the likeliest.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw only from the k likeliest.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Draw only from the likeliest that make up p.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Decides what is drawn.")] = None,
    whole_lines: Annotated[
        bool,
        typer.Option("--whole-lines", help="Do not translate a line sentence by sentence."),
    ] = False,
    window: Annotated[
        int | None,
        typer.Option(metavar="N", help="Lines to read before translating; 1 to answer each."),
    ] = None,
    prefix: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="How each line's translation must begin."),
    ] = None,
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="Print a JSON object a line, with scores and notes.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write here; there is no file until it is complete."),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    precision: Annotated[
        str, typer.Option(help="float32, bf16 (faster on GPUs) or, for ctranslate2, int8.")
    ] = "float32",
    engine: Annotated[
        str | None, typer.Option(help="torch, ctranslate2 or auto; without, what MODEL is for.")
    ] = None,
) -> None:
    """Translate text line by line. What is out of the ordinary is said on standard error."""
    from transduce.cli.text_input import TextInput
    from transduce.cli.text_output import text_output
    from transduce.data.corpus import read_lines

    lines = TextInput(files or [])
    total = _survey(lines, prefix) if lines.can_be_read_twice else None

    from transduce.decoding.options import Options
    from transduce.decoding.translator import load

    draws = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    options = Options(
        beam,
        alpha,
        1 if n_best is None else n_best,
        _sampling(draws, is_wanted=sample),
        whole_lines=whole_lines,
    )
    if engine == "auto" and sample:
        engine = "torch"  # CTranslate2 would draw otherwise
    translator = load(
        [model, *(ensemble or [])],
        device,
        precision=precision,  # type: ignore[arg-type]
        engine=engine,  # type: ignore[arg-type]
    )
    translations = translator.stream(
        lines,
        options,
        prefixes=None if prefix is None else read_lines(prefix),
        window=1 if window is None and lines.is_typed else window,
    )
    with text_output(out) as write:
        is_apart = out is not None or not (sys.stdout and sys.stdout.isatty())
        shown = _shown(translations, total if is_apart else None)  # no bar among the lines
        for number, translation in enumerate(shown):
            for line in _lines(number, translation, jsonl=jsonl, n_best=n_best is not None):
                write(line)
            if translation.note:
                typer.echo(f"{lines.place(number)}: {translation.note}", err=True)


def _survey(lines: "TextInput", prefix: Path | None) -> int:
    """Read everything once, so that a fault in the last line is found before the work is done."""
    from transduce.data.corpus import read_lines
    from transduce.decoding.lines import check_length
    from transduce.errors import InputError

    total = 0
    for number, line in enumerate(lines):
        check_length(line, lines.place(number))
        total += 1
    if prefix is not None and prefix.is_file():
        count = sum(1 for _ in read_lines(prefix))
        if count != total:
            raise InputError(
                f"{prefix} has {count:,} lines but there are {total:,} to translate: "
                "give a prefix for every line, or an empty line"
            )
    return total


def _sampling(draws: dict[str, Any], *, is_wanted: bool) -> "Sampling | None":
    """Check what belongs to sampling; None if it is not wanted."""
    from transduce.decoding.sample import Sampling
    from transduce.errors import InputError

    given = {name: value for name, value in draws.items() if value is not None}
    if not is_wanted:
        for name in given:
            raise InputError(f"--{name.replace('_', '-')} is for draws: add --sample")
        return None
    if not 0 < given.get("temperature", 1) < math.inf:
        raise InputError(f"--temperature {given['temperature']}: use more than 0; or no --sample")
    if given.get("top_k", 1) < 1:
        raise InputError(f"--top-k {given['top_k']}: use 1 or more")
    if not 0 < given.get("top_p", 1) <= 1:
        raise InputError(f"--top-p {given['top_p']}: use more than 0, up to 1")
    return Sampling(**given)


def _shown(translations: "Iterable[Translation]", total: int | None) -> "Iterable[Translation]":
    """Show on a terminal how far it is, where that is known."""
    from rich.console import Console
    from rich.progress import track

    on_terminal = Console(stderr=True)
    if total is None or not on_terminal.is_terminal:
        return translations
    return track(translations, "translating", total, console=on_terminal, transient=True)


def _lines(
    number: int, translation: "Translation", *, jsonl: bool, n_best: bool
) -> "Iterator[str]":
    """Write a translation as a line, as an object, or as several lines."""
    if jsonl:
        yield json.dumps(_as_object(translation), ensure_ascii=False)
    elif n_best:
        for text, score in translation.alternatives:
            yield f"{number} ||| {_on_one_line(text)} ||| {score:.4f}"
    else:
        yield _on_one_line(translation.text)


def _as_object(translation: "Translation") -> dict[str, Any]:
    return {
        "source": translation.source,
        "text": translation.text,
        "score": _finite(translation.score),
        "alternatives": [
            {"text": text, "score": _finite(score)} for text, score in translation.alternatives
        ],
        "note": translation.note,
    }


def _finite(score: float) -> float | None:
    """JSON has no infinity."""
    return score if math.isfinite(score) else None


def _on_one_line(text: str) -> str:
    """A model may write the end of a line; in the output it would shift all that follows."""
    return text.replace("\r", " ").replace("\n", " ")
