"""Everything is made once and found again, and errors come before any work."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import pytest

from tests.data.preparing import (
    PAIRS,
    PHASE,
    decoded,
    folders,
    found_corpora,
    prepared,
    two_files,
    write_tsv,
)
from transduce.config.schema import DataConfig
from transduce.data.cleaning import CleaningReport, clean
from transduce.data.corpus import Pair, count_pairs
from transduce.data.prepare import Prepared, prepare
from transduce.errors import ConfigError, InputError, TransduceError
from transduce.text.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> DataConfig:
    return DataConfig(**two_files(tmp_path_factory.mktemp("corpus"), PAIRS))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def made(corpus: DataConfig, cache: Path) -> Prepared:
    return prepared(corpus, cache)


def test_training_pairs_are_the_clean_ones_without_the_development_set(made: Prepared) -> None:
    held_out = [text for pair in made.dev_pairs for text in pair]
    expected = list(clean(PAIRS, CleaningReport(), held_out=held_out))
    assert decoded(made.train, made.tokenizer) == expected
    assert decoded(made.dev, made.tokenizer) == made.dev_pairs
    assert len(made.dev_pairs) == len(PAIRS) // 20
    assert len(expected) + len(made.dev_pairs) == 400


def test_pairs_are_counted_once_for_as_long_as_the_text_stays_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = DataConfig(
        **two_files(tmp_path, PAIRS),
        dev_src=(write_tsv(tmp_path / "dev.tsv", PAIRS[:9]),),
        held_out=(write_tsv(tmp_path / "test.txt", PAIRS[:9]),),
    )
    first = found_corpora(config, tmp_path / "cache")
    with monkeypatch.context() as patched:
        patched.delattr("transduce.data.prepare.count_pairs")
        assert found_corpora(config, tmp_path / "cache") == first
    two_files(tmp_path, PAIRS[:-1])
    assert found_corpora(config, tmp_path / "cache").pairs == len(PAIRS) - 1
    with (tmp_path / "test.txt").open("ab") as text:
        text.write(b"\xff\n")
    with pytest.raises(InputError, match="not UTF-8"):
        found_corpora(config, tmp_path / "cache")


@pytest.mark.parametrize("known", [False, True], ids=["first", "again"])
def test_a_pipe_is_refused_instead_of_read_twice(known: bool, tmp_path: Path) -> None:
    config = DataConfig(**two_files(tmp_path, PAIRS))
    if known:
        found_corpora(config, tmp_path / "cache")
    os.mkfifo(tmp_path / "pipe")
    pipe = (str(tmp_path / "pipe"),)
    for changes in ({"held_out": pipe}, {"dev_src": pipe, "dev_tgt": config.tgt}):
        with pytest.raises(InputError, match="pipe is not a regular file; a corpus is read more"):
            found_corpora(config.model_copy(update=changes), tmp_path / "cache")


def test_a_text_that_changes_while_it_is_counted_is_counted_again(tmp_path: Path) -> None:
    config = DataConfig(
        **two_files(tmp_path, PAIRS), dev_src=(write_tsv(tmp_path / "d.tsv", PAIRS[:9]),)
    )

    def count_and_then_change(source: Any) -> int:
        found = count_pairs(source)
        two_files(tmp_path, PAIRS[:50])
        return found

    with patch("transduce.data.prepare.count_pairs", count_and_then_change):
        found_corpora(config, tmp_path / "cache")
    assert found_corpora(config, tmp_path / "cache").pairs == 50


@pytest.mark.parametrize("known", [False, True], ids=["first", "again"])
def test_a_name_that_cannot_be_looked_up_cannot_be_read(known: bool, tmp_path: Path) -> None:
    config = DataConfig(**two_files(tmp_path, PAIRS))
    if known:
        found_corpora(config, tmp_path / "cache")
    for changes in ({"held_out": ("n" * 300,)}, {"src": ("n" * 300,)}):
        with pytest.raises(InputError, match=r"cannot read nnn.*File name too long"):
            found_corpora(config.model_copy(update=changes), tmp_path / "cache")


@pytest.mark.parametrize("damaged", ["", "[]", "{", '{"a": []}'])
def test_a_damaged_memory_of_counts_is_ignored(
    damaged: str, corpus: DataConfig, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    first = found_corpora(corpus, cache)
    (cache / "surveys.json").write_text(damaged, encoding="utf-8")
    assert found_corpora(corpus, cache) == first


def test_what_is_cached_is_not_made_again(
    made: Prepared, corpus: DataConfig, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = folders(cache)
    monkeypatch.delattr("transduce.data.store._build")
    monkeypatch.delattr(Tokenizer, "learn")
    again = prepared(corpus, cache)
    assert again.tokenizer_file == made.tokenizer_file
    assert again.digests == made.digests
    assert again.train.manifest == made.train.manifest
    assert folders(cache) == before


def test_the_same_text_under_other_names_is_found_in_the_cache(
    made: Prepared, cache: Path, tmp_path: Path
) -> None:
    before = folders(cache)
    again = prepared(DataConfig(**two_files(tmp_path, PAIRS, "moved")), cache)
    assert again.tokenizer_file == made.tokenizer_file
    assert set(again.digests.values()) == set(made.digests.values())
    assert folders(cache) == before


def test_a_changed_file_makes_everything_again(tmp_path: Path) -> None:
    config, cache = DataConfig(**two_files(tmp_path, PAIRS)), tmp_path / "cache"
    first = prepared(config, cache)
    before = folders(cache)
    two_files(tmp_path, [*PAIRS, Pair("One more.", "Noch einer.")])
    second = prepared(config, cache)
    assert second.train.manifest["read"] == first.train.manifest["read"] + 1
    assert second.train.manifest["identity"] != first.train.manifest["identity"]
    assert second.tokenizer_file != first.tokenizer_file
    assert before < folders(cache), "what was made before stays in the cache"


def quoted(pairs: list[Pair]) -> list[Pair]:
    return [Pair(f"‘{pair.src}’", f"„{pair.tgt}“") for pair in pairs]


def plainly_quoted(pairs: list[Pair]) -> list[Pair]:
    return [Pair(f"'{pair.src}'", f'"{pair.tgt}"') for pair in pairs]


def test_plain_punctuation_holds_for_all_training_text(tmp_path: Path) -> None:
    config = DataConfig(**two_files(tmp_path, quoted(PAIRS[:200])), punctuation="plain")
    plain = prepared(config, tmp_path / "cache")
    trained_on = decoded(plain.train, plain.tokenizer)
    assert trained_on
    assert set(trained_on) <= set(plainly_quoted(PAIRS[:200]))
    kept = prepared(config.model_copy(update={"punctuation": "auto"}), tmp_path / "cache")
    assert set(decoded(kept.train, kept.tokenizer)) <= set(quoted(PAIRS[:200]))


def test_with_plain_punctuation_typography_makes_no_difference_between_sentences(
    tmp_path: Path,
) -> None:
    held_out = tmp_path / "held_out"
    held_out.write_text("".join(f"'{pair.src}'\n" for pair in PAIRS[:50]), encoding="utf-8")
    pairs = [*quoted(PAIRS[:200]), *plainly_quoted(PAIRS[100:120])]
    config = DataConfig(**two_files(tmp_path, pairs), held_out=(str(held_out),))
    dropped = {
        name: prepared(config.model_copy(update={"punctuation": name}), tmp_path / "c").train
        for name in ("kept", "plain")
    }
    assert dropped["kept"].manifest["dropped"].get("duplicate", 0) == 0
    plain = dropped["plain"].manifest["dropped"]
    assert plain["in the held-out text"] >= 50
    assert plain["duplicate"] > 0


@pytest.mark.parametrize(("has", "given"), [("plain", "kept"), ("kept", "plain")])
def test_a_given_tokenizer_decides_on_punctuation(
    has: Literal["plain", "kept"], given: str, tmp_path: Path
) -> None:
    config = DataConfig(**two_files(tmp_path, quoted(PAIRS[:200])), punctuation=has)
    made = prepared(config, tmp_path / "cache")
    taken = {"tokenizer": str(made.tokenizer_file), "punctuation": "auto"}
    again = prepared(config.model_copy(update=taken), tmp_path / "cache")
    assert again.train.manifest == made.train.manifest
    with pytest.raises(ConfigError, match=f"={given}, but in .* it is {has}: leave the setting"):
        prepared(config.model_copy(update=taken | {"punctuation": given}), tmp_path / "cache")


def test_a_given_tokenizer_is_used(
    made: Prepared, corpus: DataConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine.json"
    mine.write_bytes(made.tokenizer_file.read_bytes())
    monkeypatch.delattr(Tokenizer, "learn")
    found = prepared(corpus.model_copy(update={"tokenizer": str(mine)}), tmp_path / "cache")
    assert found.tokenizer_file == mine
    assert found.train.src.ids.tolist() == made.train.src.ids.tolist()


PREPARE = """
import json, sys
from contextlib import nullcontext
from pathlib import Path
from transduce.config.schema import DataConfig
from transduce.text.tokenizer import Tokenizer
from transduce.data.prepare import find_corpora, prepare

