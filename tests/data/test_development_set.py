"""No sentence that a run is scored on is trained on."""

import random
import tempfile
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.preparing import (
    PAIRS,
    decoded,
    folders,
    found_corpora,
    pairs_of_dev,
    prepared,
    sentences,
    two_files,
    write_json,
    write_tsv,
)
from transduce.config.schema import DataConfig
from transduce.data.corpus import Pair
from transduce.grammar import generate


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> DataConfig:
    return DataConfig(**two_files(tmp_path_factory.mktemp("corpus"), PAIRS))


def crossed() -> list[Pair]:
    """Pairs in which each sentence occurs often, with other translations and spellings."""
    dice = random.Random(2)  # noqa: S311 - a test repeats itself
    sources = [f"Das Café Nummer {n} ist schön." for n in range(60)]
    targets = [f"Café number {n} is beautiful." for n in range(60)]
    spellings: list[Callable[[str], str]] = [
        str,
        lambda text: unicodedata.normalize("NFD", text),
        lambda text: f" {text} ",
    ]
    pairs = [
        Pair(dice.choice(spellings)(dice.choice(sources)), dice.choice(spellings)(target))
        for target in targets * 8
    ]
    odd = ["", " ", "12", "\ufeffBOM", "two\nlines", "end\r", "\u2028", "<unk>", "< pad >", "\x00"]
    return [*pairs, *(Pair(one, other) for one in odd for other in odd)]


@pytest.mark.parametrize("clean_it", [True, False])
@pytest.mark.parametrize("seed", [1, 2])
def test_no_sentence_of_the_development_set_is_trained_on(
    clean_it: bool, seed: int, tmp_path: Path
) -> None:
    src = write_json(tmp_path / "a.jsonl", crossed())
    config = DataConfig(src=(src,), fields="from, to", clean=clean_it)
    found = prepared(config, tmp_path / "cache", seed=seed)
    trained_on = decoded(found.train, found.tokenizer)
    assert len(found.dev_pairs) > 1
    assert len(trained_on) > 20
    assert sentences(found.dev_pairs).isdisjoint(sentences(trained_on))
    breaks = str.maketrans("\r\n", "  ")
    in_one_line = {Pair(*(text.translate(breaks) for text in pair)) for pair in crossed()}
    assert set(found.dev_pairs) <= in_one_line


def test_the_seed_chooses_the_development_set(corpus: DataConfig, tmp_path: Path) -> None:
    def chosen(cache: str, seed: int) -> list[Pair]:
        return pairs_of_dev(found_corpora(corpus, tmp_path / cache, seed=seed))

    drawn = [set(chosen("a", seed)) for seed in range(6)]
    assert chosen("b", 3) == chosen("a", 3)
    assert all(len(dev) == 21 for dev in drawn)
    assert all(len(one & other) < 10 for one in drawn for other in drawn if one is not other)
    assert len(set().union(*drawn)) > 80, "from everywhere in the corpus"


@settings(max_examples=25)
@given(
    numbers=st.lists(st.integers(0, 99), min_size=1, max_size=120),
    dev_pairs=st.integers(1, 10),
    seed=st.integers(0, 2**63 - 1),
)
def test_at_most_a_twentieth_is_held_out(numbers: list[int], dev_pairs: int, seed: int) -> None:
    pairs = [Pair(f"Number {n} is here.", f"Nummer {n} ist hier.") for n in numbers]
    with tempfile.TemporaryDirectory() as name:
        config = DataConfig(**two_files(Path(name), pairs), dev_pairs=dev_pairs)
        corpora = found_corpora(config, Path(name) / "cache", seed=seed)
        dev = pairs_of_dev(corpora)
    assert corpora.pairs == len(pairs)
    assert 1 <= len(dev) <= max(1, min(dev_pairs, len(pairs) // 20))
    assert len(set(dev)) == len(dev)
    assert set(dev) <= set(pairs)


def test_held_out_texts_are_never_trained_on(tmp_path: Path) -> None:
    pairs = list(generate(300, seed=9))
    dev, plain, as_tsv, as_json = (pairs[start : start + 10] for start in (0, 50, 100, 150))
    (tmp_path / "test.de").write_text("".join(f"{pair.tgt}\n" for pair in plain), encoding="utf-8")
    held_out = (
        str(tmp_path / "test.de"),
        write_tsv(tmp_path / "test.TSV", as_tsv),
        write_json(tmp_path / "test.jsonl", as_json),
    )
    config = DataConfig(
        **two_files(tmp_path, pairs),
        dev_src=(write_tsv(tmp_path / "dev.tsv", dev),),
        held_out=held_out,
        fields="from,to",
    )
    found = prepared(config, tmp_path / "cache")
    taken = {*dev, *plain, *as_tsv, *as_json}
    assert found.dev_pairs == dev
    assert decoded(found.dev, found.tokenizer) == dev
    assert decoded(found.train, found.tokenizer) == [pair for pair in pairs if pair not in taken]


@pytest.mark.parametrize("kind", ["two files", "tsv", "jsonl"])
def test_a_given_development_set_is_used_unchanged(
    kind: str, corpus: DataConfig, tmp_path: Path
) -> None:
    dev = [Pair("Yes.", "Ja."), Pair("", "Nichts."), Pair("Yes.", "Ja.")]
    names = {
        "two files": two_files(tmp_path, dev, "dev")["src"][0],
        "tsv": write_tsv(tmp_path / "dev.tsv", dev),
        "jsonl": write_json(tmp_path / "dev.jsonl", dev),
    }
    fields = "from,to" if kind == "jsonl" else "src,tgt"
    changes: dict[str, Any] = {"dev_src": (names[kind],), "fields": fields}
    if kind == "two files":
        changes["dev_tgt"] = (str(tmp_path / "dev.de"),)
    corpora = found_corpora(corpus.model_copy(update=changes), tmp_path / "cache")
    assert pairs_of_dev(corpora) == dev
    assert set(corpora.dev) <= set(corpora.held_out)
    assert not folders(tmp_path / "cache"), "nothing was made"


def test_several_development_files_are_one_set_and_none_is_trained_on(tmp_path: Path) -> None:
    pairs = list(generate(200, seed=9))
    first, second = pairs[:10], pairs[50:70]
    files = [two_files(tmp_path, dev, name) for name, dev in {"a": first, "b": second}.items()]
    config = DataConfig(
        **two_files(tmp_path, pairs),
        dev_src=tuple(file["src"][0] for file in files),
        dev_tgt=tuple(file["tgt"][0] for file in files),
    )
    found = prepared(config, tmp_path / "cache")
    assert found.dev_pairs == [*first, *second]
    assert decoded(found.dev, found.tokenizer) == found.dev_pairs
    assert sentences(found.dev_pairs).isdisjoint(sentences(decoded(found.train, found.tokenizer)))
    assert {*config.dev_src, *config.dev_tgt} < found.digests.keys()
    assert found.some_dev_pairs(3) == [first[0], second[0], second[10]], "of 30, every tenth"
    assert found.some_dev_pairs(99) == found.some_dev_pairs(30) == found.dev_pairs
    assert found.some_dev_pairs(0) == []
