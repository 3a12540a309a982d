"""From what the user asks for to settled settings and prepared data."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from transduce.config.schema import Config, DataConfig, ModelConfig, Tree, merge
from transduce.data.encoding.encoder import TargetForm
from transduce.data.languages.prepare import (
    LanguageCorpora,
    find_language_corpora,
    prepare_languages,
)
from transduce.data.languages.weights import check_weights
from transduce.data.prepare import NO_TEXT, Corpora, Phase, Prepared, find_corpora, prepare
from transduce.data.store import Store
from transduce.errors import ConfigError
from transduce.models.folder import TOKENIZER
from transduce.tasks.registry import find_task, task_of
from transduce.text.tokenizer import Tokenizer
from transduce.training.distributed import ProcessRank
from transduce.training.plan.defaults import (
    Conditions,
    Plan,
    automatic_lines,
    choose_model,
    fit_training,
)
from transduce.training.plan.length import Length
from transduce.training.plan.speed import measure_speed
from transduce.training.request import Request
from transduce.training.run.fine_tuning import check_same_model, settings_from
from transduce.training.run.folder import CACHE, RunFolder
from transduce.training.step.machine import Machine, choose_machine
from transduce.training.step.muon import check_has_matrices

_UNTIMED = Conditions(on_gpu=False, speed_of=lambda _config, _tokens: 1.0)
FEW_PAIRS = 20_000
"""Up to this many pairs are encoded in one process: starting others takes longer."""


@dataclass(frozen=True)
class PreparedRun:
    """A run's settings and data, before the processes meet."""

    config: Config
    machine: Machine
    prepared: Prepared
    cache: Path
    notes: tuple[str, ...] = ()  # what was chosen for this machine and budget, and why
    planned: Length | None = None  # None: it was planned when the run began


def prepare_run(
    request: Request, folder: RunFolder, settled: Config | None, rank: ProcessRank, phase: Phase
) -> PreparedRun:
    """Settle the settings that are still open, and prepare the data."""
    init = _start_of(request, settled)
    asked = _asked(request, init)
    is_open = request.preset is None and init is None  # the shape is
    config = settled or check_settings(request)
    machine = choose_machine(config.run, local_rank=rank.local_rank)
    conditions = _conditions(machine, rank, phase)
    cache = request.cache or request.out / CACHE
    data = config.data
    if not (data.src or data.corpora or request.fresh):
        raise ConfigError(f"{NO_TEXT}; {request.out} holds no run to resume")
    if settled is not None and (folder.path / TOKENIZER).exists():
        data = data.model_copy(update={"tokenizer": str(folder.path / TOKENIZER)})
    target_form = _target_form(data)
    _check_changes_of_text(data, config.model, has_target_form=target_form is not None)
    check_weights(data)
    seed = folder.split_seed(settled)
    found = (
        find_language_corpora(data, cache, seed=seed, phase=phase)
        if data.corpora
        else find_corpora(data, cache, seed=seed, phase=phase)
    )
    shape = Plan({})
    if settled is None and is_open:
        shape = choose_model(asked, found.pairs, conditions)
        config = Config.from_tree(merge(shape.settings, asked))
    prepared = _prepared(data, found, cache, config.model, phase, target_form)
    fitted = Plan({})
    if settled is None:
        by_vocabulary = fitted_to(prepared.tokenizer, config)
        config = config.with_changes(by_vocabulary)
        given = request.given if init is None else asked
        fitted = fit_training(prepared.train, prepared.dev, config, given, conditions)
        automatic = merge(shape.settings, fitted.settings)
        if not is_open:
            del automatic["model"]
        lines = automatic_lines([pair.src for pair in prepared.dev_pairs])
        chosen = merge(merge(automatic, lines), asked)
        config = Config.from_tree(merge(chosen, by_vocabulary))
    for name, store in {"text": prepared.train, "development set": prepared.dev}.items():
        _check_lengths(store, config.model.max_length, name)
    notes = (*shape.notes, *fitted.notes)
    return PreparedRun(config, machine, prepared, cache, notes, fitted.length)


def _check_changes_of_text(data: DataConfig, model: ModelConfig, *, has_target_form: bool) -> None:
    """Raise if a setting would change text that a task or a model needs as it is."""
    if has_target_form and (data.augment.rates() or data.subword_dropout):
        raise ConfigError(
            f"data.augment, data.subword_dropout: noise would change what the task {data.task} "
            "writes; leave it out"
        )
    if has_target_form and data.terms:
        raise ConfigError(
            f"data.terms: what the task {data.task} writes has no terms; leave it out"
        )
    if has_target_form and data.placeholders:
        raise ConfigError(
            f"data.placeholders: what the task {data.task} writes has none; leave it out"
        )
    if data.terms and (data.corpora or data.subword_dropout):
        raise ConfigError(
            "data.terms: terms are found among the aligned tokens of one direction; leave out "
            "data.corpora and data.subword_dropout, or data.terms"
        )
    if has_target_form and data.corpora:
        raise ConfigError(f"data.corpora: the task {data.task} has one direction; use data.src")
    if data.subword_dropout and model.needs_links:
        raise ConfigError(
            "model.guided_alignment: with data.subword_dropout no sentence has the tokens that "
            "were aligned; leave one of them out"
        )


