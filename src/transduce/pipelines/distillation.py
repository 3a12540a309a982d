"""Distillation (Kim & Rush 2016): a small model learns from the translations of a larger one.

The stages, each with its outcome in the folder: `translations`, the teacher's of the source text;
`pairs`, those that are kept; `student`, the run that learns from them; `int8`, the student for
CTranslate2; `measured`, quality and speed of all; and the report.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from transduce.bulk.translate import ShardedTranslation
from transduce.bulk.workers import ModelSource
from transduce.config.presets import preset_named
from transduce.config.schema import Tree, merge
from transduce.data.corpus import DEFAULT_FIELDS, read_side
from transduce.errors import InputError, counted, how_to_install
from transduce.export.ctranslate2 import export_ctranslate2, is_installed, refusal
from transduce.files.resumable import content_digest
from transduce.models.folder import TOKENIZER, load_settings
from transduce.models.model_files import settings_folder
from transduce.models.shortlist import shortlist_path
from transduce.pipelines.measuring import (
    MeasuredTest,
    check_tests,
    measure,
    sample_sentences,
    systems_of,
)
from transduce.pipelines.pair_files import (
    OUTCOME,
    FileName,
    Files,
    check_share,
    languages_of,
    paths_of,
    write_pair_folder,
)
from transduce.pipelines.report import remove_report, write_report
from transduce.pipelines.stages import (
    PipelineStage,
    pipeline_folder,
    read_outcome,
)
from transduce.pipelines.training_stage import TrainingTexts, as_tree, train_stage
from transduce.pipelines.translated_pairs import (
    by_agreement,
    by_score,
    judge_translations,
    kept_pairs,
    require_kept,
)
from transduce.pipelines.translation_stage import (
    BulkJob,
    BulkSettings,
    translate_stage,
    translated_lines,
)
from transduce.pipelines.watcher import PipelineWatcher
from transduce.text.tokenizer import Tokenizer
from transduce.translation.inference import Precision
from transduce.translation.load import EngineName, default_options
from transduce.translation.options import Options
from transduce.translation.shortlist.check import check_can_narrow
from transduce.translation.shortlist.make import make_shortlist

PRESET = "student_tiny"
Criterion = Literal["score", "agreement"]
TRANSLATIONS, PAIRS, STUDENT, INT8, MEASURED = (
    "translations",
    "pairs",
    "student",
    "int8",
    "measured",
)
OWN_VOCABULARY = (("model", "vocab_size"), ("data", "tokenizer"), ("data", "subwords"))
"""Settings that give a student another vocabulary than its teacher's."""


@dataclass(frozen=True)
class Distillation:
    """How a call of `distill` ended."""

    folder: Path
    student: Path  # a model folder, once it is finished
    int8: Path | None  # the student for CTranslate2; None: it was not exported
    report: dict[str, Any] | None  # what report.json has; None: it was stopped before
    is_stopped: bool = False  # on request; the same call goes on


@dataclass(frozen=True)
class _Job:
    """What was asked for, checked."""

    text: BulkJob  # what the teacher translates
    tgt: list[Path]
    by: Criterion
    keep: float
    preset: str
    settings: Tree
    dev: tuple[list[Path], list[Path]]
    tests: tuple[MeasuredTest, ...]
    shortlist: bool  # whether the student gets one
    out: Path

    @property
    def teacher(self) -> Path:
        """The teacher, or the first of several, which all have one vocabulary."""
        return self.text.source.folders[0]

    def stages(self) -> list[PipelineStage]:
        """Describe what each stage is made from."""
        return [
            PipelineStage(TRANSLATIONS, self.text.described()),
            PipelineStage(
                PAIRS,
                {"references": content_digest(self.tgt), "by": self.by, "keep": self.keep},
            ),
            PipelineStage(
                STUDENT,
                {
                    "preset": self.preset,
                    "settings": self.settings,
                    "development source": content_digest(self.dev[0]),
                    "development target": content_digest(self.dev[1]),
                },
            ),
            PipelineStage(INT8, {"shortlist": True} if self.shortlist else {}),
            PipelineStage(
                MEASURED,
                {"tests": [content_digest([test.src, test.ref]) for test in self.tests]},
            ),
        ]


