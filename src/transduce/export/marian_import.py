"""Import of Marian models in Hugging Face's format, as OPUS-MT publishes them."""

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
from transduce.export.folder import new_folder
from transduce.export.huggingface import (
    GENERATION_CONFIG,
    MARIAN_CONFIG,
    MARIAN_FILES,
    OUR_SETTINGS,
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
    Depths,
    from_marian,
    tensor_mappings,
)
from transduce.models.folder import TOKENIZER, WEIGHTS, load_model, save_settings, save_weights

PICKLED = "pytorch_model.bin"
ACTIVATIONS = {"relu": "relu", "swish": "swish", "silu": "swish"}
LAYERS = ("model.encoder.layers.", "model.decoder.layers.")
"""How the names of all tensors of the layers begin."""


def import_marian(folder: Path, out: Path) -> None:
    """Write a Marian folder as a model folder that translates the same and can be fine-tuned."""
    theirs = _read_json(folder / MARIAN_CONFIG)
    _check(theirs, folder)
    found = theirs.get(OUR_SETTINGS)
    extra: dict[str, Any] = found if isinstance(found, dict) else {}
    weights = _converted_weights(folder, theirs, extra)
    vocabulary = None
    if extra:
        tokenizer = without_special_tokens(_read_json(folder / TOKENIZER))
    else:
        vocabulary = MarianVocabulary.read(folder, theirs)
        vocabulary.to_ours(weights)
        tokenizer = vocabulary.tokenizer(folder)
    config = _config(theirs, extra, weights)
    with new_folder(out) as written:
        save_settings(written, config, tokenizer)
        save_weights(written / WEIGHTS, weights, metadata={})
        if vocabulary is not None:
            _copy_marian_files(folder, written / MARIAN_FILES)
        del weights
        load_model(written)  # raises if a tensor is missing or not finite


def _converted_weights(
    folder: Path, theirs: dict[str, Any], extra: dict[str, Any]
) -> dict[str, Tensor]:
    depths = _depths(theirs)
    weights = _read_weights(folder, depths)
    if list(weights[THEIR_EMBEDDING].shape) != [theirs["vocab_size"], theirs["d_model"]]:
        raise InputError(f"{folder / WEIGHTS} is not of the model in {MARIAN_CONFIG}")
    try:
        return from_marian(
            weights,
            depths=depths,
            norm_epsilon=_epsilon(extra),
            attention_bias=extra.get("attention_bias") is True,
            output_bias=extra.get("output_bias") is True,
        )
    except (IndexError, RuntimeError) as fault:
        raise InputError(f"{folder / WEIGHTS} is not of the model in {MARIAN_CONFIG}") from fault


def _depths(theirs: dict[str, Any]) -> Depths:
    return Depths(theirs["encoder_layers"], theirs["decoder_layers"])


def _epsilon(extra: dict[str, Any]) -> float:
    found = extra.get("norm_epsilon", MARIAN_EPSILON)
    if not (isinstance(found, float) and 0 < found < 1):
        raise InputError(
            f"{MARIAN_CONFIG}: {OUR_SETTINGS}.norm_epsilon={found!r} is not between 0 and 1"
        )
    return found


def _config(theirs: dict[str, Any], extra: dict[str, Any], weights: dict[str, Tensor]) -> Config:
    """Convert Marian's settings to ours."""
    bias = "encoder.0.self_attention.w_q.bias"
    tree = {
        "model": {
            "vocab_size": weights[EMBEDDING].size(0),
            **_layer_settings(_depths(theirs)),
            "d_model": theirs["d_model"],
            "d_ff": theirs["encoder_ffn_dim"],
            "h": theirs["encoder_attention_heads"],
            "p_drop": float(theirs.get("dropout", 0.1)),
            "p_drop_attention": float(theirs.get("attention_dropout", 0.0)),
            "p_drop_ff": float(theirs.get("activation_dropout", 0.0)),
            "attention_bias": bias in weights,
            "output_bias": OUTPUT_BIAS in weights,
            "activation": ACTIVATIONS[theirs["activation_function"]],
            "norm_epsilon": _epsilon(extra),
            "max_positions": theirs["max_position_embeddings"],
        },
        "data": {"lines": extra.get("lines", "sentences")},
    }
    try:
        return Config.from_tree(tree)
    except ConfigError as wrong:
        raise InputError(f"{MARIAN_CONFIG} cannot be converted to our settings: {wrong}") from wrong


