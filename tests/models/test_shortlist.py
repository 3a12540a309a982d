"""A shortlist comes back as it was saved, and any other file is refused in one line."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.translation.likely import VOCAB_SIZE, learnt_tokenizer
from transduce.errors import InputError
from transduce.models import shortlist as shortlists
from transduce.models.folder import load_weights, save_weights
from transduce.models.shortlist import SPECIAL, Shortlist
from transduce.text.tokenizer import Tokenizer


def random_shortlist(seed: int) -> Shortlist:
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 6, VOCAB_SIZE)
    starts = np.append(0, np.cumsum(counts))
    ids = rng.integers(0, VOCAB_SIZE, starts[-1])
    return Shortlist(np.unique(rng.integers(0, VOCAB_SIZE, 20)), starts, ids, VOCAB_SIZE)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return learnt_tokenizer()


def test_it_comes_back_as_it_was_saved(tmp_path: Path, tokenizer: Tokenizer) -> None:
    made, path = random_shortlist(1), tmp_path / "shortlist.safetensors"
    made.save(path, tokenizer)
    found = Shortlist.load(path, tokenizer)
    for name in ("frequent", "starts", "ids"):
        assert np.array_equal(getattr(found, name), getattr(made, name))
    before = path.read_bytes()
    found.save(path, tokenizer)
    assert path.read_bytes() == before


def test_candidates_are_lists_frequent_special_and_given_tokens() -> None:
    made = random_shortlist(2)
    sentences, also = [[5, 9, 9, 30], [], [400]], [[], [77], [8, 8]]
    found = made.candidates(sentences, also)
    for row, sentence in enumerate(sentences):
        lists = {int(one) for token in sentence for one in made.of(token)}
        expected = lists | set(range(SPECIAL)) | set(made.frequent.tolist()) | set(also[row])
        assert set(np.flatnonzero(found[row]).tolist()) == expected


def changed(name: str, change: Callable[[Tensor], Tensor]) -> Callable[[dict[str, Tensor]], None]:
    def forge(tensors: dict[str, Tensor]) -> None:
        tensors[name] = change(tensors[name])

    return forge


def filled(place: int, value: int) -> Callable[[Tensor], Tensor]:
    def change(tensor: Tensor) -> Tensor:
        tensor[place] = value
        return tensor

    return change


def wrapping(starts: Tensor) -> Tensor:
    """Go down by so much that the difference of two, modulo 2^64, is above 0."""
    starts[1:4] = torch.tensor([2**63 - 1, -(2**63), -1])
    return starts


@pytest.mark.parametrize(
    ("forge", "message"),
    [
        (lambda tensors: tensors.pop("ids"), "it is no shortlist"),
        (lambda tensors: tensors.update(more=torch.zeros(1)), "it is no shortlist"),
        (changed("ids", lambda ids: ids.float()), "it is no shortlist"),
        (changed("ids", lambda ids: ids[None]), "it is no shortlist"),
        (changed("starts", lambda starts: starts[:0]), "not those of the source tokens"),
        (changed("starts", lambda starts: starts[:-1]), "not those of the source tokens"),
        (changed("starts", filled(0, 1)), "not those of the source tokens"),
        (changed("starts", filled(-1, 10**12)), "not those of the source tokens"),
        (changed("starts", filled(7, -5)), "its lists overlap"),
        (changed("starts", filled(7, 2**62)), "its lists overlap"),
        (changed("starts", wrapping), "its lists overlap"),
        (changed("ids", filled(0, VOCAB_SIZE)), "it has tokens that the vocabulary lacks"),
        (changed("frequent", filled(0, -1)), "it has tokens that the vocabulary lacks"),
        (changed("tokenizer", filled(0, 0)), "it was made for another tokenizer"),
    ],
)
def test_a_hostile_file_is_refused(
    forge: Callable[[dict[str, Tensor]], None],
    message: str,
    tmp_path: Path,
    tokenizer: Tokenizer,
) -> None:
    path = tmp_path / "shortlist.safetensors"
    random_shortlist(3).save(path, tokenizer)
    tensors = load_weights(path)
    forge(tensors)
    save_weights(path, tensors, metadata={})
    with pytest.raises(InputError, match=message) as refused:
        Shortlist.load(path, tokenizer)
    assert "make it again with 'transduce shortlist'" in str(refused.value)


def test_a_file_of_another_tokenizer_or_too_large_a_one_is_refused(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "shortlist.safetensors"
    random_shortlist(3).save(path, tokenizer)
    with pytest.raises(InputError, match="it was made for another tokenizer"):
        Shortlist.load(path, learnt_tokenizer(seed=2))
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match="cut short, damaged or not safetensors"):
        Shortlist.load(path, tokenizer)
    monkeypatch.setattr(shortlists, "MAX_BYTES", 100)
    with pytest.raises(InputError, match="has more than 100 bytes, so it is no shortlist"):
        Shortlist.load(path, tokenizer)
