"""A run that is opened for training: its folder locked, its data prepared, its model built."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace

from transduce.config.schema import Config
from transduce.data.batch import Batch
from transduce.data.corpus import Pair
from transduce.data.loader import EpochChanges, Loader
from transduce.data.noise.epochs import EpochNoise
from transduce.data.prepare import Phase, Prepared
from transduce.data.terms.epochs import EpochTerms
from transduce.data.terms.planted import EpochPlaceholders
from transduce.errors import InputError
from transduce.models.build import build_model
from transduce.models.model_files import CHECKPOINTS
from transduce.training.collapse import guessing_loss
from transduce.training.data_summary import summarise_data
from transduce.training.dev import DevScore, make_evaluate
from transduce.training.distributed import Processes, ProcessRank, joined
from transduce.training.plan.length import describe_rest
from transduce.training.plan.scoring import MAX_LOSS_PAIRS
from transduce.training.progress import Preparing, ProgressCallback, Settled, Status, Translated
from transduce.training.request import Request
from transduce.training.run.checkpoint import Checkpoints
from transduce.training.run.events import Event, Tell, Warned
from transduce.training.run.fine_tuning import describe_start, starting_model
from transduce.training.run.finish import finish, sentences_at_end
from transduce.training.run.folder import JOURNAL, RunFolder, check_data
from transduce.training.run.journal import Journal
from transduce.training.run.prepare import PreparedRun, prepare_run
from transduce.training.run.resume import Resumption, resume, settings_to_resume
from transduce.training.run.scores import Criterion
from transduce.training.session import Setup
from transduce.training.stages import TrainingStages


@dataclass(frozen=True)
class OpenRun:
    """A run that is ready to be trained, with the folder locked."""

    setup: Setup | None  # None: it is finished already
    folder: RunFolder
    prepared: Prepared
    whole_dev: Callable[[], Setup] | None = None  # the same, scored on all of the dev set

    def finish(self, reason: str) -> bool:
        """Choose the weights and write the model folder; False if it was stopped meanwhile.

        Only the first process does that.
        """
        if self.whole_dev is None:
            return True
        return finish(self.whole_dev(), self.folder, self.prepared, reason)


@contextmanager
def open_run(
    request: Request,
    rank: ProcessRank,
    *,
    progress: ProgressCallback,
    should_stop: Callable[[], bool],
) -> Iterator[OpenRun]:
    """Settle what is open, prepare the data, lock the folder, and build what training needs."""
    folder = RunFolder(request.out)
    folder.check()
    if rank.rank == 0:
        folder.check_unlocked()  # before the data is prepared, which takes long
    settled = settings_to_resume(folder, request)
    resumed = resume(folder, settled, request) if settled else None
    wanted = resumed.config if resumed else None
    ready = prepare_run(request, folder, wanted, rank, _phases(progress, rank))
    if rank.rank == 0:
        for note in resumed.notes if resumed else describe_start(request.given, ready.config):
            progress(Warned(folder.last_step(), note))
    with ExitStack() as stack:
        processes = stack.enter_context(
            joined(rank, device=ready.machine.device, timeout_s=ready.config.run.timeout_s)
        )
        if processes.is_first:
            stack.enter_context(folder.locked())
            _open(folder, request, ready, resumed)
            if resumed is not None and not folder.is_finished():
                for note in _checkpoints(folder, ready.config).set_aside_damaged():
                    progress(Warned(folder.last_step(), note))
        config = Config.from_tree(processes.broadcast(ready.config.model_dump(mode="json")))
        if processes.broadcast(folder.is_finished()):
            yield OpenRun(None, folder, ready.prepared)
            return
        setup = _setup(replace(ready, config=config), folder, processes, should_stop)
        if setup.loader.noise is not None:
            stack.enter_context(closing(setup.loader.noise))
        newest = setup.checkpoints.newest()
        step = newest.step if newest else 0
        data = summarise_data(ready.prepared, config, request.settings())
        rest = describe_rest(config.training, newest.progress.spent) if newest else None
        notes = (*ready.notes, rest) if rest else ready.notes
        progress(Settled(folder.path, config, step, notes, data, ready.planned))
        if not processes.is_first:
            yield OpenRun(setup, folder, ready.prepared)
            return
        setup.checkpoints.remove_leftovers()
        journal = stack.enter_context(Journal.open(folder.path / JOURNAL, step))
        setup = replace(setup, tell=_both(journal, progress), status=Status(progress))
        yield OpenRun(
            _scored_on(setup, ready, config.run.score_sentences, progress),
            folder,
            ready.prepared,
            whole_dev=lambda: _whole_dev(setup, ready, progress),
        )


def _whole_dev(setup: Setup, ready: PreparedRun, progress: ProgressCallback) -> Setup:
    """Score by one process on the development set, all of it if it is not huge: a run's end."""
    alone = replace(setup.loader, rank=0, world=1)
    setup = replace(setup, dev_batches=_dev_batches(alone, ready.prepared))
    sentences = sentences_at_end(setup.config, len(ready.prepared.dev_pairs))
    return _scored_on(setup, ready, sentences, progress)


