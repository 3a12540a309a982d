"""Whether a run is as fast as it was planned: its length in words, once its speed is known."""

from transduce.errors import counted
from transduce.training.plan.length import Length, in_words
from transduce.training.run.events import Stepped

KNOWN_AFTER_S = 60
"""The speed of a run is known after this long, or after a quarter of the run."""

TOLERANCE = 0.1


class SpeedCheck:
    """Compares the speed of a session's first minute with the one by which the run was planned."""

    def __init__(self, planned: Length) -> None:
        self._planned = planned
        self._needed_s = min(KNOWN_AFTER_S, planned.seconds / 4)
        self._last: Stepped | None = None
        self._steps, self._seconds = 0, 0.0
        self._is_over = False

    def __call__(self, event: Stepped) -> str | None:
        """Return one line where the plan was wrong, once; else None.

        Only steps are timed: scores come closer together at the start than later. The first steps
        of a session do not count, they may have waited for a compiler.
        """
        before, self._last = self._last, event
        if before is None or self._is_over or not event.tokens_per_s > 0:
            return None
        self._steps += event.step - before.step
        self._seconds += (event.tokens - before.tokens) / event.tokens_per_s
        if self._seconds < self._needed_s or self._steps < 1:
            return None
        self._is_over = True
        ratio = self._steps * self._planned.seconds / (self._seconds * self._planned.steps)
        return None if abs(ratio - 1) <= TOLERANCE else self._correction(ratio)

    def _correction(self, ratio: float) -> str | None:
        planned = self._planned
        begins = f"steps are {'slower' if ratio < 1 else 'faster'} than planned"
        if planned.ends_by == "minutes":
            steps = counted(round(planned.steps * ratio), "step")
            return f"{begins}: the budget is about {steps}, not {planned.steps:,}"
        now, then = in_words(planned.seconds / ratio), in_words(planned.seconds)
        return f"{begins}: it will take about {now}, not {then}" if now != then else None
