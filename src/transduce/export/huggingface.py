"""A model as a folder that `transformers` loads as a Marian model, without code of ours.

Marian is the paper's Transformer with biases: what has norms before the sub-layers, learned
positions or heads of odd widths cannot be expressed.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from transduce.config.schema import Config, ModelConfig
from transduce.disk import sync
from transduce.errors import InputError
from transduce.export.folder import exporting
from transduce.export.marian_vocabulary import MarianVocabulary
from transduce.export.marian_weights import to_marian
from transduce.models.folder import TOKENIZER, WEIGHTS, load_model
from transduce.models.safetensors_file import write_tensors
from transduce.text.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from transduce.text.tokenizer import SPECIALS, Tokenizer

MARIAN_CONFIG, GENERATION_CONFIG = "config.json", "generation_config.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
OURS = "transduce"
"""What transformers does not read, for the way back."""
KEPT = "marian"
"""A folder beside an imported model: Marian's own tokenizer and settings, for the way back."""


def export_huggingface(model: Path, out: Path) -> None:
    """Write a model folder as one for `AutoModelForSeq2SeqLM` and `AutoTokenizer`."""
    loaded = load_model(model)
    config = loaded.config
    reason = refusal(config.model)
    if reason is not None:
        raise InputError(f"cannot be written as a Marian model: {reason}")
    weights = loaded.model.state_dict()
    with exporting(out) as making:
        if (model / KEPT).is_dir():
            write_kept(model / KEPT, making).to_theirs(weights)
        else:
            tokenizer = json.loads((model / TOKENIZER).read_text(encoding="utf-8"))
            write_json(making / MARIAN_CONFIG, marian_config(config))
            write_json(making / GENERATION_CONFIG, generation_config(config.model))
            write_json(making / TOKENIZER, with_special_tokens(tokenizer.get("source", tokenizer)))
            write_json(making / TOKENIZER_CONFIG, tokenizer_config(config.model))
        weights = to_marian(
            weights, n_layers=config.model.n_layers, norm_epsilon=config.model.norm_epsilon
        )
        with (making / WEIGHTS).open("wb") as stream:
            write_tensors(stream, weights, metadata={"format": "pt"})
        sync(making / WEIGHTS)


def write_kept(kept: Path, folder: Path) -> MarianVocabulary:
    """Write an imported model's own tokenizer and settings; return its vocabulary."""
    for file in sorted(kept.iterdir()):
        shutil.copyfile(file, folder / file.name)
    return MarianVocabulary.read(kept, json.loads((kept / MARIAN_CONFIG).read_text()))


def refusal(config: ModelConfig) -> str | None:
    """Say why a model cannot be a Marian model, if it cannot."""
    if config.norm != "post":
        return f"model.norm={config.norm}: Marian's norms stand after the residual sums"
    if config.positions != "sinusoidal":
        return f"model.positions={config.positions}: Marian's positions are sinusoids"
    if config.d_k * config.h != config.d_model or config.d_v != config.d_k:
        return (
            f"model.d_k={config.d_k} and model.d_v={config.d_v}: Marian's {config.h} heads share "
            f"out the width {config.d_model} evenly, each with keys and values of one width"
        )
    return None


def marian_config(config: Config) -> dict[str, Any]:
    """Describe a model in transformers' terms."""
    m = config.model
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "vocab_size": m.vocab_size,
        "decoder_vocab_size": m.vocab_size,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "scale_embedding": True,
        "d_model": m.d_model,
        "encoder_layers": m.n_layers,
        "decoder_layers": m.n_layers,
        "encoder_attention_heads": m.h,
        "decoder_attention_heads": m.h,
        "encoder_ffn_dim": m.d_ff,
        "decoder_ffn_dim": m.d_ff,
        "max_position_embeddings": m.max_positions,
        "activation_function": m.activation,
        "dropout": m.p_drop,
        "attention_dropout": m.p_drop_attention,
        "activation_dropout": m.p_drop_ff,
        "pad_token_id": PAD_ID,
        "bos_token_id": BOS_ID,
        "eos_token_id": EOS_ID,
        "decoder_start_token_id": BOS_ID,
        "forced_eos_token_id": None,
        OURS: {
            "norm_epsilon": m.norm_epsilon,
            "attention_bias": m.attention_bias,
            "output_bias": m.output_bias,
            "lines": config.data.lines,
        },
    }


def generation_config(config: ModelConfig) -> dict[str, Any]:
    """Say how to search: the paper's beam, though its length penalty cannot be expressed."""
    return {
        "num_beams": 4,
        "max_length": config.max_positions,
        "pad_token_id": PAD_ID,
        "bos_token_id": BOS_ID,
        "eos_token_id": EOS_ID,
        "decoder_start_token_id": BOS_ID,
        "forced_eos_token_id": None,
    }


def with_special_tokens(tokenizer: dict[str, Any]) -> dict[str, Any]:
    """Let a tokenizer of the `tokenizers` library add the end and know the special entries."""
    end = next(name for name, number in SPECIALS.items() if number == EOS_ID)
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return tokenizer | {
        "added_tokens": [
            {"id": number, "content": name, "special": True} | flags
            for name, number in SPECIALS.items()
        ],
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": end, "type_id": 0}},
            ],
            "pair": [
                {"Sequence": {"id": "A", "type_id": 0}},
                {"Sequence": {"id": "B", "type_id": 0}},
                {"SpecialToken": {"id": end, "type_id": 0}},
            ],
            "special_tokens": {end: {"id": end, "ids": [EOS_ID], "tokens": [end]}},
        },
    }


def without_special_tokens(tokenizer: dict[str, Any]) -> Tokenizer:
    """Do the opposite."""
    plain = tokenizer | {"added_tokens": [], "post_processor": None}
    return Tokenizer.parse(json.dumps(plain))


def tokenizer_config(config: ModelConfig) -> dict[str, Any]:
    """Say how `AutoTokenizer` is to read it."""
    names = {number: name for name, number in SPECIALS.items()}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": names[PAD_ID],
        "unk_token": names[UNK_ID],
        "bos_token": names[BOS_ID],
        "eos_token": names[EOS_ID],
        "model_max_length": config.max_positions,
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,  # the names of special entries in a text are text
    }


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a file, and wait until it is on the disk."""
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    sync(path)