def _scored_on(
    setup: Setup, ready: PreparedRun, sentences: int, progress: ProgressCallback
) -> Setup:
    """Have that many sentences of the development set translated at each score."""

    def translated(pairs: Sequence[Pair], score: DevScore) -> None:
        progress(Translated(pairs, score.hypotheses))

    evaluate = make_evaluate(
        ready.prepared,
        setup.config,
        ready.machine,
        sentences=sentences,
        stopped=setup.stopped,
        on_translated=translated,
        on_progress=setup.status.report,
    )
    return replace(setup, evaluate=evaluate)


def _phases(progress: ProgressCallback, rank: ProcessRank) -> Phase:
    """Report work before training as events, from the first process alone."""

    @contextmanager
    def phase(name: str) -> Iterator[Callable[[int, int], None]]:
        done, total = 0, 0

        def report(now: int, of: int) -> None:
            nonlocal done, total
            done, total = now, of
            if rank.rank == 0:
                progress(Preparing(name, done, total))

        report(0, 0)
        yield report
        if rank.rank == 0:
            progress(Preparing(name, done, total, is_over=True))

    return phase


def _open(
    folder: RunFolder, request: Request, ready: PreparedRun, resumed: Resumption | None
) -> None:
    """Begin a run's folder, or see that it is the same run's."""
    if resumed is None:
        if not request.fresh and folder.has_trained():
            raise InputError(
                f"another process began a run in {folder.path} in the meantime: run the same "
                "command again to resume it, or choose another --out"
            )
        folder.clear()
        folder.write_start(
            ready.config,
            given=request.settings(),
            tokenizer=ready.prepared.tokenizer_file,
            digests=ready.prepared.digests,
            preset=request.preset,
            dev_pairs=ready.prepared.dev_pairs,
            loss_pairs=MAX_LOSS_PAIRS,
        )
    else:
        check_data(folder, ready.prepared.digests)
        folder.resume(ready.config, resumed.budgets)


def _checkpoints(folder: RunFolder, config: Config) -> Checkpoints:
    return Checkpoints(
        folder.path / CHECKPOINTS,
        keep_last=config.run.average,
        keep_best=config.run.keep_best,
        criterion=Criterion(by_metric=config.run.choose_by == "metric"),
    )


def _setup(
    ready: PreparedRun,
    folder: RunFolder,
    processes: Processes,
    stopped: Callable[[], bool],
) -> Setup:
    config, device = ready.config, ready.machine.device
    checkpoints = _checkpoints(folder, config)
    loss_pairs = folder.loss_pairs() if processes.is_first else None
    # The first process decides for all whether the run is new: it may write a checkpoint meanwhile.
    is_new = processes.broadcast(checkpoints.newest() is None)
    if config.run.init is not None and is_new:
        model = starting_model(config, config.run.init).model
    else:
        model = build_model(config.model, seed=config.run.seed)
    can_pack = ready.machine.uses_cuda_graphs and model.abilities.packed_sequences
    stages = TrainingStages.of(config, ready.prepared.train)
    loader = Loader(
        ready.prepared.train,
        max_tokens=-(-config.training.batch_tokens // config.training.accumulate),
        per_step=config.training.accumulate,
        seed=config.run.seed,
        pin=device.type == "cuda",
        weights=stages.weights[0],
        max_length=config.model.max_length,
        packed=processes.broadcast(can_pack),
        rank=processes.rank,
        world=processes.world,
        noise=_epoch_changes(config, ready.prepared),
    )
    dev_batches = _dev_batches(loader, ready.prepared, max_pairs=processes.broadcast(loss_pairs))
    return Setup(
        config=config,
        model=model.to(device),
        machine=ready.machine,
        loader=loader,
        dev_batches=dev_batches,
        checkpoints=checkpoints,
        processes=processes,
        tell=lambda _event: None,
        evaluate=lambda _model: None,
        stopped=stopped,
        stages=stages,
        guessing_loss=guessing_loss(ready.prepared.train, dev_batches, len(model.projection)),
    )


def _epoch_changes(config: Config, prepared: Prepared) -> EpochChanges | None:
    """Return what changes the training pairs in each epoch: noise, placeholders, hints of terms."""
    data, rates = config.data, config.data.augment.rates()
    noise: EpochChanges | None = None
    if rates or data.subword_dropout:
        dropout = data.subword_dropout
        noise = EpochNoise(rates, prepared.tokenizer_file, subword_dropout=dropout)
    guided = config.model.needs_links
    if data.placeholders:
        linked = guided or data.terms > 0
        noise = EpochPlaceholders(
            data.placeholders, prepared.tokenizer, noise=noise, keeps_links=linked
        )
    if not data.terms:
        return noise
    return EpochTerms(
        data.terms, prepared.tokenizer, prepared.train, noise=noise, keeps_links=guided
    )


def _dev_batches(
    loader: Loader, prepared: Prepared, *, max_pairs: int | None = None
) -> list[Batch]:
    """Make this process's share of the development set, or of a sample of it."""
    dev = replace(
        loader,
        store=prepared.dev,
        per_step=loader.world,
        pin=False,
        weights=(),
        packed=False,
        max_pairs=max_pairs,
        noise=None,
    )
    return list(dev.batches(0))


def _both(journal: Journal, progress: ProgressCallback) -> Tell:
    def tell(event: Event) -> None:
        journal(event)
        progress(event)

    return tell
