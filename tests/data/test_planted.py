"""Placeholders in training pairs: the same signs on both sides, the same whenever resumed."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.preparing import PAIRS, decoded, prepared, two_files
from transduce.config.schema import Config, DataConfig
from transduce.data.corpus import Pair
from transduce.data.encoding.placeholders import with_signs
from transduce.data.loader import Loader
from transduce.data.noise.epochs import EpochNoise
from transduce.data.prepare import Prepared
from transduce.data.store import Store
from transduce.data.terms.drawn import MAX_TERMS
from transduce.data.terms.epochs import EpochTerms
from transduce.data.terms.planted import EpochPlaceholders
from transduce.errors import ConfigError
from transduce.text.phrases.signs import SIGNS
from transduce.text.tokenizer import Kind
from transduce.text.vocabulary import SIGN

LONG = (1000, 1000)
WITH = [Pair(f"{n} km to {{name}}.", f"{n} Kilometer bis {{name}}.") for n in range(40)]


@pytest.fixture(scope="module", params=["bpe", "unigram", "wordpiece", "characters"])
def any_kind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return made(tmp_path_factory.mktemp("planted"), request.param)


@pytest.fixture(scope="module")
def made_of_bpe(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return made(tmp_path_factory.mktemp("planted"), "bpe")


def made(folder: Path, kind: Kind, **more: Any) -> Prepared:
    texts = two_files(folder, [*PAIRS, *WITH])
    config = DataConfig(**texts, subwords=kind, clean=False, placeholders=0.5, **more)
    return prepared(config, folder / "cache")


def planted(data: Prepared, rate: float = 1.0, *, epoch: int = 0, seed: int = 1) -> Store:
    changes = EpochPlaceholders(rate, data.tokenizer, keeps_links=True)
    return changes.store(data.train, seed=seed, epoch=epoch, max_lengths=LONG)


def texts(store: Store, data: Prepared) -> list[Pair]:
    return decoded(store, data.tokenizer)


def signs_of(text: str) -> list[str]:
    return sorted(SIGN.findall(text))


def test_placeholders_of_both_sides_become_the_same_signs() -> None:
    drawn = set()
    for pair in WITH:
        src, tgt = with_signs(pair)
        [sign] = signs_of(src)
        assert (src, tgt) == tuple(side.replace("{name}", sign) for side in pair)
        drawn.add(sign)
    assert drawn == {*SIGNS}, "all are learnt"
    several = with_signs(Pair("{a} {b} {b} {c}", "{b}, {a}, {b}"))
    first, second, *_ = SIGN.findall(several.src)
    assert several == (f"{first} {second} {second} {{c}}", f"{second}, {first}, {second}")
    assert with_signs(PAIRS[0]) == PAIRS[0]


def test_words_that_translate_each_other_become_the_same_signs(any_kind: Prepared) -> None:
    clean, store = texts(any_kind.train, any_kind), texts(planted(any_kind), any_kind)
    counts = []
    for before, after in zip(clean, store, strict=True):
        found = signs_of(after.src)
        assert signs_of(after.tgt) == found
        counts.append(len(found))
        if before != after:
            assert not signs_of(before.src), "a pair with placeholders of its own keeps these alone"
            assert len(set(found)) == len(found) <= MAX_TERMS
            for old, new in zip(before, after, strict=True):
                pattern = re.escape(new)
                for sign in found:
                    pattern = pattern.replace(sign, r"[^\s.,!?]+")
                assert re.fullmatch(pattern, old), "one word each"
    assert np.mean([count > 0 for count in counts]) > 0.7


def test_what_is_planted_follows_from_seed_epoch_and_pair(made_of_bpe: Prepared) -> None:
    first = texts(planted(made_of_bpe), made_of_bpe)
    assert texts(planted(made_of_bpe), made_of_bpe) == first
    for other in (planted(made_of_bpe, epoch=1), planted(made_of_bpe, seed=2)):
        pairs = zip(first, texts(other, made_of_bpe), strict=True)
        assert sum(a != b for a, b in pairs) > len(first) // 2


def test_the_rate_is_a_share_of_pairs(made_of_bpe: Prepared) -> None:
    clean = texts(made_of_bpe.train, made_of_bpe)

    def changed(rate: float, epoch: int) -> int:
        store = texts(planted(made_of_bpe, rate, epoch=epoch), made_of_bpe)
        return sum(a != b for a, b in zip(clean, store, strict=True))

    share = sum(changed(0.3, epoch) for epoch in range(5)) / 5 / changed(1.0, 0)
    assert share == pytest.approx(0.3, abs=0.05)


def test_a_store_in_chunks_is_the_same(
    made_of_bpe: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = texts(planted(made_of_bpe), made_of_bpe)
    monkeypatch.setattr("transduce.data.terms.planted.CHUNK_PAIRS", 7)
    assert texts(planted(made_of_bpe), made_of_bpe) == expected


def test_changed_pairs_have_no_links_and_others_keep_theirs(made_of_bpe: Prepared) -> None:
    clean, store = made_of_bpe.train, planted(made_of_bpe, 0.5)
    assert store.links is not None
    assert clean.links is not None
    kinds = set()
    for number in range(len(clean)):
        is_changed = store.tgt[number].tolist() != clean.tgt[number].tolist()
        kinds.add(is_changed)
        assert len(store.links[number]) == len(store.tgt[number])
        if is_changed:
            assert not store.links[number].any()
        elif store.links[number].any():
            assert store.links[number].tolist() == clean.links[number].tolist()
    assert kinds == {True, False}


@pytest.mark.parametrize("packed", [True, False])
def test_batches_keep_their_limits_and_resume(packed: bool, tmp_path: Path) -> None:
    data = made(tmp_path, "bpe", terms=0.5)
    noise = EpochNoise({"upper": 0.2}, data.tokenizer_file)
    both = EpochPlaceholders(0.6, data.tokenizer, noise=noise, keeps_links=True)
    changes = EpochTerms(0.5, data.tokenizer, data.train, noise=both, keeps_links=False)
    loader = Loader(data.train, max_tokens=256, per_step=2, packed=packed, noise=changes)
    whole = list(loader.steps(2))
    batches = [batch for step in whole for batch in step.batches]
    assert all(b.src.numel() <= 256 and b.tgt_out.numel() <= 256 for b in batches)
    done = whole[len(whole) // 2].done
    rest = [b.src.tolist() for step in replace(loader).steps(2, done=done) for b in step.batches]
    assert rest == [b.src.tolist() for step in whole for b in step.batches if step.first >= done]


def test_vocabularies_of_each_side_have_signs_too(tmp_path: Path) -> None:
    data = made(tmp_path, "bpe", shared_vocabulary=False)
    assert not data.tokenizer.is_shared
    for pair in texts(planted(data), data):
        assert signs_of(pair.src) == signs_of(pair.tgt)


def test_what_cannot_have_placeholders_is_refused_in_one_line(tmp_path: Path) -> None:
    for wrong in ({"subwords": "whitespace"}, {"subword_dropout": 0.1}):
        with pytest.raises(ConfigError, match=r"^data\.placeholders"):
            Config.from_tree({"data": {"placeholders": True, **wrong}})
    given = two_files(tmp_path, PAIRS[:50])
    plain = prepared(DataConfig(**given, clean=False), tmp_path / "cache")
    config = DataConfig(**given, tokenizer=str(plain.tokenizer_file), placeholders=0.1)
    with pytest.raises(ConfigError, match=r"^data\.placeholders: this vocabulary has no entries"):
        prepared(config, tmp_path / "cache")


@pytest.mark.parametrize("name", ["placeholders", "terms"])
def test_true_is_a_usual_share(name: str) -> None:
    on, off = (Config.from_tree({"data": {name: flag}}).data for flag in (True, False))
    assert 0 < getattr(on, name) < 0.5
    assert getattr(off, name) == 0
