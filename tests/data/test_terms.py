"""Hints in training sources: exact, consistent with the links, and the same whenever resumed."""

from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from tests.data.preparing import PAIRS, prepared, two_files
from transduce.config.schema import Config, DataConfig
from transduce.data.loader import Loader
from transduce.data.noise.epochs import EpochNoise
from transduce.data.prepare import Prepared
from transduce.data.store import Sentences, Store
from transduce.data.terms import epochs
from transduce.data.terms.drawn import MAX_TERMS
from transduce.data.terms.epochs import EpochTerms
from transduce.data.terms.phrases import MAX_WORDS
from transduce.errors import ConfigError
from transduce.text.phrases.hints import owners_of_tokens, without_hints
from transduce.text.tokenizer import Kind

LONG = (1000, 1000)


@pytest.fixture(scope="module", params=["bpe", "unigram", "wordpiece", "characters"])
def any_kind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return made(tmp_path_factory.mktemp("terms"), request.param)


@pytest.fixture(scope="module")
def made_of_bpe(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return made(tmp_path_factory.mktemp("terms"), "bpe")


def made(folder: Path, kind: Kind) -> Prepared:
    texts = two_files(folder, PAIRS)
    return prepared(DataConfig(**texts, subwords=kind, clean=False, terms=0.5), folder / "cache")


def hints_of(data: Prepared, rate: float = 1.0, noise: EpochNoise | None = None) -> EpochTerms:
    return EpochTerms(rate, data.tokenizer, data.train, noise=noise, keeps_links=True)


def hinted(data: Prepared, rate: float = 1.0, *, epoch: int = 0, seed: int = 1) -> Store:
    return hints_of(data, rate).store(data.train, seed=seed, epoch=epoch, max_lengths=LONG)


def rows(side: Sentences | None) -> list[list[int]]:
    assert side is not None
    return [side[number].tolist() for number in range(len(side))]


@pytest.fixture
def after_their_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all hints stand after their terms, and none instead of them."""
    monkeypatch.setattr(epochs, "INSTEAD", 0.0)


def parts_of(row: list[int], data: Prepared) -> tuple[list[list[int]], list[list[int]]]:
    """Return the parts of a source before, between and after its hints, and the hints."""
    assert data.tokenizer.source.term_markers is not None
    begin, end = data.tokenizer.source.term_markers
    texts, hints = [], []
    while begin in row:
        first, last = row.index(begin), row.index(end)
        texts.append(row[:first])
        hints.append(row[first + 1 : last])
        row = row[last + 1 :]
    return [*texts, row], hints


@pytest.mark.usefixtures("after_their_terms")
def test_ids_are_those_of_the_text_with_markers(any_kind: Prepared) -> None:
    store, vocabulary = hinted(any_kind), any_kind.tokenizer.source
    counts = []
    for row, clean in zip(rows(store.src), rows(any_kind.train.src), strict=True):
        texts, hints = parts_of(row, any_kind)
        assert list(chain(*texts)) == clean
        assert vocabulary.encode(vocabulary.decode(texts)) == texts
        spoken = vocabulary.decode(hints)
        assert vocabulary.encode(spoken) == hints
        assert all(text.startswith(" ") and len(text.split()) <= MAX_WORDS for text in spoken)
        assert all(texts[:-1]), "a hint stands after its term"
        counts.append(len(hints))
    assert rows(store.tgt) == rows(any_kind.train.tgt)
    assert max(counts) == MAX_TERMS
    assert np.mean([count > 0 for count in counts]) > 0.8


def test_hints_are_forms_of_words_of_the_target(made_of_bpe: Prepared) -> None:
    vocabulary = made_of_bpe.tokenizer.source
    store = hinted(made_of_bpe)
    found = {True: 0, False: 0}
    for src, tgt in zip(rows(store.src), rows(store.tgt), strict=True):
        [target] = vocabulary.decode([tgt])
        for hint in vocabulary.decode(parts_of(src, made_of_bpe)[1]):
            found[f"{hint} " in f" {target.rstrip('.?!')} ".replace(",", "")] += 1
            stem = hint.strip()[:2].lower()
            assert any(word.lower().startswith(stem) for word in target.split())
    assert found[True] > 3 * found[False] > 0, "most are as in the target, some inflected otherwise"


@pytest.mark.usefixtures("after_their_terms")
def test_links_follow_their_tokens(made_of_bpe: Prepared) -> None:
    clean, store = made_of_bpe.train, hinted(made_of_bpe)
    vocabulary = made_of_bpe.tokenizer.source
    moved = 0
    for number, (old, new) in enumerate(zip(rows(clean.links), rows(store.links), strict=True)):
        ids = store.src[number].tolist()
        owners = owners_of_tokens(ids, vocabulary)
        if owners is not None:
            assert without_hints(ids, owners) == clean.src[number].tolist()
            assert [link and 1 + owners[link - 1] for link in new] == old
            markers = {ids[link - 1] for link in new if link}
            assert markers.isdisjoint(vocabulary.term_markers or ())
        moved += old != new
    assert moved > len(clean) // 2


def test_hints_follow_from_seed_epoch_and_pair(made_of_bpe: Prepared) -> None:
    first = rows(hinted(made_of_bpe).src)
    assert rows(hinted(made_of_bpe).src) == first
    for other in (hinted(made_of_bpe, epoch=1), hinted(made_of_bpe, seed=2)):
        assert sum(a != b for a, b in zip(first, rows(other.src), strict=True)) > len(first) // 2


def test_the_rate_is_a_share_of_pairs(made_of_bpe: Prepared) -> None:
    clean = rows(made_of_bpe.train.src)
    most = sum(a != b for a, b in zip(clean, rows(hinted(made_of_bpe).src), strict=True))
    changed = 0
    for epoch in range(5):
        store = hinted(made_of_bpe, 0.3, epoch=epoch)
        changed += sum(a != b for a, b in zip(clean, rows(store.src), strict=True))
    assert changed / 5 / most == pytest.approx(0.3, abs=0.05)


def test_half_of_the_hints_stand_instead_of_their_terms(
    made_of_bpe: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = {}
    for share in (0.0, 0.5, 1.0):
        monkeypatch.setattr(epochs, "INSTEAD", share)
        stores[share] = hinted(made_of_bpe)
    instead = []
    for number in range(len(made_of_bpe.train)):
        texts, hints = parts_of(stores[0.0].src[number].tolist(), made_of_bpe)
        for share in (0.5, 1.0):
            others, its_hints = parts_of(stores[share].src[number].tolist(), made_of_bpe)
            assert its_hints == hints
            assert others[-1] == texts[-1]
            for other, text in zip(others[:-1], texts[:-1], strict=True):
                assert other == text[: len(other)], "only the term before a hint is left out"
                if share == 1.0:
                    assert len(other) < len(text)
                else:
                    instead.append(len(other) < len(text))
    assert np.mean(instead) == pytest.approx(0.5, abs=0.1)


def test_what_is_left_out_has_no_links_and_the_rest_keeps_its_own(
    made_of_bpe: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(epochs, "INSTEAD", 0.0)
    whole = hinted(made_of_bpe)
    monkeypatch.setattr(epochs, "INSTEAD", 0.5)
    some = hinted(made_of_bpe)
    lost = 0
    for number, (old, new) in enumerate(zip(rows(whole.links), rows(some.links), strict=True)):
        before, now = whole.src[number].tolist(), some.src[number].tolist()
        kept = kept_places(before, now, made_of_bpe)
        assert [before[place] for place in kept] == now
        places = {1 + place: 1 + kept.index(place) for place in kept}
        assert new == [places.get(link, 0) for link in old]
        lost += sum(bool(link) and link not in places for link in old)
    assert lost > 100


def kept_places(before: list[int], now: list[int], data: Prepared) -> list[int]:
    """Return the places of tokens that are still there, if some hints stand instead of terms."""
    texts, hints = parts_of(before, data)
    others, _ = parts_of(now, data)
    kept: list[int] = []
    place = 0
    for text, other, hint in zip(texts, others, [*hints, None], strict=True):
        kept += range(place, place + len(other))
        place += len(text)
        if hint is not None:
            kept += range(place, place + len(hint) + 2)
            place += len(hint) + 2
    return kept


@pytest.mark.usefixtures("after_their_terms")
def test_pairs_with_noise_have_no_hints_and_keep_their_noise(made_of_bpe: Prepared) -> None:
    with EpochNoise({"typos": 0.5}, made_of_bpe.tokenizer_file) as noise:
        alone = noise.store(made_of_bpe.train, seed=1, epoch=0, max_lengths=LONG)
        terms = hints_of(made_of_bpe, noise=noise)
        both = terms.store(made_of_bpe.train, seed=1, epoch=0, max_lengths=LONG)
    clean = rows(made_of_bpe.train.src)
    kinds = set()
    for before, noised, now in zip(clean, rows(alone.src), rows(both.src), strict=True):
        texts, hints = parts_of(now, made_of_bpe)
        assert list(chain(*texts)) == noised
        kinds.add((before != noised, bool(hints)))
        assert not (before != noised and hints)
    assert {(True, False), (False, True)} <= kinds
    assert rows(both.tgt) == rows(alone.tgt)


@pytest.mark.parametrize("packed", [True, False])
def test_batches_keep_their_limits_and_resume(packed: bool, made_of_bpe: Prepared) -> None:
    noise = EpochNoise({"upper": 0.2}, made_of_bpe.tokenizer_file)
    loader = Loader(
        made_of_bpe.train,
        max_tokens=256,
        per_step=2,
        packed=packed,
        noise=hints_of(made_of_bpe, 0.6, noise),
    )
    whole = list(loader.steps(2))
    batches = [batch for step in whole for batch in step.batches]
    assert all(b.src.numel() <= 256 and b.tgt_out.numel() <= 256 for b in batches)
    done = whole[len(whole) // 2].done
    rest = [b.src.tolist() for step in replace(loader).steps(2, done=done) for b in step.batches]
    assert rest == [b.src.tolist() for step in whole for b in step.batches if step.first >= done]


def test_a_source_that_hints_make_too_long_stays_as_it_is(made_of_bpe: Prepared) -> None:
    clean = made_of_bpe.train
    longest = int(clean.src.lengths.max())
    terms = hints_of(made_of_bpe)
    store = terms.store(clean, seed=1, epoch=0, max_lengths=(longest, 1000))
    assert int(store.src.lengths.max()) <= longest
    same = [a == b for a, b in zip(rows(clean.src), rows(store.src), strict=True)]
    assert {True, False} == set(same)


def test_a_store_in_chunks_is_the_same(
    made_of_bpe: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = hinted(made_of_bpe)
    monkeypatch.setattr("transduce.data.terms.epochs.CHUNK_PAIRS", 7)
    found = hinted(made_of_bpe)
    assert rows(found.src) == rows(expected.src)
    assert rows(found.links) == rows(expected.links)


def test_what_cannot_have_hints_is_refused_in_one_line(tmp_path: Path) -> None:
    for wrong in ({"shared_vocabulary": False}, {"subwords": "whitespace"}):
        with pytest.raises(ConfigError, match=r"^data\.terms"):
            Config.from_tree({"data": {"terms": 0.1, **wrong}})
    texts = two_files(tmp_path, PAIRS[:50])
    data = prepared(DataConfig(**texts, clean=False), tmp_path / "cache")
    with pytest.raises(ConfigError, match=r"^data\.terms: this vocabulary has no markers"):
        hints_of(data)
