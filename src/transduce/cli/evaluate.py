"""`transduce evaluate`: scores of a model or of existing translations, with their signatures."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce.cli.terminal.options import (
    AlphaOption,
    BeamOption,
    DeviceOption,
    EngineOption,
    FieldsOption,
    ShortlistOption,
)
from transduce.errors import InputError

if TYPE_CHECKING:
    from transduce.evaluation.evaluate import Evaluation
    from transduce.translation.options import Options


ModelArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="MODEL",
        help="A model folder, a run, or one of its checkpoints; not needed with --hyp.",
    ),
]
SrcOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Source text, to translate with MODEL; a .tsv, .csv, .jsonl, .tmx or .mrg has --ref "
        "too.",
    ),
]
RefOption = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE", help="Reference translations, line by line; several times for several."
    ),
]
TestSetOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="A public test set instead of files, such as wmt14."),
]
PairOption = Annotated[
    str | None,
    typer.Option(metavar="SRC-TGT", help="Languages of the public test set, such as en-de."),
]
HypOption = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="Translations to score; several times for several systems, the first is the baseline.",
    ),
]
AgainstOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The baseline's translations, for significance tests."),
]
LangOption = Annotated[
    str | None,
    typer.Option(
        "--lang",
        "--to",
        metavar="CODE",
        help="Target language, by default MODEL's: for the tokenizer and BLEU as in the paper; of "
        "a model of several, the one to translate into.",
    ),
]
TokenizeOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="sacreBLEU's tokenizer: 13a, zh, ja-mecab, char, …; by default as the text needs.",
    ),
]
OutOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="File for the model's translations.")
]
JsonOption = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="File for all numbers, as JSON.")
]
RobustOption = Annotated[
    bool,
    typer.Option(
        "--robust",
        help="Also translate the test set with noise: UPPER CASE, Title Case, no final "
        "punctuation, typos.",
    ),
]
TextOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME.LANG",
        help="Instead of --src and --ref, a test set in several languages, once for each: all "
        "directions of MODEL are scored.",
    ),
]
PngOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="With --text: a picture of BLEU by direction."),
]
JSON_START = b'{\n  "transduce": '
"""How a file of --json begins, which tells an earlier one from a user's own."""


def evaluate(
    model: ModelArgument = None,
    src: SrcOption = None,
    ref: RefOption = None,
    text: TextOption = None,
    test_set: TestSetOption = None,
    pair: PairOption = None,
    hyp: HypOption = None,
    against: AgainstOption = None,
    fields: FieldsOption = "src,tgt",
    lang: LangOption = None,
    tokenize: TokenizeOption = None,
    beam: BeamOption = None,
    alpha: AlphaOption = None,
    device: DeviceOption = "auto",
    engine: EngineOption = None,
    shortlist: ShortlistOption = False,
    robust: RobustOption = False,
    out: OutOption = None,
    as_json: JsonOption = None,
    png: PngOption = None,
) -> None:
    """Score a model, existing translations, or both: BLEU, chrF and TER with their signatures.

    Trees are scored by labelled bracketing as EVALB does it.
    """
    from transduce.cli.terminal.score_tables import show
    from transduce.cli.terminal.text_input import files_of_pipes
    from transduce.evaluation.evaluate import evaluate as score

    def write_out(hypotheses: Sequence[str]) -> None:
        if out:
            _write(out, "".join(f"{line}\n" for line in hypotheses))

    _check_files(model, out, as_json)
    _check_systems(hyp or [])
    if text:
        others = {"--src": src, "--ref": ref, "--test-set": test_set, "--hyp": hyp, "--out": out}
        flags = {"--robust": robust or None, "--shortlist": shortlist or None}
        _check_alone("--text", {**others, **flags, "--against": against})
        _evaluate_languages(model, text, _options(model, beam, alpha), device, engine, as_json, png)
        return
    if png is not None:
        raise InputError("--png is a picture of many directions: give a test set with --text")
    with files_of_pipes() as file_of, _progress_bar() as progress:
        result = score(
            model,
            src=src and file_of(src),
            ref=[file_of(path) for path in ref or ()],
            test_set=test_set,
            pair=pair,
            hyp={str(path): file_of(path) for path in hyp or ()},
            against=against and file_of(against),
            fields=fields,
            lang=lang,
            tokenize=tokenize,
            options=_options(model, beam, alpha),
            device=device,
            engine=engine,  # type: ignore[arg-type]
            shortlist=shortlist,
            robust=robust,
            progress=progress,
            on_translated=write_out,
        )
    if as_json:
        _write(as_json, _json(result))
    for note in result.notes:
        typer.echo(f"note: {note}", err=True)
    show(result)


