"""How many runs compute at once."""

import statistics
from collections.abc import Mapping

WORTH_IT = 1.1
"""More runs at once are kept only if the total speed rises by this factor."""

SPARE_MEMORY = 1.25
"""A run starts beside others only if this many times the memory of one of them is free."""

WARM_UP_REPORTS, REPORTS = 2, 5
"""How many reports of a run's speed are left out after each change, and how many then count."""


class FixedNumber:
    """As many runs at once as the user says."""

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def note_speed(self, run: str, tokens_per_s: float) -> None:
        """Nothing depends on it."""

    def note_memory(self, free: int, total: int) -> None:
        """Nothing depends on it."""

    def note_running(self, runs: frozenset[str]) -> None:
        """Nothing depends on it."""

    def note_out_of_memory(self) -> None:
        """Nothing depends on it."""


class MeasuredNumber:
    """Starts with one run, and doubles the number while the total speed rises and memory allows.

    Each change costs the time in which new runs start and compile, so it is doubled rather than
    raised by one. The speeds of the runs are compared before and after others join them: n runs of
    which each keeps the share r of its speed when there are m compute r m / n times as much. So
    models of different sizes can be compared. Without reports of a GPU's memory it stays at one.

    Short runs may never make steps at the same moment, because each is over before the next is
    compiled. Then starting takes longer than training, and more runs keep the device busier: once
    as many have ended as compute at once, the number is doubled without a comparison, to at most
    `cores`, because runs start on the CPU.
    """

    def __init__(self, cores: int = 1) -> None:
        self.limit = 1
        self._cores = cores
        self._running: frozenset[str] = frozenset()
        self._stepping: frozenset[str] = frozenset()  # runs whose first steps are made
        self._reports: dict[str, list[float]] = {}
        self._before: dict[str, float] = {}  # speeds with fewer runs
        self._is_settled = False  # no more runs are added
        self._memory: tuple[int, int] | None = None  # free and total bytes
        self._trained: frozenset[str] = frozenset()  # runs that have made steps
        self._uncompared = 0  # of these, how many ended since the number was decided

    def note_running(self, runs: frozenset[str]) -> None:
        """Note which runs compute now; after a change, speeds are measured again."""
        if runs != self._running:
            self._note_ended((self._running - runs) & self._trained)
            self._running, self._stepping = runs, self._stepping & runs
            self._start_measuring()

    def note_memory(self, free: int, total: int) -> None:
        """Note how much memory of the GPU is free while the current runs compute."""
        self._memory = (free, total)

    def note_out_of_memory(self) -> None:
        """A run had too little memory: one fewer from now on."""
        self.limit = max(1, min(self.limit, len(self._running)) - 1)
        self._is_settled = True

    def note_speed(self, run: str, tokens_per_s: float) -> None:
        """Note the speed of a run; once all speeds are known, decide."""
        self._trained |= {run}
        if self._is_settled or run not in self._running or len(self._running) < self.limit:
            return
        if run not in self._stepping:  # until now it was compiled, and the others were faster
            self._stepping |= {run}
            self._start_measuring()
        self._reports[run].append(tokens_per_s)
        if any(len(reports) < WARM_UP_REPORTS + REPORTS for reports in self._reports.values()):
            return
        now = {
            name: statistics.median(reports[WARM_UP_REPORTS:])
            for name, reports in self._reports.items()
        }
        self._decide(now)

    def _note_ended(self, runs: frozenset[str]) -> None:
        """Note runs that have ended, and double the number if they could not be compared."""
        self._uncompared += len(runs)
        is_due = bool(runs) and self._uncompared >= self.limit
        if self._is_settled or not self._before or not is_due:
            return
        more = min(self.limit, self._cores - self.limit, self._room_for(len(self._running)))
        if more > 0:
            self.limit += more
            self._uncompared = 0

    def _start_measuring(self) -> None:
        self._reports = {run: [] for run in self._running}

    def _decide(self, now: Mapping[str, float]) -> None:
        count, self._uncompared = len(now), 0
        if count > 1 and self._before and _gain(self._before, now) < WORTH_IT:
            self.limit, self._is_settled = len(self._before), True
        elif more := min(count, self._room_for(count)):
            self._before = dict(now)
            self.limit = count + more
        else:
            self._start_measuring()  # memory may become free

    def _room_for(self, count: int) -> int:
        """Return how many more runs have room in memory, given that `count` compute now."""
        if self._memory is None:
            return 0
        free, total = self._memory
        return int(free / max(SPARE_MEMORY * (total - free) / count, 1.0))


def _gain(before: Mapping[str, float], now: Mapping[str, float]) -> float:
    """Return by which factor the total speed has risen, from the runs in both measurements.

    If there are none, because runs are short, the total numbers of tokens are compared.
    """
    both = [now[run] / before[run] for run in before.keys() & now.keys() if before[run] > 0]
    if not both:
        return sum(now.values()) / max(sum(before.values()), 1e-9)
    return statistics.mean(both) * len(now) / len(before)
