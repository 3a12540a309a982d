"""A model as a folder that can be copied, compared and trusted: settings, vocabulary, weights.

Nothing in it is pickled, so loading a stranger's model runs no code. What the settings describe is
compared with the header of the weights before memory is taken for either.
"""

import reprlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from textwrap import shorten
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from transduce.config.load import load_config, to_yaml
from transduce.config.schema import Config, ModelConfig
from transduce.disk import replacing
from transduce.errors import ConfigError, InputError
from transduce.models.build import assemble
from transduce.models.safetensors_file import DTYPES, write_tensors
from transduce.models.transformer import Transformer
from transduce.nn.positions import SinusoidalPositions
from transduce.text.tokenizer import Tokenizer

FORMAT = "1"
CONFIG, TOKENIZER, WEIGHTS = "config.yaml", "tokenizer.json", "model.safetensors"

MAX_TABLE_SIZE = 2**28
"""Numbers in a table of sinusoids: it follows from the settings, so no file's size bounds it."""


@dataclass(frozen=True)
class LoadedModel:
    """A model with the settings that describe it and the vocabulary that it speaks."""

    model: Transformer
    config: Config
    tokenizer: Tokenizer


def save_model(folder: Path, loaded: LoadedModel) -> None:
    """Write a model folder, the weights last: without them it is not taken for a model."""
    save_settings(folder, loaded.config, loaded.tokenizer)
    save_weights(folder / WEIGHTS, loaded.model.state_dict(), metadata={})


def save_settings(folder: Path, config: Config, tokenizer: Tokenizer) -> None:
    """Write all of a model folder but the weights."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise InputError(f"cannot make the folder {folder}: {fault.strerror}") from fault
    with _replacing(folder / CONFIG) as making:
        making.write_text(to_yaml(config), encoding="utf-8")
    with _replacing(folder / TOKENIZER) as making:
        tokenizer.save(making)


def load_model(
    folder: Path,
    *,
    device: torch.device | str = "cpu",
    model_config: ModelConfig | None = None,
) -> LoadedModel:
    """Read a model folder, in eval mode; one whose files do not belong together is refused.

    `model_config` stands in for the folder's own, with what may differ from it: dropout, say.
    """
    for name in (CONFIG, TOKENIZER, WEIGHTS):
        if not (folder / name).is_file():
            raise InputError(
                f"{folder} has no file {name}: a model is a folder of "
                f"{CONFIG}, {TOKENIZER} and {WEIGHTS}"
            )
    config = load_settings(folder)
    if model_config is not None:
        config = config.model_copy(update={"model": model_config})
    with _opened(folder / WEIGHTS) as file:
        _check(config.model, file, folder)
        tokenizer = load_tokenizer(folder, config)
        weights = _tensors(file)
    for name, tensor in weights.items():
        if not bool(tensor.isfinite().all()):
            raise InputError(
                f"{folder / WEIGHTS}: {name} has entries that are no numbers: it cannot translate; "
                "take an earlier checkpoint, or train it again"
            )
    return LoadedModel(_with_weights(config.model, weights).to(device).eval(), config, tokenizer)


def load_settings(folder: Path) -> Config:
    """Read a model folder's settings alone."""
    try:
        return load_config(folder / CONFIG)
    except ConfigError as wrong:
        if str(folder / CONFIG) in str(wrong):
            raise
        raise ConfigError(f"{folder / CONFIG}: {wrong}") from wrong


def load_tokenizer(folder: Path, config: Config) -> Tokenizer:
    """Read a model folder's vocabulary alone, which must be that of its settings."""
    tokenizer = Tokenizer.load(folder / TOKENIZER)
    if len(tokenizer) != config.model.vocab_size:
        raise InputError(
            f"{folder / TOKENIZER} has {len(tokenizer):,} entries but {CONFIG} says "
            f"model.vocab_size={config.model.vocab_size}: they are not of one model"
        )
    return tokenizer


