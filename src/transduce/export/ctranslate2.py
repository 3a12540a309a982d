"""Export to CTranslate2's format, with our settings and tokenizer in the same folder.

CTranslate2 can express most Transformers of ours: pre-norm or post-norm, layer norm or RMS norm,
learned, rotary or no positions, gated feed-forward networks, with or without biases.
`export/abilities.py` names what it cannot.
"""

import inspect
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any, Literal, Self, get_args

import torch
from torch import Tensor, nn

from transduce.config.schema import ModelConfig
from transduce.errors import InputError, how_to_install
from transduce.export.abilities import foreign_setting, is_exportable
from transduce.export.folder import new_folder
from transduce.export.shared_heads import repeat_rows
from transduce.export.vocabulary_map import write_vocabulary_map
from transduce.files.atomic import sync
from transduce.files.errors import reporting_write_errors
from transduce.files.regular import MIB, read_json
from transduce.models.folder import LoadedModel, load_model, save_settings
from transduce.models.shortlist import load_shortlist
from transduce.models.transformer.model import Transformer
from transduce.models.transformer.settings import TransformerConfig
from transduce.nn.feed_forward import GATED, FeedForward, GatedFeedForward
from transduce.nn.mixers.attention import MultiHeadAttention
from transduce.nn.mixers.heads import HeadProjections
from transduce.text.special_ids import BOS_ID, EOS_ID, UNK_ID
from transduce.text.tokenizer import Tokenizer

Quantization = Literal["int8", "int8_float32", "float16", "bfloat16"]
WEIGHTS, SETTINGS, VOCABULARY = "model.bin", "config.json", "shared_vocabulary.json"
SOURCE_VOCABULARY, TARGET_VOCABULARY = "source_vocabulary.json", "target_vocabulary.json"
"""Instead of VOCABULARY where the entries of source and target differ."""
MAX_VOCABULARY_BYTES = 128 * MIB


def export_ctranslate2(
    model: Path, out: Path, *, quantize: Quantization | None = None, shortlist: bool = False
) -> None:
    """Export a model folder to one that both CTranslate2 and `transduce translate` load.

    `shortlist`: with the shortlist that is in the folder.
    """
    library()
    if quantize is not None and quantize not in get_args(Quantization):
        raise InputError(f"quantize={quantize!r}: use one of {', '.join(get_args(Quantization))}")
    loaded = load_model(model)
    reason = refusal(loaded.config.model)
    if reason is not None:
        raise InputError(f"cannot export {model} to CTranslate2: {reason}")
    lists = load_shortlist(model, loaded.tokenizer) if shortlist else None
    with new_folder(out) as folder:
        write_ctranslate2(loaded, folder, quantize=quantize)
        if lists is not None:
            write_vocabulary_map(folder, lists, loaded.tokenizer)
        save_settings(folder, loaded.config, loaded.tokenizer)


def library(instead: str = "") -> Any:
    """Import CTranslate2, an optional dependency; raise an InputError if it is not installed.

    `instead` is what else the user can do.
    """
    try:
        import ctranslate2
    except ImportError as missing:
        install = f"CTranslate2 is not installed: {how_to_install('export')}"
        raise InputError(f"{install}, or {instead}" if instead else install) from missing
    return ctranslate2


def is_installed() -> bool:
    """Return whether CTranslate2 is installed."""
    try:
        library()
    except InputError:
        return False
    return True


def refusal(config: ModelConfig) -> str | None:
    """Return the reason why CTranslate2 cannot run a model, or None if it can."""
    foreign = foreign_setting(config, "ctranslate2")
    if foreign is not None:
        return foreign
    if not is_exportable(config, "ctranslate2"):
        return f"model.kind={config.kind}, but CTranslate2 has only Transformers"
    if config.positions == "rotary" and is_installed() and not _rotates_in_encoders():
        return (
            f"model.positions=rotary, but encoders of CTranslate2 {library().__version__} cannot "
            "rotate, as those from 4.6.3 on do: pip install --upgrade ctranslate2"
        )
    return None


def _rotates_in_encoders() -> bool:
    encoder = library().specs.TransformerEncoderSpec
    return "rotary_dim" in inspect.signature(encoder.__init__).parameters


def is_exported(folder: Path) -> bool:
    """Return whether a folder is a model that was exported to CTranslate2."""
    return (folder / WEIGHTS).exists() and (folder / SETTINGS).exists()


