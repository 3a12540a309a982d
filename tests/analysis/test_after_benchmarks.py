"""What benchmarks of mixers by length, of search by kind and of paragraphs compute is right."""

import argparse
import json
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from transduce.analysis.cost import cost_of
from transduce.config.presets import preset_named
from transduce.data.corpus import Pair
from transduce.models.transformer.settings import TransformerConfig

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.fixture
def costs() -> Any:
    """Return costs of the form c · n^a: 2e-6 · n² and 1e-3 · n seconds, which cross at n = 500."""
    from length_costs import Costs, Point

    def points() -> Iterator[Point]:
        for n in (256, 512, 1024, 2048):
            yield Point("attention", n, 2e-6 * n**2, 100 * n, 3)
            yield Point("window", n, 1e-3 * n, 300 * n, 3)

    on = {"device": "CPU", "precision": "float32"}
    return Costs(on, tuple(points()), ())


def test_exponents_and_crossings_are_those_of_the_costs(costs: Any) -> None:
    from length_costs import cheaper_from, expected, exponent, memory, seconds

    assert exponent(costs, "attention", seconds, least=512) == pytest.approx(2)
    assert exponent(costs, "window", seconds, least=512) == pytest.approx(1)
    assert exponent(costs, "window", seconds, least=2048) is None
    assert cheaper_from(costs, "window", "attention", seconds) == 512
    assert cheaper_from(costs, "attention", "window", seconds) is None  # only where it is short
    assert cheaper_from(costs, "window", "attention", memory) is None
    known = [*costs.of("attention").values()]
    assert 2e-6 * 4096**2 <= expected(known, 4096, seconds) <= 3e-6 * 4096**2
    assert expected([], 4096, seconds) == 0


def test_the_table_has_what_was_measured_and_what_was_left_out(costs: Any, tmp_path: Path) -> None:
    from dataclasses import replace

    from length_costs import LeftOut, markdown, read_json, write_json

    less = replace(costs, points=costs.points[:-1], left_out=(LeftOut("window", 2048, "slow"),))
    write_json(less, tmp_path / "a.json")
    assert read_json(tmp_path / "a.json") == less
    text = markdown(less, least=256, full=["attention"])
    assert "| attention | 131 | 524 | 2,097 | 8,389 | 2.00 | – |" in text
    assert "| window | 256 | 512 | 1,024 | – | 1.00 | 512 |" in text
    assert "- window at n = 1,024: 0.488 of the time, 3.000 of the memory" in text
    assert "- Left out: window from n = 2,048: slow" in text


def given(**changes: Any) -> argparse.Namespace:
    values = {"d_model": 64, "layers": 2, "device": torch.device("cpu"), "compile": False}
    return argparse.Namespace(**(values | changes))


def test_all_ways_of_attending_to_all_compute_the_same() -> None:
    from mixers_by_length import EQ_1, encoder

    x = torch.randn(3, 40, 64, generator=torch.Generator().manual_seed(1))
    outputs = [encoder(way, 40, 3, given()).eval()(x) for way in ("attention", EQ_1)]
    packed = encoder("attention, packed", 40, 3, given()).eval()(x.view(1, 120, 64))
    assert_close(outputs[0], outputs[1], rtol=0, atol=1e-5)
    assert_close(outputs[0], packed.view_as(x), rtol=0, atol=1e-5)


def test_mixers_are_measured_from_the_command_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "--d-model 64 --layers 1 --n 32 64 --fit-from 32 --ways attention s4 --out"
    script = str(BENCHMARKS / "mixers_by_length.py")
    monkeypatch.setattr(sys, "argv", [script, *words.split(), str(tmp_path)])
    runpy.run_path(script, run_name="__main__")
    found = json.loads((tmp_path / "mixers_by_length.json").read_text())
    assert [(one["way"], one["n"]) for one in found["points"]] == [
        ("attention", 32),
        ("s4", 32),
        ("attention", 64),
        ("s4", 64),
    ]
    for one in found["points"]:
        assert one["seconds"] > 0
        assert one["peak_bytes"] > 2 * 4 * 64 * one["n"]  # the output and the input's gradient
    assert (tmp_path / "mixers_by_length.md").read_text() in capsys.readouterr().out
    assert (tmp_path / "mixers_by_length.png").stat().st_size > 10_000


def test_every_kind_of_search_has_settings_and_its_state_is_counted() -> None:
    from search_by_kind import kinds, never_ending, state_bytes

    shape = preset_named("tiny").model
    assert isinstance(shape, TransformerConfig)
    for name, (preset, changes) in kinds(shape).items():
        config = preset_named(preset or "tiny").with_changes({"model": changes}).model
        if name in ("attention", "kv_heads 1", "performer", "s4", "mamba"):
            config = config.model_copy(update={"vocab_size": 50, "n_layers": 1})
            cache = cost_of(config, length=8).cache
            counted = state_bytes(never_ending(config).eval(), given(tokens=12))
            assert counted == 12 * cache.per_tgt_token + cache.per_hypothesis, name


def test_paragraphs_have_all_sentences_in_order_and_keep_their_limits() -> None:
    from paragraphs import paragraphs

    pairs = [Pair(f"a{n} b", f"x{n}") for n in range(7)] + [Pair("c " * 9, "z"), Pair(" ", "w")]
    found = [*paragraphs(pairs, words=6, sentences=2)]
    assert [pair.tgt for pair in found] == ["x0 x1", "x2 x3", "x4 x5", "x6", "z"]
    assert [len(pair.src.split()) for pair in found] == [4, 4, 4, 2, 9]
    assert " ".join(pair.src for pair in found).split()[:3] == ["a0", "b", "a1"]
    assert len([*paragraphs(pairs, words=100, sentences=100)]) == 1
