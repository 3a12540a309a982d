"""Trials that are stopped early, because most finished trials were better by then."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from transduce.errors import InputError
from transduce.files.atomic import atomic_file
from transduce.files.errors import reporting_write_errors
from transduce.sweeps.plan import SweepRun
from transduce.sweeps.searching.planning import TRIAL
from transduce.sweeps.searching.ranges import SweepPruning, SweepSearch
from transduce.sweeps.searching.trials import (
    TrialScore,
    dev_scores,
    final_cost,
    folder_of_trials,
    shown_cost,
)
from transduce.training.run.events import Event, Scored, Stepped
from transduce.training.run.folder import JOURNAL, RunFolder
from transduce.training.run.journal import read_journal

SAME = 1e-6
"""Scores whose shares of the budget differ by less are of the same moment."""


def limit_at(
    moment: TrialScore, others: Sequence[Sequence[TrialScore]], rule: SweepPruning
) -> float:
    """Return the cost that a trial must not exceed at a moment; infinite: there is no limit yet.

    `others` are the scores of finished trials. Each counts with its last score up to that moment.
    """
    if len(others) < rule.after_trials or moment.share < rule.after_share:
        return math.inf
    costs = [found for scores in others if (found := _cost_by(moment, scores)) is not None]
    if not costs:
        return math.inf
    return float(np.percentile(costs, 100 * rule.keep))


def _cost_by(moment: TrialScore, scores: Sequence[TrialScore]) -> float | None:
    """Return the last cost by the share of the budget, or by steps where there is no budget."""
    before = [
        score.cost
        for score in scores
        if (score.share <= moment.share + SAME if moment.share else score.step <= moment.step)
    ]
    return before[-1] if before else None


def pruned_at(
    scores: Sequence[TrialScore], others: Sequence[Sequence[TrialScore]], rule: SweepPruning
) -> tuple[TrialScore, float] | None:
    """Return the first moment at which a trial is to be stopped, and the limit; None: it goes on.

    Its best score so far counts. At the end of its budget a trial is never stopped.
    """
    best = math.inf
    for moment in scores:
        best = min(best, moment.cost)
        if moment.share < 1 - SAME and best > (limit := limit_at(moment, others, rule)):
            return moment, limit
    return None


@dataclass
class TrialWatch:
    """Watches the scores of a trial in its own process, and says when it is to stop.

    What others have reached is read from their folders, where runs on other machines write too.
    """

    run: SweepRun
    search: SweepSearch
    reason: str = ""  # why it is to stop; "": it goes on
    _scores: list[TrialScore] = field(default_factory=list)
    _share: float = 0.0
    _last: Scored | None = None

    def resume(self) -> None:
        """Take up the scores that the run has from an earlier session."""
        path = self.run.folder / JOURNAL
        if not path.exists():
            return
        for event in read_journal(path):
            self.note(event)

    def note(self, event: Event) -> None:
        """Note an event of the run."""
        if isinstance(event, Stepped):
            self._share = event.share_done
        if not isinstance(event, Scored) or self.reason:
            return
        self._last = event
        for found in dev_scores([event], self.search.by):
            moment = TrialScore(found.step, self._share, found.cost)
            self._scores = [*(s for s in self._scores if s.step < moment.step), moment]
            self._decide()

    def _decide(self) -> None:
        rule = self.search.prune
        if rule is None or self._last is None:
            return
        others = list(_finished_scores(self.run, self.search))
        found = pruned_at(self._scores, others, rule)
        if found is None:
            return
        moment, limit = found
        best = min(score.cost for score in self._scores if score.step <= moment.step)
        own, theirs = (self._shown(cost, self._last) for cost in (best, limit))
        self.reason = (
            f"stopped after step {moment.step:,}: {own} at best; {rule.keep:.0%} of "
            f"{len(others)} finished trials had {theirs} or better by then"
        )

    def _shown(self, cost: float, event: Scored) -> str:
        return shown_cost(
            cost,
            self.search.by,
            metric=event.metric or "",
            higher_is_better=event.higher_is_better,
        )


def record_pruned(run: SweepRun, reason: str) -> None:
    """Note beside the run folder that a trial was stopped, and why."""
    with reporting_write_errors(run.pruned_file), atomic_file(run.pruned_file) as making:
        making.write_text(f"{reason}\n", encoding="utf-8")


def _finished_scores(run: SweepRun, search: SweepSearch) -> Iterator[Sequence[TrialScore]]:
    """Read the scores of all other trials that are finished."""
    for folder in sorted(folder_of_trials(run).glob("trial_*")):
        other = folder / run.folder.name
        if TRIAL.fullmatch(folder.name) and other != run.folder and _is_finished(other):
            try:
                events = read_journal(other / JOURNAL)
            except InputError:  # damaged; the report says so
                continue
            if final_cost(events, search.by) is not None:
                yield dev_scores(events, search.by)


def _is_finished(folder: Path) -> bool:
    pruned = folder.with_name(f"{folder.name}.pruned")
    return RunFolder(folder).has_ended() and not pruned.exists()
