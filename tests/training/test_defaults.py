"""Settings that are not given follow from the corpus; given ones are kept."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.recurrent import RecurrentConfig
from transduce.config import kinds
from transduce.config.presets import preset_named
from transduce.config.schema import Config, Tree, merge
from transduce.config.sections.training import NO_LIMIT
from transduce.data.store import Sentences, Store
from transduce.errors import ConfigError
from transduce.training.plan.defaults import (
    COMPILING_S,
    ENOUGH_STEPS,
    Conditions,
    automatic_lines,
    choose_model,
    fit_training,
)

corpora = st.integers(1, 10**9)
lengths = st.integers(1, 100)


def store_of(pairs: int, src_tokens: int, tgt_tokens: int) -> Store:
    """A store of any size that takes no memory: only its sizes are asked for."""
    ends = np.broadcast_to(np.int64(0), (pairs,))
    src, tgt = (
        Sentences(np.broadcast_to(np.uint16(9), (pairs * tokens,)), ends)
        for tokens in (src_tokens, tgt_tokens)
    )
    return Store(src, tgt, {})


def speed_of(config: Config, _batch_tokens: int) -> float:
    """A machine whose speed falls with the weights of the layers, as all do."""
    return 4e9 / (config.model.d_model**2 * 12)


def at(on_gpu: bool, *, times: float = 1.0) -> Conditions:
    """A machine that is so many times as fast."""
    return Conditions(on_gpu=on_gpu, speed_of=lambda config, batch: times * speed_of(config, batch))


def settled(
    pairs: int, given: Tree, *, on_gpu: bool, length: int = 20, times: float = 1.0
) -> Config:
    """Lay given settings over the automatic ones, as a run does."""
    machine = at(on_gpu, times=times)
    shape = choose_model(given, pairs, machine).settings
    config = Config.from_tree(merge(shape, given))
    train, dev = store_of(pairs, length, length), store_of(min(pairs, 2000), length, length)
    fitted = fit_training(train, dev, config, given, machine).settings
    return Config.from_tree(merge(merge(shape, fitted), given))


@pytest.mark.parametrize(
    ("pairs", "on_gpu", "preset"),
    [
        (1, False, "tiny"),
        (4_999, True, "tiny"),
        (5_000, False, "small"),
        (5_000, True, "small"),
        (299_999, True, "small"),
        (300_000, True, "base"),
        (300_000, False, "small"),
        (36_000_000, True, "base"),
        (36_000_000, False, "small"),
    ],
)
def test_without_a_budget_the_corpus_chooses_the_preset(
    pairs: int, on_gpu: bool, preset: str
) -> None:
    found = settled(pairs, {}, on_gpu=on_gpu).model
    expected = preset_named(preset).model
    chosen = {"p_drop": expected.p_drop, "vocab_size": expected.vocab_size}
    assert found.model_copy(update=chosen) == expected


@given(
    pairs=corpora,
    minutes=st.floats(0.1, 10_000),
    times=st.floats(0.01, 1_000),
    on_gpu=st.booleans(),
)
def test_a_larger_model_is_taken_only_if_the_budget_gives_it_enough_steps(
    pairs: int, minutes: float, times: float, on_gpu: bool
) -> None:
    given_now: Tree = {"training": {"minutes": minutes}}
    found = settled(pairs, given_now, on_gpu=on_gpu, times=times)
    faster = settled(pairs, given_now, on_gpu=on_gpu, times=2 * times)
    longer = settled(pairs, {"training": {"minutes": 2 * minutes}}, on_gpu=on_gpu, times=times)
    assert found.model.d_model <= min(faster.model.d_model, longer.model.d_model)
    machine = at(on_gpu, times=times)
    seconds = machine.seconds_of_training(minutes)
    speed = machine.speed_of(found, machine.timed_batch)
    if found.model.d_model > preset_named("tiny").model.d_model:
        assert speed * seconds / (2 * machine.timed_batch) >= ENOUGH_STEPS
    steps = speed / 2 * seconds / found.training.batch_tokens
    assert found.training.warmup_steps <= max(found.model.least_warmup(), steps / 12) + 1
    assert found.run.checkpoint_steps <= steps + 1, "it scores before the end"
    assert found.run.first_score_steps is not None
    assert found.run.first_score_steps <= max(1, 100 / (60 * minutes) * steps * 1.2)


def test_compiling_takes_its_part_of_a_budget() -> None:
    compiling = Conditions(on_gpu=True, speed_of=speed_of, compiles=True)
    slower = at(on_gpu=True).seconds_of_training(10) - compiling.seconds_of_training(10)
    assert slower == pytest.approx(0.95 * COMPILING_S)
    assert compiling.seconds_of_training(0.1) > 0


def notes(given_now: Tree, *, pairs: int = 10_000) -> str:
    """Return what a run on a CPU says about its length."""
    shape = choose_model({}, pairs, at(on_gpu=False))
    store = store_of(pairs, 20, 20)
    config = Config.from_tree(merge(shape.settings, given_now))
    return " ".join(fit_training(store, store, config, given_now, at(on_gpu=False)).notes)


def test_a_budget_too_small_to_learn_anything_is_warned_of() -> None:
    assert "too few to learn" in notes({"training": {"minutes": 0.5}})
    assert "too few to learn" not in notes({"training": {"minutes": 60}})


@pytest.mark.parametrize(
    ("training", "pairs", "said"),
    [
        ({"minutes": 10_000, "steps": 50}, 10_000, "of the 10,000 minutes for 50 steps"),
        ({"minutes": 10_000}, 60, "on this corpus, more would hardly help"),
        ({"patience": 3}, 10_000, "it ends when it stops improving"),
        ({}, 10_000, "time: about "),
    ],
)
def test_what_ends_the_run_decides_what_is_said(training: Tree, pairs: int, said: str) -> None:
    found = notes({"training": training}, pairs=pairs)
    assert said in found
    assert "too few" not in found


def test_what_a_preset_says_of_training_is_planned_with() -> None:
    store = store_of(20_000, 60, 2)
    plan = fit_training(store, store, preset_named("memory_network"), {}, at(on_gpu=False))
    assert plan.length is not None
    assert (plan.length.steps, plan.length.batch_tokens) == (1_500, 4_000)


def test_minutes_are_not_cut_short_by_the_papers_steps() -> None:
    month: Tree = {"training": {"minutes": 60 * 24 * 30}}
    training = settled(10**9, month, on_gpu=True).training
    assert training.steps == NO_LIMIT
    given_too: Tree = {"training": {"minutes": 60, "steps": 77}}
    assert settled(10**9, given_too, on_gpu=True).training.steps == 77


def test_a_given_schedule_is_the_one_that_is_fitted() -> None:
    asked: Tree = {"training": {"schedule": "paper", "steps": 5_000}}
    training = settled(30_000, asked, on_gpu=False).training
    assert (training.schedule, training.learning_rate) == ("paper", None)
    assert training.warmup_steps >= 400


def test_a_shape_that_nobody_asked_for_raises_no_complaint() -> None:
    asked: Tree = {"model": {"d_model": 100}, "training": {"minutes": 1e6}}
    found = choose_model(asked, 10**6, at(on_gpu=True)).settings
    assert Config.from_tree(merge(found, asked)).model.d_model == 100


def test_corpora_that_weigh_more_make_longer_epochs() -> None:
    store = replace(store_of(1_000, 20, 20), manifest={"source_ends": [900, 1_000]})

    def steps_an_epoch(weights: list[float]) -> int:
        asked: Tree = {"training": {"epochs": 100}, "data": {"weights": weights}}
        config = Config.from_tree(asked)
        [found] = fit_training(store, store, config, asked, at(on_gpu=False)).notes
        return int(found.split(" steps of")[0].split()[-1].replace(",", "")) // 100

    assert steps_an_epoch([]) == steps_an_epoch([1, 1]) == 21_000 // 512
    assert steps_an_epoch([1, 10]) == (21_000 * 19 // 10) // 512


@pytest.fixture
def recurrent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another kind of model, which has no default preset."""
    monkeypatch.setitem(kinds._OWN, "recurrent", "tests.models.recurrent")
    kinds.find_kind.cache_clear()
    yield
    kinds.find_kind.cache_clear()