learn, times = Tokenizer.learn, []

def counted(*arguments, **named):
    times.append(1)
    return learn(*arguments, **named)

if __name__ == "__main__":
    config = DataConfig(**json.loads(sys.argv[1]))
    cache = Path(sys.argv[2])
    Tokenizer.learn = counted
    phase = lambda _: nullcontext(lambda _done, _total: None)
    corpora = find_corpora(config, cache, seed=1, phase=phase)
    found = prepare(config, corpora, cache, vocab_size=300, processes=1, phase=phase)
    print(json.dumps([len(times), sorted(found.digests.values())]))
"""


def test_of_two_processes_one_works_and_the_other_waits(
    made: Prepared, corpus: DataConfig, cache: Path, tmp_path: Path
) -> None:
    (tmp_path / "prepare.py").write_text(PREPARE)
    settings = json.dumps({"src": corpus.src, "tgt": corpus.tgt})
    processes = [
        subprocess.Popen(
            [sys.executable, tmp_path / "prepare.py", settings, tmp_path / "cache"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    outputs, errors = zip(*(process.communicate() for process in processes), strict=True)
    assert errors == ("", "")
    times, digests = zip(*map(json.loads, outputs), strict=True)
    assert sorted(times) == [0, 1], "the subwords are learned once"
    assert digests == (sorted(made.digests.values()),) * 2
    assert folders(tmp_path / "cache") <= folders(cache)
    assert len(folders(tmp_path / "cache")) == 4  # two stores, the subwords, the development set


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"src": (), "tgt": ()}, "no training text: give --src and --tgt"),
        ({"src": ("nope.en",)}, "cannot read nope.en: No such file"),
        ({"tgt": ("nope.de",)}, "cannot read nope.de: No such file"),
        ({"tgt": ()}, "has no target text: give one, or a file with both sides"),
        ({"tgt": ("a", "b")}, "data.src names 1 file but data.tgt 2: give one target"),
        ({"weights": (1.0, 2.0)}, "data.weights has 2 numbers for 1 corpus"),
        ({"weights": (-1.0,)}, "none may be below 0"),
        ({"weights": (0.0,)}, "one must be above 0"),
        ({"weights": (float("nan"),)}, "none may be below 0 or infinite"),
        ({"weights": (float("inf"),)}, "none may be below 0 or infinite"),
        ({"dev_src": ("nope",)}, "has no target text"),
        ({"dev_src": ("nope",), "dev_tgt": ("nope",)}, "cannot read nope: No such file"),
        ({"dev_tgt": ("nope",)}, "data.dev_tgt is given without data.dev_src"),
        (
            {"dev_src": ("a", "b"), "dev_tgt": ("c",)},
            "data.dev_src names 2 files but data.dev_tgt 1: give one target",
        ),
        ({"held_out": ("nope",)}, "cannot read nope: No such file"),
    ],
)
def test_missing_input_is_reported_before_anything_is_written(
    changes: dict[str, Any], message: str, corpus: DataConfig, tmp_path: Path
) -> None:
    with pytest.raises((ConfigError, InputError)) as caught:
        found_corpora(corpus.model_copy(update=changes), tmp_path / "cache")
    assert message in str(caught.value)
    assert not (tmp_path / "cache").exists()


def test_files_of_unequal_length_are_reported_with_their_lengths(
    corpus: DataConfig, tmp_path: Path
) -> None:
    shorter = two_files(tmp_path, PAIRS[:-1], "shorter")
    for changes in (
        {"tgt": shorter["tgt"]},
        {"dev_src": corpus.src, "dev_tgt": shorter["tgt"]},
        {"dev_src": corpus.src * 2, "dev_tgt": (*corpus.tgt, *shorter["tgt"])},
    ):
        with pytest.raises(InputError, match=r"has 420 lines but .* has 421: parallel files must"):
            found_corpora(corpus.model_copy(update=changes), tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([Pair(f"{n} 12", f"13 {n}") for n in range(50)], "50 mostly no letters.*--no-clean"),
        (
            [Pair(f"Word {n}", f"Word {n}") for n in range(50)],
            "50 source and target identical.*give the transl",
        ),
        ([Pair("Hello there.", "Guten Tag.")] * 50, "all 50 were dropped .50 in the held-out"),
        ([Pair("Hello there.", "Guten Tag.")], "all 1 were dropped.*give more text"),
    ],
)
def test_if_no_pair_is_left_the_reasons_are_reported(
    pairs: list[Pair], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        prepared(DataConfig(**two_files(tmp_path, pairs)), tmp_path / "cache")


def test_without_cleaning_numbers_and_copies_are_trained_on(tmp_path: Path) -> None:
    pairs = [Pair(f"{n} 12", f"{n} 12") for n in range(50)]
    found = prepared(DataConfig(**two_files(tmp_path, pairs), clean=False), tmp_path / "cache")
    assert len(found.train) + len(found.dev_pairs) == 50


def test_an_impossible_vocabulary_size_names_the_setting(
    corpus: DataConfig, tmp_path: Path
) -> None:
    corpora = found_corpora(corpus, tmp_path)
    with pytest.raises(ConfigError, match=r"model\.vocab_size=5: .* 260 to"):
        prepare(corpus, corpora, tmp_path, vocab_size=5, processes=1, phase=PHASE)


def test_a_cache_that_cannot_be_written_is_reported(corpus: DataConfig, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TransduceError, match=r"cannot write .*file/cache: Not a directory"):
        found_corpora(corpus, tmp_path / "file" / "cache")
