"""Import of Marian models in Hugging Face's format, as OPUS-MT publishes them."""

import reprlib
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
    FILES_TO_KEEP,
    MARIAN_CONFIG,
    MARIAN_FILES,
    OUR_SETTINGS,
    without_special_tokens,
)
from transduce.export.marian_vocabulary import MarianVocabulary
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
from transduce.export.sentencepiece import MAX_BYTES
from transduce.files.checksums import check_files
from transduce.files.errors import reporting_read_errors
from transduce.files.regular import MIB, copy_file, read_json
from transduce.models.folder import TOKENIZER, WEIGHTS, load_model, save_settings, save_weights
from transduce.text.tokenizer import Tokenizer
from transduce.text.tokenizer_schema import MAX_BYTES as MAX_TOKENIZER_BYTES

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
    if extra:  # it was exported by us
        check_files(folder)
    weights = _converted_weights(folder, theirs, extra)
    vocabulary = None
    if extra:
        tokenizer = _our_tokenizer(folder / TOKENIZER)
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


def _our_tokenizer(path: Path) -> Tokenizer:
    try:
        return without_special_tokens(_read_json(path, max_bytes=MAX_TOKENIZER_BYTES))
    except InputError as foreign:
        raise InputError(f"{path} is not a tokenizer of transduce: {foreign}") from foreign


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
        name = f"{MARIAN_CONFIG}: {OUR_SETTINGS}.norm_epsilon"
        raise InputError(f"{name}={reprlib.repr(found)} is not between 0 and 1")
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
            "p_drop": theirs.get("dropout", 0.1),
            "p_drop_attention": theirs.get("attention_dropout", 0.0),
            "p_drop_ff": theirs.get("activation_dropout", 0.0),
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
        found = reprlib.repr(config.get("model_type"))
        raise InputError(f"{path} is of model_type {found}, not marian")
    sizes = [
        f"{stack}_{part}"
        for stack in ("encoder", "decoder")
        for part in ("layers", "attention_heads", "ffn_dim")
    ]
    for name in ("vocab_size", "d_model", "max_position_embeddings", *sizes):
        if not (type(config.get(name)) is int and 0 < config[name] <= 10_000_000):
            shown = reprlib.repr(config.get(name))
            raise InputError(f"{path}: {name}={shown} is not a positive number")
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
    activation = config.get("activation_function")
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        shown = reprlib.repr(activation)
        raise InputError(f"{path}: activation_function={shown}: we have relu and swish")


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
    for name in FILES_TO_KEEP:
        path = folder / name
        if path.exists():
            _check_inside(path)
            with reporting_read_errors(path):
                copy_file(path, copied / name, max_bytes=MAX_BYTES)


def _check_inside(path: Path) -> None:
    """Raise if a link leads out of the folder: what it leads to would become part of the model.

    In Hugging Face's cache every file is a link to one in the folder `blobs` of its model.
    """
    folder = path.parent.resolve()
    is_cached = folder.parent.name == "snapshots"
    allowed = [folder, folder.parent.parent / "blobs"] if is_cached else [folder]
    if not any(path.resolve().is_relative_to(place) for place in allowed):
        raise InputError(f"{path} is a link out of its folder: put the file itself in its place")


def _read_json(path: Path, *, max_bytes: int = MIB) -> dict[str, Any]:
    try:
        content = read_json(path, max_bytes=max_bytes)
    except (OSError, ValueError) as unreadable:
        reason = getattr(unreadable, "strerror", None) or unreadable
        raise InputError(f"cannot read {path}: {reason}") from unreadable
    if not isinstance(content, dict):
        raise InputError(f"{path} is not a JSON object of settings by name")
    return content
