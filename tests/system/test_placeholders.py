"""Training with placeholders, through the public function and the command."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import transduce
from tests.command import Command
from tests.system.small_runs import changes, short_pairs, stopped_run
from transduce import Options
from transduce.data.corpus import Pair
from transduce.export.ctranslate2 import is_installed

KEPT = ["{name}", "5 km", "https://a.de/x?y=1", "🐶"]
WORDS = [first + second + second for first in "bd" for second in ("al", "er", "in")]


def settings(**more: object) -> list[str]:
    return [one.removeprefix("--set=") for one in changes(**more)]


def write(folder: Path, pairs: list[Pair]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, side in (("a.en", 0), ("a.de", 1)):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def with_placeholders(pairs: Iterable[Pair]) -> list[Pair]:
    """Put a placeholder before the end of one in three pairs."""
    return [
        Pair(*(f"{text[:-1]} {KEPT[place % len(KEPT)]}{text[-1]}" for text in pair))
        if place % 3 == 0
        else pair
        for place, pair in enumerate(pairs)
    ]


def test_a_run_with_placeholders_noise_and_hints_resumes_to_the_same_bits(tmp_path: Path) -> None:
    corpus = write(tmp_path / "corpus", with_placeholders(short_pairs(300, seed=4)))
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    more: dict[str, Any] = {
        "data__placeholders": 0.4,
        "data__augment": "true",
        "data__terms": 0.3,
    }
    src, tgt = corpus / "a.en", corpus / "a.de"
    transduce.train(src=src, tgt=tgt, out=whole, settings=settings(**more))
    stopped_run(corpus, parts, after=13, **more)
    transduce.train(src=src, tgt=tgt, out=parts, settings=settings(**more))
    weights = {(folder / "model.safetensors").read_bytes() for folder in (whole, parts)}
    assert len(weights) == 1
    assert "placeholders: 0.4" in (whole / "config.yaml").read_text(encoding="utf-8")


def sentences(count: int, seed: int) -> list[Pair]:
    """Generate pairs whose words are translated one by one, in order."""
    draws = np.random.default_rng(seed)
    sources = [draws.choice(WORDS, size=draws.integers(2, 4), replace=False) for _ in range(count)]
    return [Pair(" ".join(words), " ".join(f"x{word}" for word in words)) for words in sources]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train for some seconds on text that has no placeholders at all."""
    folder = write(tmp_path_factory.mktemp("planted"), sentences(400, seed=1))
    chosen = settings(
        model__d_model=32,
        model__d_ff=128,
        model__h=4,
        model__p_drop=0,
        training__eps_ls=0,
        training__steps=300,
        run__checkpoint_steps=300,
        run__score_sentences=0,
        data__placeholders=0.6,
        data__clean="false",
    )
    src, tgt = folder / "a.en", folder / "a.de"
    transduce.train(src=src, tgt=tgt, out=folder / "run", settings=chosen)
    return folder / "run"


def test_a_model_learns_to_put_them_in_their_places(model: Path, command: Command) -> None:
    draws = np.random.default_rng(3)
    sources, wanted = [], []
    for pair in sentences(40, seed=2):
        words, count = pair.src.split(), 1 + draws.integers(2)
        for place, value in zip(draws.permutation(len(words))[:count], KEPT, strict=False):
            words[place] = value
        sources.append(" ".join(words))
        wanted.append(" ".join(f"x{word}" if word in WORDS else word for word in words))
    translator = transduce.load(model, "cpu", engine="torch")
    found = translator.translate(sources)
    for source, one in zip(sources, found, strict=True):
        assert [one.text.count(value) for value in KEPT] == [source.count(value) for value in KEPT]
    exact = [one.text == text for one, text in zip(found, wanted, strict=True)]
    assert sum(exact) > 0.8 * len(exact)
    alone = [translator.translate([source])[0].text for source in sources[:8]]
    assert alone == [one.text for one in found[:8]]
    given = "".join(f"{source}\n" for source in sources).encode()
    for engine in ("torch", "ctranslate2")[: 1 + is_installed()]:
        arguments = ("translate", str(model), "--device", "cpu", "--engine", engine)
        assert command(*arguments, given=given).out == "".join(f"{one.text}\n" for one in found)


def test_a_translation_scores_as_it_was_found(model: Path, tmp_path: Path) -> None:
    texts = ["baal {name} deerer", "5 km dalal"]
    found = transduce.load(model, "cpu").translate(texts, Options(alpha=0))
    write(tmp_path, [Pair(one.source, one.text) for one in found])
    scores = transduce.score(model, tmp_path / "a.en", tmp_path / "a.de", device="cpu")
    assert [one.total for one in scores] == pytest.approx([one.score for one in found], abs=1e-4)


def test_alignment_and_attention_show_them(model: Path, command: Command, tmp_path: Path) -> None:
    text = "balal 5 km derer"
    aligned = command("attention", str(model), text, "--align", "--device", "cpu").out
    assert aligned.startswith("balal 5 km derer ||| ")
    page = tmp_path / "page.html"
    given = ("--translation", "xbalal 5 km xderer", "--out", str(page), "--device", "cpu")
    assert command("attention", str(model), text, *given).code == 0
    assert "placeholder 0" not in page.read_text(encoding="utf-8")


def test_what_cannot_have_placeholders_is_refused_in_one_line(
    tmp_path: Path, command: Command, model: Path
) -> None:
    corpus = write(tmp_path, sentences(60, seed=1))
    texts = [str(corpus / name) for name in ("a.en", "a.de")]
    for more in (
        ("--src", texts[0], "--tgt", texts[1], "--set", "data.subword_dropout=0.1"),
        ("--text", texts[0], "--text", texts[1]),
    ):
        given = ("train", *more, "--init", str(model), "--out", str(tmp_path / "out"))
        result = command(*given, "--set", "run.device=cpu", "--set", "training.batch_tokens=300")
        assert result.code == 2
        last = result.err.splitlines()[-1]
        assert last.startswith("transduce: ")
        assert "has entries for placeholders" in last
