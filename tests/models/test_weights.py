"""Every weight is drawn and every buffer is filled, or an error names the one that is not."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.drawing import VOCAB_SIZE, transformer
from tests.models import recurrent
from tests.models.recurrent import Recurrent, RecurrentConfig
from transduce.config import kinds
from transduce.config.kinds import ModelKind
from transduce.config.schema import Config
from transduce.errors import TransduceError
from transduce.models.build import build_model
from transduce.models.folder import LoadedModel, load_model, save_model
from transduce.models.transformer.settings import TransformerConfig
from transduce.nn.initialise import initialise
from transduce.text.tokenizer import Tokenizer

SMALL: dict[str, Any] = {"vocab_size": 40, "d_model": 12, "d_ff": 20, "h": 3, "max_positions": 16}
WORDS = " ".join(f"w{n}" for n in range(VOCAB_SIZE - 4))


AddPart = Callable[[Callable[[], nn.Module]], None]


@pytest.fixture
def add_part(monkeypatch: pytest.MonkeyPatch) -> Iterator[AddPart]:
    """Install a kind of model that has one more part, until the test ends."""
    monkeypatch.setitem(kinds._OWN, "recurrent", recurrent.__name__)

    def add(part: Callable[[], nn.Module]) -> None:
        def build(config: RecurrentConfig) -> Recurrent:
            model = Recurrent(config)
            model.add_module("added", part())
            return model

        monkeypatch.setattr(recurrent, "KIND", ModelKind("recurrent", RecurrentConfig, build))
        kinds.find_kind.cache_clear()

    yield add
    kinds.find_kind.cache_clear()


def digest(weights: dict[str, Tensor]) -> str:
    found = blake2b(digest_size=16)
    for name, tensor in weights.items():
        found.update(name.encode() + tensor.numpy().tobytes())
    return found.hexdigest()


@pytest.mark.parametrize(
    ("changes", "seed", "expected"),
    [
        ({"norm": "post"}, 1, "d0e4f3c815e32b3ec9426287094f5fd8"),
        ({"norm": "pre", "activation": "swish"}, 2, "28f6c5567001797044a143c9b3839191"),
        (
            {"positions": "learned", "attention_bias": True, "output_bias": True}
            | {"d_k": 3, "d_v": 5},
            3,
            "fc600f8fe8d41eebb247cdda0ce5951d",
        ),
    ],
)
def test_equal_seeds_give_the_weights_of_version_0_1(
    changes: dict[str, Any], seed: int, expected: str
) -> None:
    """The digests were taken with that version; torch's CPU generator is the same everywhere."""
    config = TransformerConfig.model_validate(SMALL | {"n_layers": 2} | changes)
    assert digest(build_model(config, seed=seed).state_dict()) == expected


def test_the_two_depths_are_built_apart() -> None:
    depths = {"n_encoder_layers": 3, "n_decoder_layers": 1}
    model = transformer(TransformerConfig.model_validate(SMALL | depths))
    assert (len(model.encoder), len(model.decoder)) == (3, 1)

    def parameters(encoder: int, decoder: int) -> int:
        config = TransformerConfig.model_validate(
            SMALL | {"n_encoder_layers": encoder, "n_decoder_layers": decoder}
        )
        return sum(parameter.numel() for parameter in transformer(config).parameters())

    attention, norm = 4 * 12 * 12, 2 * 12
    feed_forward = 12 * 20 + 20 + 20 * 12 + 12
    assert parameters(2, 1) - parameters(1, 1) == attention + feed_forward + 2 * norm
    assert parameters(1, 2) - parameters(1, 1) == 2 * attention + feed_forward + 3 * norm


# What nothing draws


class BareGain(nn.Module):
    """A parameter without a method that draws it."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.empty(3))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gain


class HalfDrawn(BareGain):
    """Draws some of its numbers and forgets the last."""

    def init_weights(self) -> None:
        nn.init.ones_(self.gain[:2])


class Drawn(BareGain):
    def init_weights(self) -> None:
        nn.init.ones_(self.gain)


@pytest.mark.parametrize("bare", [BareGain, HalfDrawn])
def test_a_parameter_that_nothing_initialises_is_named(bare: type[BareGain]) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ModuleDict({"gate": bare()}))
    with pytest.raises(TransduceError, match=r"nothing initialises 1\.gate\.gain: .*init_weights"):
        initialise(model)


def test_parameters_drawn_by_either_method_pass() -> None:
    model = nn.Sequential(nn.Linear(3, 3), Drawn(), nn.GRUCell(3, 3), nn.LayerNorm(3))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(math.nan)
    initialise(model)
    assert all(parameter.isfinite().all() for parameter in model.parameters())


def test_a_kind_that_forgets_a_parameter_cannot_be_built(add_part: AddPart) -> None:
    add_part(BareGain)
    with pytest.raises(TransduceError, match=r"^nothing initialises added\.gain: "):
        build_model(RecurrentConfig(vocab_size=VOCAB_SIZE))


# What nothing rebuilds


class Ramp(nn.Module):
    """A buffer that files hold only if it is persistent."""

    ramp: Tensor

    def __init__(self, *, persistent: bool = False) -> None:
        super().__init__()
        self.register_buffer("ramp", torch.arange(3.0), persistent=persistent)


class RebuiltRamp(Ramp):
    def rebuild_buffers(self) -> None:
        self.ramp = torch.arange(3.0)


def saved_and_loaded(folder: Path) -> LoadedModel:
    config = Config(model=RecurrentConfig(vocab_size=VOCAB_SIZE, d_model=6))
    tokenizer = Tokenizer.learn([WORDS], kind="whitespace", vocab_size=VOCAB_SIZE)
    save_model(folder, LoadedModel(build_model(config.model), config, tokenizer))
    return load_model(folder)


def test_a_buffer_that_nothing_rebuilds_is_named(tmp_path: Path, add_part: AddPart) -> None:
    add_part(lambda: nn.Sequential(Ramp()))
    with pytest.raises(
        TransduceError, match=r"nothing rebuilds added\.0\.ramp when the model is loaded: "
    ):
        saved_and_loaded(tmp_path)


@pytest.mark.parametrize("part", [RebuiltRamp, partial(Ramp, persistent=True)])
def test_a_buffer_that_is_rebuilt_or_saved_is_loaded(
    part: Callable[[], nn.Module], tmp_path: Path, add_part: AddPart
) -> None:
    add_part(lambda: nn.Sequential(part()))
    loaded = saved_and_loaded(tmp_path)
    assert dict(loaded.model.named_buffers())["added.0.ramp"].tolist() == [0, 1, 2]