@pytest.mark.usefixtures("recurrent")
@pytest.mark.parametrize(("pairs", "p_drop"), [(10, 0.3), (200_000, 0.2), (5_000_000, 0.1)])
def test_a_kind_without_default_presets_has_its_own_defaults(pairs: int, p_drop: float) -> None:
    found = settled(pairs, {"model": {"kind": "recurrent"}}, on_gpu=True).model
    assert found == RecurrentConfig(p_drop=p_drop, vocab_size=found.vocab_size)
    given_too = {"model": {"kind": "recurrent", "d_recurrent": 7, "p_drop": 0.5}}
    assert settled(pairs, given_too, on_gpu=True).model == RecurrentConfig(
        d_recurrent=7, p_drop=0.5, vocab_size=found.vocab_size
    )


@pytest.mark.parametrize("model", [None, 3, {"kind": None}, {"kind": 7}])
def test_a_kind_that_makes_no_sense_is_reported_with_the_other_settings(model: object) -> None:
    shape = choose_model({"model": model}, 1, at(on_gpu=False)).settings
    assert Config.from_tree(shape).model.kind == "transformer"
    with pytest.raises(ConfigError, match="model"):
        Config.from_tree(merge(shape, {"model": model}))


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(ConfigError, match="no kind of model named 'transfromer'"):
        choose_model({"model": {"kind": "transfromer"}}, 1, at(on_gpu=False))


