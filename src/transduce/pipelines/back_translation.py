"""Synthetic pairs from monolingual text: back-translation, and forward translation.

A model from the target language to the source translates text of the target language (Sennrich et
al. 2016). Its output is the source of new pairs; the text that people wrote is their target. Two
stages: `translations`, which resumes by shards, and `pairs`.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from transduce.bulk.translate import ShardedTranslation
from transduce.bulk.workers import ModelSource
from transduce.data.corpus import DEFAULT_FIELDS, Pair
from transduce.errors import InputError
from transduce.models.folder import load_settings
from transduce.pipelines.pair_files import (
    OUTCOME,
    FileName,
    Files,
    check_share,
    languages_of,
    paths_of,
    write_pair_folder,
)
from transduce.pipelines.source_noise import SourceNoise
from transduce.pipelines.stages import (
    PipelineStage,
    pipeline_folder,
    read_outcome,
)
from transduce.pipelines.translated_pairs import (
    Judgement,
    LineTranslations,
    by_score,
    judge_translations,
    require_kept,
)
from transduce.pipelines.translation_stage import (
    BulkJob,
    BulkSettings,
    translate_stage,
    translated_lines,
)
from transduce.pipelines.watcher import PipelineWatcher
from transduce.search.sample import Sampling
from transduce.translation.inference import Precision
from transduce.translation.load import EngineName, default_options
from transduce.translation.options import Options

Method = Literal["beam", "sample", "noise"]
TAG = "<bt>"
"""Stands before sources that a model wrote (Caswell et al. 2019): plain text, as other words."""
TRANSLATIONS, PAIRS, NAME = "translations", "pairs", "synthetic"
TITLE = "translating the text"


@dataclass(frozen=True)
class SyntheticPairs:
    """Parallel text of which a model wrote one side."""

    src: Path
    tgt: Path
    outcome: dict[str, Any]  # how many lines there were, how many are kept, and why not the others


@dataclass(frozen=True)
class _Job:
    text: BulkJob
    out: Path
    noise: SourceNoise | None
    forward: bool
    tag: str
    keep: float
    seed: int

    @property
    def endings(self) -> tuple[str, str]:
        """The languages of the pairs: from that of the synthetic side, or to it."""
        source, target = languages_of(load_settings(self.text.source.folders[0]))
        if self.forward:
            return source, target
        return ("src", "tgt") if (source, target) == ("src", "tgt") else (target, source)

    def stages(self) -> list[PipelineStage]:
        """Describe what each stage is made from."""
        pairs = {
            "forward": self.forward,
            "tag": self.tag,
            "noise": self.noise and asdict(self.noise),
            "keep": self.keep,
            "seed": self.seed if self.noise else None,
        }
        return [PipelineStage(TRANSLATIONS, self.text.described()), PipelineStage(PAIRS, pairs)]


def back_translate(
    model: Files,
    *,
    mono: Files,
    out: FileName,
    method: Method = "beam",
    forward: bool = False,
    tag: str | None = None,
    keep: float = 1.0,
    noise: SourceNoise | None = None,
    options: Options | None = None,
    seed: int = 1,
    fields: str = DEFAULT_FIELDS,
    to: str | None = None,
    device: str = "auto",
    precision: Precision = "float32",
    engine: EngineName | None = None,
    shard_lines: int | None = None,
    window: int | None = None,
    on: str | None = None,
    watcher: PipelineWatcher | None = None,
) -> SyntheticPairs:
    """Translate monolingual text into synthetic pairs; the same call goes on if it was stopped.

    model: a model folder, from the language of the text to the other one; several: an ensemble.
    mono, fields: the text, as for `translate_in_shards`.
    out: a folder; `pairs/synthetic.*` in it are the two sides.
    method: beam; sample, from all tokens; noise, beam search and `noise` in the source.
    forward: the text is the source of the pairs, and the model's output their target.
    tag: put before each source; by default `<bt>`, and none with `forward`.
    keep: the share of the lines to keep at most, by the model's score per token; faulty
        translations are never kept.
    options: the beam and the length penalty; a seed for samples and noise is `seed`.
    to: the language to translate into, for a model of several.
    device, precision, engine, shard_lines, window, on: as for `translate_in_shards`.

    Raises `InputError` if the folder was begun with other things, and says which.
    """
    folders = tuple(paths_of(model))
    if not folders or not paths_of(mono):
        raise InputError("what to translate? Give a model folder, and a text with --mono")
    check_share(keep)
    if noise is not None and (method != "noise" or forward):
        raise InputError("noise is for sources that a model wrote: use --method noise")
    if method == "noise" and forward:
        raise InputError("--method noise changes what a model wrote: leave out --forward")
    sampling = Sampling(seed=seed) if method == "sample" else None
    chosen = replace(options or default_options(folders[0]), sampling=sampling)
    job = _Job(
        text=BulkJob(
            ModelSource(folders, device, precision, engine, to=to), paths_of(mono), fields, chosen
        ),
        out=Path(out),
        noise=(noise or SourceNoise()) if method == "noise" else None,
        forward=forward,
        tag=_checked_tag(("" if forward else TAG) if tag is None else tag),
        keep=keep,
        seed=seed,
    )
    watcher = watcher or PipelineWatcher()
    with pipeline_folder(job.out, "back-translate", job.stages()):
        if (job.out / PAIRS).exists():
            watcher.stage(TITLE, is_done=True)
        else:
            bulk = BulkSettings(shard_lines, window, on)
            done = translate_stage(TITLE, job.out / TRANSLATIONS, job.text, bulk, watcher)
            _make_pairs(job, done, watcher)
    src, tgt = (job.out / PAIRS / f"{NAME}.{ending}" for ending in job.endings)
    return SyntheticPairs(src, tgt, read_outcome(job.out / PAIRS / OUTCOME))


def _checked_tag(tag: str) -> str:
    if tag != tag.strip() or len(tag.split()) > 1:
        raise InputError(f"--tag {tag!r}: use a word without spaces, or '' for none")
    return tag


def _make_pairs(job: _Job, done: ShardedTranslation, watcher: PipelineWatcher) -> None:
    watcher.stage("choosing pairs")
    rank = by_score(job.text.source.folders[0], job.text.options)
    judgement = judge_translations(translated_lines(done, watcher), rank, keep=job.keep)
    require_kept(judgement, job.out / TRANSLATIONS)
    watcher.stage("writing pairs")
    pairs = _pairs(job, translated_lines(done, watcher), judgement)
    write_pair_folder(job.out / PAIRS, NAME, job.endings, pairs, judgement.described())


def _pairs(job: _Job, lines: Iterator[LineTranslations], judgement: Judgement) -> Iterator[Pair]:
    """Stream the pairs that are kept, with noise and tags."""
    for number, line in enumerate(lines):
        if not judgement.is_kept[number]:
            continue
        text = line.alternatives[0][0]
        if job.noise is not None:
            text = job.noise(text, seed=job.seed, number=number)
        src, tgt = (line.source, text) if job.forward else (text, line.source)
        yield Pair(f"{job.tag} {src}" if job.tag else src, tgt)
