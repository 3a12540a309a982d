"""A Marian folder as OPUS-MT publishes them, with random weights, made by transformers itself."""

import io
import json
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from transformers import MarianConfig, MarianMTModel

from transduce.grammar import generate

PAIRS = list(generate(2000, seed=1))
SOURCES = [pair.src for pair in PAIRS[:30]]


def marian_folder(folder: Path, **changes: Any) -> Any:
    """Write the folder and return the model; `changes` are for its settings."""
    folder.mkdir(parents=True)
    pieces: set[str] = set()
    for name, texts in (
        ("source", [pair.src for pair in PAIRS]),
        ("target", [pair.tgt for pair in PAIRS]),
    ):
        pieces |= learn_pieces(folder / f"{name}.spm", texts)
    entries = ["</s>", "<unk>", *sorted(pieces), "<pad>"]
    vocabulary = {entry: number for number, entry in enumerate(entries)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    settings = {"source_lang": "en", "target_lang": "de", "tokenizer_class": "MarianTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    model = random_marian(len(entries), **changes)
    model.save_pretrained(folder)
    return model


def learn_pieces(path: Path, texts: list[str]) -> set[str]:
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=written,
        vocab_size=300,
        character_coverage=1.0,
        minloglevel=2,
    )
    path.write_bytes(written.getvalue())
    learnt = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    return {learnt.id_to_piece(number) for number in range(3, len(learnt))}


def random_marian(vocab_size: int, **changes: Any) -> Any:
    torch.manual_seed(0)
    pad = vocab_size - 1
    settings = {
        "vocab_size": vocab_size,
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48,
        "max_position_embeddings": 128,
        "activation_function": "swish",
        "scale_embedding": True,
        "init_std": 0.3,
        "pad_token_id": pad,
        "eos_token_id": 0,
        "decoder_start_token_id": pad,
        "forced_eos_token_id": None,
    }
    model = MarianMTModel(MarianConfig(**settings | changes)).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("bias") or "layer_norm" in name:
                weight.add_(torch.randn_like(weight) * 0.1)
        model.final_logits_bias.normal_()
        model.final_logits_bias[0, pad] = 0
    model.generation_config.bad_words_ids = [[pad]]
    return model
