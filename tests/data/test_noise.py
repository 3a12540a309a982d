"""Noise in the training text: exact, drawn anew each epoch, and the same whenever it is resumed."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.data.preparing import PAIRS, decoded, prepared, two_files
from transduce.config.schema import DataConfig
from transduce.config.sections.augment import AugmentConfig
from transduce.data.batch import Batch
from transduce.data.loader import Loader
from transduce.data.noise import epochs
from transduce.data.noise.epochs import EpochNoise
from transduce.data.prepare import Prepared
from transduce.data.store import Store
from transduce.errors import ConfigError
from transduce.text.special_ids import EOS_ID, PAD_ID, UNK_ID
from transduce.text.tokenizer import Kind

ALL = dict.fromkeys(AugmentConfig.rate_names(), 0.3)
LONG = (1000, 1000)


@pytest.fixture(scope="module", params=["bpe", "unigram", "wordpiece", "characters"])
def any_kind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return made(tmp_path_factory.mktemp("noise"), request.param)


@pytest.fixture(scope="module")
def made_of_bpe(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return made(tmp_path_factory.mktemp("noise"), "bpe")


def made(folder: Path, kind: Kind) -> Prepared:
    texts = two_files(folder, PAIRS)
    return prepared(DataConfig(**texts, subwords=kind, clean=False), folder / "cache")


def noised(data: Prepared, rates: dict[str, float], *, epoch: int = 0, seed: int = 1) -> Store:
    with EpochNoise(rates, data.tokenizer_file) as noise:
        return noise.store(data.train, seed=seed, epoch=epoch, max_lengths=LONG)


def texts(data: Prepared, store: Store) -> tuple[list[str], list[str]]:
    pairs = decoded(store, data.tokenizer)
    return [pair.src for pair in pairs], [pair.tgt for pair in pairs]


def test_ids_with_noise_are_those_of_the_text_with_noise(any_kind: Prepared) -> None:
    store, tokenizer = noised(any_kind, ALL), any_kind.tokenizer
    src, tgt = texts(any_kind, store)
    clean = texts(any_kind, any_kind.train)[0]
    assert tokenizer.encode_targets(tgt) == [store.tgt[n].tolist() for n in range(len(store))]
    compared = 0
    for number, (text, ids) in enumerate(zip(src, tokenizer.encode_batch(src), strict=True)):
        if UNK_ID not in store.src[number]:
            assert ids == store.src[number].tolist()
            compared += text != clean[number]
    assert compared > len(store) // 3


def changes(data: Prepared, kind: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield source and target without noise, and with a kind of it in all pairs."""
    clean, now = texts(data, data.train), texts(data, noised(data, {kind: 1.0}))
    yield from ((s, t, n, m) for s, t, n, m in zip(*clean, *now, strict=True) if s and t)


def test_case_and_missing_ends_follow_in_the_target_where_they_should(
    made_of_bpe: Prepared,
) -> None:
    for src, tgt, noisy_src, noisy_tgt in changes(made_of_bpe, "upper"):
        assert (noisy_src, noisy_tgt) == (src.upper(), tgt.upper())
    for src, tgt, noisy_src, noisy_tgt in changes(made_of_bpe, "lower"):
        assert (noisy_src, noisy_tgt) == (src.lower(), tgt)
    for src, tgt, noisy_src, noisy_tgt in changes(made_of_bpe, "title"):
        words = (word[:1].upper() + word[1:] for word in src.split(" "))
        assert (noisy_src, noisy_tgt) == (" ".join(words), tgt)
    for src, tgt, noisy_src, noisy_tgt in changes(made_of_bpe, "missing_end"):
        assert (noisy_src, noisy_tgt) == (src.rstrip(".?!"), tgt.rstrip(".?!"))
    for src, tgt, noisy_src, noisy_tgt in changes(made_of_bpe, "doubled_end"):
        assert noisy_tgt == tgt
        assert noisy_src in {src + src[-1], src + 2 * src[-1]}


def test_typos_and_spaces_change_the_source_alone(made_of_bpe: Prepared) -> None:
    changed = 0
    for src, tgt, noisy_src, noisy_tgt in changes(made_of_bpe, "typos"):
        assert noisy_tgt == tgt
        assert len(noisy_src.split()) == len(src.split())
        assert abs(len(noisy_src) - len(src)) <= len(src.split())
        changed += noisy_src != src
    assert changed > 0.7 * len(made_of_bpe.train)
    for kind, difference in (("merged", -1), ("split", 1)):
        for src, tgt, noisy_src, noisy_tgt in changes(made_of_bpe, kind):
            assert noisy_tgt == tgt
            assert noisy_src.replace(" ", "") == src.replace(" ", "")
            assert len(noisy_src) - len(src) in (0, difference)


def test_a_string_is_copied_to_the_same_end_of_both_sides(made_of_bpe: Prepared) -> None:
    found = set()
    for src, tgt, noisy_src, noisy_tgt in changes(made_of_bpe, "copied"):
        at_end = noisy_src.startswith(src)
        [string] = noisy_src.replace(src, "", 1).split()
        expected = f"{tgt} {string}" if at_end else f"{string} {tgt}"
        assert noisy_tgt == expected
        found.add((string, at_end))
    assert len({string for string, _ in found}) > 100
    assert {at_end for _, at_end in found} == {True, False}


