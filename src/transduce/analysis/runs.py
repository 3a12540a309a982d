"""What is known of runs from their folders, and which of them can be compared with each other."""

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transduce.errors import InputError, TransduceError
from transduce.files.locks import is_locked
from transduce.training.run.events import Event, Finished, Scored, Started, Stepped

JOURNAL, SETTINGS, PROVENANCE = "journal.jsonl", "config.yaml", "provenance.json"
LOCK = "lock"

Tell = Callable[[str], None]
"""Called with a line about what cannot be read."""


@dataclass(frozen=True)
class RunMetric:
    """A metric of a run; scores are comparable only where both fields are equal."""

    name: str
    signature: str


@dataclass(frozen=True)
class Measure:
    """What scores were measured on; None: not known."""

    dev_set: str | None = None  # a digest of its text
    vocabulary: str | None = None  # a digest of the tokenizer: losses are per token
    sentences: int | None = None  # of the development set, translated for the metric
    loss_pairs: int | None = None  # a sample of it, for the dev loss; None: all of it


@dataclass(frozen=True)
class Run:
    """What is known of a run from its folder."""

    name: str
    folder: Path
    events: Sequence[Event] = field(repr=False)
    finished: bool
    steps: int
    epochs: float | None
    seconds: float | None
    score: Scored | None  # the one with the lowest loss
    by_metric: dict[RunMetric, Scored]  # the best score by each
    best_by: RunMetric | None  # by which the run chose its best weights; None: by the loss
    tokens_per_s: float | None  # the median
    settings: dict[str, Any] | None  # by section
    stated: dict[str, Any]  # the settings that do not just follow from others
    measure: Measure

    @property
    def scores(self) -> list[Scored]:
        """Every score of the development set, in order."""
        return [event for event in self.events if isinstance(event, Scored)]


@dataclass(frozen=True)
class RunGroup:
    """Runs that can be compared with each other, the best first."""

    runs: tuple[Run, ...]
    ranked_by: RunMetric | None  # None: by the dev loss

    @property
    def best(self) -> Run | None:
        """The best run, if there is a score."""
        return self.runs[0] if math.isfinite(rank(self.runs[0], self.ranked_by)) else None

    @property
    def criterion(self) -> str:
        """What the runs are ranked by, in words."""
        return "lowest dev loss" if self.ranked_by is None else f"best dev {self.ranked_by.name}"

    @property
    def dev_set(self) -> str | None:
        """The digest of their development set; None: not known."""
        return self.runs[0].measure.dev_set

    @property
    def vocabularies(self) -> list[str | None]:
        """The digests of their vocabularies: several only where a metric ranks the runs."""
        return list(dict.fromkeys(run.measure.vocabulary for run in self.runs))


def read_runs(folders: Sequence[Path], tell: Tell) -> list[Run]:
    """Read every run in these folders that can be read, and tell why the others cannot."""
    found = []
    for name, place in _named_places(folders):
        try:
            found.append(_read_run(name, place, tell))
        except TransduceError as unreadable:
            tell(f"{name} is left out: {unreadable}")
    if not found:
        raise InputError(f"none of the runs in {', '.join(map(str, folders))} can be read")
    return found


def group_runs(runs: Sequence[Run]) -> list[RunGroup]:
    """Put runs together that can be compared: the largest group first, the best run first.

    Runs with one development set are ranked by the metric that all of them chose their weights by.
    If there is none, they are ranked by the dev loss, which needs one vocabulary too.
    """
    groups = []
    for same_set in _split(runs, lambda run: run.measure.dev_set):
        metric = _decisive_metric(same_set)
        parts = [same_set] if metric else _split(same_set, lambda run: run.measure.vocabulary)
        groups += [RunGroup(tuple(_ranked(part, metric)), metric) for part in parts]
    return sorted(groups, key=lambda group: (-len(group.runs), min(r.name for r in group.runs)))


def rank(run: Run, metric: RunMetric | None) -> float:
    """Return a number that is lower for a better run."""
    if metric is not None:
        return badness(run.by_metric[metric]) if metric in run.by_metric else math.inf
    return run.score.loss if run.score else math.inf


def badness(score: Scored) -> float:
    """Return a number that is lower for a better score by the run's metric."""
    if score.score is None:
        return math.inf
    return -score.score if score.higher_is_better else score.score


def _ranked(runs: Sequence[Run], metric: RunMetric | None) -> list[Run]:
    return sorted(runs, key=lambda run: (rank(run, metric), run.name))


def _split(runs: Sequence[Run], key: Callable[[Run], str | None]) -> list[list[Run]]:
    """Split runs by a key; a run of which neither that nor a score is known goes to the largest."""
    parts: dict[str | None, list[Run]] = {}
    open_runs = [run for run in runs if key(run) is None and not (run.score or run.by_metric)]
    for run in runs:
        if run not in open_runs:
            parts.setdefault(key(run), []).append(run)
    if not parts:
        return [open_runs]
    max(parts.values(), key=len).extend(open_runs)
    return list(parts.values())


def _decisive_metric(runs: Sequence[Run]) -> RunMetric | None:
    """Return the metric by which all runs chose their best weights, on the same sentences."""
    chosen = {(run.best_by, run.measure.sentences) for run in runs if run.score or run.by_metric}
    return chosen.pop()[0] if len(chosen) == 1 else None


