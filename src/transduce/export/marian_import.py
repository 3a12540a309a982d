"""A Marian model in Hugging Face's format, as OPUS-MT's are published, becomes a model folder."""

import json
import shutil
from itertools import chain
from pathlib import Path
from textwrap import shorten
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from transduce.config.schema import Config
from transduce.errors import ConfigError, InputError
from transduce.export.folder import exporting
from transduce.export.huggingface import (
    GENERATION_CONFIG,
    KEPT,
    MARIAN_CONFIG,
    OURS,
    TOKENIZER_CONFIG,
    without_special_tokens,
)
from transduce.export.marian_vocabulary import ENTRIES, SOURCE, TARGET, MarianVocabulary
from transduce.export.marian_weights import (
    EMBEDDING,
    MARIAN_EPSILON,
    OUTPUT_BIAS,
    THEIR_EMBEDDING,
    THEIR_OUTPUT_BIAS,
    from_marian,
    renamed,
)
from transduce.models.folder import TOKENIZER, WEIGHTS, load_model, save_settings, save_weights

PICKLED = "pytorch_model.bin"
ACTIVATIONS = {"relu": "relu", "swish": "swish", "silu": "swish"}


def import_marian(folder: Path, out: Path) -> None:
    """Write a Marian folder as one of ours, which translates the same and can be trained on."""
    theirs = _read_json(folder / MARIAN_CONFIG)
    _check(theirs, folder)
    found = theirs.get(OURS)
    noted: dict[str, Any] = found if isinstance(found, dict) else {}
    weights = _our_weights(folder, theirs, noted)
    vocabulary = None
    if noted:
        tokenizer = without_special_tokens(_read_json(folder / TOKENIZER))
    else:
        vocabulary = MarianVocabulary.read(folder, theirs)
        vocabulary.to_ours(weights)
        tokenizer = vocabulary.tokenizer(folder)
    config = _config(theirs, noted, weights)
    with exporting(out) as making:
        save_settings(making, config, tokenizer)
        save_weights(making / WEIGHTS, weights, metadata={})
        if vocabulary is not None:
            _keep(folder, making / KEPT)
        del weights
        load_model(making)  # raises if anything is missing, or is no number


def _our_weights(folder: Path, theirs: dict[str, Any], noted: dict[str, Any]) -> dict[str, Tensor]:
    n_layers = theirs["encoder_layers"]
    weights = _weights(folder, n_layers)
    if list(weights[THEIR_EMBEDDING].shape) != [theirs["vocab_size"], theirs["d_model"]]:
        raise InputError(f"{folder / WEIGHTS} is not of the model in {MARIAN_CONFIG}")
    try:
        return from_marian(
            weights,
            n_layers=n_layers,
            norm_epsilon=_epsilon(noted),
            attention_bias=noted.get("attention_bias") is True,
            output_bias=noted.get("output_bias") is True,
        )
    except (IndexError, RuntimeError) as fault:
        raise InputError(f"{folder / WEIGHTS} is not of the model in {MARIAN_CONFIG}") from fault


def _epsilon(noted: dict[str, Any]) -> float:
    found = noted.get("norm_epsilon", MARIAN_EPSILON)
    if not (isinstance(found, float) and 0 < found < 1):
        raise InputError(f"{MARIAN_CONFIG}: {OURS}.norm_epsilon={found!r} is not between 0 and 1")
    return found


def _config(theirs: dict[str, Any], noted: dict[str, Any], weights: dict[str, Tensor]) -> Config:
    """Say in our terms what the model is."""
    bias = "encoder.0.self_attention.w_q.bias"
    tree = {
        "model": {
            "vocab_size": weights[EMBEDDING].size(0),
            "n_layers": theirs["encoder_layers"],
            "d_model": theirs["d_model"],
            "d_ff": theirs["encoder_ffn_dim"],
            "h": theirs["encoder_attention_heads"],
            "p_drop": float(theirs.get("dropout", 0.1)),
            "p_drop_attention": float(theirs.get("attention_dropout", 0.0)),
            "p_drop_ff": float(theirs.get("activation_dropout", 0.0)),
            "attention_bias": bias in weights,
            "output_bias": OUTPUT_BIAS in weights,
            "activation": ACTIVATIONS[theirs["activation_function"]],
            "norm_epsilon": _epsilon(noted),
            "max_positions": theirs["max_position_embeddings"],
        },
        "data": {"lines": noted.get("lines", "sentences")},
    }
    try:
        return Config.from_tree(tree)
    except ConfigError as wrong:
        raise InputError(f"config.json describes no model of ours: {wrong}") from wrong


