"""When a run scores its development set."""

from transduce.config.schema import Config


class ScoreSchedule:
    """Says at which steps to score, and keeps scores within their share of a budget in minutes."""

    def __init__(self, config: Config) -> None:
        run, minutes = config.run, config.training.minutes
        self._interval = run.checkpoint_steps
        self._first = run.first_score_steps or self._interval
        self._budget_s = None if minutes is None else run.scoring_share * 60 * minutes
        self._longest_s = 0.0

    def is_due(self, step: int, *, spent_s: float) -> bool:
        """Whether to score after this step, when that many seconds were spent on scores before.

        Early scores are at doubling distances, the others at equal ones.
        """
        if step <= 0 or (self._budget_s is not None and self._is_too_long(spent_s)):
            return False
        times, rest = divmod(step, self._first)
        is_doubled = rest == 0 and times & (times - 1) == 0
        is_early = is_doubled and 3 * step <= 2 * self._interval  # else the next is too near
        return is_early or step % self._interval == 0

    def _is_too_long(self, spent_s: float) -> bool:
        assert self._budget_s is not None
        return self._longest_s > 0 and spent_s + self._longest_s > self._budget_s

    def record(self, seconds: float) -> None:
        """Remember how long a score takes."""
        self._longest_s = max(self._longest_s, seconds)
