"""When a run scores its development set."""

from transduce.config.schema import Config


class ScoreSchedule:
    """Says at which steps to score, and keeps scores within their share of a budget in minutes."""

    def __init__(self, config: Config) -> None:
        run, minutes = config.run, config.training.minutes
        self._interval = run.checkpoint_steps
        self._first = run.first_score_steps or self._interval
        self._seconds_left = None if minutes is None else run.scoring_share * 60 * minutes
        self._longest_s = 0.0

    def is_due(self, step: int) -> bool:
        """Whether to score after this step: early at doubling distances, then at equal ones."""
        if step <= 0 or (
            self._seconds_left is not None
            and self._longest_s > 0
            and self._seconds_left < self._longest_s
        ):
            return False
        doublings, rest = divmod(step, self._first)
        is_early = step < self._interval and rest == 0 and doublings & (doublings - 1) == 0
        return is_early or step % self._interval == 0

    def record(self, seconds: float) -> None:
        """Count a score that took this long."""
        self._longest_s = max(self._longest_s, seconds)
        if self._seconds_left is not None:
            self._seconds_left -= seconds