def _check(config: dict[str, Any], folder: Path) -> None:
    """Raise with the reason if this is no model that we can compute."""
    place = folder / MARIAN_CONFIG
    if config.get("model_type") != "marian":
        raise InputError(f"{place} is of model_type {config.get('model_type')!r}, not marian")
    parts = ("layers", "attention_heads", "ffn_dim")
    both = [f"{stack}_{part}" for stack in ("encoder", "decoder") for part in parts]
    for name in ("vocab_size", "d_model", "max_position_embeddings", *both):
        if not (type(config.get(name)) is int and 0 < config[name] <= 10_000_000):
            raise InputError(f"{place}: {name}={config.get(name)!r} is no size")
    for part in parts:
        ours, other = config[f"encoder_{part}"], config[f"decoder_{part}"]
        if ours != other:
            raise InputError(
                f"{place}: encoder_{part}={ours} but decoder_{part}={other}: no equals"
            )
    for name in ("share_encoder_decoder_embeddings", "tie_word_embeddings", "scale_embedding"):
        if config.get(name, name != "scale_embedding") is not True:
            raise InputError(
                f"{place}: {name} is not true, but our models have one embedding for source, "
                "target and output, scaled by sqrt(d_model) (§3.4)"
            )
    if config.get("decoder_vocab_size") not in (None, config["vocab_size"]):
        raise InputError(f"{place}: decoder_vocab_size: our models have one vocabulary for both")
    if config.get("activation_function") not in ACTIVATIONS:
        found = config.get("activation_function")
        raise InputError(f"{place}: activation_function={found!r}: we have relu and swish")


def _weights(folder: Path, n_layers: int) -> dict[str, Tensor]:
    """Read the tensors that we know; what else there may be is copies of them, or sinusoids."""
    path = folder / WEIGHTS
    if not path.is_file():
        if (folder / PICKLED).is_file():
            raise InputError(
                f"{folder} has only pickled weights, {PICKLED}, which can run code when they are "
                'loaded; where you trust them, write them anew as safetensors: python -c "from '
                f"transformers import MarianMTModel as M; M.from_pretrained('{folder}')"
                ".save_pretrained('NEW')\", copy the tokenizer's files there, and import NEW"
            )
        raise InputError(f"{folder} has no file {WEIGHTS}")
    names = (name.theirs for name in renamed(n_layers))
    try:
        with safe_open(path, framework="pt") as file:
            there = set(file.keys())
            weights = {}
            for name in chain((THEIR_EMBEDDING, THEIR_OUTPUT_BIAS), names):
                if name not in there:
                    raise InputError(f"{path} has no tensor {name}, which config.json speaks of")
                weights[name] = file.get_tensor(name)
            return weights
    except SafetensorError as malformed:
        reason = shorten(str(malformed), 200)
        raise InputError(f"{path} is damaged or not safetensors: {reason}") from malformed
    except OSError as unreadable:
        raise InputError(f"cannot read {path}: {unreadable}") from unreadable


def _keep(folder: Path, kept: Path) -> None:
    """Copy what belongs to Marian's tokenizer and settings."""
    kept.mkdir()
    for name in (SOURCE, TARGET, ENTRIES, MARIAN_CONFIG, GENERATION_CONFIG, TOKENIZER_CONFIG):
        if (folder / name).is_file():
            shutil.copyfile(folder / name, kept / name)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as unreadable:
        raise InputError(f"cannot read {path}: {unreadable}") from unreadable
    if not isinstance(content, dict):
        raise InputError(f"{path} holds no settings by name")
    return content