def save_weights(path: Path, weights: Mapping[str, Tensor], *, metadata: dict[str, str]) -> None:
    """Write tensors by name as safetensors; if it fails, what was there before is whole."""
    with _replacing(path) as making, making.open("wb") as stream:
        write_tensors(stream, weights, metadata=metadata | {"format": FORMAT})


def load_weights(path: Path) -> dict[str, Tensor]:
    """Read what `save_weights` wrote, onto the CPU."""
    if not path.is_file():
        raise InputError(f"{path} is not a file")
    with _opened(path) as file:
        return _tensors(file)


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Write under another name first; if that fails, say so in one line."""
    try:
        with replacing(path) as making:
            yield making
    except OSError as fault:
        raise InputError(f"cannot write {path}: {fault.strerror}") from fault


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open weights of our format; whatever the library finds wrong becomes one line."""
    try:
        with safe_open(path, framework="pt") as file:
            found = (file.metadata() or {}).get("format")
            if found != FORMAT:
                raise InputError(
                    f"{path} has format {reprlib.repr(found)} but this version reads "
                    f"{FORMAT!r}: use the version of transduce that wrote it"
                )
            yield file
    except SafetensorError as malformed:
        raise InputError(
            f"{path} is cut short, damaged or not safetensors ({shorten(str(malformed), 200)}): "
            "copy or save it again; pickled weights are never loaded"
        ) from malformed
    except OSError as unreadable:
        raise InputError(f"cannot read {path}: {unreadable}") from unreadable


def _tensors(file: Any) -> dict[str, Tensor]:
    """Copy the tensors: those of the library are the file itself, which others may write to."""
    return {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 - no mapping


def _check(config: ModelConfig, file: Any, folder: Path) -> None:
    """Raise unless the file holds what the settings describe."""
    table_size = config.max_positions * config.d_model
    if config.positions == "sinusoidal" and table_size > MAX_TABLE_SIZE:
        raise InputError(
            f"{folder / CONFIG}: model.max_positions={config.max_positions} times "
            f"model.d_model={config.d_model} is over {MAX_TABLE_SIZE:,}; lower max_positions"
        )
    differences = list(islice(_differences(config, file), 4))
    if differences:
        shown = "; ".join(differences[:3]) + ("; and more" if len(differences) > 3 else "")
        raise InputError(f"{folder / WEIGHTS} is not of the model in {CONFIG}: {shown}")


def _differences(config: ModelConfig, file: Any) -> Iterator[str]:
    unknown = set(file.keys())
    for name, expected in _described(config):
        if name not in unknown:
            yield f"{name} is missing"
            continue
        unknown.remove(name)
        held = file.get_slice(name)
        found = f"{held.get_dtype()} {held.get_shape()}"
        if found != expected:
            yield f"{name} is {found} instead of {expected}"
    for name in sorted(unknown):
        yield f"{reprlib.repr(name)} is unknown"


def _described(config: ModelConfig) -> Iterator[tuple[str, str]]:
    """Name every tensor of the model with its type and shape, without building all its layers.

    Layers are alike and numbered from 0, so one tells of all; a million are never made.
    """
    one_layer = config.model_copy(update={"n_layers": 1})
    for name, tensor in _without_memory(one_layer).state_dict().items():
        stack, numbered, part = name.partition(".0.")
        expected = f"{DTYPES[tensor.dtype]} {list(tensor.shape)}"
        for layer in range(config.n_layers if numbered else 1):
            yield f"{stack}.{layer}.{part}" if numbered else name, expected


def _with_weights(config: ModelConfig, weights: dict[str, Tensor]) -> Transformer:
    model = _without_memory(config)
    model.load_state_dict(weights, assign=True)
    if config.positions == "sinusoidal":
        model.positions = SinusoidalPositions(config.max_positions, config.d_model)
    return model


def _without_memory(config: ModelConfig) -> Transformer:
    """Assemble a model of shapes alone; sinusoids would be computed, so it gets one of them."""
    if config.positions == "sinusoidal":
        config = config.model_copy(update={"max_positions": 1})
    with torch.device("meta"):
        return assemble(config)