@given(pairs=corpora, more=corpora, on_gpu=st.booleans())
def test_more_text_needs_no_more_dropout_and_no_smaller_a_model(
    pairs: int, more: int, on_gpu: bool
) -> None:
    few, many = (settled(count, {}, on_gpu=on_gpu).model for count in (pairs, pairs + more))
    assert few.p_drop >= many.p_drop
    assert few.d_model <= many.d_model
    assert few.vocab_size <= many.vocab_size


@given(pairs=corpora, src=lengths, tgt=lengths, on_gpu=st.booleans())
def test_any_corpus_gives_settings_that_hold_together(
    pairs: int, src: int, tgt: int, on_gpu: bool
) -> None:
    shape = choose_model({}, pairs, at(on_gpu)).settings
    train, dev = store_of(pairs, src, tgt), store_of(1, src, tgt)
    fitted = fit_training(train, dev, Config.from_tree(shape), {}, at(on_gpu)).settings
    config = Config.from_tree(merge(shape, fitted))
    tokens = (max(src, tgt) + 1) * pairs  # with EOS
    training = config.training
    assert 512 <= training.batch_tokens <= (25_000 if on_gpu else 4_096)
    if training.batch_tokens > 512:
        assert tokens / training.batch_tokens >= 100, "an epoch has enough steps"
    assert 1 <= training.warmup_steps <= 4_000
    assert 200 <= config.run.checkpoint_steps <= 2_000


@given(
    pairs=corpora,
    on_gpu=st.booleans(),
    chosen=st.fixed_dictionaries(
        {},
        optional={
            "model": st.fixed_dictionaries(
                {},
                optional={
                    "d_model": st.sampled_from([64, 96]),
                    "p_drop": st.floats(0, 0.9),
                    "vocab_size": st.integers(300, 500),
                },
            ),
            "training": st.fixed_dictionaries(
                {},
                optional={
                    "batch_tokens": st.integers(1, 10**6),
                    "warmup_steps": st.integers(1, 10**6),
                    "schedule": st.sampled_from(["paper", "linear"]),
                    "patience": st.integers(1, 100),
                    "steps": st.integers(1, 10**6),
                },
            ),
            "run": st.fixed_dictionaries({}, optional={"checkpoint_steps": st.integers(1, 999)}),
        },
    ),
)
def test_what_is_given_wins(pairs: int, on_gpu: bool, chosen: dict[str, dict[str, Any]]) -> None:
    found = settled(pairs, chosen, on_gpu=on_gpu).model_dump()
    for section, values in chosen.items():
        assert {name: found[section][name] for name in values} == values


@pytest.mark.parametrize("budget", ["steps", "epochs", "minutes"])
@pytest.mark.parametrize("on_gpu", [True, False])
def test_with_a_budget_the_rate_falls_to_0_at_its_end(budget: str, on_gpu: bool) -> None:
    training = settled(10_000, {"training": {budget: 7}}, on_gpu=on_gpu).training
    assert training.schedule == "linear"
    assert training.patience is None


@pytest.mark.parametrize("given_now", [{}, {"training": {}}, {"training": {"clip_norm": 1.0}}])
def test_without_a_budget_the_corpus_decides_how_many_epochs_help(given_now: Tree) -> None:
    few, many = (settled(pairs, given_now, on_gpu=False).training for pairs in (10_000, 10_000_000))
    assert few.schedule == many.schedule == "linear"
    assert few.epochs is not None
    assert many.epochs is not None
    assert few.epochs > many.epochs >= 20


def test_without_minutes_no_setting_depends_on_the_clock() -> None:
    slow, fast = (
        settled(50_000, {"training": {"steps": 9_000}}, on_gpu=False, times=times)
        for times in (0.01, 100)
    )
    assert slow == fast


def test_with_patience_alone_the_schedule_is_the_papers() -> None:
    training = settled(10_000, {"training": {"patience": 3}}, on_gpu=False).training
    assert (training.schedule, training.patience, training.epochs) == ("paper", 3, None)


def test_fine_tuning_without_a_budget_trains_until_it_stops_improving() -> None:
    given_now: Tree = {"run": {"init": "model"}, "training": {"learning_rate": 2e-4}}
    training = settled(10_000, given_now, on_gpu=False).training
    assert (training.schedule, training.patience) == ("paper", 10)


def test_the_metric_chooses_the_weights_unless_nothing_is_translated() -> None:
    assert settled(10_000, {}, on_gpu=False).run.choose_by == "metric"
    nothing: Tree = {"run": {"score_sentences": 0}}
    assert settled(10_000, nothing, on_gpu=False).run.choose_by == "loss"


@pytest.mark.parametrize(("several", "lines"), [(0, "sentences"), (4, "sentences"), (20, "texts")])
def test_a_line_is_what_most_lines_are(several: int, lines: str) -> None:
    sources = ["A man walks."] * (100 - several) + ["A man walks. A dog runs."] * several
    assert automatic_lines(sources) == {"data": {"lines": lines}}