@dataclass(frozen=True)
class Entries:
    """The entries for source and target in the order of ids: CTranslate2 reads tokens, not ids."""

    source: list[str]
    target: list[str]

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Self:
        """Return the entries of a tokenizer."""
        sides = (tokenizer.source, tokenizer.target)
        return cls(*(side.tokens(range(len(side))) for side in sides))

    def files(self) -> dict[str, list[str]]:
        """Return what CTranslate2 writes, by the names of its files."""
        if self.source == self.target:
            return {VOCABULARY: self.target}
        return {SOURCE_VOCABULARY: self.source, TARGET_VOCABULARY: self.target}


def check_vocabulary(folder: Path, tokenizer: Tokenizer) -> None:
    """Raise unless CTranslate2's vocabularies are those of our tokenizer."""
    for name, entries in Entries.of(tokenizer).files().items():
        path = folder / name
        try:
            found = read_json(path, max_bytes=MAX_VOCABULARY_BYTES)
        except (OSError, ValueError) as unreadable:
            reason = shorten(str(getattr(unreadable, "strerror", None) or unreadable), 200)
            raise InputError(
                f"cannot read {path} ({reason}): export the model again"
            ) from unreadable
        if found != entries:
            raise InputError(
                f"{path} does not match the tokenizer beside it: export the model again"
            )


def write_ctranslate2(
    loaded: LoadedModel, folder: Path, *, quantize: Quantization | None = None
) -> None:
    """Write CTranslate2's own files into a folder. Quantizing may change the given weights."""
    config, model = loaded.config.model, loaded.model
    reason = refusal(config)
    if reason is not None:
        raise InputError(f"cannot convert the model to CTranslate2: {reason}")
    assert isinstance(config, TransformerConfig), config
    assert isinstance(model, Transformer), type(model)
    entries = Entries.of(loaded.tokenizer)
    spec = specification(model, config, entries, quantize=quantize)
    with reporting_write_errors(folder):
        spec.save(str(folder))
        for name in (WEIGHTS, SETTINGS, *entries.files()):
            sync(folder / name)


def specification(
    model: Transformer,
    config: TransformerConfig,
    entries: "Entries",
    *,
    quantize: Quantization | None = None,
) -> Any:
    """Return a model and its vocabulary as a CTranslate2 specification, ready to be saved."""
    spec = description(model, config, entries)
    spec.optimize(quantization=quantize)
    return spec


@torch.no_grad()
def description(model: Transformer, config: TransformerConfig, entries: "Entries") -> Any:
    """Return a model and its vocabulary in CTranslate2's terms; the model may be without memory."""
    spec = _empty(config)
    _fill(spec, model)
    spec.config.layer_norm_epsilon = config.norm_epsilon
    spec.config.unk_token = entries.target[UNK_ID]
    spec.config.bos_token = spec.config.decoder_start_token = entries.target[BOS_ID]
    spec.config.eos_token = entries.target[EOS_ID]
    spec.register_source_vocabulary(entries.source)
    spec.register_target_vocabulary(entries.target)
    spec.validate()
    return spec


def _empty(config: TransformerConfig) -> Any:
    """Return a specification of the model's shape, without weights."""
    specs = library().specs
    activations = specs.Activation
    shared = {
        "pre_norm": config.norm == "pre",
        "activation": {
            "relu": activations.RELU,
            "swish": activations.SWISH,
            "swiglu": activations.SWISH,
            "geglu": activations.GELU,
        }[config.activation],
        "ffn_glu": config.activation in GATED,
        "rms_norm": config.norm_kind == "rms",
    }
    if config.positions == "rotary":  # older encoders do not know the names of these
        shared["rotary_dim"] = config.d_k
        shared["rotary_interleave"] = False  # components i and i + d_k/2 turn together
    # The attention that it returns is the average of the first heads of a layer.
    layer, heads = (config.alignment_layer - 1, 1) if config.guided_alignment else (-1, config.h)
    encoder = specs.TransformerEncoderSpec(config.n_encoder_layers, config.h, **shared)
    decoder = specs.TransformerDecoderSpec(
        config.n_decoder_layers, config.h, alignment_layer=layer, alignment_heads=heads, **shared
    )
    return specs.TransformerSpec(encoder, decoder)


