"""A model in CTranslate2's format, with our settings and vocabulary beside it.

Its specification has all that ours may have but heads of odd widths: norms before or after, learned
positions, biases or none.
"""

import json
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from transduce.config.schema import ModelConfig
from transduce.disk import sync
from transduce.errors import InputError
from transduce.export.folder import exporting
from transduce.models.folder import LoadedModel, load_model, save_settings
from transduce.models.transformer import Transformer
from transduce.nn.attention import MultiHeadAttention
from transduce.nn.feed_forward import FeedForward
from transduce.text.special_ids import BOS_ID, EOS_ID, UNK_ID
from transduce.text.tokenizer import Tokenizer

Quantization = Literal["int8", "int8_float32", "float16", "bfloat16"]
WEIGHTS, SETTINGS, VOCABULARY = "model.bin", "config.json", "shared_vocabulary.json"


def export_ctranslate2(model: Path, out: Path, *, quantize: Quantization | None = None) -> None:
    """Write a model folder as one that CTranslate2 loads, and `transduce translate` too."""
    library()
    if quantize is not None and quantize not in get_args(Quantization):
        raise InputError(f"quantize={quantize!r}: use one of {', '.join(get_args(Quantization))}")
    loaded = load_model(model)
    with exporting(out) as making:
        write_ctranslate2(loaded, making, quantize=quantize)
        save_settings(making, loaded.config, loaded.tokenizer)


def library() -> Any:
    """Import CTranslate2, which not everybody has."""
    try:
        import ctranslate2
    except ImportError as missing:
        raise InputError(
            "CTranslate2 is not installed: pip install 'transduce[export]', or use --engine torch"
        ) from missing
    return ctranslate2


def is_installed() -> bool:
    """Say whether there is CTranslate2 here."""
    try:
        library()
    except InputError:
        return False
    return True


def refusal(config: ModelConfig) -> str | None:
    """Say why a model cannot be one of CTranslate2's, if it cannot."""
    if config.d_k * config.h != config.d_model or config.d_v != config.d_k:
        return (
            f"model.d_k={config.d_k} and model.d_v={config.d_v}: in CTranslate2 the "
            f"{config.h} heads share out the width {config.d_model} evenly, "
            "each with keys and values of one width"
        )
    return None


def is_exported(folder: Path) -> bool:
    """Say whether a folder is a model that was exported to CTranslate2."""
    return (folder / WEIGHTS).is_file() and (folder / SETTINGS).is_file()


def check_vocabulary(folder: Path, tokenizer: Tokenizer) -> None:
    """Raise unless CTranslate2's vocabulary is the one that our tokenizer speaks."""
    path = folder / VOCABULARY
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as unreadable:
        raise InputError(f"cannot read {path}: export the model again") from unreadable
    if entries != entries_of(tokenizer):
        raise InputError(f"{path} is not of the tokenizer beside it: export the model again")


def entries_of(tokenizer: Tokenizer) -> list[str]:
    """Name every entry: CTranslate2 takes names for ids."""
    return tokenizer.tokens(range(len(tokenizer)))


def write_ctranslate2(
    loaded: LoadedModel, folder: Path, *, quantize: Quantization | None = None
) -> None:
    """Write CTranslate2's own files into a folder; quantizing may spoil the model that is given."""
    reason = refusal(loaded.config.model)
    if reason is not None:
        raise InputError(f"cannot be written for CTranslate2: {reason}")
    entries = entries_of(loaded.tokenizer)
    spec = specification(loaded.model, loaded.config.model, entries, quantize=quantize)
    try:
        spec.save(str(folder))
        for name in (WEIGHTS, SETTINGS, VOCABULARY):
            sync(folder / name)
    except OSError as fault:
        raise InputError(f"cannot write in {folder}: {fault.strerror}") from fault


