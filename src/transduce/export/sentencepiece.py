"""SentencePiece models and Marian's vocabulary as one of our tokenizers.

Marian segments source and target with a model each and looks the pieces up in one vocabulary. So
does the tokenizer that is built here: a unigram model a side, both over the whole vocabulary.
Pieces that only the other side has are spelled so that no text contains them.
"""

import importlib
import json
from pathlib import Path
from typing import Any

from transduce.errors import InputError, how_to_install
from transduce.files.regular import MIB, read_regular
from transduce.text.tokenizer import OTHER_SIDE, SIDES, SPECIALS, Tokenizer
from transduce.text.tokenizer_schema import SPACE, check_description, sentencepiece_tokenizer

SOURCE, TARGET, ENTRIES = "source.spm", "target.spm", "vocab.json"
MAX_BYTES = 64 * MIB
"""Of a file; a model of a million pieces has 20 MiB."""
NORMAL, USER_DEFINED, UNIGRAM = 1, 4, 1
"""Codes in SentencePiece's files."""
UNKNOWN_PENALTY = 10.0
"""SentencePiece scores an unknown letter this much lower than its least likely piece."""


def tokenizer_of(source_spm: Path, target_spm: Path, entries: list[str]) -> Tokenizer:
    """Build a tokenizer whose entries, after the special ones, are these, in this order."""
    files = zip(SIDES, (source_spm, target_spm), strict=True)
    return Tokenizer.parse(json.dumps({side: _one_side(path, entries) for side, path in files}))


def _read(path: Path) -> Any:
    try:
        from google.protobuf.message import DecodeError

        proto: Any = importlib.import_module("sentencepiece.sentencepiece_model_pb2")
    except ImportError as missing:
        raise InputError(f"SentencePiece is not installed: {how_to_install('export')}") from missing
    model = proto.ModelProto()
    try:
        model.ParseFromString(read_regular(path, max_bytes=MAX_BYTES))
    except (OSError, DecodeError) as fault:
        reason = getattr(fault, "strerror", None) or fault
        raise InputError(f"{path} is not a SentencePiece model: {reason}") from fault
    return model


def _one_side(path: Path, entries: list[str]) -> dict[str, Any]:
    model = _read(path)
    _check(model, path)
    scores = {piece.piece: piece.score for piece in model.pieces if piece.type == NORMAL}
    unlikely = min(scores.values(), default=0.0) - UNKNOWN_PENALTY
    pieces = [(name, 0.0) for name in SPECIALS]
    for entry in entries:
        if entry in scores:
            pieces.append((entry, scores[entry]))
        elif _is_language(entry):  # the first word of a source, and never split
            pieces.append((SPACE + entry, 0.0))
        elif len(entry) == 1:  # unknown to SentencePiece, but Marian looks it up by its letter
            pieces.append((entry, unlikely))
        else:
            pieces.append((OTHER_SIDE + entry, 0.0))
    description = sentencepiece_tokenizer(pieces, model.normalizer_spec.precompiled_charsmap)
    try:
        check_description(description)
    except InputError as damaged:
        raise InputError(f"{path} and {ENTRIES} cannot be imported: {damaged}") from damaged
    return description


def _check(model: Any, path: Path) -> None:
    """Raise if the model does something that our unigram models do not."""
    if model.trainer_spec.model_type != UNIGRAM:
        raise InputError(f"{path} is not a unigram model: other kinds cannot be imported")
    if model.trainer_spec.byte_fallback:
        raise InputError(f"{path} falls back to bytes, which cannot be imported")
    if any(piece.type == USER_DEFINED for piece in model.pieces):
        raise InputError(f"{path} has user-defined symbols, which cannot be imported")
    spec = model.normalizer_spec
    if not (spec.add_dummy_prefix and spec.escape_whitespaces and spec.remove_extra_whitespaces):
        raise InputError(f"{path} has unusual settings for spaces, which cannot be imported")


def _is_language(entry: str) -> bool:
    """Return whether an entry names the target language, such as >>deu<<."""
    return entry.startswith(">>") and entry.endswith("<<")
