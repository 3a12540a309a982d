"""What is scored on is never learnt from, and everything is made once."""

import json
import os
import random
import subprocess
import sys
import tempfile
import unicodedata
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transduce.config.schema import DataConfig
from transduce.data.cleaning import Report, clean
from transduce.data.corpus import Pair, read_pairs, survey
from transduce.data.grammar import generate
from transduce.data.store import Store
from transduce.errors import ConfigError, InputError, TransduceError
from transduce.text.tokenizer import Tokenizer
from transduce.training.prepare import Corpora, Phase, Prepared, gather, prepare

PAIRS = [*generate(400, seed=8), Pair("Nothing.", ""), *generate(20, seed=8)]
VOCAB_SIZE = 300


def silent(_name: str) -> Any:
    return nullcontext(lambda _done, _total: None)


PHASE: Phase = silent


def gathered(config: DataConfig, cache: Path, *, seed: int = 1) -> Corpora:
    return gather(config, cache, seed=seed, phase=PHASE)


def prepared(config: DataConfig, cache: Path, *, seed: int = 1) -> Prepared:
    corpora = gathered(config, cache, seed=seed)
    return prepare(config, corpora, cache, vocab_size=VOCAB_SIZE, processes=1, phase=PHASE)


def write_tsv(path: Path, pairs: list[Pair]) -> str:
    text = "".join(f"{pair.src}\t{pair.tgt}\n" for pair in pairs)
    path.write_text(text, encoding="utf-8", newline="")
    return str(path)


def write_json(path: Path, pairs: list[Pair]) -> str:
    lines = (json.dumps({"id": 7, "from": pair.src, "to": pair.tgt}) for pair in pairs)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def two_files(folder: Path, pairs: list[Pair], name: str = "train") -> dict[str, Any]:
    src, tgt = folder / f"{name}.en", folder / f"{name}.de"
    src.write_text("".join(f"{pair.src}\n" for pair in pairs), encoding="utf-8")
    tgt.write_text("".join(f"{pair.tgt}\n" for pair in pairs), encoding="utf-8")
    return {"src": (str(src),), "tgt": (str(tgt),)}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> DataConfig:
    return DataConfig(**two_files(tmp_path_factory.mktemp("corpus"), PAIRS))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def made(corpus: DataConfig, cache: Path) -> Prepared:
    return prepared(corpus, cache)


def decoded(store: Store, tokenizer: Tokenizer) -> list[Pair]:
    sides = [
        tokenizer.decode_batch(side[index].tolist() for index in range(len(side)))
        for side in (store.src, store.tgt)
    ]
    return [Pair(*texts) for texts in zip(*sides, strict=True)]


def seen(text: str) -> str:
    """What a model sees of a sentence."""
    return unicodedata.normalize("NFC", text.strip())


def sentences(pairs: list[Pair]) -> set[str]:
    return {seen(text) for pair in pairs for text in pair}


def pairs_of_dev(corpora: Corpora) -> list[Pair]:
    return [pair for source in corpora.dev for pair in read_pairs(source)]


def folders(cache: Path) -> set[str]:
    return {path.name for path in cache.iterdir() if path.is_dir()}


def test_learnt_from_are_the_clean_pairs_without_the_development_set(made: Prepared) -> None:
    held_out = [text for pair in made.dev_pairs for text in pair]
    expected = list(clean(PAIRS, Report(), held_out=held_out))
    assert decoded(made.train, made.tokenizer) == expected
    assert decoded(made.dev, made.tokenizer) == made.dev_pairs
    assert len(made.dev_pairs) == len(PAIRS) // 20
    assert len(expected) + len(made.dev_pairs) == 400


def crossed() -> list[Pair]:
    """Pairs in which every sentence comes often, each time with another partner or spelling."""
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
def test_no_sentence_of_the_development_set_is_learnt_from(
    clean_it: bool, seed: int, tmp_path: Path
) -> None:
    src = write_json(tmp_path / "a.jsonl", crossed())
    config = DataConfig(src=(src,), fields="from, to", clean=clean_it)
    found = prepared(config, tmp_path / "cache", seed=seed)
    learnt = decoded(found.train, found.tokenizer)
    assert len(found.dev_pairs) > 1
    assert len(learnt) > 20
    assert sentences(found.dev_pairs).isdisjoint(sentences(learnt))
    assert set(found.dev_pairs) <= set(crossed())


