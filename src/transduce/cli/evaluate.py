"""`transduce evaluate`: how good translations are, in numbers that others can compare with."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from transduce.evaluation.bleu import Bleu
    from transduce.evaluation.report import Bucket, Report


@dataclass(frozen=True)
class _Texts:
    """What is compared, each line by line."""

    sources: list[str] | None  # None: only given translations and references
    references: list[str]
    labels: dict[str, str]  # a public test set's, for the signatures


@dataclass(frozen=True)
class _Result:
    report: "Report"
    paper: "Bleu | None"
    no_paper: str  # why there is none
    measured: str  # what lengths are of
    buckets: "tuple[Bucket, ...]"


def evaluate(
    model: Annotated[
        Path | None,
        typer.Argument(metavar="[MODEL]", help="A model folder; or give --hyp."),
    ] = None,
    src: Annotated[Path | None, typer.Option(metavar="FILE", help="Source text.")] = None,
    ref: Annotated[Path | None, typer.Option(metavar="FILE", help="Reference text.")] = None,
    test_set: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A public test set instead, such as wmt14."),
    ] = None,
    pair: Annotated[
        str | None, typer.Option(metavar="SRC-TGT", help="Its languages, such as en-de.")
    ] = None,
    hyp: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Translations, instead of a model's.")
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Another system's translations, to test against."),
    ] = None,
    lang: Annotated[
        str | None,
        typer.Option(metavar="CODE", help="Target language, for BLEU as in the paper."),
    ] = None,
    tokenize: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="sacreBLEU's tokenizer; 13a, or zh, ja-mecab, char, …"),
    ] = None,
    beam: Annotated[int, typer.Option(help="Hypotheses a sentence (§6.1).")] = 4,
    alpha: Annotated[float, typer.Option(help="Of the length penalty (§6.1); 0 for none.")] = 0.6,
    device: Annotated[
        str, typer.Option(help="cpu, cuda, cuda:N or mps; auto: a GPU if there is one.")
    ] = "auto",
    engine: Annotated[
        str | None, typer.Option(help="torch, ctranslate2 or auto; without, what MODEL is for.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the model's translations.")
    ] = None,
    as_json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write all numbers as JSON.")
    ] = None,
) -> None:
    """Score a model, or given translations: BLEU, chrF and TER, each with its signature."""
    from transduce.evaluation.report import TOKENIZERS

    if (model is None) == (hyp is None):
        raise InputError("give either a model folder or translations with --hyp")
    if out and not model:
        raise InputError("--out is for a model's translations; those of --hyp are in a file")
    for path in (out, as_json):
        if path and not path.parent.is_dir():  # before the work, not after it
            raise InputError(f"cannot write {path}: there is no folder {path.parent}")
        if path and path.is_dir():
            raise InputError(f"cannot write {path}: it is a folder")
    texts = _texts(src, ref, test_set, pair)
    language = lang or (pair.partition("-")[2] if pair else None)
    cut = tokenize or TOKENIZERS.get(language or "", "13a")
    _score(["one"], _Texts(None, ["one"], {}), None, cut, language)  # what is wrong shows already
    others = None if against is None else _lines(against, like=texts.references)
    if hyp:
        hypotheses = _lines(hyp, like=texts.references)
    else:
        assert model is not None
        hypotheses = _translate(model, texts, beam=beam, alpha=alpha, device=device, engine=engine)
    if out:
        _write(out, "".join(f"{line}\n" for line in hypotheses))
    result = _score(hypotheses, texts, others, cut, language)
    if as_json:
        _write(as_json, _json(result))
    _show(result)


def _texts(src: Path | None, ref: Path | None, test_set: str | None, pair: str | None) -> _Texts:
    """Read what was named, from files or from a public test set."""
    if test_set is None:
        if ref is None:
            raise InputError("what to compare with? Give --ref FILE, or --test-set and --pair")
        references = _lines(ref)
        return _Texts(_lines(src, like=references) if src else None, references, {})
    if src or ref:
        raise InputError(f"--test-set {test_set} has its own source and references: give no files")
    if pair is None:
        raise InputError(f"--test-set {test_set} needs --pair, such as en-de")

    from transduce.evaluation.public_test_sets import fetch_test_set

    public = fetch_test_set(test_set, pair)
    references = _lines(public.ref)
    sources = _lines(public.src, like=references)
    return _Texts(sources, references, {"test": test_set, "lang": pair})


def _lines(path: Path, *, like: Sequence[str] | None = None) -> list[str]:
    """Read a text, which must have as many lines as its references."""
    from transduce.data.corpus import read_lines

    lines = list(read_lines(path))
    if like is not None and len(lines) != len(like):
        raise InputError(
            f"{path} has {len(lines):,} lines but there are {len(like):,} references: "
            "they must match line by line"
        )
    return lines


def _translate(
    model: Path, texts: _Texts, *, beam: int, alpha: float, device: str, engine: str | None
) -> list[str]:
    if texts.sources is None:
        raise InputError("what to translate? Give --src FILE, or translations with --hyp")

    from rich.console import Console
    from rich.progress import track

    from transduce.decoding.options import Options
    from transduce.decoding.translator import load

    options = Options(beam=beam, alpha=alpha)
    translator = load(model, device, engine=engine)  # type: ignore[arg-type]
    found = translator.stream(texts.sources, options)
    on_terminal = Console(stderr=True)
    shown = track(
        found,
        "translating",
        len(texts.sources),
        console=on_terminal,
        transient=True,
        disable=not on_terminal.is_terminal,
    )
    # One line each, so that what --out writes is what was scored.
    return [re.sub(r"[\r\n]", " ", translation.text) for translation in shown]


def _score(
    hypotheses: list[str],
    texts: _Texts,
    others: list[str] | None,
    tokenize: str,
    language: str | None,
) -> _Result:
    from transduce.evaluation.paper_bleu import MissingMosesError, paper_bleu
    from transduce.evaluation.report import bleu_by_length, report

    refs = texts.references
    whole = report(hypotheses, refs, against=others, tokenize=tokenize, labels=texts.labels)
    buckets = bleu_by_length(hypotheses, refs, texts.sources or refs, tokenize=tokenize)
    paper, no_paper = None, "name the target language with --lang"
    if language:
        try:
            paper = paper_bleu(hypotheses, refs, language=language)
        except MissingMosesError as lacking:
            no_paper = str(lacking)
    measured = "reference" if texts.sources is None else "source"
    return _Result(whole, paper, no_paper, measured, buckets)


def _show(result: _Result) -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    console.print(_scores_table(result))
    console.print()
    console.print(_lengths_table(result))
    console.print()
    for line in _footnotes(result):
        console.print(line, soft_wrap=True)  # a signature is copied whole


def _scores_table(result: _Result) -> "Table":
    from transduce.evaluation.paper_bleu import PAPER_BLEU

    headings = ["score", "95 %"]
    if result.report.comparisons:
        headings += ["other", "difference", "p"]
    table = _table(f"{result.report.sentences:,} sentences", *headings)
    others = {comparison.name: comparison for comparison in result.report.comparisons}
    for score in result.report.scores:
        sure = "" if score.margin is None else f"{score.mean:.2f} ± {score.margin:.2f}"
        cells = [score.name, f"{score.score:.2f}", sure]
        if other := others.get(score.name):
            p = "–" if other.p_value is None else f"{other.p_value:.3f}"
            cells += [f"{other.other:.2f}", f"{other.difference:+.2f}", p]
        table.add_row(*cells)
    if result.paper:
        table.add_row(PAPER_BLEU, f"{result.paper.score:.2f}")
    return table


def _lengths_table(result: _Result) -> "Table":
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


def _footnotes(result: _Result) -> Iterator[str]:
    from transduce.evaluation.paper_bleu import CONVENTION, PAPER_BLEU
    from transduce.evaluation.report import LOWER_IS_BETTER, MAX_RESAMPLED, RESAMPLES

    if result.report.scores[0].margin is None:
        yield f"95 %: not computed for over {MAX_RESAMPLED:,} sentences"
    else:
        yield f"95 %: mean, and half the width of the middle 95 %, of {RESAMPLES:,} resamples"
    if result.report.comparisons:
        yield f"p: of a paired bootstrap test with {RESAMPLES:,} resamples; – for no difference"
    yield f"higher is better, but for {', '.join(LOWER_IS_BETTER)}"
    if result.paper is None:
        yield f"{PAPER_BLEU}: not computed: {result.no_paper}"
    else:
        yield f"{PAPER_BLEU}: {CONVENTION}"
    yield ""
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


def _json(result: _Result) -> str:
    import json

    from transduce import __version__

    tree: dict[str, Any] = {
        "transduce": __version__,
        **asdict(result.report),
        "paper": None if result.paper is None else asdict(result.paper),
        "by_length": {
            "measured": result.measured,
            "buckets": [asdict(bucket) for bucket in result.buckets],
        },
    }
    return json.dumps(tree, indent=2, ensure_ascii=False) + "\n"


def _write(path: Path, text: str) -> None:
    from transduce.cli.text_output import text_output

    with text_output(path) as write:
        for line in text.removesuffix("\n").split("\n"):
            write(line)