def distill(
    teachers: Files,
    *,
    src: Files,
    out: FileName,
    tgt: Files = (),
    fields: str = DEFAULT_FIELDS,
    options: Options | None = None,
    by: Criterion | None = None,
    keep: float = 0.9,
    preset: str = PRESET,
    settings: Mapping[str, Any] | Sequence[str] = (),
    dev_src: Files = (),
    dev_tgt: Files = (),
    test_src: Files = (),
    test_ref: Files = (),
    device: str = "auto",
    precision: Precision = "float32",
    engine: EngineName | None = None,
    shard_lines: int | None = None,
    window: int | None = None,
    on: str | None = None,
    shortlist: bool = False,
    watcher: PipelineWatcher | None = None,
) -> Distillation:
    """Train a student on a teacher's translations, export it and measure it; go on if stopped.

    teachers: a model folder, or several with one vocabulary for an ensemble.
    src, fields: the text that the teacher translates; of a file with both sides, the source.
    out: the folder of all outcomes; the same call again goes on from the last of them.
    tgt: reference translations of `src`, line by line.
    options: how the teacher translates; of several (`n_best`), the best by `by` is learnt from.
    by: what the worst pairs are found by: `score`, the teacher's log-probability per token, or
        `agreement`, chrF against the references, which is the default where there are any.
    keep: the share of the lines that are kept at most; faulty translations never are.
    preset, settings: the student, as for `train`; it has the teacher's vocabulary unless the
        settings give it another.
    dev_src, dev_tgt: development text; without it, pairs are held out.
    test_src, test_ref: test sets, which are never trained on, to measure quality.
    device, precision, engine, shard_lines, window, on: as for `translate_in_shards`.
    shortlist: whether to make a shortlist from the pairs, and measure the student with it too.

    Raises `InputError` if the folder was begun with other things, and says which.
    """
    folders = tuple(paths_of(teachers))
    if not folders or not paths_of(src):
        raise InputError("what to learn from? Give a teacher's folder, and a text with --src")
    job = _Job(
        text=BulkJob(
            ModelSource(folders, device, precision, engine),
            paths_of(src),
            fields,
            options or default_options(folders[0]),
        ),
        tgt=paths_of(tgt),
        by=by or ("agreement" if paths_of(tgt) else "score"),
        keep=keep,
        preset=preset,
        settings=_student_settings(folders[0], settings, device),
        dev=(paths_of(dev_src), paths_of(dev_tgt)),
        tests=check_tests(paths_of(test_src), paths_of(test_ref), fields=fields),
        shortlist=shortlist,
        out=Path(out),
    )
    _check(job)
    bulk = BulkSettings(shard_lines, window, on)
    with pipeline_folder(job.out, "distill", job.stages()):
        return _run(job, bulk, watcher or PipelineWatcher())


def _check(job: _Job) -> None:
    """Raise if what was asked for makes no sense, before anything is done."""
    if Tokenizer.load(settings_folder(job.teacher) / TOKENIZER).languages:
        raise InputError(
            f"{job.teacher} translates into several languages, and a student learns one direction: "
            "make pairs with 'transduce back-translate --forward --to CODE', and train on them"
        )
    check_share(job.keep)
    preset = preset_named(job.preset)
    if job.shortlist:
        check_can_narrow(preset.with_changes(job.settings), "the student")
    if job.by == "agreement" and not job.tgt:
        raise InputError("--by agreement compares with references: give them with --tgt")
    if job.by == "score" and job.text.options.n_best > 1:
        raise InputError(
            f"the best of {job.text.options.n_best} translations is chosen by agreement: give "
            "references with --tgt, or ask for one"
        )


def _run(job: _Job, bulk: BulkSettings, watcher: PipelineWatcher) -> Distillation:
    """Go through the stages."""
    if not (job.out / MEASURED).exists():
        remove_report(job.out)  # it would be that of another student
    if not (job.out / PAIRS).exists():
        title = "translating with the teacher"
        done = translate_stage(title, job.out / TRANSLATIONS, job.text, bulk, watcher)
        _choose_pairs(job, done, watcher)
    _tell_pairs(job, watcher)
    if not _train_student(job, watcher):
        return Distillation(job.out, job.out / STUDENT, None, None, is_stopped=True)
    _make_shortlist(job, watcher)
    int8 = _export(job, watcher)
    measured = measure(
        job.out / MEASURED,
        systems_of(
            job.text.source,
            job.out / STUDENT,
            int8,
            replace(job.text.options, n_best=1, sampling=None),
            has_shortlist=job.shortlist,
        ),
        job.tests,
        sample=sample_sentences(job.tests, job.text.files, fields=job.text.fields),
        watcher=watcher,
    )
    report = write_report(job.out, measured, read_outcome(job.out / PAIRS / OUTCOME))
    return Distillation(job.out, job.out / STUDENT, int8, report)