def _fill(spec: Any, model: Transformer) -> None:
    """Set every tensor of an empty specification."""
    for table in spec.encoder.embeddings:
        table.weight = (model.src_embedding or model.embedding).weight.detach()
    spec.decoder.embeddings.weight = model.embedding.weight.detach()
    spec.decoder.projection.weight = model.embedding.output.detach()
    if model.embedding.bias is not None:
        spec.decoder.projection.bias = model.embedding.bias.detach()
    for stack in (spec.encoder, spec.decoder):
        if hasattr(stack, "position_encodings"):  # a decoder that rotates has none
            stack.position_encodings.encodings = model.positions.table.detach()
    for stack, last_norm in (
        (spec.encoder, model.encoder_norm),
        (spec.decoder, model.decoder_norm),
    ):
        if isinstance(last_norm, nn.LayerNorm | nn.RMSNorm):
            _fill_norm(stack.layer_norm, last_norm)
    for theirs, encoding in zip(spec.encoder.layer, model.encoder, strict=True):
        _fill_self_attention(theirs.self_attention, encoding.self_attention)
        _fill_norm(theirs.self_attention.layer_norm, encoding.add_norm_1.norm)
        _fill_feed_forward(theirs.ffn, encoding.feed_forward)
        _fill_norm(theirs.ffn.layer_norm, encoding.add_norm_2.norm)
    for theirs, decoding in zip(spec.decoder.layer, model.decoder, strict=True):
        _fill_self_attention(theirs.self_attention, decoding.self_attention)
        _fill_norm(theirs.self_attention.layer_norm, decoding.add_norm_1.norm)
        _fill_cross_attention(theirs.attention, decoding.cross_attention)
        _fill_norm(theirs.attention.layer_norm, decoding.add_norm_2.norm)
        _fill_feed_forward(theirs.ffn, decoding.feed_forward)
        _fill_norm(theirs.ffn.layer_norm, decoding.add_norm_3.norm)


def _fill_self_attention(theirs: Any, attention: HeadProjections) -> None:
    """Queries, keys and values are one matrix."""
    _fill_linear(theirs.linear[0], attention.w_q, attention.w_k, attention.w_v, heads=attention)
    _fill_linear(theirs.linear[1], attention.w_o)


def _fill_cross_attention(theirs: Any, attention: MultiHeadAttention) -> None:
    """Keys and values, which are computed once a sentence, are one matrix."""
    _fill_linear(theirs.linear[0], attention.w_q)
    _fill_linear(theirs.linear[1], attention.w_k, attention.w_v, heads=attention)
    _fill_linear(theirs.linear[2], attention.w_o)


def _fill_feed_forward(theirs: Any, feed_forward: nn.Module) -> None:
    if isinstance(feed_forward, GatedFeedForward):
        _fill_linear(theirs.linear_0, feed_forward.w_g)
        _fill_linear(theirs.linear_0_noact, feed_forward.w_1)
    else:
        assert isinstance(feed_forward, FeedForward), type(feed_forward)
        _fill_linear(theirs.linear_0, feed_forward.w_1)
    _fill_linear(theirs.linear_1, feed_forward.w_2)


def _fill_linear(theirs: Any, *ours: nn.Linear, heads: HeadProjections | None = None) -> None:
    """Set a matrix from several of ours; those of keys and values with all heads of an attention.

    Rows are repeated for every number of shared heads, so that one form serves all of them.
    """

    def written_out(linear: nn.Linear, tensor: Tensor) -> Tensor:
        if heads is None or linear is heads.w_q or heads.kv_heads == heads.h:
            return tensor
        return repeat_rows(tensor, kv_heads=heads.kv_heads, h=heads.h)

    theirs.weight = _concatenated([written_out(linear, linear.weight) for linear in ours])
    if ours[0].bias is not None:
        theirs.bias = _concatenated([written_out(linear, linear.bias) for linear in ours])


def _fill_norm(theirs: Any, norm: nn.Module) -> None:
    assert isinstance(norm, nn.LayerNorm | nn.RMSNorm), type(norm)
    theirs.gamma = norm.weight.detach()
    if isinstance(norm, nn.LayerNorm):
        theirs.beta = norm.bias.detach()


def _concatenated(tensors: list[Tensor]) -> Tensor:
    return torch.cat(tensors) if len(tensors) > 1 else tensors[0].detach()
