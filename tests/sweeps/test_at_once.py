"""How many runs compute at once, and how long the whole will still take."""

from pathlib import Path

import pytest

from tests.sweeps.made_up import scored
from transduce.cli.sweeps.sweep_display import state_of
from transduce.sweeps.plan import SweepRun
from transduce.sweeps.running.at_once import REPORTS, WARM_UP_REPORTS, MeasuredNumber
from transduce.sweeps.running.status import RunStatus, SweepStatus
from transduce.sweeps.running.worker import Placed
from transduce.training.run.events import Finished, Started, Stepped

GIB = 2**30


def measured(number: MeasuredNumber, speeds: dict[str, float], *, free: int = 100 * GIB) -> int:
    """Have runs compute at these speeds until the next decision."""
    number.note_running(frozenset(speeds))
    number.note_memory(free, 140 * GIB)
    for _ in range(WARM_UP_REPORTS + REPORTS + 1):
        for run, speed in speeds.items():
            number.note_speed(run, speed)
    return number.limit


def test_runs_are_added_while_the_total_speed_rises() -> None:
    number = MeasuredNumber()
    assert measured(number, {"a": 100}) == 2
    assert measured(number, {"a": 90, "b": 90}) == 4
    assert measured(number, dict.fromkeys("abcd", 48)) == 2  # 192 after 180
    assert measured(number, {"a": 90, "b": 90}) == 2, "once it is found out, it stays"


def test_a_slower_model_may_join() -> None:
    number = MeasuredNumber()
    assert measured(number, {"small": 100}) == 2
    assert measured(number, {"small": 80, "big": 5}) == 4  # fewer tokens in all, but more work


def test_short_runs_are_compared_by_their_total() -> None:
    number = MeasuredNumber()
    assert measured(number, {"a": 100}) == 2
    assert measured(number, {"b": 51, "c": 51}) == 1


def test_speeds_count_only_while_all_runs_make_steps() -> None:
    number = MeasuredNumber()
    assert measured(number, {"a": 100}) == 2
    number.note_running(frozenset("ab"))
    for _ in range(100):
        number.note_speed("a", 100)  # as long as the other is compiled
    assert measured(number, {"a": 51, "b": 51}) == 1


def one_after_another(number: MeasuredNumber, count: int, *, first: int) -> int:
    """Have runs make steps alone, because the others are still being compiled, and end."""
    for run in range(first, first + count):
        computing = frozenset(f"{run + place}" for place in range(number.limit))
        number.note_running(computing)
        number.note_memory(100 * GIB, 140 * GIB)
        for _ in range(100):
            number.note_speed(f"{run}", 100)
        number.note_running(computing - {f"{run}"})
    return number.limit


def test_runs_that_are_over_before_the_next_make_steps_are_doubled_to_the_cores() -> None:
    number = MeasuredNumber(cores=6)
    assert measured(number, {"0": 100}) == 2
    assert one_after_another(number, 1, first=0) == 2
    assert one_after_another(number, 1, first=1) == 4
    assert one_after_another(number, 3, first=2) == 4
    assert one_after_another(number, 1, first=5) == 6
    assert one_after_another(number, 20, first=6) == 6, "no more than the cores"


def test_runs_that_never_made_steps_and_a_full_memory_double_nothing() -> None:
    number = MeasuredNumber(cores=16)
    assert measured(number, {"a": 100}) == 2
    for run in "bcdefg":  # their settings are wrong
        number.note_running(frozenset({"a", run}))
        number.note_running(frozenset("a"))
    assert number.limit == 2
    number = MeasuredNumber(cores=16)
    assert measured(number, {"0": 100}) == 2
    number.note_out_of_memory()
    assert one_after_another(number, 20, first=0) == 1


def test_runs_may_begin_after_all_others_have_ended() -> None:
    number = MeasuredNumber(cores=2)
    assert measured(number, {"a": 100}) == 2
    assert one_after_another(number, 2, first=0) == 2
    number.note_running(frozenset())
    number.note_running(frozenset("b"))
    assert number.limit == 2


def test_memory_limits_the_number() -> None:
    number = MeasuredNumber()
    assert measured(number, {"a": 100}, free=70 * GIB) == 1
    assert measured(number, {"a": 100}, free=100 * GIB) == 2
    assert measured(number, {"a": 90, "b": 90}, free=60 * GIB) == 3, "there is room for one"
    number.note_running(frozenset("ab"))
    number.note_out_of_memory()
    assert number.limit == 1
    assert measured(number, {"a": 100}) == 1, "it is not tried again"


def test_without_a_gpu_it_stays_at_one() -> None:
    number = MeasuredNumber()
    number.note_running(frozenset("a"))
    for _ in range(50):
        number.note_speed("a", 100)
    assert number.limit == 1


def test_time_left_for_the_whole() -> None:
    runs = [RunStatus(SweepRun("row", seed, Path(), {}, None, {})) for seed in range(4)]
    status = SweepStatus(runs, clock=lambda: 100.0)
    assert status.seconds_left() is None
    runs[0].phase, runs[0].seconds = "finished", 30.0
    runs[1].phase, runs[1].began, runs[1].first, runs[1].share = "training", 80, (90.0, 0.0), 0.5
    # The running one takes 20 + 10 seconds, so each of the two waiting ones takes 30.
    assert status.seconds_left() == pytest.approx(10 + 2 * 30)


def test_a_run_shows_no_share_until_it_is_known_and_ends_with_the_score_it_keeps() -> None:
    status = RunStatus(SweepRun("row", 1, Path(), {}, None, {}))
    status.note(Placed(), 1.0)
    status.note(Started(20, 10, 1000, "cpu", "float32", 1, 5.0), 2.0)
    assert state_of(status) == "step 20"
    status.note(Stepped(30, 1, 0.5, 3.0, 1e-4, 1.0, 5_000, 1000.0, 45.0, 0.5), 3.0)
    status.note(scored(30, 2.0, 12.0), 4.0)
    assert state_of(status) == " 50%  step 30  dev BLEU 12.00"
    end = Finished(60, "all steps were made", "the last", 90.0, loss=1.9, metric="BLEU", score=11.5)
    status.note(end, 5.0)
    status.phase = "finished"
    assert state_of(status) == "finished  step 30  dev BLEU 11.50"