def _check_alone(option: str, others: dict[str, object]) -> None:
    for name, value in others.items():
        if value:
            raise InputError(f"{option} and {name}: use one of them")


def _evaluate_languages(
    model: Path | None,
    texts: list[str],
    options: "Options | None",
    device: str,
    engine: str | None,
    as_json: Path | None,
    png: Path | None,
) -> None:
    """Score all directions of a model; print a matrix, and write it where it is asked for."""
    from transduce.cli.analysis import languages

    if png is not None:
        from transduce.analysis.pictures import check_picture

        check_picture(png)
    with _progress_bar() as progress:
        result = languages.scores_by_direction(
            model, texts, options=options, device=device, engine=engine, progress=progress
        )
    if as_json:
        _write(as_json, languages.as_json(result))
    if png is not None:
        languages.draw_matrix(result, png)
    languages.show_matrix(result)


def _options(model: Path | None, beam: int | None, alpha: float | None) -> "Options | None":
    """Return the options of the model's task, with those that are given."""
    from transduce.translation.load import default_options

    if model is None or (beam is None and alpha is None):
        return None
    own = default_options(model)
    return replace(
        own,
        beam=own.beam if beam is None else beam,
        alpha=own.alpha if alpha is None else alpha,
    )


def _check_files(model: Path | None, out: Path | None, as_json: Path | None) -> None:
    """Raise before the work is done if its results could not be written."""
    from transduce.cli.terminal.text_output import check_new_file

    if out and not model:
        raise InputError("--out is for a model's translations; those of --hyp are in a file")
    for path in (out, as_json):
        if path and not path.parent.is_dir():
            raise InputError(f"cannot write {path}: there is no folder {path.parent}")
        if path and path.is_dir():
            raise InputError(f"cannot write {path}: it is a folder")
    check_new_file(out)
    check_new_file(as_json, option="--json", ours=JSON_START)


def _check_systems(files: Sequence[Path]) -> None:
    """Raise if two systems could not be told apart."""
    for path in files:
        if files.count(path) > 1:
            raise InputError(f"--hyp {path} is given twice: give each system's translations once")


@contextmanager
def _progress_bar() -> "Iterator[Callable[[int, int], None]]":
    """Show a progress bar on a terminal; give a callback for (translated, total)."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        translating = bar.add_task("translating", visible=False)
        scoring = bar.add_task("scoring", total=None)  # TER of long sentences takes a while

        def progress(done: int, total: int) -> None:
            bar.update(translating, completed=done, total=total, visible=done < total)
            bar.update(scoring, visible=done == total)

        yield progress


def _json(result: "Evaluation") -> str:
    import json

    from transduce import __version__

    tree: dict[str, Any] = {
        "transduce": __version__,
        **_scores(result),
        "references": result.references,
        "baseline": result.baseline,
        "baseline_report": result.baseline_report and asdict(result.baseline_report),
        "notes": result.notes,
        "systems": [_scores(system) for system in result.systems],
        "robustness": [asdict(row) for row in result.robustness],
    }
    return json.dumps(tree, indent=2, ensure_ascii=False) + "\n"


def _scores(result: "Evaluation") -> dict[str, Any]:
    """Return all numbers of one system."""
    return {
        "system": result.system,
        **asdict(result.report),
        "metric": None if result.metric is None else asdict(result.metric),
        "metric_margin": result.metric_margin,
        "metric_parts": dict(result.metric_parts),
        "paper": None if result.paper is None else asdict(result.paper),
        "by_length": {
            "measured": result.measured,
            "unit": result.unit,
            "buckets": [asdict(bucket) for bucket in result.buckets],
        },
    }


def _write(path: Path, text: str) -> None:
    from transduce.cli.terminal.text_output import text_output

    with text_output(path) as write:
        for line in text.removesuffix("\n").split("\n"):
            write(line)
