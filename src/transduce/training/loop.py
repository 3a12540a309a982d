"""Training (§5): from parallel text to a model folder; a stopped run is resumed."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from transduce.training.distributed import ProcessRank
from transduce.training.progress import ProgressCallback
from transduce.training.request import make_request
from transduce.training.run.setup import open_run
from transduce.training.session import REPORT_STEPS, Setup, TrainingSession

FileName = str | PathLike[str]
Files = FileName | Sequence[FileName]


@dataclass(frozen=True)
class TrainingOutcome:
    """How a call of `train` ended."""

    folder: Path  # of the run; when the run is over, it is a model folder
    reason: str | None  # why the run is over; None: it was stopped, and can be resumed
    made_steps: bool  # False: an earlier call had finished the run


def train(
    recipe: FileName | None = None,
    *,
    src: Files = (),
    tgt: Files = (),
    out: FileName | None = None,
    dev_src: Files = (),
    dev_tgt: Files = (),
    held_out: Files = (),
    texts: Files = (),
    dev_texts: Files = (),
    preset: str | None = None,
    init: FileName | None = None,
    settings: Mapping[str, Any] | Sequence[str] = (),
    cache: FileName | None = None,
    fresh: bool = False,
    progress: ProgressCallback = lambda _event: None,
    should_stop: Callable[[], bool] = lambda: False,
    process: ProcessRank | None = None,
) -> TrainingOutcome:
    """Train a model on parallel text; the same call again resumes a run that was stopped.

    recipe: a YAML file of settings; every other argument overrides it.
    src, tgt: source and target text, line by line; or in `src` alone .tsv, .csv, .jsonl, .tmx, .po.
    out: the folder of the run; with a recipe, `runs/<name of the recipe>` by default.
    dev_src, dev_tgt: development text; without it, pairs of the training text are held out.
    held_out: texts whose sentences are never trained on, such as test sets.
    texts, dev_texts: instead of these, texts in several languages for a model of all directions,
        named NAME.LANGUAGE: `["train.en", "train.de", "train.fr"]`; those of one name match line
        by line.
    preset: the name of a preset; without one, chosen by corpus, machine and budget.
    init: a model folder, a run or a checkpoint to fine-tune.
    settings: any settings, nested, as in `{"training": {"steps": 1000}}`, or as a list of texts, as
        in `["training.steps=1000"]`. The corpus and the machine decide those that are not given.
    cache: a folder for prepared data that several runs may share; by default in `out`.
    fresh: delete the run in `out` and start over.
    progress: called with every event (`training.progress`, `training.run.events`).
    should_stop: called after every step and while scoring; once it returns True, the run saves a
        checkpoint and the call returns.
    process: which process this is, if torchrun started several.

    Raises `ConfigError` for wrong settings, `InputError` for wrong text or files.
    """
    files = {"src": src, "tgt": tgt, "dev_src": dev_src, "dev_tgt": dev_tgt, "held_out": held_out}
    files |= {"corpora": texts, "dev_corpora": dev_texts}
    request = make_request(
        recipe, files, settings, out=out, preset=preset, init=init, cache=cache, fresh=fresh
    )
    rank = process or ProcessRank()
    with open_run(request, rank, progress=progress, should_stop=should_stop) as run:
        if run.setup is None:
            return TrainingOutcome(request.out, "it is finished", made_steps=False)
        reason = fit(run.setup)
        if reason is not None and not run.finish(reason):
            reason = None
    return TrainingOutcome(request.out, reason, made_steps=True)


def fit(setup: Setup) -> str | None:
    """Train until a budget is spent and say which; return None if the run was stopped before."""
    run = TrainingSession(setup)
    run.resume()
    while run.ending() is None and not run.is_interrupted:
        with closing(run.rest_of_epoch()) as steps:
            for batches in steps:
                rate = run.next_rate()
                result = run.train_step(
                    batches, number=run.next_step, rate=rate, processes=setup.processes
                )
                run.record(batches, result, rate=rate)
                stop, save = run.vote()
                is_due = run.is_due() or run.ending() is not None
                if is_due or run.progress.step % REPORT_STEPS == 0:
                    run.report_steps()
                    run.rollback_if_diverged()
                is_saved = (save or stop or is_due) and run.save()
                if is_due and is_saved and not stop:  # if stopped, the next session scores
                    run.score()
                if stop or run.is_interrupted:
                    return None
                if run.ending() or run.is_stage_over():
                    break
            else:
                run.next_epoch()
    return None if run.is_interrupted else run.ending()
