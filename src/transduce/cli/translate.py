"""`transduce translate`: text in, text out, line by line."""

import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce.cli.terminal.options import (
    AlphaOption,
    BeamOption,
    DeviceOption,
    EngineOption,
    ModelArgument,
    PrecisionOption,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from transduce.cli.terminal.text_input import TextInput
    from transduce.search.sample import Sampling
    from transduce.translation.options import Translation

FilesArgument = Annotated[
    list[Path] | None,
    typer.Argument(metavar="FILE", help="Text, line by line; by default standard input."),
]
EnsembleOption = Annotated[
    list[Path] | None,
    typer.Option(metavar="MODEL", help="Another model, to translate with an ensemble."),
]
NBestOption = Annotated[
    int | None,
    typer.Option(metavar="N", help="Print the N best: line number from 0 ||| text ||| score."),
]
SampleOption = Annotated[bool, typer.Option("--sample", help="Sample instead of searching.")]
TemperatureOption = Annotated[
    float | None, typer.Option(help="Sampling temperature, by default 1; lower is less random.")
]
TopKOption = Annotated[int | None, typer.Option(help="Sample from the k likeliest tokens only.")]
TopPOption = Annotated[
    float | None,
    typer.Option(help="Sample from the likeliest tokens whose probabilities sum to p."),
]
SeedOption = Annotated[int | None, typer.Option(help="Random seed of sampling.")]
WholeLinesOption = Annotated[
    bool, typer.Option("--whole-lines", help="Do not split lines into sentences.")
]
WindowOption = Annotated[
    int | None,
    typer.Option(metavar="N", help="Lines to read before translating them; 1: line by line."),
]
PrefixOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="What each translation must start with, line by line."),
]
JsonlOption = Annotated[
    bool, typer.Option("--jsonl", help="Print a JSON object per line, with scores and notes.")
]
OutOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="File to write, which appears when it is complete."),
]


def translate(
    model: ModelArgument,
    files: FilesArgument = None,
    ensemble: EnsembleOption = None,
    beam: BeamOption = 4,
    alpha: AlphaOption = 0.6,
    n_best: NBestOption = None,
    sample: SampleOption = False,
    temperature: TemperatureOption = None,
    top_k: TopKOption = None,
    top_p: TopPOption = None,
    seed: SeedOption = None,
    whole_lines: WholeLinesOption = False,
    window: WindowOption = None,
    prefix: PrefixOption = None,
    jsonl: JsonlOption = False,
    out: OutOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "float32",
    engine: EngineOption = None,
) -> None:
    """Translate text line by line; anything unusual is reported on standard error."""
    from transduce.cli.terminal.text_input import TextInput
    from transduce.data.corpus import read_lines

    lines = TextInput(files or [])
    total = _check_input(lines, prefix) if lines.can_be_read_twice else None

    from transduce.translation.load import load
    from transduce.translation.options import Options

    given = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    sampling = _sampling(given, is_wanted=sample)
    best = 1 if n_best is None else n_best
    options = Options(beam, alpha, best, sampling, whole_lines=whole_lines)
    if engine == "auto" and sample:
        engine = "torch"  # CTranslate2 samples differently
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
        window=1 if window is None and lines.is_interactive else window,
    )
    _write(translations, lines, out, total=total, jsonl=jsonl, n_best=n_best is not None)


def _check_input(lines: "TextInput", prefix: Path | None) -> int:
    """Read everything once, so that a fault in the last line is found before work is done."""
    from transduce.data.corpus import read_lines
    from transduce.errors import InputError
    from transduce.translation.lines import check_length

    total = 0
    for number, line in enumerate(lines):
        check_length(line, lines.location(number))
        total += 1
    if prefix is not None and prefix.is_file():
        count = sum(1 for _ in read_lines(prefix))
        if count != total:
            raise InputError(
                f"{prefix} has {count:,} lines but there are {total:,} to translate: "
                "give a prefix for every line, or an empty line"
            )
    return total


def _sampling(given: dict[str, Any], *, is_wanted: bool) -> "Sampling | None":
    """Check the options of sampling; return None if it is not wanted."""
    from transduce.errors import InputError
    from transduce.search.sample import Sampling

    given = {name: value for name, value in given.items() if value is not None}
    if not is_wanted:
        for name in given:
            raise InputError(f"--{name.replace('_', '-')} is for sampling: add --sample")
        return None
    if not 0 < given.get("temperature", 1) < math.inf:
        raise InputError(
            f"--temperature {given['temperature']}: use more than 0, or leave out --sample"
        )
    if given.get("top_k", 1) < 1:
        raise InputError(f"--top-k {given['top_k']}: use 1 or more")
    if not 0 < given.get("top_p", 1) <= 1:
        raise InputError(f"--top-p {given['top_p']}: use more than 0, up to 1")
    return Sampling(**given)


def _write(
    translations: "Iterable[Translation]",
    lines: "TextInput",
    out: Path | None,
    *,
    total: int | None,
    jsonl: bool,
    n_best: bool,
) -> None:
    """Write translations to a file or standard output, and their notes to standard error."""
    from transduce.cli.terminal.text_output import text_output

    with text_output(out) as write:
        prints_on_terminal = out is None and sys.stdout and sys.stdout.isatty()
        shown = translations if prints_on_terminal else _with_progress(translations, total)
        for number, translation in enumerate(shown):
            for line in _lines(number, translation, jsonl=jsonl, n_best=n_best):
                write(line)
            if translation.note:
                typer.echo(f"{lines.location(number)}: {translation.note}", err=True)


def _with_progress(
    translations: "Iterable[Translation]", total: int | None
) -> "Iterable[Translation]":
    """Show a progress bar on a terminal, if the number of lines is known."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    if total is None or not console.is_terminal:
        return translations
    return track(translations, "translating", total, console=console, transient=True)


def _lines(
    number: int, translation: "Translation", *, jsonl: bool, n_best: bool
) -> "Iterator[str]":
    """Format a translation as a line, as a JSON object, or as the n best."""
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
    """Return None for infinity, which JSON does not have."""
    return score if math.isfinite(score) else None


def _on_one_line(text: str) -> str:
    """Replace line ends, which a model may write: they would shift all lines that follow."""
    return text.replace("\r", " ").replace("\n", " ")
