"""Training with monolingual text: iterative back-translation (Hoang et al. 2018).

A round has three stages: a reverse model is trained on the pairs, it translates the text of the
target language back, and the final model is trained on the pairs and the synthetic ones. From the
second round on, the reverse model learns from text of the source language too, which the final
model of the round before has translated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transduce.config.schema import Tree, merge
from transduce.errors import InputError
from transduce.files.resumable import content_digest
from transduce.pipelines.back_translation import Method, SyntheticPairs, back_translate
from transduce.pipelines.pair_files import FileName, Files, paths_of
from transduce.pipelines.stages import PipelineStage, pipeline_folder
from transduce.pipelines.training_stage import TrainingTexts, as_tree, train_stage
from transduce.pipelines.watcher import PipelineWatcher

MAX_ROUNDS = 5
REVERSE, SYNTHETIC, FINAL, SYNTHETIC_SRC = "reverse", "synthetic", "final", "synthetic-src"


@dataclass(frozen=True)
class IteratedTraining:
    """How a call of `iterate_back_translation` ended."""

    folder: Path
    model: Path  # the final model of the last round
    is_stopped: bool = False  # on request; the same call goes on


@dataclass(frozen=True)
class _Job:
    texts: TrainingTexts
    mono: list[Path]
    mono_src: list[Path]
    out: Path
    rounds: int
    method: Method
    tag: str | None
    pair_weight: float
    preset: str | None
    settings: Tree
    device: str
    shard_lines: int | None

    def stages(self) -> list[PipelineStage]:
        """Describe what each stage is made from; the later ones are made from the first."""
        texts = self.texts
        trained: dict[str, Any] = {
            "pairs": content_digest([*texts.src, *texts.tgt]),
            "development text": content_digest([*texts.dev_src, *texts.dev_tgt]),
            "held-out text": content_digest(texts.held_out),
            "preset": self.preset,
            "settings": self.settings,
        }
        translated = {"text": content_digest(self.mono), "method": self.method, "tag": self.tag}
        stages = []
        for number in range(1, self.rounds + 1):
            if number > 1:
                source = {**translated, "text": content_digest(self.mono_src)}
                stages.append(PipelineStage(f"{number}-{SYNTHETIC_SRC}", source))
            stages.append(PipelineStage(f"{number}-{REVERSE}", trained))
            stages.append(PipelineStage(f"{number}-{SYNTHETIC}", translated))
            stages.append(
                PipelineStage(f"{number}-{FINAL}", {"weight of the pairs": self.pair_weight})
            )
        return stages

    def folder(self, number: int, name: str) -> Path:
        """Return the outcome of a stage in a round."""
        return self.out / f"{number}-{name}"


def iterate_back_translation(
    *,
    src: Files,
    tgt: Files,
    mono: Files,
    out: FileName,
    mono_src: Files = (),
    rounds: int = 1,
    method: Method = "beam",
    tag: str | None = None,
    pair_weight: float = 1.0,
    preset: str | None = None,
    settings: Mapping[str, Any] | Sequence[str] = (),
    dev_src: Files = (),
    dev_tgt: Files = (),
    held_out: Files = (),
    device: str = "auto",
    shard_lines: int | None = None,
    watcher: PipelineWatcher | None = None,
) -> IteratedTraining:
    """Train with pairs and monolingual text by back-translation; go on if it was stopped.

    src, tgt: the pairs, as for `train`, in two files or more.
    mono: text of the target language.
    out: a folder for the models and synthetic pairs of all rounds.
    mono_src: text of the source language, which a second round needs.
    rounds: how often text is translated back, by a better model each time.
    method, tag: as for `back_translate`.
    pair_weight: times that each pair is used per epoch, while a synthetic one is used once.
    preset, settings: of all models, as for `train`.
    dev_src, dev_tgt: development text; without it, pairs are held out, synthetic ones too.
    """
    job = _Job(
        TrainingTexts(*map(paths_of, (src, tgt, dev_src, dev_tgt, held_out))),
        paths_of(mono),
        paths_of(mono_src),
        Path(out),
        rounds,
        method,
        tag,
        pair_weight,
        preset,
        _with_device(as_tree(settings), device),
        device,
        shard_lines,
    )
    _check(job)
    watcher = watcher or PipelineWatcher()
    with pipeline_folder(job.out, "iterate", job.stages()):
        is_finished = all(_round(job, number, watcher) for number in range(1, rounds + 1))
    return IteratedTraining(job.out, job.folder(rounds, FINAL), is_stopped=not is_finished)


def _with_device(settings: Tree, device: str) -> Tree:
    return settings if device == "auto" else merge({"run": {"device": device}}, settings)


def _check(job: _Job) -> None:
    if not job.texts.src or len(job.texts.src) != len(job.texts.tgt):
        raise InputError("give the pairs as --src and --tgt, as many files of each")
    if not job.mono:
        raise InputError("what to translate back? Give text of the target language with --mono")
    if not 1 <= job.rounds <= MAX_ROUNDS:
        raise InputError(f"--rounds {job.rounds}: use 1 to {MAX_ROUNDS}")
    if job.rounds > 1 and not job.mono_src:
        raise InputError(
            f"--rounds {job.rounds}: a second round needs text of the source language, which "
            "makes the reverse model better: give it with --mono-src"
        )
    if not 0 < job.pair_weight < 1e6:
        raise InputError(f"--weight {job.pair_weight:g}: must be more than 0")


def _round(job: _Job, number: int, watcher: PipelineWatcher) -> bool:
    """Train a reverse model, translate back, train a final one; return False if stopped."""
    texts = job.texts
    reverse, final = job.folder(number, REVERSE), job.folder(number, FINAL)
    helping = None
    if number > 1:
        previous = job.folder(number - 1, FINAL)
        outcome = job.folder(number, SYNTHETIC_SRC)
        helping = _translate_back(job, previous, job.mono_src, outcome, watcher)
    swapped = TrainingTexts(texts.tgt, texts.src, texts.dev_tgt, texts.dev_src, texts.held_out)
    if not _train(job, reverse, swapped, helping, watcher):
        return False
    synthetic = _translate_back(job, reverse, job.mono, job.folder(number, SYNTHETIC), watcher)
    return _train(job, final, texts, synthetic, watcher)


def _translate_back(
    job: _Job, model: Path, text: list[Path], out: Path, watcher: PipelineWatcher
) -> SyntheticPairs:
    return back_translate(
        model,
        mono=text,
        out=out,
        method=job.method,
        tag=job.tag,
        device=job.device,
        shard_lines=job.shard_lines,
        watcher=watcher,
    )


def _train(
    job: _Job,
    folder: Path,
    texts: TrainingTexts,
    synthetic: SyntheticPairs | None,
    watcher: PipelineWatcher,
) -> bool:
    """Train on the pairs and, if there are any, synthetic ones; return False if stopped."""
    settings = job.settings
    if synthetic is not None:
        weights = [job.pair_weight] * len(texts.src) + [1.0]
        settings = merge({"data": {"weights": weights}}, settings)
        src, tgt = [*texts.src, synthetic.src], [*texts.tgt, synthetic.tgt]
        texts = TrainingTexts(src, tgt, texts.dev_src, texts.dev_tgt, texts.held_out)
    title = f"training {folder.name}"
    return train_stage(title, folder, texts, watcher, preset=job.preset, settings=settings)
