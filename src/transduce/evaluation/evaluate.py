"""Scores of a model, of given translations, or of both, on a test set."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Literal

from transduce.data.corpus import (
    DEFAULT_FIELDS,
    check_fields,
    check_fields_used,
    format_of,
    read_lines,
    read_side,
)
from transduce.data.languages.corpora import language_of_file
from transduce.errors import InputError, TransduceError
from transduce.evaluation.additive import score_by_metric
from transduce.evaluation.public_test_sets import fetch_test_set
from transduce.evaluation.robustness import score_robustness
from transduce.evaluation.scoring import (
    ComparedTexts,
    Scoring,
    check_same_length,
)
from transduce.evaluation.scoring import Evaluation as Evaluation  # part of this module too
from transduce.models.folder import load_settings
from transduce.tasks.base import Task
from transduce.tasks.parsing.task import ParsingTask
from transduce.tasks.registry import task_of
from transduce.tasks.tokenization import choose_tokenization
from transduce.tasks.translation import TranslationTask
from transduce.translation.languages import target_language
from transduce.translation.load import EngineName, load
from transduce.translation.options import Options
from transduce.translation.translator import Translator

FileName = str | PathLike[str]


def evaluate(
    model: FileName | None = None,
    *,
    src: FileName | None = None,
    ref: FileName | Sequence[FileName] | None = None,
    test_set: str | None = None,
    pair: str | None = None,
    hyp: FileName | Sequence[FileName] | Mapping[str, FileName] | None = None,
    against: FileName | None = None,
    fields: str = DEFAULT_FIELDS,
    lang: str | None = None,
    tokenize: str | None = None,
    options: Options | None = None,
    device: str = "auto",
    engine: EngineName | None = None,
    shortlist: bool = False,
    robust: bool = False,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
    on_translated: Callable[[Sequence[str]], None] = lambda _hypotheses: None,
) -> Evaluation:
    """Score a model's translations of a test set, or existing translations, or both.

    model: the model folder, whose translations are the first system.
    src, ref: the source text, which only a model needs, and the reference translations: one file,
        or several with a translation of every sentence each. A .tsv, .csv, .jsonl or .tmx given as
        `src` has both, and so have trees in .mrg or .ptb.
    test_set, pair: a public test set instead of files, such as wmt14, and its languages, en-de.
    hyp: existing translations, line by line: one file, or several, each of another system, perhaps
        as a mapping from the systems' names.
    against: the baseline's translations, for significance tests; without it, the first of several
        systems is the baseline.
    fields: the names of source and target in files that have both.
    lang: the target language, for the tokenizer and BLEU as in the paper; by default the model's or
        that of the script. A model of several translates into it, or as `ref` is named (test.fr).
    tokenize: sacreBLEU's tokenizer instead, such as 13a, zh, ja-mecab or char.
    options, device, engine, shortlist: how to translate, as for `transduce.load`.
    robust: whether to score a model on the test set with noise too (`Evaluation.robustness`).
    progress: called with the number of sentences translated so far, and of all.
    on_translated: called with a model's translations, before they are scored.

    Raises `InputError` for wrong files or options, before anything is translated.
    """
    named = hyp if isinstance(hyp, Mapping) else {str(file): file for file in _listed(hyp)}
    if model is None and not named:
        raise InputError("what to score? Give a model folder or translations with --hyp")
    targets = [*_listed(ref), *named.values(), *([] if against is None else [against])]
    _check_fields(fields, src, targets)
    texts = _read_texts(src, _listed(ref), test_set, pair, fields=fields)
    task = _task_of(model, [src, *_listed(ref)])
    scoring = _scoring(texts, lang or _language(pair, model), tokenize)
    systems = [(name, _side(file, "tgt", fields, like=texts)) for name, file in named.items()]
    compared = None if against is None else _side(against, "tgt", fields, like=texts)
    baseline = None if compared is None else (str(against), compared)
    by_metric = partial(score_by_metric, task) if task.has_own_scores else None
    if robust:
        _check_robust(model, task)
    if model is None:
        return (by_metric or scoring)(systems, texts, baseline=baseline)
    if texts.sources is None:
        raise InputError("what to translate? Give --src FILE, or only translations with --hyp")
    translator = _into(load(model, device, engine=engine, shortlist=shortlist), lang, _listed(ref))
    translate = partial(translated_lines, translator, options=options)
    hypotheses = translate(texts.sources, progress=progress)
    on_translated(hypotheses)
    scoring = scoring.by_task(load_settings(Path(model)).data)
    found = (by_metric or scoring)([(str(model), hypotheses), *systems], texts, baseline=baseline)
    bleu = scoring.tokenization.bleu
    noisy = score_robustness(translate, texts, task, clean=hypotheses, tokenize=bleu)
    notes = (*found.notes, *_notes_on_script(translator, texts.sources))
    return replace(found, robustness=tuple(noisy if robust else ()), notes=notes)


def _check_robust(model: FileName | None, task: Task) -> None:
    """Raise unless there is a model that translates text."""
    if model is None:
        raise InputError("--robust translates the test set with noise: give a model folder")
    if task.target_form is not None:
        raise InputError(f"--robust is for text, not for the task {task.name}")


def _task_of(model: FileName | None, files: Sequence[FileName | None]) -> Task:
    """Return the task of a model; without one, trees are scored as those of a parser."""
    if model is not None:
        try:
            return task_of(load_settings(Path(model)).data)
        except TransduceError:  # loading the model says what is wrong
            return TranslationTask()
    are_trees = any(file is not None and format_of(Path(file)) == "trees" for file in files)
    return ParsingTask() if are_trees else TranslationTask()


def _notes_on_script(translator: Translator, sources: Sequence[str]) -> Iterator[str]:
    """Say once if a sentence is in a script that the model does not know."""
    for number, source in enumerate(sources, start=1):
        script = translator.unknown_script(source)
        if script is not None:
            yield f"line {number:,} is in {script}, which the model was not trained on"
            return


def translated_lines(
    translator: Translator,
    sources: Sequence[str],
    *,
    options: Options | None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> list[str]:
    """Translate, one line each, so that what is written to a file is what was scored."""
    hypotheses = []
    read_ahead = translator.gains_by_reading_ahead
    for translation in translator.stream(sources, options, read_ahead=read_ahead):
        hypotheses.append(re.sub(r"[\r\n]", " ", translation.text))
        progress(len(hypotheses), len(sources))
    return hypotheses


def _read_texts(
    src: FileName | None,
    refs: Sequence[FileName],
    test_set: str | None,
    pair: str | None,
    *,
    fields: str,
) -> ComparedTexts:
    """Read what was named, from files or from a public test set."""
    if test_set is not None:
        if src or refs:
            raise InputError(
                f"--test-set {test_set} has its own source and references: give no files"
            )
        return _public_texts(test_set, pair)
    if not refs and src is not None and format_of(Path(src)) != "text":
        refs = [src]
    if not refs:
        raise InputError("what to compare with? Give --ref FILE, or --test-set and --pair")
    first = ComparedTexts(None, [_side(refs[0], "tgt", fields)])
    others = [_side(ref, "tgt", fields, like=first) for ref in refs[1:]]
    sources = None if src is None else _side(src, "src", fields, like=first)
    return ComparedTexts(sources, [*first.references, *others])


def _scoring(texts: ComparedTexts, language: str | None, tokenizer: str | None) -> Scoring:
    references = [line for lines in texts.references for line in lines]
    return Scoring(
        choose_tokenization(references, language=language, tokenizer=tokenizer), language
    )


def _public_texts(test_set: str, pair: str | None) -> ComparedTexts:
    if pair is None:
        raise InputError(f"--test-set {test_set} needs --pair, such as en-de")
    public = fetch_test_set(test_set, pair)
    texts = [list(read_lines(path)) for path in (public.src, *public.refs)]
    for path, lines in zip((public.src, *public.refs), texts, strict=True):
        check_same_length(path, lines, texts[1])
    return ComparedTexts(texts[0], texts[1:], {"test": test_set, "lang": pair})


def _check_fields(fields: str, src: FileName | None, targets: Sequence[FileName]) -> None:
    """Check that the names of fields are those of files, before anything is read."""
    files = [Path(name) for name in (*([] if src is None else [src]), *targets)]
    check_fields_used(fields, files)
    if src is not None:
        check_fields(Path(src), fields, side="src", among=files)
    for target in targets:
        check_fields(Path(target), fields, side="tgt", among=files)


def _side(
    path: FileName, side: Literal["src", "tgt"], fields: str, *, like: ComparedTexts | None = None
) -> list[str]:
    """Read a text, or one side of a file with both; it has as many lines as the references."""
    lines = list(read_side(Path(path), side, fields=fields))
    if like is not None:
        check_same_length(path, lines, like.references[0])
    return lines


def _listed(given: FileName | Sequence[FileName] | None) -> Sequence[FileName]:
    """Take one file as a list of one."""
    if given is None:
        return []
    return [given] if isinstance(given, str | PathLike) else given


def _into(translator: Translator, lang: str | None, refs: Sequence[FileName]) -> Translator:
    """Choose the language of a model of several: the given one, or that of the references."""
    if not translator.languages:
        return translator
    endings = [language_of_file(str(ref)) for ref in refs]
    named = next((ending for ending in endings if ending in translator.languages), None)
    return translator.into(lang or named)


def _language(pair: str | None, model: FileName | None) -> str | None:
    """Return the target language that a pair of languages or a model folder tells, if any."""
    if pair:
        return pair.partition("-")[2]
    if model is None:
        return None
    try:
        return target_language(load_settings(Path(model)))
    except TransduceError:  # loading the model says what is wrong
        return None
