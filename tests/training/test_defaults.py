"""Settings that are not given follow from the corpus; given ones are kept."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.recurrent import RecurrentConfig
from transduce.config import kinds
from transduce.config.presets import preset_named
from transduce.config.schema import Config, Tree, merge
from transduce.data.store import Sentences, Store
from transduce.errors import ConfigError
from transduce.training.run.defaults import automatic_lines, automatic_model, automatic_training

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


def settled(pairs: int, given: Tree, *, on_gpu: bool, length: int = 20) -> Config:
    """Lay given settings over the automatic ones, as a run does."""
    automatic = automatic_training(store_of(pairs, length, length), given, on_gpu=on_gpu)
    shape = automatic_model(given, pairs, on_gpu=on_gpu)
    return Config.from_tree(merge(merge(automatic, shape), given))


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
def test_the_size_of_the_corpus_chooses_the_preset(pairs: int, on_gpu: bool, preset: str) -> None:
    found = settled(pairs, {}, on_gpu=on_gpu).model
    assert found.model_copy(update={"p_drop": 0.1}) == preset_named(preset).model


@pytest.fixture
def recurrent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another kind of model, which has no default preset."""
    monkeypatch.setitem(kinds._OWN, "recurrent", "tests.models.recurrent")
    kinds.find_kind.cache_clear()
    yield
    kinds.find_kind.cache_clear()


@pytest.mark.usefixtures("recurrent")
@pytest.mark.parametrize(("pairs", "p_drop"), [(10, 0.3), (200_000, 0.2), (5_000_000, 0.1)])
def test_a_kind_without_a_default_preset_has_its_own_defaults(pairs: int, p_drop: float) -> None:
    found = settled(pairs, {"model": {"kind": "recurrent"}}, on_gpu=True).model
    assert found == RecurrentConfig(p_drop=p_drop)
    given_too = {"model": {"kind": "recurrent", "d_recurrent": 7, "p_drop": 0.5}}
    assert settled(pairs, given_too, on_gpu=True).model == RecurrentConfig(
        d_recurrent=7, p_drop=0.5
    )


@pytest.mark.parametrize("model", [None, 3, {"kind": None}, {"kind": 7}])
def test_a_kind_that_makes_no_sense_is_reported_with_the_other_settings(model: object) -> None:
    shape = automatic_model({"model": model}, 1, on_gpu=False)
    assert Config.from_tree(shape).model.kind == "transformer"
    with pytest.raises(ConfigError, match="model"):
        Config.from_tree(merge(shape, {"model": model}))


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(ConfigError, match="no kind of model named 'transfromer'"):
        automatic_model({"model": {"kind": "transfromer"}}, 1, on_gpu=False)


@given(pairs=corpora, more=corpora, on_gpu=st.booleans())
def test_more_text_needs_no_more_dropout_and_no_smaller_a_model(
    pairs: int, more: int, on_gpu: bool
) -> None:
    few, many = (settled(count, {}, on_gpu=on_gpu).model for count in (pairs, pairs + more))
    assert few.p_drop >= many.p_drop >= 0.1
    assert few.d_model <= many.d_model
    assert few.vocab_size <= many.vocab_size


@given(pairs=corpora, src=lengths, tgt=lengths, on_gpu=st.booleans())
def test_any_corpus_gives_settings_that_hold_together(
    pairs: int, src: int, tgt: int, on_gpu: bool
) -> None:
    tree = automatic_training(store_of(pairs, src, tgt), {}, on_gpu=on_gpu)
    config = Config.from_tree(merge(tree, automatic_model({}, pairs, on_gpu=on_gpu)))
    tokens = (max(src, tgt) + 1) * pairs  # with EOS
    training = config.training
    assert 512 <= training.batch_tokens <= (25_000 if on_gpu else 4_096)
    if training.batch_tokens > 512:
        assert tokens / training.batch_tokens >= 100, "an epoch has enough steps"
    assert 400 <= training.warmup_steps <= 4_000
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
def test_without_a_budget_the_run_trains_until_it_stops_improving(given_now: Tree) -> None:
    training = settled(10_000, given_now, on_gpu=False).training
    assert training.schedule == "paper"
    assert training.patience == 10


@pytest.mark.parametrize(("several", "lines"), [(0, "sentences"), (4, "sentences"), (20, "texts")])
def test_a_line_is_what_most_lines_are(several: int, lines: str) -> None:
    sources = ["A man walks."] * (100 - several) + ["A man walks. A dog runs."] * several
    assert automatic_lines(sources) == {"data": {"lines": lines}}