def test_the_seed_chooses_the_development_set(corpus: DataConfig, tmp_path: Path) -> None:
    def chosen(cache: str, seed: int) -> list[Pair]:
        return pairs_of_dev(gathered(corpus, tmp_path / cache, seed=seed))

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
        corpora = gathered(config, Path(name) / "cache", seed=seed)
        dev = pairs_of_dev(corpora)
    assert corpora.pairs == len(pairs)
    assert 1 <= len(dev) <= max(1, min(dev_pairs, len(pairs) // 20))
    assert len(set(dev)) == len(dev)
    assert set(dev) <= set(pairs)


def test_what_the_user_holds_out_is_never_learnt_from(tmp_path: Path) -> None:
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
def test_a_given_development_set_is_taken_as_it_is(
    kind: str, corpus: DataConfig, tmp_path: Path
) -> None:
    dev = [Pair("Yes.", "Ja."), Pair("", "Nichts."), Pair("Yes.", "Ja.")]
    names = {
        "two files": two_files(tmp_path, dev, "dev")["src"][0],
        "tsv": write_tsv(tmp_path / "dev.tsv", dev),
        "jsonl": write_json(tmp_path / "dev.jsonl", dev),
    }
    changes: dict[str, Any] = {"dev_src": (names[kind],), "fields": "from,to"}
    if kind == "two files":
        changes["dev_tgt"] = (str(tmp_path / "dev.de"),)
    corpora = gathered(corpus.model_copy(update=changes), tmp_path / "cache")
    assert pairs_of_dev(corpora) == dev
    assert set(corpora.dev) <= set(corpora.held_out)
    assert not folders(tmp_path / "cache"), "nothing had to be made"


def test_several_development_files_are_one_set_and_none_is_learnt_from(tmp_path: Path) -> None:
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


def test_text_is_surveyed_once_for_as_long_as_it_stays_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = DataConfig(
        **two_files(tmp_path, PAIRS),
        dev_src=(write_tsv(tmp_path / "dev.tsv", PAIRS[:9]),),
        held_out=(write_tsv(tmp_path / "test.txt", PAIRS[:9]),),
    )
    first = gathered(config, tmp_path / "cache")
    with monkeypatch.context() as patched:
        patched.delattr("transduce.training.prepare.survey")
        assert gathered(config, tmp_path / "cache") == first
    two_files(tmp_path, PAIRS[:-1])
    assert gathered(config, tmp_path / "cache").pairs == len(PAIRS) - 1
    with (tmp_path / "test.txt").open("ab") as text:
        text.write(b"\xff\n")
    with pytest.raises(InputError, match="not UTF-8"):
        gathered(config, tmp_path / "cache")


@pytest.mark.parametrize("known", [False, True], ids=["first", "again"])
def test_a_pipe_is_refused_instead_of_read_twice(known: bool, tmp_path: Path) -> None:
    config = DataConfig(**two_files(tmp_path, PAIRS))
    if known:
        gathered(config, tmp_path / "cache")
    os.mkfifo(tmp_path / "pipe")
    pipe = (str(tmp_path / "pipe"),)
    for changes in ({"held_out": pipe}, {"dev_src": pipe, "dev_tgt": config.tgt}):
        with pytest.raises(InputError, match="pipe is not a file: a corpus is read more than once"):
            gathered(config.model_copy(update=changes), tmp_path / "cache")


def test_a_text_that_changes_while_it_is_surveyed_is_surveyed_again(tmp_path: Path) -> None:
    config = DataConfig(
        **two_files(tmp_path, PAIRS), dev_src=(write_tsv(tmp_path / "d.tsv", PAIRS[:9]),)
    )

    def counted_and_then_changed(source: Any) -> int:
        found = survey(source)
        two_files(tmp_path, PAIRS[:50])
        return found

    with patch("transduce.training.prepare.survey", counted_and_then_changed):
        gathered(config, tmp_path / "cache")
    assert gathered(config, tmp_path / "cache").pairs == 50


@pytest.mark.parametrize("known", [False, True], ids=["first", "again"])
def test_a_name_that_cannot_be_looked_up_is_one_that_cannot_be_read(
    known: bool, tmp_path: Path
) -> None:
    config = DataConfig(**two_files(tmp_path, PAIRS))
    if known:
        gathered(config, tmp_path / "cache")
    for changes in ({"held_out": ("n" * 300,)}, {"src": ("n" * 300,)}):
        with pytest.raises(InputError, match=r"cannot read nnn.*File name too long"):
            gathered(config.model_copy(update=changes), tmp_path / "cache")


@pytest.mark.parametrize("spoilt", ["", "[]", "{", '{"a": []}'])
def test_a_spoilt_memory_of_surveys_is_no_fault(
    spoilt: str, corpus: DataConfig, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    first = gathered(corpus, cache)
    (cache / "surveys.json").write_text(spoilt, encoding="utf-8")
    assert gathered(corpus, cache) == first


def test_what_is_there_is_found_again(
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


def test_other_names_for_the_same_text_change_nothing(
    made: Prepared, cache: Path, tmp_path: Path
) -> None:
    before = folders(cache)
    again = prepared(DataConfig(**two_files(tmp_path, PAIRS, "moved")), cache)
    assert again.tokenizer_file == made.tokenizer_file
    assert set(again.digests.values()) == set(made.digests.values())
    assert folders(cache) == before


def test_a_changed_file_makes_everything_anew(tmp_path: Path) -> None:
    config, cache = DataConfig(**two_files(tmp_path, PAIRS)), tmp_path / "cache"
    first = prepared(config, cache)
    before = folders(cache)
    two_files(tmp_path, [*PAIRS, Pair("One more.", "Noch einer.")])
    second = prepared(config, cache)
    assert second.train.manifest["read"] == first.train.manifest["read"] + 1
    assert second.train.manifest["identity"] != first.train.manifest["identity"]
    assert second.tokenizer_file != first.tokenizer_file
    assert before < folders(cache), "what was made before stays for those who ask for it"


def quoted(pairs: list[Pair]) -> list[Pair]:
    return [Pair(f"‘{pair.src}’", f"„{pair.tgt}“") for pair in pairs]


def plainly_quoted(pairs: list[Pair]) -> list[Pair]:
    return [Pair(f"'{pair.src}'", f'"{pair.tgt}"') for pair in pairs]


def test_punctuation_that_is_plain_is_so_in_all_that_is_learnt_from(tmp_path: Path) -> None:
    config = DataConfig(**two_files(tmp_path, quoted(PAIRS[:200])), punctuation="plain")
    plain = prepared(config, tmp_path / "cache")
    learnt = decoded(plain.train, plain.tokenizer)
    assert learnt
    assert set(learnt) <= set(plainly_quoted(PAIRS[:200]))
    kept = prepared(config.model_copy(update={"punctuation": "auto"}), tmp_path / "cache")
    assert set(decoded(kept.train, kept.tokenizer)) <= set(quoted(PAIRS[:200]))


def test_with_plain_punctuation_signs_alone_make_no_other_sentence(tmp_path: Path) -> None:
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
def test_a_given_tokenizer_has_the_punctuation_that_it_has(
    has: Literal["plain", "kept"], given: str, tmp_path: Path
) -> None:
    config = DataConfig(**two_files(tmp_path, quoted(PAIRS[:200])), punctuation=has)
    made = prepared(config, tmp_path / "cache")
    taken = {"tokenizer": str(made.tokenizer_file), "punctuation": "auto"}
    again = prepared(config.model_copy(update=taken), tmp_path / "cache")
    assert again.train.manifest == made.train.manifest
    with pytest.raises(ConfigError, match=f"={given}, but in .* it is {has}: leave the setting"):
        prepared(config.model_copy(update=taken | {"punctuation": given}), tmp_path / "cache")


def test_a_given_tokenizer_is_taken(
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
from transduce.training.prepare import gather, prepare

learn, times = Tokenizer.learn, []

def counted(*arguments, **named):
    times.append(1)
    return learn(*arguments, **named)

if __name__ == "__main__":
    config = DataConfig(**json.loads(sys.argv[1]))
    cache = Path(sys.argv[2])
    Tokenizer.learn = counted
    phase = lambda _: nullcontext(lambda _done, _total: None)
    corpora = gather(config, cache, seed=1, phase=phase)
    found = prepare(config, corpora, cache, vocab_size=300, processes=1, phase=phase)
    print(json.dumps([len(times), sorted(found.digests.values())]))
"""


def test_of_two_at_once_one_works_and_the_other_waits(
    made: Prepared, corpus: DataConfig, cache: Path, tmp_path: Path
) -> None:
    (tmp_path / "prepare.py").write_text(PREPARE)
    settings = json.dumps({"src": corpus.src, "tgt": corpus.tgt})
    rivals = [
        subprocess.Popen(
            [sys.executable, tmp_path / "prepare.py", settings, tmp_path / "cache"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    outputs, errors = zip(*(rival.communicate() for rival in rivals), strict=True)
    assert errors == ("", "")
    times, digests = zip(*map(json.loads, outputs), strict=True)
    assert sorted(times) == [0, 1], "the subwords are learnt once"
    assert digests == (sorted(made.digests.values()),) * 2
    assert folders(tmp_path / "cache") <= folders(cache)
    assert len(folders(tmp_path / "cache")) == 4  # two stores, the subwords, the development set


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"src": (), "tgt": ()}, "no text to learn from: give --src and --tgt"),
        ({"src": ("nope.en",)}, "cannot read nope.en: No such file"),
        ({"tgt": ("nope.de",)}, "cannot read nope.de: No such file"),
        ({"tgt": ()}, "has no partner: give the target text too, or a .tsv or .jsonl"),
        ({"tgt": ("a", "b")}, "data.src names 1 files but data.tgt 2: they go together"),
        ({"weights": (1.0, 2.0)}, "data.weights has 2 numbers for 1 corpora"),
        ({"weights": (-1.0,)}, "none may be below 0"),
        ({"weights": (0.0,)}, "one must be above 0"),
        ({"weights": (float("nan"),)}, "none may be below 0 or infinite"),
        ({"weights": (float("inf"),)}, "none may be below 0 or infinite"),
        ({"dev_src": ("nope",)}, "has no partner"),
        ({"dev_src": ("nope",), "dev_tgt": ("nope",)}, "cannot read nope: No such file"),
        ({"dev_tgt": ("nope",)}, "data.dev_tgt is given without data.dev_src"),
        (
            {"dev_src": ("a", "b"), "dev_tgt": ("c",)},
            "data.dev_src names 2 files but data.dev_tgt 1: they go together",
        ),
        ({"held_out": ("nope",)}, "cannot read nope: No such file"),
    ],
)
def test_what_is_missing_is_named_before_anything_is_written(
    changes: dict[str, Any], message: str, corpus: DataConfig, tmp_path: Path
) -> None:
    with pytest.raises((ConfigError, InputError)) as caught:
        gathered(corpus.model_copy(update=changes), tmp_path / "cache")
    assert message in str(caught.value)
    assert not (tmp_path / "cache").exists()


def test_files_of_unequal_length_are_named_with_their_lengths(
    corpus: DataConfig, tmp_path: Path
) -> None:
    shorter = two_files(tmp_path, PAIRS[:-1], "shorter")
    for changes in (
        {"tgt": shorter["tgt"]},
        {"dev_src": corpus.src, "dev_tgt": shorter["tgt"]},
        {"dev_src": corpus.src * 2, "dev_tgt": (*corpus.tgt, *shorter["tgt"])},
    ):
        with pytest.raises(InputError, match=r"has 420 lines but .* has 421: parallel files must"):
            gathered(corpus.model_copy(update=changes), tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([Pair(f"{n} 12", f"13 {n}") for n in range(50)], "50 mostly no letters.*--no-clean"),
        ([Pair(f"Word {n}", f"Word {n}") for n in range(50)], "50 source and target identical"),
        ([Pair("Hello there.", "Guten Tag.")] * 50, "all 50 were dropped .50 in the held-out"),
        ([Pair("Hello there.", "Guten Tag.")], "all 1 were dropped.*give more text"),
    ],
)
def test_where_nothing_is_left_the_reasons_are_told(
    pairs: list[Pair], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        prepared(DataConfig(**two_files(tmp_path, pairs)), tmp_path / "cache")


def test_without_cleaning_numbers_and_copies_are_learnt_from(tmp_path: Path) -> None:
    pairs = [Pair(f"{n} 12", f"{n} 12") for n in range(50)]
    found = prepared(DataConfig(**two_files(tmp_path, pairs), clean=False), tmp_path / "cache")
    assert len(found.train) + len(found.dev_pairs) == 50


def test_a_vocabulary_that_cannot_be_is_a_setting_to_change(
    corpus: DataConfig, tmp_path: Path
) -> None:
    corpora = gathered(corpus, tmp_path)
    with pytest.raises(ConfigError, match=r"model\.vocab_size=5: .* 260 to"):
        prepare(corpus, corpora, tmp_path, vocab_size=5, processes=1, phase=PHASE)


def test_a_cache_that_cannot_be_written_is_named(corpus: DataConfig, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TransduceError, match=r"cannot write in .*file/cache: Not a directory"):
        gathered(corpus, tmp_path / "file" / "cache")
