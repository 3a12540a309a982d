"""A whole run: from what the user gave to a model folder."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np

from transduce.config.presets import preset_named
from transduce.config.schema import Config, Tree, merge
from transduce.data.batch import Batch
from transduce.data.loader import Loader
from transduce.data.store import Store
from transduce.errors import ConfigError, InputError
from transduce.models.build import build_model
from transduce.models.folder import TOKENIZER
from transduce.training.checkpoint import Checkpoints
from transduce.training.defaults import automatic_lines, automatic_model, automatic_training
from transduce.training.distributed import Place, Processes, joined
from transduce.training.events import Event
from transduce.training.finish import finish
from transduce.training.journal import Journal
from transduce.training.loop import Evaluate, Setup, train
from transduce.training.machine import Machine, choose_machine
from transduce.training.prepare import Phase, Prepared, gather, prepare
from transduce.training.run_folder import (
    CACHE,
    CHECKPOINTS,
    JOURNAL,
    RunFolder,
    check_data,
    taken_up,
)
from transduce.training.starting_point import check_same_model, settings_from, starting_model


@dataclass(frozen=True)
class Request:
    """What the user asks for."""

    out: Path
    given: Tree = field(default_factory=dict)  # settings, as far as they are given
    preset: str | None = None  # None: chosen by the size of the corpus
    fresh: bool = False  # start over where there is a run already
    cache: Path | None = None  # for the data once it is made ready; None: in the run's folder


class Watcher(Protocol):
    """Whoever follows a run; only the first process has one that prints or writes."""

    @property
    def phase(self) -> Phase:
        """Announce work before the training."""
        ...

    def begin(self, folder: RunFolder, config: Config, step: int) -> None:
        """Learn what the run is, and that it goes on after so many steps."""
        ...

    def __call__(self, event: Event, /) -> None:
        """Learn what happens."""
        ...


class MakeEvaluate(Protocol):
    """Makes the function that translates the development set: search is not training's affair."""

    def __call__(
        self,
        prepared: Prepared,
        config: Config,
        machine: Machine,
        *,
        sentences: int,
        stopped: Callable[[], bool],
    ) -> Evaluate:
        """Take so many sentences from all of it, and stop between them if asked to."""
        ...


