"""Scores come early, then at equal distances, and never take more than their share of a budget."""

from hypothesis import given
from hypothesis import strategies as st

from transduce.config.schema import Config
from transduce.training.score_schedule import ScoreSchedule


def steps_of(schedule: ScoreSchedule, last: int, *, cost_s: float = 0.0) -> list[int]:
    """Train that many steps, scoring whenever it is due."""
    found: list[int] = []
    for step in range(last + 1):
        if schedule.is_due(step, spent_s=len(found) * cost_s):
            found.append(step)
            schedule.record(cost_s)
    return found


def schedule(minutes: float | None = None, **run: float) -> ScoreSchedule:
    return ScoreSchedule(Config.from_tree({"run": run, "training": {"minutes": minutes}}))


def test_the_first_scores_come_early_and_at_doubling_distances() -> None:
    early = schedule(checkpoint_steps=100, first_score_steps=6)
    assert steps_of(early, 300) == [6, 12, 24, 48, 100, 200, 300]


def test_a_resumed_run_has_spent_what_it_spent_before() -> None:
    resumed = schedule(minutes=1, scoring_share=0.5, checkpoint_steps=10)
    resumed.record(6)
    assert resumed.is_due(10, spent_s=24)
    assert not resumed.is_due(10, spent_s=25)


def test_without_a_first_score_they_are_as_far_apart_as_asked() -> None:
    assert steps_of(schedule(checkpoint_steps=100), 300) == [100, 200, 300]
    assert steps_of(schedule(minutes=1, checkpoint_steps=1), 9, cost_s=6) == [*range(1, 10)]


@given(
    minutes=st.floats(0.1, 1e4),
    share=st.floats(0.01, 1),
    cost_s=st.floats(0.01, 1e5),
    interval=st.integers(1, 50),
)
def test_scores_stay_within_their_share_of_a_budget_in_minutes(
    minutes: float, share: float, cost_s: float, interval: int
) -> None:
    limited = schedule(minutes=minutes, scoring_share=share, checkpoint_steps=interval)
    made = steps_of(limited, 200, cost_s=cost_s)
    assert made[0] == interval, "one score is always made"
    assert len(made) == 1 or len(made) * cost_s <= share * 60 * minutes