def _student_settings(
    teacher: Path, settings: Mapping[str, Any] | Sequence[str], device: str
) -> Tree:
    """Return the settings of the student: those given, and the task and vocabulary of a teacher."""
    given = as_tree(settings)
    data = load_settings(teacher).data
    own: Tree = {"data": {"task": data.task}}
    if data.metric is not None:
        own = merge(own, {"data": {"metric": data.metric}})
    if not any(name in given.get(section, {}) for section, name in OWN_VOCABULARY):
        tokenizer = str(settings_folder(teacher) / TOKENIZER)
        vocabulary = {"tokenizer": tokenizer, "shared_vocabulary": data.shared_vocabulary}
        own = merge(own, {"data": vocabulary})
    if device != "auto":
        own = merge(own, {"run": {"device": device}})
    return merge(own, given)


def _choose_pairs(job: _Job, done: ShardedTranslation, watcher: PipelineWatcher) -> None:
    watcher.stage("choosing pairs")
    rank = (
        by_score(job.teacher, job.text.options)
        if job.by == "score"
        else by_agreement(_references(job, done.lines))
    )

    judgement = judge_translations(translated_lines(done, watcher), rank, keep=job.keep)
    require_kept(judgement, job.out / TRANSLATIONS)
    endings = languages_of(load_settings(job.teacher))
    watcher.stage("writing pairs")
    pairs = kept_pairs(translated_lines(done, watcher), judgement)
    write_pair_folder(
        job.out / PAIRS, "train", endings, pairs, judgement.described() | {"by": job.by}
    )


def _references(job: _Job, lines: int) -> Iterator[str]:
    def read() -> Iterator[str]:
        for path in job.tgt:
            yield from read_side(path, "tgt", fields=job.text.fields)

    count = sum(1 for _ in read())
    if count != lines:
        raise InputError(
            f"{job.tgt[0]} has {counted(count, 'line')} but {job.text.files[0]} has {lines:,}: "
            "references must match line by line"
        )
    return read()


def _tell_pairs(job: _Job, watcher: PipelineWatcher) -> None:
    known = read_outcome(job.out / PAIRS / OUTCOME)
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in known["dropped"].items())
    watcher.noted(
        f"kept {known['kept']:,} of {counted(known['lines'], 'translation')}"
        + (f"; dropped {reasons}" if reasons else "")
    )


def _train_student(job: _Job, watcher: PipelineWatcher) -> bool:
    """Train the student, or what is left of it; return whether it is finished."""
    source, target = languages_of(load_settings(job.teacher))
    texts = TrainingTexts(
        [job.out / PAIRS / f"train.{source}"],
        [job.out / PAIRS / f"train.{target}"],
        *job.dev,
        held_out=[path for test in job.tests for path in (test.src, test.ref)],
    )
    return train_stage(
        "training the student",
        job.out / STUDENT,
        texts,
        watcher,
        preset=job.preset,
        settings=job.settings,
    )


def _make_shortlist(job: _Job, watcher: PipelineWatcher) -> None:
    """Align the pairs, and write a shortlist into the student's folder."""
    path = shortlist_path(job.out / STUDENT)
    if not job.shortlist:
        return
    watcher.stage("making the shortlist", is_done=path.exists())
    if path.exists():
        return
    source, target = languages_of(load_settings(job.teacher))
    made = make_shortlist(
        job.out / STUDENT,
        src=[job.out / PAIRS / f"train.{source}"],
        tgt=[job.out / PAIRS / f"train.{target}"],
    )
    watcher.noted(f"{made.entries / max(made.tokens, 1):.1f} target tokens for each source token")


def _export(job: _Job, watcher: PipelineWatcher) -> Path | None:
    """Export the student to int8, or say why not."""
    folder = job.out / INT8
    watcher.stage("exporting the student to int8", is_done=folder.exists())
    if folder.exists():
        return folder
    reason = refusal(load_settings(job.out / STUDENT).model)
    if not is_installed():
        reason = f"CTranslate2 is not installed: {how_to_install('export')}"
    if reason is not None:
        watcher.noted(f"no int8: {reason}; the same command exports it later")
        return None
    export_ctranslate2(job.out / STUDENT, folder, quantize="int8", shortlist=job.shortlist)
    return folder