def _layer_settings(depths: Depths) -> dict[str, int]:
    if depths.encoder == depths.decoder:
        return {"n_layers": depths.encoder}
    return {"n_encoder_layers": depths.encoder, "n_decoder_layers": depths.decoder}


def _check(config: dict[str, Any], folder: Path) -> None:
    """Raise with the reason if this is not a model that we can compute."""
    path = folder / MARIAN_CONFIG
    if config.get("model_type") != "marian":
        raise InputError(f"{path} is of model_type {config.get('model_type')!r}, not marian")
    sizes = [
        f"{stack}_{part}"
        for stack in ("encoder", "decoder")
        for part in ("layers", "attention_heads", "ffn_dim")
    ]
    for name in ("vocab_size", "d_model", "max_position_embeddings", *sizes):
        if not (type(config.get(name)) is int and 0 < config[name] <= 10_000_000):
            raise InputError(f"{path}: {name}={config.get(name)!r} is not a positive number")
    for part in ("attention_heads", "ffn_dim"):
        encoder, decoder = config[f"encoder_{part}"], config[f"decoder_{part}"]
        if encoder != decoder:
            raise InputError(
                f"{path}: encoder_{part}={encoder} but decoder_{part}={decoder}: "
                "our models have the same in both"
            )
    for name in ("share_encoder_decoder_embeddings", "tie_word_embeddings", "scale_embedding"):
        if config.get(name, name != "scale_embedding") is not True:
            raise InputError(
                f"{path}: {name} is not true, but our models have one embedding for source, "
                "target and output, scaled by sqrt(d_model) (§3.4)"
            )
    if config.get("decoder_vocab_size") not in (None, config["vocab_size"]):
        raise InputError(f"{path}: decoder_vocab_size: our models have one vocabulary for both")
    if config.get("activation_function") not in ACTIVATIONS:
        found = config.get("activation_function")
        raise InputError(f"{path}: activation_function={found!r}: we have relu and swish")


def _read_weights(folder: Path, depths: Depths) -> dict[str, Tensor]:
    """Read the tensors of our model; the file may also hold copies of them, and sinusoids."""
    path = folder / WEIGHTS
    if not path.is_file():
        raise _no_weights(folder)
    names = (mapping.theirs for mapping in tensor_mappings(depths))
    try:
        with safe_open(path, framework="pt") as file:
            unread = set(file.keys())
            weights = {}
            for name in chain((THEIR_EMBEDDING, THEIR_OUTPUT_BIAS), names):
                if name not in unread:
                    raise InputError(f"{path} lacks the tensor {name}, which {MARIAN_CONFIG} needs")
                unread.remove(name)
                weights[name] = file.get_tensor(name)
    except SafetensorError as malformed:
        reason = shorten(str(malformed), 200)
        raise InputError(f"{path} is damaged or not safetensors: {reason}") from malformed
    except OSError as unreadable:
        raise InputError(f"cannot read {path}: {unreadable}") from unreadable
    surplus = min((name for name in unread if name.startswith(LAYERS)), default=None)
    if surplus is not None:
        raise InputError(f"{path} has the tensor {surplus}, for which {MARIAN_CONFIG} has no layer")
    return weights


def _no_weights(folder: Path) -> InputError:
    if not (folder / PICKLED).is_file():
        return InputError(f"{folder} has no file {WEIGHTS}")
    return InputError(
        f"{folder} has only pickled weights, {PICKLED}, which can run code when they are "
        'loaded; if you trust them, rewrite them as safetensors: python -c "from '
        f"transformers import MarianMTModel as M; M.from_pretrained('{folder}')"
        ".save_pretrained('NEW')\", copy the tokenizer's files there, and import NEW"
    )


def _copy_marian_files(folder: Path, copied: Path) -> None:
    copied.mkdir()
    for name in (SOURCE, TARGET, ENTRIES, MARIAN_CONFIG, GENERATION_CONFIG, TOKENIZER_CONFIG):
        if (folder / name).is_file():
            shutil.copyfile(folder / name, copied / name)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as unreadable:
        raise InputError(f"cannot read {path}: {unreadable}") from unreadable
    if not isinstance(content, dict):
        raise InputError(f"{path} is not a JSON object of settings by name")
    return content
