"""The links of a store are made once, complete or absent, and follow their tokens into batches."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.preparing import PAIRS, prepared, two_files
from transduce.config.schema import DataConfig
from transduce.data.alignment import links as module
from transduce.data.alignment.links import with_links
from transduce.data.batch import NO_LINK, Batch
from transduce.data.batching import RowCapacity
from transduce.data.noise.epochs import EpochNoise
from transduce.data.store import Sentences, Store
from transduce.errors import InputError


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Path]:
    """Return a store without links, and its tokenizer."""
    folder = tmp_path_factory.mktemp("corpus")
    found = prepared(DataConfig(**two_files(folder, PAIRS)), folder / "cache")
    return found.train, found.tokenizer_file


def linked(store: Store, cache: Path, *, processes: int = 1) -> Sentences:
    found = with_links(store, cache, processes=processes, progress=lambda _done, _total: None)
    assert found.links is not None
    return found.links


def test_links_do_not_depend_on_the_number_of_processes(
    corpus: tuple[Store, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK_PAIRS", 100)
    store, _ = corpus
    one = linked(store, tmp_path / "one")
    two = linked(store, tmp_path / "two", processes=2)
    assert (one.ids == two.ids).all()
    assert (one.lengths == store.tgt.lengths).all()
    assert (one.ids > 0).mean() > 0.25  # of pieces of words
    places = np.repeat(store.src.lengths, store.tgt.lengths)
    assert (one.ids <= places).all()


def test_links_are_made_once_and_a_changed_file_is_found(
    corpus: tuple[Store, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _ = corpus
    first = linked(store, tmp_path)

    def fail(*_arguments: object) -> None:
        raise AssertionError("they are aligned again")

    with monkeypatch.context() as patched:
        patched.setattr(module, "train_aligner", fail)
        assert (linked(store, tmp_path).ids == first.ids).all()
        [file] = tmp_path.glob("*/links")
        content = file.read_bytes()
        file.write_bytes(bytes([content[0] ^ 1]) + content[1:])
        with pytest.raises(InputError, match="was truncated or changed"):
            linked(store, tmp_path)


def test_an_interrupted_alignment_leaves_nothing(
    corpus: tuple[Store, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK_PAIRS", 100)

    def interrupt(done: int, _total: int) -> None:
        if done >= 200:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        with_links(corpus[0], tmp_path, processes=1, progress=interrupt)
    assert list(tmp_path.iterdir()) == []


def reversing_store(lengths: list[int]) -> Store:
    """Make targets that are reversed sources, with the links that say so; some have none."""
    ids = [np.arange(4, 4 + n, dtype=np.uint16) + 10 * i for i, n in enumerate(lengths)]
    ends = np.cumsum(lengths)
    src = Sentences(np.concatenate(ids), ends)
    tgt = Sentences(np.concatenate([row[::-1] for row in ids]), ends)
    numbers = [np.arange(n, 0, -1, dtype=np.uint16) for n in lengths]
    for row in numbers:
        row[1::3] = 0
    links = Sentences(np.concatenate(numbers), ends)
    return Store(src, tgt, {"source_ends": [len(lengths)]}, links)


def check_linked(batch: Batch, store: Store) -> int:
    """Check that linked tokens are equal on both sides; return how many there are."""
    assert batch.links is not None
    rows, columns = (batch.links != NO_LINK).nonzero(as_tuple=True)
    sources = batch.src[rows, batch.links[rows, columns]]
    assert (sources == batch.tgt_out[rows, columns]).all()
    assert store.links is not None
    return len(rows)


@settings(max_examples=40)
@given(lengths=st.lists(st.integers(1, 12), min_size=1, max_size=12), data=st.data())
def test_links_follow_their_tokens_into_batches(lengths: list[int], data: st.DataObject) -> None:
    store = reversing_store(lengths)
    chosen = np.array(data.draw(st.permutations(range(len(lengths)))))
    total = sum(lengths) + len(lengths)
    padded = Batch.padded(store, chosen)
    packed = Batch.packed(store, chosen, RowCapacity(total + 3, total + 5))
    assert store.links is not None
    expected = int((store.links.ids > 0).sum())
    for batch in (padded, packed):
        assert check_linked(batch, store) == expected
        parts = batch.split(data.draw(st.integers(1, total)))
        assert sum(check_linked(part, store) for part in parts) == expected


def test_pairs_with_noise_have_no_links(corpus: tuple[Store, Path], tmp_path: Path) -> None:
    store, tokenizer = corpus
    clean = replace(store, links=linked(store, tmp_path))
    with EpochNoise({"typos": 0.5}, tokenizer) as noise:
        noised = noise.store(clean, seed=1, epoch=0, max_lengths=(200, 200))
    assert clean.links is not None
    assert noised.links is not None
    every = np.arange(len(store))
    is_clean = np.array(
        [(noised.src[n].tolist() == store.src[n].tolist()) for n in range(len(store))]
    )
    assert 0.3 < is_clean.mean() < 0.8
    assert (noised.links.lengths == noised.tgt.lengths).all()
    changed, same = every[~is_clean], every[is_clean]
    assert not noised.links.gather(changed).any()
    kept = noised.links.gather(same)
    assert (kept == clean.links.gather(same)).mean() > 0.9  # noise may leave a pair as it was
