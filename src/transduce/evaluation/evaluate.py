"""Scores of a model, or of given translations, on a test set."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Literal

from transduce.data.corpus import read_lines
from transduce.errors import InputError
from transduce.evaluation.paper_bleu import MissingMosesError, paper_bleu
from transduce.evaluation.public_test_sets import fetch_test_set
from transduce.evaluation.report import (
    TOKENIZERS,
    EvaluationReport,
    LengthBucket,
    bleu_by_length,
    report,
)
from transduce.models.folder import load_settings
from transduce.tasks.base import MetricScore
from transduce.tasks.registry import find_task
from transduce.translation.load import EngineName, load
from transduce.translation.options import DEFAULT_OPTIONS, Options
from transduce.translation.translator import Translator

FileName = str | PathLike[str]


@dataclass(frozen=True)
class Evaluation:
    """All scores of one system on one test set."""

    hypotheses: tuple[str, ...]
    metric: MetricScore | None  # of the model's task; None: it is in the report
    report: EvaluationReport
    paper: MetricScore | None  # BLEU as the paper reports it
    no_paper: str  # why there is none
    measured: Literal["source", "reference"]  # what lengths are measured on
    buckets: tuple[LengthBucket, ...]


@dataclass(frozen=True)
class _Texts:
    """What is compared, line by line."""

    sources: list[str] | None  # None: only given translations and references
    references: list[str]
    labels: dict[str, str]  # of a public test set, for the signatures


def evaluate(
    model: FileName | None = None,
    *,
    src: FileName | None = None,
    ref: FileName | None = None,
    test_set: str | None = None,
    pair: str | None = None,
    hyp: FileName | None = None,
    against: FileName | None = None,
    lang: str | None = None,
    tokenize: str | None = None,
    options: Options = DEFAULT_OPTIONS,
    device: str = "auto",
    engine: EngineName | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
    on_translated: Callable[[Sequence[str]], None] = lambda _hypotheses: None,
) -> Evaluation:
    """Score a model's translations of a test set, or existing translations.

    model: the model folder; or else `hyp`, a file of translations, line by line.
    src, ref: the source text, which only a model needs, and the reference translations.
    test_set, pair: a public test set instead of files, such as wmt14, and its languages, en-de.
    against: another system's translations, for a significance test.
    lang: the target language: it chooses the tokenizer, and BLEU as in the paper needs it.
    tokenize: sacreBLEU's tokenizer instead, such as 13a, zh, ja-mecab or char.
    options, device, engine: how to translate, as for `transduce.load`.
    progress: called with the number of sentences translated so far, and of all.
    on_translated: called with a model's translations, before they are scored.

    Raises `InputError` for wrong files or options, before anything is translated.
    """
    if (model is None) == (hyp is None):
        raise InputError("give either a model folder or translations with --hyp")
    texts = _read_texts(src, ref, test_set, pair)
    language = lang or (pair.partition("-")[2] if pair else None)
    cut = tokenize or TOKENIZERS.get(language or "", "13a")
    score = _Scoring(cut, language)
    score(["one"], _Texts(None, ["one"], {}), None)  # wrong options show before the work is done
    others = None if against is None else _lines(against, like=texts.references)
    if hyp is not None:
        return score(_lines(hyp, like=texts.references), texts, others)
    assert model is not None
    if texts.sources is None:
        raise InputError("what to translate? Give --src FILE, or translations with --hyp")
    translator = load(model, device, engine=engine)
    hypotheses = _translated(translator, texts.sources, options, progress=progress)
    on_translated(hypotheses)
    return score(hypotheses, texts, others, task=load_settings(Path(model)).data.task)


def _translated(
    translator: Translator,
    sources: Sequence[str],
    options: Options,
    *,
    progress: Callable[[int, int], None],
) -> list[str]:
    """Translate, one line each, so that what is written to a file is what was scored."""
    hypotheses = []
    for translation in translator.stream(sources, options):
        hypotheses.append(re.sub(r"[\r\n]", " ", translation.text))
        progress(len(hypotheses), len(sources))
    return hypotheses


@dataclass(frozen=True)
class _Scoring:
    """How translations are scored."""

    tokenize: str
    language: str | None

    def __call__(
        self,
        hypotheses: list[str],
        texts: _Texts,
        others: list[str] | None,
        *,
        task: str = "translation",
    ) -> Evaluation:
        refs = texts.references
        whole = report(
            hypotheses, refs, against=others, tokenize=self.tokenize, labels=texts.labels
        )
        metric = find_task(task).metric(refs).score(hypotheses, refs)
        paper, no_paper = None, "name the target language with --lang"
        if self.language:
            try:
                paper = paper_bleu(hypotheses, refs, language=self.language)
            except MissingMosesError as lacking:
                no_paper = str(lacking)
        measured = texts.sources or refs
        return Evaluation(
            tuple(hypotheses),
            None if metric.name in {score.name for score in whole.scores} else metric,
            whole,
            paper,
            no_paper,
            "reference" if texts.sources is None else "source",
            bleu_by_length(hypotheses, refs, measured, tokenize=self.tokenize),
        )


def _read_texts(
    src: FileName | None, ref: FileName | None, test_set: str | None, pair: str | None
) -> _Texts:
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
    public = fetch_test_set(test_set, pair)
    references = _lines(public.ref)
    sources = _lines(public.src, like=references)
    return _Texts(sources, references, {"test": test_set, "lang": pair})


def _lines(path: FileName, *, like: Sequence[str] | None = None) -> list[str]:
    """Read a text, which must have as many lines as its references."""
    lines = list(read_lines(Path(path)))
    if like is not None and len(lines) != len(like):
        raise InputError(
            f"{path} has {len(lines):,} lines but there are {len(like):,} references: "
            "they must match line by line"
        )
    return lines