def _prepared(
    data: DataConfig,
    found: Corpora | LanguageCorpora,
    cache: Path,
    model: ModelConfig,
    phase: Phase,
    target_form: TargetForm | None,
) -> Prepared:
    """Learn the vocabulary and encode the text, of one direction or of several."""
    processes = 1 if found.pairs <= FEW_PAIRS else min(8, os.cpu_count() or 1)
    if isinstance(found, LanguageCorpora):
        if model.needs_links:
            raise ConfigError(
                "model.guided_alignment: pairs of several languages are not aligned; leave it out"
            )
        return prepare_languages(
            data, found, cache, vocab_size=model.vocab_size, processes=processes, phase=phase
        )
    return prepare(
        data,
        found,
        cache,
        vocab_size=model.vocab_size,
        src_vocab_size=model.src_vocab_size,
        processes=processes,
        phase=phase,
        target_form=target_form,
        linked=model.needs_links,
    )


def fitted_to(tokenizer: Tokenizer, config: Config) -> Tree:
    """Return the settings that follow from the vocabulary, or from those of both sides.

    A tokenizer that was given decides whether these are one.
    """
    model = config.model.fitted_to(tokenizer.entries())
    if tokenizer.is_shared and config.data.shared_vocabulary:
        return {"model": model}
    model["src_vocab_size"] = tokenizer.src_size
    data: Tree = {"shared_vocabulary": tokenizer.is_shared}
    return {"model": model, "data": data | ({"tgt_subwords": None} if tokenizer.is_shared else {})}


def check_settings(request: Request) -> Config:
    """Raise if a setting of a new run is wrong; before its text is read, some are still open."""
    init = _start_of(request, None)
    asked = _asked(request, init)
    is_open = request.preset is None and init is None  # the shape is
    # The size of the corpus is not known yet, but wrong settings are reported before it is read.
    smallest = choose_model(asked, 0, _UNTIMED).settings if is_open else {}
    config = Config.from_tree(merge(smallest, asked))
    if init is not None:
        check_same_model(config, init)
    check_has_matrices(config)
    return config


def _asked(request: Request, init: str | None) -> Tree:
    """Return what is asked for, and what suits the task where nothing else is."""
    asked = request.settings() if init is None else settings_from(init, request.settings())
    task = asked.get("data", {}).get("task")
    if not isinstance(task, str):
        return asked
    suited = find_task(task).settings()
    if asked.get("model", {}).get("kind", "transformer") != "transformer":
        suited.pop("model", None)  # another kind has other settings
    return merge(suited, asked)


def _conditions(machine: Machine, rank: ProcessRank, phase: Phase) -> Conditions:
    """Describe this machine; its speed is measured when it is asked for."""

    def speed_of(config: Config, batch_tokens: int) -> float:
        shape = ", ".join(config.model.summary().split(", ")[:3])
        with phase(f"timing steps of {batch_tokens:,} tokens ({shape})"):
            return rank.world * measure_speed(config, machine, batch_tokens)

    return Conditions(
        on_gpu=machine.device.type != "cpu",
        speed_of=speed_of,
        compiles=machine.uses_cuda_graphs,
    )


def _target_form(data: DataConfig) -> TargetForm | None:
    """Return how the task has target text written; None: as it is in the files."""
    task = task_of(data)
    return None if task.target_form is None else TargetForm(task.target_form, task.to_target)


def _start_of(request: Request, settled: Config | None) -> str | None:
    """Return the model folder that a new run starts from, if it does."""
    init = request.given.get("run", {}).get("init")
    if settled is not None or not isinstance(init, str):
        return None  # a resumed run has its checkpoints
    if request.preset is not None:
        raise ConfigError(
            f"preset {request.preset}: a run that starts from {init} has that model's shape"
        )
    return init


def _check_lengths(store: Store, max_length: int | None, name: str) -> None:
    """Raise if every pair is too long; a few that are will be left out."""
    if max_length is None:
        return
    shortest = int(np.maximum(store.src.lengths, store.tgt.lengths).min()) + 1
    if shortest > max_length:
        raise ConfigError(
            f"model.max_positions={max_length}: every pair of the {name} is longer, the "
            f"shortest has {shortest:,} tokens with EOS"
        )
