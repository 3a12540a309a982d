"""A source vocabulary of its own computes what one vocabulary with two disjoint halves would."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from tests.drawing import VOCAB_SIZE, padded_ids, seeds
from tests.models.every_kind import DRAWN
from transduce.config.kinds import find_kind
from transduce.config.schema import Config
from transduce.errors import ConfigError
from transduce.models.base import Seq2Seq
from transduce.models.build import build_model
from transduce.nn.packed_weights import can_pack, pack
from transduce.text.special_ids import PAD_ID

SRC_SIZE = VOCAB_SIZE + 6
OF_BOTH = [kind for kind in DRAWN if find_kind(kind).config.separate_vocabularies]


def halves_of_one(separate: Seq2Seq, shared: Seq2Seq) -> None:
    """Give a shared model the weights of a separate one: target entries, then source entries."""
    theirs, ours = shared.state_dict(), separate.state_dict()
    of_source = ours.pop("src_embedding.weight")
    for name, weight in ours.items():
        if name == "embedding.weight":
            theirs[name].copy_(torch.cat([weight, of_source]))
        elif theirs[name].shape == weight.shape:
            theirs[name].copy_(weight)
        else:  # an output of its own, or an output bias
            theirs[name].zero_()[: len(weight)].copy_(weight)


def as_second_half(src: Tensor) -> Tensor:
    return torch.where(src == PAD_ID, PAD_ID, src + VOCAB_SIZE)


@pytest.mark.exhaustive(after=2)
@pytest.mark.parametrize("kind", OF_BOTH)
@given(data=st.data())
def test_it_equals_a_shared_model_with_disjoint_entries(kind: str, data: st.DataObject) -> None:
    config, seed = data.draw(DRAWN[kind]), data.draw(seeds)
    separate, shared = (
        build_model(config.model_copy(update=sizes), seed=seed).double().eval()
        for sizes in (
            {"src_vocab_size": SRC_SIZE},
            {"vocab_size": VOCAB_SIZE + SRC_SIZE},
        )
    )
    halves_of_one(separate, shared)
    src, tgt = (data.draw(padded_ids(sentences=2)) for _ in range(2))
    # Entries beyond the target's: an embedding of the wrong side would have no such row.
    src = torch.where(src == PAD_ID, PAD_ID, src + SRC_SIZE - VOCAB_SIZE)
    found = separate(src, tgt)  # [B, T, V]
    assert found.size(2) == VOCAB_SIZE
    expected = shared(as_second_half(src), tgt)[:, :, :VOCAB_SIZE]
    assert_close(found, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("kind", OF_BOTH)
@pytest.mark.skipif(not can_pack(), reason="torch has no oneDNN here")
def test_packed_weights_compute_the_same(kind: str) -> None:
    config = (
        find_kind(kind)
        .config()
        .model_copy(update={"vocab_size": VOCAB_SIZE, "src_vocab_size": SRC_SIZE, "d_model": 8})
    )
    if kind == "transformer":
        config = config.model_copy(update={"n_encoder_layers": 1, "d_k": 4, "d_v": 4})
    model = build_model(config, seed=3).eval()
    if not model.abilities.packed_weights:
        pytest.skip(f"{kind} is never packed")
    src, tgt = torch.tensor([[SRC_SIZE - 1, 5, 3]]), torch.tensor([[2, 7]])
    before = model(src, tgt)
    pack(model)
    assert_close(model(src, tgt), before, rtol=1e-5, atol=1e-5)


def test_a_kind_with_one_vocabulary_refuses_two() -> None:
    other = sorted(DRAWN.keys() - set(OF_BOTH))
    assert other == ["memory_network"]
    with pytest.raises(ConfigError, match="kind memory_network has one vocabulary for source and"):
        Config.from_tree(
            {"model": {"kind": "memory_network"}, "data": {"shared_vocabulary": False}}
        )


@pytest.mark.parametrize(
    "settings",
    [{"data": {"tgt_subwords": "whitespace"}}, {"model": {"src_vocab_size": 900}}],
    ids=str,
)
def test_settings_of_one_side_need_separate_vocabularies(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"set data\.shared_vocabulary=false too"):
        Config.from_tree(settings)
