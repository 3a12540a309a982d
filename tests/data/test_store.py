"""A store holds what direct encoding gives, and is complete or absent."""

import json
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from transduce.data import store as store_module
from transduce.data.cleaning import CleaningReport, clean
from transduce.data.corpus import Pair, Tsv, TwoFiles
from transduce.data.loader import Loader
from transduce.data.store import Store, StoreSpec, open_or_build
from transduce.errors import InputError
from transduce.grammar import generate
from transduce.text.tokenizer import Tokenizer


@cache
def pairs() -> list[Pair]:
    return [*generate(9000, seed=5), Pair("Nothing.", ""), *generate(50, seed=5)]


def vocabulary(spec: StoreSpec) -> Path:
    assert spec.tokenizer is not None
    return spec.tokenizer


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> StoreSpec:
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "train.en").write_text("".join(f"{p.src}\n" for p in pairs()), encoding="utf-8")
    (folder / "train.de").write_text("".join(f"{p.tgt}\n" for p in pairs()), encoding="utf-8")
    Tokenizer.learn((t for p in pairs()[:1000] for t in p), vocab_size=600).save(folder / "t.json")
    return StoreSpec((TwoFiles(folder / "train.en", folder / "train.de"),), folder / "t.json")


@pytest.fixture(scope="module")
def built(spec: StoreSpec, tmp_path_factory: pytest.TempPathFactory) -> Path:
    cache = tmp_path_factory.mktemp("cache")
    open_or_build(spec, cache)
    [folder] = (path for path in cache.iterdir() if path.is_dir())
    return folder


def source_of(spec: StoreSpec) -> TwoFiles:
    [source] = spec.sources
    assert isinstance(source, TwoFiles)
    return source


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_store_holds_the_clean_pairs_in_order(spec: StoreSpec, built: Path) -> None:
    store, tokenizer = Store.open(built), Tokenizer.load(vocabulary(spec))
    expected = list(clean(pairs(), CleaningReport()))
    assert len(store) == len(expected) == 9000
    for sentences, texts in (
        (store.src, [p.src for p in expected]),
        (store.tgt, [p.tgt for p in expected]),
    ):
        encoded = tokenizer.encode_batch(texts)
        assert [sentences[i].tolist() for i in range(len(sentences))] == encoded
        assert sentences.lengths.tolist() == [len(ids) for ids in encoded]
    assert store.manifest["dropped"] == {"empty": 1, "duplicate": 50}


def test_the_number_of_processes_changes_nothing(
    spec: StoreSpec, built: Path, tmp_path: Path
) -> None:
    open_or_build(spec, tmp_path, processes=1)
    assert content(tmp_path / built.name) == content(built)


def test_the_next_run_opens_the_store_that_exists(
    spec: StoreSpec, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(store_module, "_build")
    assert len(open_or_build(spec, built.parent)) == 9000


def test_without_cleaning_every_pair_is_kept(spec: StoreSpec, tmp_path: Path) -> None:
    store = open_or_build(StoreSpec(spec.sources, spec.tokenizer, rules=None), tmp_path)
    assert len(store) == len(pairs())
    assert store.tgt[9000].size == 0


def test_other_inputs_or_settings_make_another_store(
    spec: StoreSpec, built: Path, tmp_path: Path
) -> None:
    shorter = TwoFiles(tmp_path / "a", tmp_path / "b")
    for mine, theirs in (
        (shorter.src, source_of(spec).src),
        (shorter.tgt, source_of(spec).tgt),
    ):
        mine.write_text("\n".join(theirs.read_text(encoding="utf-8").split("\n")[:100]) + "\n")
    held_out = [shorter.src]
    other = tmp_path / "other.json"
    Tokenizer.learn((p.src for p in pairs()[:100]), vocab_size=400).save(other)
    identities = [
        json.dumps(each.identity(tmp_path), sort_keys=True)
        for each in (
            spec,
            StoreSpec((shorter,), spec.tokenizer),
            StoreSpec(spec.sources, other),
            StoreSpec(spec.sources, spec.tokenizer, rules=None),
            StoreSpec(spec.sources, spec.tokenizer, held_out=held_out),
        )
    ]
    assert len(set(identities)) == len(identities)
    assert Store.open(built).manifest["identity"] == spec.identity(tmp_path)


def test_equal_content_under_another_name_is_the_same_store(
    spec: StoreSpec, tmp_path: Path
) -> None:
    copy = TwoFiles(tmp_path / "x", tmp_path / "y")
    copy.src.write_bytes(source_of(spec).src.read_bytes())
    copy.tgt.write_bytes(source_of(spec).tgt.read_bytes())
    assert StoreSpec((copy,), spec.tokenizer).identity(tmp_path) == spec.identity(tmp_path)


def flip(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ (1 << place % 8)]) + data[place + 1 :]


def cut(data: bytes, place: int) -> bytes:
    return data[:place]


@pytest.mark.parametrize("name", ["src.ids", "src.ends", "tgt.ids", "tgt.ends", "manifest"])
@pytest.mark.parametrize("damage", [flip, cut])
def test_a_damaged_store_is_refused_when_it_is_opened(
    name: str, damage: Callable[[bytes, int], bytes], built: Path, tmp_path: Path
) -> None:
    whole = content(built)
    places = random.Random(name).sample(range(len(whole[name])), 8)  # noqa: S311 - not a secret
    for number, place in enumerate(places):
        folder = tmp_path / str(number)
        folder.mkdir()
        for each, data in whole.items():
            (folder / each).write_bytes(damage(data, place) if each == name else data)
        with pytest.raises(InputError):
            Store.open(folder)


def test_several_corpora_are_concatenated_and_mixed_by_weight(
    spec: StoreSpec, tmp_path: Path
) -> None:
    other = tmp_path / "other.tsv"
    pairs = [Pair(f"Number {n} is here.", f"Nummer {n} ist hier.") for n in range(1000)]
    other.write_text("".join(f"{pair.src}\t{pair.tgt}\n" for pair in pairs), encoding="utf-8")
    store = open_or_build(
        StoreSpec((*spec.sources, Tsv(other)), spec.tokenizer), tmp_path / "cache"
    )
    assert store.manifest["source_ends"] == [9000, 10_000]
    tokenizer = Tokenizer.load(vocabulary(spec))
    assert tokenizer.decode_batch([store.src[9000].tolist()]) == ["Number 0 is here."]
    taken = [Loader(store, weights=(0.5, 3)).plan(epoch).sentences for epoch in range(2)]
    for sentences in taken:
        first, second = sentences[sentences < 9000], sentences[sentences >= 9000]
        assert len(set(first.tolist())) == first.size
        assert abs(first.size - 4500) < 300
        assert sorted(second.tolist()) == sorted([*range(9000, 10_000)] * 3)
    assert set(taken[0].tolist()) != set(taken[1].tolist())


def test_other_rules_of_parsing_make_another_store_of_a_table_but_not_of_plain_text(
    spec: StoreSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "pairs.tsv"
    table.write_text("a\tb\n", encoding="utf-8")
    of_table = StoreSpec((Tsv(table),), spec.tokenizer)
    before = [each.identity(tmp_path) for each in (spec, of_table)]
    monkeypatch.setattr("transduce.data.store.PARSING", 10_000)
    assert spec.identity(tmp_path) == before[0]
    assert of_table.identity(tmp_path) != before[1]
