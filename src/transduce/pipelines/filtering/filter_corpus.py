"""Filtering a corpus: every pair is scored, and the best share is kept; the input stays as it is.

The stages: `sample`, `forward` and `reverse`, the text and the runs of two small models, unless
models are given; `scores`, a JSON object for each pair; `kept`, the pairs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from transduce.config.presets import preset_named
from transduce.data.cleaning import describe_dropped
from transduce.data.corpus import (
    DEFAULT_FIELDS,
    Pair,
    count_records,
)
from transduce.errors import InputError
from transduce.files.unchanged import unchanged_files
from transduce.pipelines.filtering.cross_entropy import DualCrossEntropy
from transduce.pipelines.filtering.job import (
    FORWARD,
    KEPT,
    PRESET,
    REVERSE,
    SAMPLE,
    SAMPLE_PAIRS,
    SCORES,
    FilterJob,
    checked_languages,
    detector_for,
    model_settings,
    named_languages,
    share_to_keep,
    sources_of,
)
from transduce.pipelines.filtering.judging import JudgedPair, LanguageRule, judged_pairs
from transduce.pipelines.filtering.lengths import FIT_PAIRS, LengthModel
from transduce.pipelines.filtering.scores import SHARD_PAIRS, PairScorer, Selection, write_scores
from transduce.pipelines.pair_files import (
    FileName,
    Files,
    paths_of,
    write_pair_folder,
)
from transduce.pipelines.stages import pipeline_folder, write_json
from transduce.pipelines.training_stage import TrainingTexts, as_tree, train_stage
from transduce.pipelines.watcher import PipelineWatcher

REPORT = "report.json"
EXAMPLES = 3
SHOWN_CHARACTERS = 200


@dataclass(frozen=True)
class DroppedExample:
    """A pair that is dropped, and why."""

    reason: str
    number: int  # from 1
    pair: Pair


@dataclass(frozen=True)
class FilteredCorpus:
    """How a call of `filter_corpus` ended."""

    folder: Path
    pairs: int
    kept: int
    dropped: dict[str, int]  # how many, by reason
    cut: float | None  # the score of the worst pair that is kept
    examples: tuple[DroppedExample, ...]
    files: tuple[Path, Path] | None  # source and target of the kept pairs; None: a dry run
    is_stopped: bool = False  # while a model was trained; the same call goes on


def filter_corpus(
    src: Files,
    tgt: Files = (),
    *,
    to: FileName,
    keep: float | None = None,
    models: tuple[FileName, FileName] | None = None,
    use_models: bool = True,
    languages: tuple[str, str] | None = None,
    detect: bool = True,
    fields: str = DEFAULT_FIELDS,
    preset: str = PRESET,
    settings: Mapping[str, Any] | Sequence[str] = (),
    sample_pairs: int = SAMPLE_PAIRS,
    shard_pairs: int = SHARD_PAIRS,
    dry_run: bool = False,
    device: str = "auto",
    watcher: PipelineWatcher | None = None,
) -> FilteredCorpus:
    """Score every pair of a corpus and keep the best share; the same call goes on if stopped.

    src, tgt, fields: the corpus, as for `train`.
    to: a folder for scores, kept pairs and what else is made.
    keep: the share of all pairs to keep, 0.9 by default; pairs with a fault are never kept.
    models: a model from source to target and one back; without them two small ones are trained.
    use_models: False: only faults are dropped, by rules, near duplicates and languages.
    languages: the codes of source and target; by default those that the files are named after.
    detect: whether to drop texts in another language, where the extra `detect` is installed.
    preset, settings, sample_pairs: of the small models, and how many pairs they learn from.
    shard_pairs: pairs that are held in memory and scored together.
    dry_run: write no pairs, only scores, and say what would be dropped.

    Raises `InputError` if the folder was begun with other things, and says which.
    """
    watcher = watcher or PipelineWatcher()
    if models is not None and not use_models:
        raise InputError("--models and --no-models: give one of them")
    known = checked_languages(languages) or named_languages(paths_of(src), paths_of(tgt), fields)
    job = FilterJob(
        src=paths_of(src),
        tgt=paths_of(tgt),
        sources=sources_of(paths_of(src), paths_of(tgt), fields),
        out=Path(to),
        keep=share_to_keep(keep, use_models=use_models),
        fields=fields,
        models=None if models is None else (Path(models[0]), Path(models[1])),
        trains=use_models and models is None,
        languages=known,
        detector=detector_for(known, watcher) if detect else None,
        preset=preset,
        settings=model_settings(as_tree(settings), device),
        sample_pairs=sample_pairs,
        shard_pairs=shard_pairs,
        device=device,
    )
    for name, number in (("sample", sample_pairs), ("shard", shard_pairs)):
        if number < 1:
            raise InputError(f"a {name} of {number} pairs: use 1 or more")
    preset_named(preset)
    with pipeline_folder(job.out, "filter", job.stages()), unchanged_files():
        return _run(job, watcher, dry_run=dry_run)


def _run(job: FilterJob, watcher: PipelineWatcher, *, dry_run: bool) -> FilteredCorpus:
    """Go through the stages."""
    watcher.stage("counting pairs")
    total = sum(map(count_records, job.sources))
    if job.trains and not _train_models(job, total, watcher):
        return FilteredCorpus(job.out, total, 0, {}, None, (), None, is_stopped=True)
    watcher.stage("scoring pairs")
    folders = job.model_folders()
    load = partial(DualCrossEntropy, *folders, languages=job.languages, device=job.device)
    rule = LanguageRule(job.detector, job.languages) if job.detector else None
    parts = write_scores(
        job.out / SCORES,
        judged_pairs(job.read()),
        PairScorer(rule, load if job.uses_models else None, _lengths(job)),
        job.described_scores(),
        shard_pairs=job.shard_pairs,
        progress=partial(_tell, watcher, total),
    )
    watcher.stage("choosing pairs")
    selection = Selection(parts, keep=job.keep if job.uses_models else None)
    found = FilteredCorpus(
        job.out,
        pairs=total,
        kept=int(selection.is_kept.sum()),
        dropped=dict(selection.dropped),
        cut=selection.cut if job.uses_models else None,
        examples=_examples(job, selection),
        files=None if dry_run else _kept_files(job),
    )
    described = asdict(found) | {"folder": str(job.out), "files": None}
    write_json(job.out / REPORT, described)
    if not found.kept:
        raise InputError(
            f"no pair is kept: {describe_dropped(found.dropped)}; is this the right corpus, and "
            "are its languages right?"
        )
    if not dry_run and not (job.out / KEPT).exists():
        _write_kept(job, selection, total, described, watcher)
    return found


def _lengths(job: FilterJob) -> LengthModel:
    first = islice(judged_pairs(job.read()), FIT_PAIRS)
    return LengthModel.fit(one.pair for one in first if one.fault is None)


def _tell(watcher: PipelineWatcher, total: int, done: int) -> None:
    watcher.working(done, total)


def _write_kept(
    job: FilterJob,
    selection: Selection,
    total: int,
    outcome: dict[str, Any],
    watcher: PipelineWatcher,
) -> None:
    watcher.stage("writing the pairs that are kept")

    def kept() -> Iterator[Pair]:
        for number, pair in enumerate(job.read()):
            watcher.working(number + 1, total)
            if selection.is_kept[number]:
                yield pair

    write_pair_folder(job.out / KEPT, KEPT, job.languages, kept(), outcome)


def _kept_files(job: FilterJob) -> tuple[Path, Path]:
    source, target = (job.out / KEPT / f"{KEPT}.{language}" for language in job.languages)
    return source, target


def _train_models(job: FilterJob, total: int, watcher: PipelineWatcher) -> bool:
    """Train a small model of each direction; return False if that was stopped."""
    folder = job.out / SAMPLE
    if not folder.exists():
        watcher.stage("drawing a sample to train on")
        every = -(-total // job.sample_pairs)
        sound = (one.pair for one in _watched(job, total, watcher) if one.fault is None)
        chosen = (pair for number, pair in enumerate(sound) if number % every == 0)
        write_pair_folder(folder, "train", job.languages, chosen, {})
    source, target = ([folder / f"train.{language}"] for language in job.languages)
    for name, texts in (
        (FORWARD, TrainingTexts(source, target)),
        (REVERSE, TrainingTexts(target, source)),
    ):
        title = f"training the {name} model"
        run = job.out / name
        if not train_stage(title, run, texts, watcher, preset=job.preset, settings=job.settings):
            return False
    return True


def _watched(job: FilterJob, total: int, watcher: PipelineWatcher) -> Iterator[JudgedPair]:
    for number, one in enumerate(judged_pairs(job.read()), start=1):
        yield one
        watcher.working(number, total)


def _examples(job: FilterJob, selection: Selection) -> tuple[DroppedExample, ...]:
    """Read the pairs again that show what is dropped."""
    wanted = selection.examples(EXAMPLES)
    last = max(wanted, default=-1)
    found = []
    for number, pair in enumerate(job.read()):
        if number > last:
            break
        if number in wanted:
            short = Pair(*(text[:SHOWN_CHARACTERS] for text in pair))
            found.append(DroppedExample(wanted[number], number + 1, short))
    return tuple(sorted(found, key=lambda one: (one.reason, one.number)))
