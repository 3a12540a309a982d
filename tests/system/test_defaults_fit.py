"""A run whose settings are left open: fitted to corpus, machine and budget, and told so."""

import re
from pathlib import Path

import pytest

from tests.command import Command
from tests.system.small_runs import training, write_corpus
from transduce.config.load import load_config
from transduce.training.run.events import Scored
from transduce.training.run.journal import read_journal

OPEN = {
    "training.batch_tokens": None,
    "training.schedule": None,
    "training.warmup_steps": None,
    "training.steps": None,
    "run.checkpoint_steps": None,
    "run.score_sentences": None,
}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path)


def test_a_budget_in_minutes_decides_and_a_useless_one_is_warned_of(
    corpus: Path, command: Command, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    result = command(*training(corpus, out, **OPEN | {"training.minutes": 0.01}))
    assert result.code == 0, result.err
    assert re.search(
        r"^budget: 0\.01 minutes are about [\d,]+ steps of 512 tokens", result.err, re.M
    )
    config = load_config(out / "config.yaml")
    steps = int(re.findall(r"about ([\d,]+) steps", result.err)[0].replace(",", ""))
    assert ("too few to learn to translate" in result.err) == (steps < 600)
    assert config.training.warmup_steps <= max(1, steps // 4)
    assert config.run.checkpoint_steps <= steps
    assert config.run.scoring_share == 0.05
    assert config.run.choose_by == "metric"


def test_a_plan_that_was_too_hopeful_is_corrected_once_the_speed_is_known(
    corpus: Path, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transduce.training.run.prepare.measure_speed", lambda *_: 1e6)
    result = command(*training(corpus, tmp_path / "run", **OPEN | {"training.minutes": 0.02}))
    assert result.code == 0, result.err
    told = r"^budget: 0\.02 minutes are about ([\d,]+) steps of .*; choosing the weights "
    [promised] = re.findall(told + r"afterwards takes about \S+ seconds? more$", result.err, re.M)
    corrected = r"^steps are slower than planned: the budget is about ([\d,]+) steps?, not (\S+)$"
    [[about, planned]] = re.findall(corrected, result.err, re.M)
    assert planned == promised
    assert int(about.replace(",", "")) < int(planned.replace(",", ""))


def test_the_speed_is_measured_with_the_batches_that_are_trained_on(
    corpus: Path, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed = []

    def measure_speed(_config: object, _machine: object, batch_tokens: int) -> float:
        timed.append(batch_tokens)
        return 5e4 if batch_tokens > 512 else 2e4

    monkeypatch.setattr("transduce.training.run.prepare.measure_speed", measure_speed)
    result = command(*training(corpus, tmp_path / "run", **OPEN | {"training.steps": 1}))
    assert result.code == 0, result.err
    assert timed[-1] == load_config(tmp_path / "run" / "config.yaml").training.batch_tokens == 512


def test_without_a_budget_it_says_how_long_it_will_take_and_scores_early(
    corpus: Path, command: Command, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    result = command(*training(corpus, out, **OPEN | {"training.steps": 30}))
    assert result.code == 0, result.err
    assert re.search(r"^time: about .* here for 30 steps of 512 tokens a side", result.err, re.M)
    assert "\n--minutes sets a limit; what is done can be used at any time\n" in result.err
    timings = re.findall(r"^timing .*\)$", result.err, re.M)
    assert max(map(len, timings)) + len("  0:00:00") <= 80, "a terminal has room for the time"
    scored = [
        event.step for event in read_journal(out / "journal.jsonl") if isinstance(event, Scored)
    ]
    assert scored == [13, 26, 30]


def test_who_says_when_to_score_gets_no_other_scores(
    corpus: Path, command: Command, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    asked = {"training.steps": 30, "run.checkpoint_steps": 20}
    assert command(*training(corpus, out, **OPEN | asked)).code == 0
    scored = [
        event.step for event in read_journal(out / "journal.jsonl") if isinstance(event, Scored)
    ]
    assert scored == [20, 30]
