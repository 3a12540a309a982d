"""`transduce evaluate`: scores of a model or of existing translations, with their signatures."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce.cli.terminal.options import AlphaOption, BeamOption, DeviceOption, EngineOption
from transduce.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from transduce.evaluation.evaluate import Evaluation


ModelArgument = Annotated[
    Path | None, typer.Argument(metavar="[MODEL]", help="A model folder, unless --hyp is given.")
]
SrcOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Source text, to translate with MODEL.")
]
RefOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Reference translations, line by line.")
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
    Path | None, typer.Option(metavar="FILE", help="Translations to score instead of a model's.")
]
AgainstOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Another system's translations, for a significance test."),
]
LangOption = Annotated[
    str | None, typer.Option(metavar="CODE", help="Target language, for BLEU as in the paper.")
]
TokenizeOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="sacreBLEU's tokenizer: 13a, zh, ja-mecab, char, …"),
]
OutOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="File for the model's translations.")
]
JsonOption = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="File for all numbers, as JSON.")
]


def evaluate(
    model: ModelArgument = None,
    src: SrcOption = None,
    ref: RefOption = None,
    test_set: TestSetOption = None,
    pair: PairOption = None,
    hyp: HypOption = None,
    against: AgainstOption = None,
    lang: LangOption = None,
    tokenize: TokenizeOption = None,
    beam: BeamOption = 4,
    alpha: AlphaOption = 0.6,
    device: DeviceOption = "auto",
    engine: EngineOption = None,
    out: OutOption = None,
    as_json: JsonOption = None,
) -> None:
    """Score a model, or existing translations: BLEU, chrF and TER, each with its signature."""
    from transduce.evaluation.evaluate import evaluate as score
    from transduce.translation.options import Options

    def write_out(hypotheses: Sequence[str]) -> None:
        if out:
            _write(out, "".join(f"{line}\n" for line in hypotheses))

    _check_files(model, out, as_json)
    with _progress_bar("translating") as progress:
        result = score(
            model,
            src=src,
            ref=ref,
            test_set=test_set,
            pair=pair,
            hyp=hyp,
            against=against,
            lang=lang,
            tokenize=tokenize,
            options=Options(beam=beam, alpha=alpha),
            device=device,
            engine=engine,  # type: ignore[arg-type]
            progress=progress,
            on_translated=write_out,
        )
    if as_json:
        _write(as_json, _json(result))
    _show(result)


def _check_files(model: Path | None, out: Path | None, as_json: Path | None) -> None:
    """Raise before the work is done if its results could not be written."""
    if out and not model:
        raise InputError("--out is for a model's translations; those of --hyp are in a file")
    for path in (out, as_json):
        if path and not path.parent.is_dir():
            raise InputError(f"cannot write {path}: there is no folder {path.parent}")
        if path and path.is_dir():
            raise InputError(f"cannot write {path}: it is a folder")


@contextmanager
def _progress_bar(what: str) -> "Iterator[Callable[[int, int], None]]":
    """Show a progress bar on a terminal; give a callback for (done, total)."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _show(result: "Evaluation") -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    console.print(_scores_table(result))
    console.print()
    console.print(_lengths_table(result))
    console.print()
    for line in _footnotes(result):
        console.print(line, soft_wrap=True)  # a signature must stay on one line to be copied


def _scores_table(result: "Evaluation") -> "Table":
    from transduce.evaluation.paper_bleu import PAPER_BLEU

    headings = ["score", "95 %"]
    if result.report.comparisons:
        headings += ["other", "difference", "p"]
    table = _table(f"{result.report.sentences:,} sentences", *headings)
    others = {comparison.name: comparison for comparison in result.report.comparisons}
    for score in result.report.scores:
        interval = "" if score.margin is None else f"{score.mean:.2f} ± {score.margin:.2f}"
        cells = [score.name, f"{score.score:.2f}", interval]
        if other := others.get(score.name):
            p = "–" if other.p_value is None else f"{other.p_value:.3f}"
            cells += [f"{other.other:.2f}", f"{other.difference:+.2f}", p]
        table.add_row(*cells)
    if result.metric:
        table.add_row(result.metric.name, f"{result.metric.score:.2f}")
    if result.paper:
        table.add_row(PAPER_BLEU, f"{result.paper.score:.2f}")
    return table


def _lengths_table(result: "Evaluation") -> "Table":
    table = _table(f"words in the {result.measured}", "sentences", "BLEU")
    for bucket in result.buckets:
        words = (
            f"{bucket.shortest}–{bucket.longest}"
            if bucket.longest
            else f"{bucket.shortest} or more"
        )
        score = "" if bucket.bleu is None else f"{bucket.bleu.score:.2f}"
        table.add_row(words, f"{bucket.sentences:,}", score)
    return table


def _footnotes(result: "Evaluation") -> Iterator[str]:
    from transduce.evaluation.paper_bleu import CONVENTION, PAPER_BLEU
    from transduce.evaluation.report import LOWER_IS_BETTER, MAX_RESAMPLED, RESAMPLES

    if result.report.scores[0].margin is None:
        yield f"95 %: not computed for over {MAX_RESAMPLED:,} sentences"
    else:
        yield f"95 %: mean ± half the width of the confidence interval, of {RESAMPLES:,} resamples"
    if result.report.comparisons:
        yield f"p: of a paired bootstrap test with {RESAMPLES:,} resamples; –: no difference"
    yield f"higher is better, except for {', '.join(LOWER_IS_BETTER)}"
    if result.paper is None:
        yield f"{PAPER_BLEU}: not computed: {result.no_paper}"
    else:
        yield f"{PAPER_BLEU}: {CONVENTION}"
    yield ""
    if result.metric:
        yield f"{result.metric.name} {result.metric.signature}"
    for score in result.report.scores:
        yield f"{score.name} {score.signature}"
    by_length = next(bucket.bleu for bucket in result.buckets if bucket.bleu)
    yield f"BLEU by length {by_length.signature}"
    if result.paper:
        yield f"{PAPER_BLEU} {result.paper.signature}"


def _table(first: str, *others: str) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(first, box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for heading in others:
        table.add_column(heading, justify="right")
    return table


def _json(result: "Evaluation") -> str:
    import json

    from transduce import __version__

    tree: dict[str, Any] = {
        "transduce": __version__,
        **asdict(result.report),
        "metric": None if result.metric is None else asdict(result.metric),
        "paper": None if result.paper is None else asdict(result.paper),
        "by_length": {
            "measured": result.measured,
            "buckets": [asdict(bucket) for bucket in result.buckets],
        },
    }
    return json.dumps(tree, indent=2, ensure_ascii=False) + "\n"


def _write(path: Path, text: str) -> None:
    from transduce.cli.terminal.text_output import text_output

    with text_output(path) as write:
        for line in text.removesuffix("\n").split("\n"):
            write(line)
