"""Filtering a corpus: every pair is scored, and the best share is kept; the input stays as it is.

The stages: `sample`, `forward` and `reverse`, the text and the runs of two small models, unless
models are given; `scores`, a JSON object for each pair; `kept`, the pairs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from transduce.config.schema import Config, DataConfig, Tree, merge
from transduce.data.corpus import (
    DEFAULT_FIELDS,
    Pair,
    Source,
    check_fields_used,
    count_records,
    read_records,
    source_of,
)
from transduce.errors import InputError, counted, how_to_install
from transduce.files.resumable import content_digest
from transduce.pipelines.filtering.cross_entropy import DualCrossEntropy
from transduce.pipelines.filtering.judging import JudgedPair, LanguageRule, judged_pairs
from transduce.pipelines.filtering.scores import SHARD_PAIRS, PairScorer, Selection, write_scores
from transduce.pipelines.pair_files import (
    FileName,
    Files,
    check_share,
    languages_of,
    paths_of,
    write_pair_folder,
)
from transduce.pipelines.stages import Stage, digest_of_model, pipeline_folder, write_json
from transduce.pipelines.training_stage import TrainingTexts, as_tree, train_stage
from transduce.pipelines.watcher import PipelineWatcher
from transduce.text.detection import LanguageDetector

SAMPLE, FORWARD, REVERSE, SCORES, KEPT = "sample", "forward", "reverse", "scores", "kept"
REPORT = "report.json"
SAMPLE_PAIRS = 200_000
PRESET = "tiny"
STEPS = 3_000
"""Steps of each small model, unless the settings give another budget."""
BUDGETS = ("steps", "minutes", "epochs")
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


@dataclass(frozen=True)
class _Job:
    sources: list[Source]
    files: list[Path]
    out: Path
    keep: float | None
    fields: str
    models: tuple[Path, Path] | None
    trains: bool
    languages: tuple[str, str]
    detects: bool
    preset: str
    settings: Tree
    sample_pairs: int
    shard_pairs: int
    device: str

    @property
    def uses_models(self) -> bool:
        """Whether pairs are scored by models."""
        return self.trains or self.models is not None

    def model_folders(self) -> tuple[Path, Path]:
        """Return the models of both directions: those given, or those of the stages."""
        return self.models or (self.out / FORWARD, self.out / REVERSE)

    def read(self) -> Iterator[Pair]:
        """Stream all pairs."""
        return chain.from_iterable(map(read_records, self.sources))

    def stages(self) -> list[Stage]:
        """Describe what each stage is made from."""
        text = {"text": content_digest(self.files), "fields": self.fields}
        models = None if self.models is None else [digest_of_model(one) for one in self.models]
        trained = {"preset": self.preset, "settings": self.settings}
        return [
            Stage(SAMPLE, {**text, "sample": self.sample_pairs}),
            Stage(FORWARD, trained),
            Stage(REVERSE, trained),
            Stage(SCORES, {**text, "models": models, "language": self.detected}),
            Stage(KEPT, {"keep": self.keep}),
        ]

    @property
    def detected(self) -> list[str] | None:
        """The languages that texts must be in; None: they are not detected."""
        return list(self.languages) if self.detects else None


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
    known = languages or _languages(paths_of(src), paths_of(tgt), fields)
    job = _Job(
        sources=_sources(paths_of(src), paths_of(tgt), fields),
        files=[*paths_of(src), *paths_of(tgt)],
        out=Path(to),
        keep=_share(keep, use_models=use_models),
        fields=fields,
        models=_two(models),
        trains=use_models and models is None,
        languages=known,
        detects=detect and _can_detect(known, watcher),
        preset=preset,
        settings=_model_settings(as_tree(settings), device),
        sample_pairs=sample_pairs,
        shard_pairs=shard_pairs,
        device=device,
    )
    for name, number in (("sample", sample_pairs), ("shard", shard_pairs)):
        if number < 1:
            raise InputError(f"a {name} of {number} pairs: use 1 or more")
    with pipeline_folder(job.out, "filter", job.stages()):
        return _run(job, watcher, dry_run=dry_run)


def _run(job: _Job, watcher: PipelineWatcher, *, dry_run: bool) -> FilteredCorpus:
    """Go through the stages."""
    watcher.stage("counting pairs")
    total = sum(map(count_records, job.sources))
    if job.trains and not _train_models(job, total, watcher):
        return FilteredCorpus(job.out, total, 0, {}, None, (), None, is_stopped=True)
    watcher.stage("scoring pairs")
    load = partial(DualCrossEntropy, *job.model_folders(), device=job.device)
    detector = LanguageRule(LanguageDetector(), job.languages) if job.detects else None
    parts = write_scores(
        job.out / SCORES,
        judged_pairs(job.read()),
        PairScorer(detector, load if job.uses_models else None),
        {"corpus": content_digest(job.files), "languages": job.detected},
        shard_pairs=job.shard_pairs,
        progress=partial(_tell, watcher, total),
    )
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
    if not dry_run and not (job.out / KEPT).exists():
        _write_kept(job, selection, total, described, watcher)
    return found


def _tell(watcher: PipelineWatcher, total: int, done: int) -> None:
    watcher.working(done, total)


def _write_kept(
    job: _Job, selection: Selection, total: int, outcome: dict[str, Any], watcher: PipelineWatcher
) -> None:
    watcher.stage("writing the pairs that are kept")

    def kept() -> Iterator[Pair]:
        for number, pair in enumerate(job.read()):
            watcher.working(number + 1, total)
            if selection.is_kept[number]:
                yield Pair(*(" ".join(text.splitlines()) for text in pair))

    write_pair_folder(job.out / KEPT, KEPT, job.languages, kept(), outcome)


def _kept_files(job: _Job) -> tuple[Path, Path]:
    source, target = (job.out / KEPT / f"{KEPT}.{language}" for language in job.languages)
    return source, target


def _train_models(job: _Job, total: int, watcher: PipelineWatcher) -> bool:
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


def _watched(job: _Job, total: int, watcher: PipelineWatcher) -> Iterator[JudgedPair]:
    for number, one in enumerate(judged_pairs(job.read()), start=1):
        yield one
        watcher.working(number, total)


def _examples(job: _Job, selection: Selection) -> tuple[DroppedExample, ...]:
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


def _sources(src: list[Path], tgt: list[Path], fields: str) -> list[Source]:
    if not src:
        raise InputError("which corpus? Give --src and --tgt")
    if tgt and len(tgt) != len(src):
        raise InputError(
            f"{counted(len(src), 'file')} of source text but {len(tgt):,} of target text: give as "
            "many of each"
        )
    check_fields_used(fields, [*src, *tgt])
    targets: Sequence[Path | None] = tgt or [None] * len(src)
    paired = zip(src, targets, strict=True)
    return [source_of(one, other, fields=fields, among=[*src, *tgt]) for one, other in paired]


def _languages(src: list[Path], tgt: list[Path], fields: str) -> tuple[str, str]:
    data = DataConfig(src=tuple(map(str, src)), tgt=tuple(map(str, tgt)), fields=fields)
    return languages_of(Config(data=data))


def _can_detect(languages: tuple[str, str], watcher: PipelineWatcher) -> bool:
    """Whether languages can be detected; say why not."""
    detector = LanguageDetector.if_installed()
    if detector is None:
        watcher.noted(f"languages are not checked: {how_to_install('detect')}")
        return False
    unknown = [code for code in languages if not detector.knows(code)]
    if unknown:
        watcher.noted("languages are not checked: name both, such as --languages en,de")
    return not unknown


def _share(keep: float | None, *, use_models: bool) -> float | None:
    if not use_models and keep is not None:
        raise InputError(
            f"--keep {keep:g} keeps the best by models: leave it out, or leave out --no-models"
        )
    share = 0.9 if keep is None else keep
    check_share(share)
    return share if use_models else None


def _two(models: tuple[FileName, FileName] | None) -> tuple[Path, Path] | None:
    return None if models is None else (Path(models[0]), Path(models[1]))


def _model_settings(given: Tree, device: str) -> Tree:
    """Add a budget to the settings of the small models, unless they have one."""
    own: Tree = {} if device == "auto" else {"run": {"device": device}}
    if not any(given.get("training", {}).get(name) for name in BUDGETS):
        own = merge(own, {"training": {"steps": STEPS}})
    return merge(own, given)