@torch.no_grad()
def specification(
    model: Transformer,
    config: ModelConfig,
    entries: list[str],
    *,
    quantize: Quantization | None = None,
) -> Any:
    """Specify a model and its vocabulary, ready to be saved."""
    specs = library().specs
    spec = specs.TransformerSpec.from_config(
        config.n_layers,
        config.h,
        pre_norm=config.norm == "pre",
        activation=_activation(specs, config),
    )
    _specify(spec, model)
    spec.config.layer_norm_epsilon = config.norm_epsilon
    spec.config.unk_token = entries[UNK_ID]
    spec.config.bos_token = spec.config.decoder_start_token = entries[BOS_ID]
    spec.config.eos_token = entries[EOS_ID]
    spec.register_source_vocabulary(entries)
    spec.register_target_vocabulary(entries)
    spec.validate()
    spec.optimize(quantization=quantize)
    return spec


def _activation(specs: Any, config: ModelConfig) -> Any:
    kinds = specs.Activation
    return {"relu": kinds.RELU, "swish": kinds.SWISH}[config.activation]


def _specify(spec: Any, model: Transformer) -> None:
    """Write our model down in CTranslate2's terms."""
    for table in (*spec.encoder.embeddings, spec.decoder.embeddings, spec.decoder.projection):
        table.weight = model.embedding.weight.detach()
    if model.embedding.bias is not None:
        spec.decoder.projection.bias = model.embedding.bias.detach()
    for stack in (spec.encoder, spec.decoder):
        stack.position_encodings.encodings = model.positions.table.detach()
    for stack, last_norm in (
        (spec.encoder, model.encoder_norm),
        (spec.decoder, model.decoder_norm),
    ):
        if isinstance(last_norm, nn.LayerNorm):
            _specify_norm(stack.layer_norm, last_norm)
    for theirs, encoding in zip(spec.encoder.layer, model.encoder, strict=True):
        _specify_self_attention(theirs.self_attention, encoding.self_attention)
        _specify_norm(theirs.self_attention.layer_norm, encoding.add_norm_1.norm)
        _specify_feed_forward(theirs.ffn, encoding.feed_forward)
        _specify_norm(theirs.ffn.layer_norm, encoding.add_norm_2.norm)
    for theirs, decoding in zip(spec.decoder.layer, model.decoder, strict=True):
        _specify_self_attention(theirs.self_attention, decoding.self_attention)
        _specify_norm(theirs.self_attention.layer_norm, decoding.add_norm_1.norm)
        _specify_cross_attention(theirs.attention, decoding.cross_attention)
        _specify_norm(theirs.attention.layer_norm, decoding.add_norm_2.norm)
        _specify_feed_forward(theirs.ffn, decoding.feed_forward)
        _specify_norm(theirs.ffn.layer_norm, decoding.add_norm_3.norm)


def _specify_self_attention(theirs: Any, attention: MultiHeadAttention) -> None:
    """Queries, keys and values are one matrix."""
    _specify_linear(theirs.linear[0], attention.w_q, attention.w_k, attention.w_v)
    _specify_linear(theirs.linear[1], attention.w_o)


def _specify_cross_attention(theirs: Any, attention: MultiHeadAttention) -> None:
    """Keys and values, which are computed once a sentence, are one matrix."""
    _specify_linear(theirs.linear[0], attention.w_q)
    _specify_linear(theirs.linear[1], attention.w_k, attention.w_v)
    _specify_linear(theirs.linear[2], attention.w_o)


def _specify_feed_forward(theirs: Any, feed_forward: FeedForward) -> None:
    _specify_linear(theirs.linear_0, feed_forward.w_1)
    _specify_linear(theirs.linear_1, feed_forward.w_2)


def _specify_linear(theirs: Any, *ours: nn.Linear) -> None:
    theirs.weight = _joined([linear.weight for linear in ours])
    if ours[0].bias is not None:
        theirs.bias = _joined([linear.bias for linear in ours])


def _specify_norm(theirs: Any, norm: nn.LayerNorm) -> None:
    theirs.gamma, theirs.beta = norm.weight.detach(), norm.bias.detach()


def _joined(tensors: list[Tensor]) -> Tensor:
    return torch.cat(tensors) if len(tensors) > 1 else tensors[0].detach()