def test_noise_follows_from_seed_epoch_and_pair(made_of_bpe: Prepared) -> None:
    def sources(epoch: int, seed: int) -> list[str]:
        return texts(made_of_bpe, noised(made_of_bpe, ALL, epoch=epoch, seed=seed))[0]

    first = sources(0, 1)
    assert sources(0, 1) == first
    for other in (sources(1, 1), sources(0, 2)):
        assert sum(a != b for a, b in zip(first, other, strict=True)) > len(first) // 2


def test_rates_are_shares_of_pairs(made_of_bpe: Prepared) -> None:
    clean = texts(made_of_bpe, made_of_bpe.train)[0]
    for rate in (0.1, 0.6):
        changed = 0
        for epoch in range(5):
            store = noised(made_of_bpe, {"upper": rate}, epoch=epoch)
            both = zip(clean, texts(made_of_bpe, store)[0], strict=True)
            changed += sum(a != b for a, b in both)
        assert changed / (5 * len(clean)) == pytest.approx(rate, abs=0.05)


def test_another_process_makes_the_same_noise(made_of_bpe: Prepared) -> None:
    here = noised(made_of_bpe, ALL)
    with patch.object(epochs, "FEW_PAIRS", 0), patch.object(epochs, "CHUNK_PAIRS", 50):
        there = noised(made_of_bpe, ALL)
    assert texts(made_of_bpe, there) == texts(made_of_bpe, here)


def test_threads_that_prepare_epochs_at_once_do_not_mix_their_words(made_of_bpe: Prepared) -> None:
    def sides(store: Store) -> list[tuple[list[int], list[int]]]:
        return [(store.src[n].tolist(), store.tgt[n].tolist()) for n in range(len(store))]

    alone = [sides(noised(made_of_bpe, ALL, epoch=epoch)) for epoch in range(6)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with EpochNoise(ALL, made_of_bpe.tokenizer_file) as noise, ThreadPoolExecutor(3) as pool:
            make = partial(noise.store, made_of_bpe.train, seed=1, max_lengths=LONG)
            at_once = list(pool.map(lambda epoch: sides(make(epoch=epoch)), range(6)))
    finally:
        sys.setswitchinterval(before)
    assert at_once == alone


def rows_of(batch: Batch) -> list[list[int]]:
    return [row.tolist() for side in (batch.src, batch.tgt_in, batch.tgt_out) for row in side]


@pytest.mark.parametrize("packed", [True, False])
def test_resuming_within_an_epoch_gives_the_same_batches(
    packed: bool, made_of_bpe: Prepared
) -> None:
    def loader() -> Loader:
        noise = EpochNoise(ALL, made_of_bpe.tokenizer_file, subword_dropout=0.1)
        return Loader(made_of_bpe.train, max_tokens=256, per_step=2, packed=packed, noise=noise)

    whole = list(loader().steps(3))
    done = whole[len(whole) // 2].done
    rest = [rows_of(batch) for step in loader().steps(3, done=done) for batch in step.batches]
    assert rest == [rows_of(b) for step in whole for b in step.batches if step.first >= done]
    assert len(rest) > 1


@pytest.mark.parametrize("packed", [True, False])
def test_batches_hold_the_pairs_of_the_epoch_within_their_limits(
    packed: bool, made_of_bpe: Prepared
) -> None:
    noise = EpochNoise(ALL, made_of_bpe.tokenizer_file)
    loader = Loader(made_of_bpe.train, max_tokens=256, packed=packed, noise=noise)
    found = []
    for world, rank in ((1, 0), (2, 0), (2, 1)):
        mine = replace(loader, world=world, rank=rank)
        batches = list(mine.batches(1))
        assert all(max(b.src.shape[1], b.tgt_out.shape[1]) <= 256 for b in batches)
        assert all(b.src.numel() <= 256 and b.tgt_out.numel() <= 256 for b in batches)
        ids = [sentence for b in batches for sentence in sentences(b.src.flatten().tolist())]
        found.append(ids)
    epoch = loader.epoch(1)
    assert sorted(found[0]) == sorted(epoch.store.src[n].tolist() for n in range(len(epoch.store)))
    assert sorted(found[1] + found[2]) == sorted(found[0])


def sentences(row: list[int]) -> list[list[int]]:
    """Cut a row, or several, into sentences."""
    found: list[list[int]] = [[]]
    for token in row:
        if token == EOS_ID:
            found.append([])
        elif token != PAD_ID:
            found[-1].append(token)
    return found[:-1]


def test_a_pair_that_noise_makes_too_long_stays_as_it_is(made_of_bpe: Prepared) -> None:
    clean = made_of_bpe.train
    longest = int(clean.src.lengths.max()), int(clean.tgt.lengths.max())
    with EpochNoise({"upper": 1.0}, made_of_bpe.tokenizer_file) as noise:
        store = noise.store(clean, seed=1, epoch=0, max_lengths=longest)
    assert int(store.src.lengths.max()) <= longest[0]
    assert int(store.tgt.lengths.max()) <= longest[1]
    src, tgt = texts(made_of_bpe, store)
    before = texts(made_of_bpe, clean)
    kinds = {
        (now == text, now_tgt == text_tgt)
        for text, text_tgt, now, now_tgt in zip(*before, src, tgt, strict=True)
        if text and text_tgt
    }
    assert kinds == {(True, True), (False, False)}, "some stay, both sides together"


def test_text_that_is_already_segmented_has_no_noise(tmp_path: Path) -> None:
    data = made(tmp_path, "whitespace")
    with pytest.raises(ConfigError, match=r"data\.augment: this vocabulary does not keep"):
        EpochNoise(ALL, data.tokenizer_file)
