"""A task of another package decides how a run writes, reads and scores text."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.command import Command
from tests.data.preparing import decoded, folders
from tests.search.scripted import ScriptedModel
from tests.tasks.toy import Backwards
from transduce.data.encoding.encoder import TargetForm
from transduce.data.store import Store, StoreSpec
from transduce.errors import ConfigError
from transduce.grammar import generate
from transduce.models.folder import load_model
from transduce.text.special_ids import EOS_ID
from transduce.text.tokenizer import Tokenizer
from transduce.training.dev import DevScorer
from transduce.training.loop import TrainingOutcome, train
from transduce.training.run.events import Event, Scored
from transduce.training.run.journal import read_journal

PAIRS = list(generate(200, seed=6))
SETTINGS: dict[str, dict[str, Any]] = {
    "data": {"task": "backwards", "clean": False},
    "model": {"vocab_size": 280, "n_layers": 1, "d_model": 16, "d_ff": 16, "h": 2},
    "training": {"batch_tokens": 400, "steps": 12, "learning_rate": 0.03, "warmup_steps": 2},
    "run": {"device": "cpu", "checkpoint_steps": 3, "choose_by": "metric", "score_sentences": 5},
}


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Encode in one process: to start more takes longer than the work."""
    monkeypatch.setattr(os, "cpu_count", lambda: 1)


def small_run(out: Path, **changes: Any) -> TrainingOutcome:
    """Train on text that is written beside the run's folder."""
    files = {"src": out.parent / "a.en", "tgt": out.parent / "a.de"}
    out.parent.mkdir(exist_ok=True)
    for side, path in enumerate(files.values()):
        path.write_text("".join(f"{pair[side]}\n" for pair in PAIRS), encoding="utf-8")
    arguments: dict[str, Any] = files | {"out": out, "settings": SETTINGS} | changes
    return train(**arguments)


def stores(out: Path) -> list[Store]:
    """The stores of a run, the larger one, of the training text, first."""
    found = [Store.open(path.parent) for path in (out / "data").glob("*/manifest")]
    return sorted(found, key=len, reverse=True)


@pytest.mark.usefixtures("installed_tasks")
def test_a_run_goes_by_the_task_from_text_to_card(tmp_path: Path, command: Command) -> None:
    told: list[Any] = []
    out = tmp_path / "runs" / "toy"
    small_run(out, progress=told.append)
    model = load_model(out)
    assert model.config.data.task == "backwards"
    encoded, dev = (decoded(store, model.tokenizer) for store in stores(out))
    assert {(src, tgt[::-1]) for src, tgt in [*encoded, *dev]} == set(map(tuple, PAIRS))

    events: list[Event] = read_journal(out / "journal.jsonl")
    scored = [event for event in events if isinstance(event, Scored)]
    assert {(event.metric, event.higher_is_better, event.best_by) for event in scored} == {
        ("wrong", False, "metric")
    }
    rates = [event.score for event in scored if event.score is not None]
    assert [event.best for event in scored] == [
        rate == min(rates[: n + 1]) and rate not in rates[:n] for n, rate in enumerate(rates)
    ]
    assert scored == [event for event in told if isinstance(event, Scored)]

    card = (out / "README.md").read_text(encoding="utf-8")
    assert "A model for backwards that turns" in card
    assert "by wrong: **" in card
    assert "(signature `toy|version:1`)" in card
    listed = command("runs", tmp_path / "runs")
    assert listed.code == 0
    assert "* best dev wrong; scores" in listed.out
    assert f"{min(rates):.2f}" in listed.out
    assert "BLEU" not in card + listed.out


def test_what_the_model_writes_is_read_by_the_task() -> None:
    task, pairs = Backwards(), PAIRS[:20]
    tokenizer = Tokenizer.learn((text for pair in pairs for text in pair), vocab_size=300)
    sources = tokenizer.encode_batch([pair.src for pair in pairs])
    written = tokenizer.encode_targets([task.to_target(pair.tgt) for pair in pairs])
    script = {(*src, EOS_ID): tgt for src, tgt in zip(sources, written, strict=True)}
    model = ScriptedModel(script, vocab_size=len(tokenizer))
    score = DevScorer(tokenizer, pairs, task=task, device="cpu", max_length=None, max_tokens=1000)(
        model
    )
    assert score is not None
    assert list(score.hypotheses) == [pair.tgt for pair in pairs]
    assert (score.metric.name, score.metric.score) == ("wrong", 0.0)


@pytest.mark.usefixtures("installed_tasks")
def test_a_run_resumes_with_its_task(tmp_path: Path) -> None:
    out, cache = tmp_path / "run", tmp_path / "cache"
    told: list[Any] = []

    def is_scored_twice() -> bool:
        return len([event for event in told if isinstance(event, Scored)]) == 2

    stopped = small_run(out, cache=cache, progress=told.append, should_stop=is_scored_twice)
    assert stopped.reason is None
    before = folders(cache)
    assert train(out=out, cache=cache).reason == "12 steps are made"
    assert folders(cache) == before, "the data is still that of the task"
    events = read_journal(out / "journal.jsonl")
    assert [event.step for event in events if isinstance(event, Scored)] == [3, 6, 9, 12]


def test_an_unknown_task_is_named_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no task named 'backwards'"):
        small_run(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_form_of_the_target_is_part_of_what_a_store_is_known_by(tmp_path: Path) -> None:
    plain = StoreSpec((), None)
    reversed_ = StoreSpec((), None, target_form=TargetForm("backwards", Backwards().to_target))
    assert "target_form" not in plain.identity(tmp_path), "older stores keep their names"
    assert reversed_.identity(tmp_path) == plain.identity(tmp_path) | {"target_form": "backwards"}