Listening = Callable[[], AbstractContextManager[Callable[[], bool]]]
"""Begins to listen for a wish to stop, which so far ended the process, and says if there is one."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    folder: Path
    reason: str | None  # None: the user stopped it
    made_steps: bool  # False: it had been finished before


def run(
    request: Request,
    *,
    place: Place,
    watcher: Watcher,
    make_evaluate: MakeEvaluate,
    listening: Listening,
) -> Outcome:
    """Train from the start, or from where the run stands, and write the model folder."""
    folder = RunFolder(request.out)
    folder.check()
    settled = None if request.fresh else folder.begun()
    wanted = taken_up(folder, settled, _asked(request)) if settled else None
    ready = _made_ready(request, folder, wanted, place, watcher.phase)
    with ExitStack() as stack:
        processes = stack.enter_context(
            joined(place, device=ready.machine.device, timeout_s=ready.config.run.timeout_s)
        )
        if processes.is_first:
            stack.enter_context(folder.locked())
            _open(folder, request, ready, settled)
        config = Config.from_tree(processes.from_first(ready.config.model_dump(mode="json")))
        if processes.from_first(folder.is_finished()):
            return Outcome(folder.path, "it is finished", made_steps=False)
        stopped = stack.enter_context(listening())
        setup = _setup(replace(ready, config=config), folder, processes, stopped)
        if not processes.is_first:
            return Outcome(folder.path, train(setup), made_steps=True)
        setup.checkpoints.remove_left()
        newest = setup.checkpoints.newest()
        step = newest.step if newest else 0
        journal = stack.enter_context(Journal.open(folder.path / JOURNAL, step))
        watcher.begin(folder, config, step)
        evaluate = partial(make_evaluate, ready.prepared, config, ready.machine, stopped=stopped)
        setup = replace(
            setup,
            tell=_both(journal, watcher),
            evaluate=evaluate(sentences=config.run.bleu_sentences),
        )
        reason = train(setup)
        if reason is not None:
            whole_dev = _dev_batches(replace(setup.loader, rank=0, world=1), ready.prepared)
            setup = replace(
                setup,
                dev_batches=whole_dev,
                evaluate=evaluate(sentences=len(ready.prepared.dev_pairs)),
            )
            reason = reason if finish(setup, folder, ready.prepared, reason) else None
    return Outcome(folder.path, reason, made_steps=True)


@dataclass(frozen=True)
class _Ready:
    """What a run needs before the processes meet."""

    config: Config
    machine: Machine
    prepared: Prepared
    cache: Path


def _asked(request: Request) -> Tree:
    """Return all that was asked for, with what a preset stands for."""
    if request.preset is None:
        return request.given
    return merge(preset_named(request.preset).model_dump(exclude_unset=True), request.given)


def _made_ready(
    request: Request, folder: RunFolder, settled: Config | None, place: Place, phase: Phase
) -> _Ready:
    """Settle what is still open, and turn the text into numbers."""
    asked = _asked(request)
    init = _start_of(request, settled)
    if init is not None:
        asked = settings_from(init, asked)
    # How many pairs there are is not known yet, but what is wrong is to be said before they count.
    smallest = {} if request.preset or init else automatic_model(0, on_gpu=False)
    config = settled or Config.from_tree(merge(smallest, asked))
    if init is not None:
        check_same_model(config, init)
    machine = choose_machine(config.run, local_rank=place.local_rank)
    on_gpu = machine.device.type != "cpu"
    cache = request.cache or request.out / CACHE
    data = config.data
    if settled is not None and (folder.path / TOKENIZER).exists():
        data = data.model_copy(update={"tokenizer": str(folder.path / TOKENIZER)})
    corpora = gather(data, cache, seed=config.run.seed, phase=phase)
    if settled is None and request.preset is None and init is None:
        asked = merge(automatic_model(corpora.pairs, on_gpu=on_gpu), asked)
        config = Config.from_tree(asked)
    prepared = prepare(
        data,
        corpora,
        cache,
        vocab_size=config.model.vocab_size,
        processes=min(8, os.cpu_count() or 1),
        phase=phase,
    )
    if settled is None:
        automatic = merge(
            automatic_training(prepared.train, request.given, on_gpu=on_gpu),
            automatic_lines([pair.src for pair in prepared.dev_pairs]),
        )
        entries = {"model": {"vocab_size": len(prepared.tokenizer)}}
        config = Config.from_tree(merge(merge(automatic, asked), entries))
    for name, store in {"text": prepared.train, "development set": prepared.dev}.items():
        _check_lengths(store, config.model.max_positions, name)
    return _Ready(config, machine, prepared, cache)


def _start_of(request: Request, settled: Config | None) -> str | None:
    """Return the model folder that a new run starts from, if it does."""
    init = request.given.get("run", {}).get("init")
    if settled is not None or not isinstance(init, str):
        return None  # a run that goes on has its checkpoints
    if request.preset is not None:
        raise ConfigError(
            f"preset {request.preset}: a run that starts from {init} has that model's shape"
        )
    return init


def _check_lengths(store: Store, max_positions: int, name: str) -> None:
    """Raise if every pair is too long; a few that are will be left out."""
    shortest = int(np.maximum(store.src.lengths, store.tgt.lengths).min()) + 1
    if shortest > max_positions:
        raise ConfigError(
            f"model.max_positions={max_positions}: every pair of the {name} is longer, the "
            f"shortest has {shortest:,} tokens with its end"
        )


def _open(folder: RunFolder, request: Request, ready: _Ready, settled: Config | None) -> None:
    """Begin a run's folder, or see that it is the same run's."""
    if settled is None:
        if not request.fresh and folder.begun() is not None:
            raise InputError(
                f"another process began a run in {folder.path} in the meantime: run the same "
                "command again to go on with it, or choose another --out"
            )
        folder.clear()
        folder.write_start(
            ready.config,
            given=_asked(request),
            tokenizer=ready.prepared.tokenizer_file,
            digests=ready.prepared.digests,
        )
    else:
        check_data(folder, ready.prepared.digests)
        if ready.config != settled:
            folder.reopen(ready.config)


def _setup(
    ready: _Ready,
    folder: RunFolder,
    processes: Processes,
    stopped: Callable[[], bool],
) -> Setup:
    config, device = ready.config, ready.machine.device
    loader = Loader(
        ready.prepared.train,
        max_tokens=-(-config.training.batch_tokens // config.training.accumulate),
        per_step=config.training.accumulate,
        seed=config.run.seed,
        pin=device.type == "cuda",
        weights=config.data.weights,
        max_length=config.model.max_positions,
        in_rows=processes.from_first(ready.machine.records and config.model.p_drop_attention == 0),
        rank=processes.rank,
        world=processes.world,
    )
    checkpoints = Checkpoints(
        folder.path / CHECKPOINTS,
        keep_last=config.run.average,
        keep_best=config.run.keep_best,
    )
    # The first process says for all whether the run is new: it may write a checkpoint meanwhile.
    is_new = processes.from_first(checkpoints.newest() is None)
    if config.run.init is not None and is_new:
        model = starting_model(config, config.run.init).model
    else:
        model = build_model(config.model, seed=config.run.seed)
    return Setup(
        config=config,
        model=model.to(device),
        machine=ready.machine,
        loader=loader,
        dev_batches=_dev_batches(loader, ready.prepared),
        checkpoints=checkpoints,
        processes=processes,
        tell=lambda _event: None,
        evaluate=lambda _model: None,
        stopped=stopped,
    )


def _dev_batches(loader: Loader, prepared: Prepared) -> list[Batch]:
    """Make this process's share of the development set."""
    dev = replace(
        loader, store=prepared.dev, per_step=loader.world, pin=False, weights=(), in_rows=False
    )
    return list(dev.batches(0))


def _both(journal: Journal, watcher: Watcher) -> Callable[[Event], None]:
    def tell(event: Event) -> None:
        journal(event)
        watcher(event)

    return tell
