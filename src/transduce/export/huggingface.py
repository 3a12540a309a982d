"""Export to a folder that `transformers` loads as a Marian model, without any code of ours.

Marian is the paper's Transformer with biases. It cannot express pre-norm layers, learned positions
or heads that do not split d_model evenly.
"""

import json
from pathlib import Path
from typing import Any

from transduce.config.schema import ModelConfig
from transduce.errors import InputError
from transduce.export.abilities import foreign_setting, is_exportable
from transduce.export.folder import new_folder
from transduce.export.marian_vocabulary import MarianVocabulary
from transduce.export.marian_weights import Depths, to_marian
from transduce.export.sentencepiece import ENTRIES, MAX_BYTES, SOURCE, TARGET
from transduce.export.shared_heads import with_repeated_heads
from transduce.files.atomic import sync
from transduce.files.checksums import check_files
from transduce.files.errors import reporting_read_errors
from transduce.files.regular import check_no_link, copy_file, read_json
from transduce.models.folder import TOKENIZER, WEIGHTS, LoadedModel, load_model
from transduce.models.safetensors_file import write_tensors
from transduce.models.transformer.settings import TransformerConfig
from transduce.text.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from transduce.text.tokenizer import SPECIALS, Tokenizer

MARIAN_CONFIG, GENERATION_CONFIG = "config.json", "generation_config.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
OUR_SETTINGS = "transduce"
"""The key in Marian's settings for what transformers does not read but `import_marian` does."""
MARIAN_FILES = "marian"
"""The subfolder of an imported model with Marian's own tokenizer and settings, for its export."""
FILES_TO_KEEP = (SOURCE, TARGET, ENTRIES, MARIAN_CONFIG, GENERATION_CONFIG, TOKENIZER_CONFIG)
"""The files in it."""


def export_huggingface(model: Path, out: Path) -> None:
    """Export a model folder to one for `AutoModelForSeq2SeqLM` and `AutoTokenizer`."""
    loaded = load_model(model)
    config = loaded.config.model
    reason = refusal(config)
    if reason is not None:
        raise InputError(f"cannot export {model} as a Marian model: {reason}")
    if loaded.tokenizer.has_placeholders:
        raise InputError(
            f"cannot export {model} as a Marian model: it reads placeholders as entries that no "
            "text has, and the tokenizer of a Marian model reads text alone; export it to "
            "ctranslate2"
        )
    if loaded.tokenizer.languages:
        raise InputError(
            f"cannot export {model} as a Marian model: it translates into "
            f"{', '.join(loaded.tokenizer.languages)} by tags that no text has, and the tokenizer "
            "of a Marian model reads text alone; export it to ctranslate2"
        )
    assert isinstance(config, TransformerConfig), config
    weights = dict(
        with_repeated_heads(loaded.model.state_dict(), kv_heads=config.kv_heads, h=config.h)
    )
    with new_folder(out) as folder:
        if (model / MARIAN_FILES).is_dir():
            copy_marian_files(model / MARIAN_FILES, folder, config).to_theirs(weights)
        else:
            write_settings(loaded, folder, config)
        depths = Depths(config.n_encoder_layers, config.n_decoder_layers)
        weights = to_marian(weights, depths=depths, norm_epsilon=config.norm_epsilon)
        with (folder / WEIGHTS).open("wb") as stream:
            write_tensors(stream, weights, metadata={"format": "pt"})
        sync(folder / WEIGHTS)


def copy_marian_files(source: Path, folder: Path, config: TransformerConfig) -> MarianVocabulary:
    """Copy an imported model's own tokenizer and settings; return its vocabulary.

    Only the files that an import keeps are copied, and no link is followed: the folder may come
    from a stranger, and its export may go to another.
    """
    for path in (source, *(source / name for name in FILES_TO_KEEP)):
        with reporting_read_errors(path):
            check_no_link(path)
    check_files(source.parent, [f"{source.name}/{name}" for name in FILES_TO_KEEP])
    for name in FILES_TO_KEEP:
        if (source / name).exists():
            with reporting_read_errors(source / name):
                copy_file(source / name, folder / name, max_bytes=MAX_BYTES)
    theirs = _marian_settings(folder / MARIAN_CONFIG, source)
    ours = marian_config(config, lines="")
    for name in ("d_model", "encoder_layers", "decoder_layers", "encoder_ffn_dim"):
        if theirs.get(name) != ours[name]:
            raise InputError(f"{source / MARIAN_CONFIG} is of another model: its {name} differs")
    vocabulary = MarianVocabulary.read(folder, theirs)
    if len(vocabulary.entries) != config.vocab_size - 1 or not config.output_bias:
        raise InputError(f"{source} is of another model: its vocabulary differs")
    return vocabulary


