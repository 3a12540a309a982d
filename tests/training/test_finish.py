"""Which weights a run ends with."""

import re
from pathlib import Path

import pytest
from torch import Tensor

from tests.system.small_runs import short_pairs
from transduce.config.schema import Config
from transduce.models.base import Seq2Seq
from transduce.models.folder import load_model
from transduce.tasks.base import MetricScore
from transduce.tasks.translation import TranslationTask
from transduce.training.dev import Evaluate
from transduce.training.loop import train
from transduce.training.progress import ProgressCallback, Translated
from transduce.training.run.events import Event, Finished, Scored, Warned
from transduce.training.run.finish import sentences_at_end
from transduce.training.run.journal import read_journal


def narrowness(weights: Tensor) -> float:
    norm: float = weights.double().norm().item()
    return round(1000 / norm, 2)


def scored_by_narrowness(monkeypatch: pytest.MonkeyPatch, *, higher_is_better: bool) -> None:
    """Score by something other than the loss: a number that falls as the embedding grows."""

    def make_evaluate(*_: object, sentences: int, **__: object) -> Evaluate:
        def evaluate(model: Seq2Seq) -> MetricScore | None:
            if sentences == 0:
                return None
            score = narrowness(model.projection)
            return MetricScore("narrowness", score, "a stand-in", higher_is_better)

        return evaluate

    monkeypatch.setattr("transduce.training.run.setup.make_evaluate", make_evaluate)


def small_run(
    folder: Path, progress: ProgressCallback = lambda _event: None, **run: object
) -> tuple[Path, str]:
    """Train a small model; return its folder and its card."""
    for side, name in enumerate(("a.en", "a.de")):
        text = "".join(f"{pair[side]}\n" for pair in short_pairs(200, seed=4))
        (folder / name).write_text(text, encoding="utf-8")
    shape = {"vocab_size": 280, "n_layers": 1, "d_model": 16, "d_ff": 16, "h": 2}
    shape |= {"max_positions": 32}
    training = {"batch_tokens": 400, "steps": 12, "learning_rate": 0.03, "warmup_steps": 2}
    out = folder / "run"
    train(
        src=folder / "a.en",
        tgt=folder / "a.de",
        out=out,
        settings={
            "model": shape,
            "training": training,
            "run": {"device": "cpu", "checkpoint_steps": 3, "average": 3} | run,
        },
        progress=progress,
    )
    return out, (out / "README.md").read_text(encoding="utf-8")


def table(card: str, *, metric: bool) -> list[tuple[str, ...]]:
    column = r" (\d+\.\d+) \|" if metric else ""
    found = re.findall(rf"^\| (\w+)[^|]*\| (\d+\.\d+) \| [\d.]+ \|{column}$", card, re.MULTILINE)
    assert [row[0] for row in found][:2] == ["average", "best"]
    scores = [row[-1] for row in found]
    assert len(set(scores)) == len(scores), "else there is nothing to choose"
    return found


def test_the_loss_decides_where_the_settings_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored_by_narrowness(monkeypatch, higher_is_better=True)
    out, card = small_run(tmp_path, choose_by="loss")
    [name, _] = min(table(card, metric=False), key=lambda row: float(row[1]))
    assert f"by the loss: **{name} " in card
    chosen = narrowness(load_model(out).model.projection)
    assert f"narrowness **{chosen:.2f}** on the whole development set" in card
    assert "signature `a stand-in`" in card


@pytest.mark.exhaustive(after=1)
@pytest.mark.parametrize(
    ("word", "higher_is_better"),
    [(None, True), ("metric", True), ("bleu", False)],  # the last word is that of version 0.1
)
def test_the_metric_decides_unless_the_settings_say_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str | None, higher_is_better: bool
) -> None:
    scored_by_narrowness(monkeypatch, higher_is_better=higher_is_better)
    out, card = small_run(tmp_path, choose_by=word) if word else small_run(tmp_path)
    assert "| perplexity | narrowness |" in card
    rows = table(card, metric=True)
    best = (max if higher_is_better else min)(rows, key=lambda row: float(row[2]))
    assert f"by narrowness: **{best[0]} " in card
    assert narrowness(load_model(out).model.projection) == float(best[2])
    assert f"narrowness **{best[2]}** on the whole development set" in card
    if higher_is_better:
        assert best != min(rows, key=lambda row: float(row[1])), "the loss would choose another"
    [end] = [e for e in read_journal(out / "journal.jsonl") if isinstance(e, Finished)]
    assert end.loss is not None
    assert (f"{end.loss:.4f}", f"{end.score:.2f}") == (best[1], best[2])
    assert (end.metric, end.signature) == ("narrowness", "a stand-in")
    assert end.higher_is_better == higher_is_better
    scored = [event for event in read_journal(out / "journal.jsonl") if isinstance(event, Scored)]
    scores = [event.score for event in scored if event.score is not None]
    expected = (max if higher_is_better else min)(scores)
    assert [event.score for event in scored if event.best][-1] == expected
    step = scored[scores.index(expected)].step
    assert f"| best checkpoint (step {step}) |" in card


def test_a_run_that_translates_only_at_its_end_chooses_by_the_metric_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored_by_narrowness(monkeypatch, higher_is_better=True)
    out, card = small_run(tmp_path, choose_by="metric", score_sentences=0)
    events: list[Event] = read_journal(out / "journal.jsonl")
    assert len([event for event in events if isinstance(event, Warned)]) == 1
    scored = [event for event in events if isinstance(event, Scored)]
    assert {(event.metric, event.best_by) for event in scored} == {(None, "loss")}
    best = max(table(card, metric=True), key=lambda row: float(row[2]))
    assert f"by narrowness: **{best[0]} " in card
    lowest = min(scored, key=lambda event: event.loss)
    assert f"| best checkpoint (step {lowest.step}) |" in card


@pytest.mark.exhaustive(after=1)
@pytest.mark.parametrize("usable", [True, False])
def test_a_model_that_cannot_be_used_is_told_with_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, usable: bool
) -> None:
    monkeypatch.setattr(TranslationTask, "hardly_usable", -1.0 if usable else 5.0)
    out, _ = small_run(tmp_path)
    warnings = [
        event.message for event in read_journal(out / "journal.jsonl") if isinstance(event, Warned)
    ]
    assert (
        any("can hardly be used; more training helps most" in text for text in warnings) != usable
    )


def test_of_a_huge_development_set_a_part_is_translated_and_the_card_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transduce.training.run.finish.MAX_TRANSLATED", 3)
    translated = []

    def progress(event: object) -> None:
        if isinstance(event, Translated):
            translated.append(len(event.pairs))

    _, card = small_run(tmp_path, progress=progress)
    assert translated[-1] == 3
    assert "on 3 pairs of the development set" in card


def test_the_end_of_a_short_budget_is_short_too() -> None:
    short = {"training": {"minutes": 4}, "run": {"score_sentences": 100}}
    assert sentences_at_end(Config.from_tree(short), 2_000) == 400
    assert sentences_at_end(Config.from_tree(short), 300) == 300
    assert sentences_at_end(Config(), 2_000) == 2_000
    assert sentences_at_end(Config(), 10**6) == 5_000
