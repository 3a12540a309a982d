"""BPE-dropout: other subwords of the same text in each epoch, the same whenever it is resumed."""

from itertools import chain
from pathlib import Path
from statistics import fmean
from unittest.mock import patch

import numpy as np
import pytest
from tokenizers import Tokenizer as Backend

from tests.data.preparing import PAIRS, decoded, prepared, two_files
from tests.languages.toy_languages import LANGUAGES, WORDS, in_language
from transduce.config.schema import DataConfig
from transduce.data.encoding.side import Side
from transduce.data.noise import epochs
from transduce.data.noise.epochs import EpochNoise
from transduce.data.noise.subword_dropout import SubwordDropout
from transduce.data.prepare import Prepared
from transduce.data.store import Store
from transduce.errors import ConfigError
from transduce.text.tokenizer import Tokenizer

LONG = (1000, 1000)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("dropout")
    return prepared(DataConfig(**two_files(folder, PAIRS), clean=False), folder / "cache")


def dropped(data: Prepared, rate: float, *, epoch: int = 0, seed: int = 1) -> Store:
    with EpochNoise({}, data.tokenizer_file, subword_dropout=rate) as noise:
        return noise.store(data.train, seed=seed, epoch=epoch, max_lengths=LONG)


def ids(store: Store) -> list[tuple[list[int], list[int]]]:
    return [(store.src[n].tolist(), store.tgt[n].tolist()) for n in range(len(store))]


def test_the_text_stays_and_its_subwords_change_in_each_epoch(data: Prepared) -> None:
    clean, first = ids(data.train), dropped(data, 0.2)
    assert decoded(first, data.tokenizer) == decoded(data.train, data.tokenizer)
    assert ids(dropped(data, 0.2)) == ids(first)
    for other in (clean, ids(dropped(data, 0.2, epoch=1)), ids(dropped(data, 0.2, seed=2))):
        for side in (0, 1):
            changed = [a[side] != b[side] for a, b in zip(ids(first), other, strict=True)]
            assert sum(changed) > len(changed) // 2


def test_with_hardly_any_chance_the_subwords_are_those_of_the_library(data: Prepared) -> None:
    assert ids(dropped(data, 1e-12)) == ids(data.train)


def test_another_process_draws_the_same(data: Prepared) -> None:
    here = ids(dropped(data, 0.2))
    with patch.object(epochs, "FEW_PAIRS", 0), patch.object(epochs, "CHUNK_PAIRS", 50):
        assert ids(dropped(data, 0.2)) == here


def test_a_pair_that_becomes_too_long_stays_as_it_is(data: Prepared) -> None:
    longest = int(data.train.src.lengths.max()), int(data.train.tgt.lengths.max())
    with EpochNoise({}, data.tokenizer_file, subword_dropout=0.5) as noise:
        store = noise.store(data.train, seed=1, epoch=0, max_lengths=longest)
    assert int(store.src.lengths.max()) <= longest[0]
    assert int(store.tgt.lengths.max()) <= longest[1]


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_words_are_cut_as_often_as_by_the_library(rate: float) -> None:
    """The library draws spellings by the same algorithm, but from no seed."""
    words = [in_language(language, word) for language in LANGUAGES for word in WORDS]
    tokenizer = Tokenizer.learn(words, kind="bpe", vocab_size=500)
    rows = tokenizer.encode_batch(words)
    clean = Side(np.array(list(chain(*rows)), dtype=np.uint16), np.array(list(map(len, rows))))
    dropout = SubwordDropout(tokenizer.source, np.dtype(np.uint16), rate)
    states = (np.full(len(words), state, dtype=np.uint64) for state in range(200))
    ours = fmean(dropout.applied(clean, state).ids.size for state in states)
    backend = Backend.from_str(tokenizer.source.to_json())
    backend.model.dropout = rate
    theirs = fmean(sum(len(backend.encode(word).ids) for word in words) for _ in range(200))
    assert ours - clean.ids.size == pytest.approx(theirs - clean.ids.size, rel=0.1)


def test_other_subwords_have_no_merges_to_leave_out(tmp_path: Path) -> None:
    config = DataConfig(**two_files(tmp_path, PAIRS), subwords="unigram", clean=False)
    tokenizer = prepared(config, tmp_path / "cache").tokenizer_file
    with pytest.raises(ConfigError, match=r"data\.subword_dropout=0\.1 leaves out merges of BPE"):
        EpochNoise({}, tokenizer, subword_dropout=0.1)