def _marian_settings(path: Path, source: Path) -> dict[str, Any]:
    try:
        found = read_json(path)
    except (OSError, ValueError) as unreadable:
        reason = getattr(unreadable, "strerror", None) or unreadable
        raise InputError(f"cannot read {source / path.name}: {reason}") from unreadable
    return found if isinstance(found, dict) else {}


def write_settings(loaded: LoadedModel, folder: Path, config: TransformerConfig) -> None:
    """Write our tokenizer and settings in transformers' format."""
    tokenizer = json.loads(loaded.tokenizer.to_json())
    write_json(folder / MARIAN_CONFIG, marian_config(config, lines=loaded.config.data.lines))
    write_json(folder / GENERATION_CONFIG, generation_config(config))
    write_json(folder / TOKENIZER, with_special_tokens(tokenizer.get("source", tokenizer)))
    write_json(folder / TOKENIZER_CONFIG, tokenizer_config(config))


def refusal(config: ModelConfig) -> str | None:
    """Return the reason why a model cannot be a Marian model, or None if it can."""
    foreign = foreign_setting(config, "huggingface")
    if foreign is not None:
        return foreign
    if config.src_vocab_size is not None:
        return (
            f"model.src_vocab_size={config.src_vocab_size}: source and target have a vocabulary "
            "each, but the tokenizer of an exported folder has one for both"
        )
    if isinstance(config, TransformerConfig) and not config.tied_output:
        return "model.tied_output=false, but an exported Marian model has one matrix for both"
    if not is_exportable(config, "huggingface"):
        return f"model.kind={config.kind}, but Marian models are Transformers"
    if config.norm != "post":
        return f"model.norm={config.norm}, but Marian normalises after the residual sums (post)"
    return None


def marian_config(config: TransformerConfig, *, lines: str) -> dict[str, Any]:
    """Return a model's settings in transformers' terms; `lines` is `data.lines`."""
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "vocab_size": config.vocab_size,
        "decoder_vocab_size": config.vocab_size,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "scale_embedding": True,
        "d_model": config.d_model,
        "encoder_layers": config.n_encoder_layers,
        "decoder_layers": config.n_decoder_layers,
        "encoder_attention_heads": config.h,
        "decoder_attention_heads": config.h,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "max_position_embeddings": config.max_positions,
        "activation_function": config.activation,
        "dropout": config.p_drop,
        "attention_dropout": config.p_drop_attention,
        "activation_dropout": config.p_drop_ff,
        **_special_ids(),
        OUR_SETTINGS: {
            "norm_epsilon": config.norm_epsilon,
            "attention_bias": config.attention_bias,
            "output_bias": config.output_bias,
            "lines": lines,
        },
    }


def generation_config(config: TransformerConfig) -> dict[str, Any]:
    """Return the search settings: the paper's beam; transformers lacks its length penalty."""
    return {"num_beams": 4, "max_length": config.max_positions, **_special_ids()}


def _special_ids() -> dict[str, int | None]:
    return {
        "pad_token_id": PAD_ID,
        "bos_token_id": BOS_ID,
        "eos_token_id": EOS_ID,
        "decoder_start_token_id": BOS_ID,
        "forced_eos_token_id": None,
    }


def with_special_tokens(tokenizer: dict[str, Any]) -> dict[str, Any]:
    """Make a tokenizer of the `tokenizers` library append EOS and know the special tokens."""
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
    """Undo `with_special_tokens`, and parse the tokenizer."""
    plain = tokenizer | {"added_tokens": [], "post_processor": None}
    return Tokenizer.parse(json.dumps(plain))


def tokenizer_config(config: TransformerConfig) -> dict[str, Any]:
    """Return the settings that `AutoTokenizer` reads."""
    names = {number: name for name, number in SPECIALS.items()}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": names[PAD_ID],
        "unk_token": names[UNK_ID],
        "bos_token": names[BOS_ID],
        "eos_token": names[EOS_ID],
        "model_max_length": config.max_positions,
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,  # in a text, the name of a special token is ordinary text
    }


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file, and wait until it is on the disk."""
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    sync(path)