def _named_places(folders: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    """Yield each run's folder once; from several folders, its name is the whole path."""
    seen = set()
    for folder in folders:
        for place in _run_folders(folder):
            if place.resolve() not in seen:
                seen.add(place.resolve())
                inside = str(place.relative_to(folder)) if place != folder else place.name or "."
                yield inside if len(folders) == 1 else str(place), place


def _run_folders(folder: Path) -> list[Path]:
    if not folder.is_dir():
        fault = "is a file" if folder.exists() else "does not exist"
        raise InputError(
            f"{folder} {fault}; give a folder with runs, as 'transduce train' makes them"
        )
    in_sweeps = (f"runs/*/*/{JOURNAL}", f"*/runs/*/*/{JOURNAL}")
    patterns = (JOURNAL, f"*/{JOURNAL}", f"*/*/{JOURNAL}", *in_sweeps)
    found = sorted(path.parent for pattern in patterns for path in folder.glob(pattern))
    if not found:
        raise InputError(
            f"no runs in {folder}, nor in its folders; "
            f"a run is a folder with a {JOURNAL}: 'transduce train' makes one"
        )
    return found


def _read_run(name: str, place: Path, tell: Tell) -> Run:
    from transduce.training.run.journal import read_journal

    events = read_journal(place / JOURNAL)
    _tell_if_cut(name, place, events, tell)
    steps = [event for event in events if isinstance(event, Stepped)]
    scores = [event for event in events if isinstance(event, Scored)]
    timed = [event for event in events if isinstance(event, Started | Stepped | Finished)]
    settings, stated = _read_settings(name, place / SETTINGS, tell)
    speeds = [step.tokens_per_s for step in steps if math.isfinite(step.tokens_per_s)]
    finite = [score for score in scores if math.isfinite(score.loss)]
    return Run(
        name,
        place,
        events,
        finished=bool(timed) and isinstance(timed[-1], Finished),
        steps=events[-1].step if events else 0,
        epochs=steps[-1].epoch - 1 + steps[-1].epoch_share if steps else None,
        seconds=timed[-1].seconds if timed else None,
        score=min(finite, key=lambda score: score.loss, default=None),
        by_metric=_best_by_metric(scores),
        best_by=metric_of(scores[-1]) if scores and scores[-1].best_by == "metric" else None,
        tokens_per_s=statistics.median(speeds) if speeds else None,
        settings=settings,
        stated=stated,
        measure=_measure(_read_origin(name, place / PROVENANCE, tell), settings or {}),
    )


def _tell_if_cut(name: str, place: Path, events: Sequence[Event], tell: Tell) -> None:
    """Tell if the journal ends before the newest checkpoint, which is written with it."""
    from transduce.models.model_files import checkpoint_folders

    newest, last = max(checkpoint_folders(place), default=0), events[-1].step if events else 0
    if newest > last and not is_locked(place / LOCK):  # a running one is about to write it
        tell(
            f"{name} is listed as its journal tells: {place / JOURNAL} is damaged or the run was "
            f"killed, because it ends with step {last:,} and there is a checkpoint of step "
            f"{newest:,}"
        )


def is_training(run: Run) -> bool:
    """Whether a process is training the run now."""
    return is_locked(run.folder / LOCK)


def metric_of(score: Scored) -> RunMetric | None:
    """Return the metric of a score; None: nothing was translated."""
    return None if score.metric is None else RunMetric(score.metric, score.signature)


def _best_by_metric(scores: Sequence[Scored]) -> dict[RunMetric, Scored]:
    best: dict[RunMetric, Scored] = {}
    for score in scores:
        metric = metric_of(score)
        if metric is not None and score.score is not None and math.isfinite(score.score):
            best[metric] = min(best.get(metric, score), score, key=badness)
    return best


def _read_settings(
    name: str, path: Path, tell: Tell
) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    from transduce.config.load import load_config

    try:
        config = load_config(path)
    except TransduceError as unreadable:
        tell(f"{name} is listed without its settings: {unreadable}")
        return None, {}
    return config.model_dump(mode="json"), config.model_dump(mode="json", exclude_unset=True)


def _read_origin(name: str, path: Path, tell: Tell) -> dict[str, Any]:
    from transduce.models.run_records import read_provenance

    if not path.exists():
        return {}
    try:
        return read_provenance(path)
    except InputError as damaged:
        tell(f"{name} is listed without its origin: {damaged}")
        return {}


def _measure(origin: dict[str, Any], settings: dict[str, Any]) -> Measure:
    """Return what a run was scored on, by its provenance."""
    digests = origin.get("data", {})
    size = settings.get("model", {}).get("vocab_size")
    vocabulary = origin.get("tokenizer") or _digests_of(digests, ("tokenizer.json",))
    return Measure(
        dev_set=origin.get("dev_set") or _dev_digests(digests, settings.get("data", {})),
        vocabulary=vocabulary or (None if size is None else f"{size} entries"),
        sentences=settings.get("run", {}).get("score_sentences"),
        loss_pairs=origin.get("loss_pairs"),
    )


def _dev_digests(digests: dict[str, Any], data: dict[str, Any]) -> str | None:
    """Return the digests of the development set's files, where its own digest is not recorded."""
    given = tuple(str(Path(name)) for side in ("dev_src", "dev_tgt") for name in data.get(side, ()))
    return _digests_of(digests, given or ("dev.src", "dev.tgt"))


def _digests_of(digests: dict[str, Any], endings: tuple[str, ...]) -> str | None:
    found = [str(digest) for name, digest in digests.items() if name.endswith(endings)]
    return " ".join(found) or None
