"""SentencePiece models and Marian's vocabulary as one of our tokenizers.

Marian segments source and target with a model each and looks the pieces up in one vocabulary. So
does the tokenizer that is built here: a unigram model a side, both over the whole vocabulary.
Pieces that only the other side has are spelled so that no text contains them.
"""

import importlib
from pathlib import Path
from typing import Any

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from transduce.errors import InputError, how_to_install
from transduce.text.special_ids import UNK_ID
from transduce.text.tokenizer import OTHER_SIDE, SPECIALS, Tokenizer

SPACE = "▁"
NORMAL, USER_DEFINED, UNIGRAM = 1, 4, 1
"""Codes in SentencePiece's files."""
UNKNOWN_PENALTY = 10.0
"""SentencePiece scores an unknown letter this much lower than its least likely piece."""


def tokenizer_of(source_spm: Path, target_spm: Path, entries: list[str]) -> Tokenizer:
    """Build a tokenizer whose entries, after the special ones, are these, in this order."""
    source, target = _read(source_spm), _read(target_spm)
    return Tokenizer(_one_side(source, entries, source_spm), _one_side(target, entries, target_spm))


def _read(path: Path) -> Any:
    try:
        from google.protobuf.message import DecodeError

        proto: Any = importlib.import_module("sentencepiece.sentencepiece_model_pb2")
    except ImportError as missing:
        raise InputError(f"SentencePiece is not installed: {how_to_install('export')}") from missing
    model = proto.ModelProto()
    try:
        model.ParseFromString(path.read_bytes())
    except (OSError, DecodeError) as fault:
        raise InputError(f"{path} is not a SentencePiece model: {fault}") from fault
    return model


def _one_side(model: Any, entries: list[str], path: Path) -> Backend:
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
    backend = Backend(models.Unigram(pieces, unk_id=UNK_ID, byte_fallback=False))
    backend.normalizer = _normaliser(model.normalizer_spec)
    backend.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always")
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace(OTHER_SIDE, ""),
            decoders.Metaspace(replacement=SPACE, prepend_scheme="always"),
        ]
    )
    return backend


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


def _normaliser(spec: Any) -> normalizers.Normalizer:
    steps: list[normalizers.Normalizer] = []
    if spec.precompiled_charsmap:
        steps.append(normalizers.Precompiled(spec.precompiled_charsmap))
    steps += [normalizers.Replace(Regex(" {2,}"), " "), normalizers.Strip()]
    return normalizers.Sequence(steps)


def _is_language(entry: str) -> bool:
    """Return whether an entry names the target language, such as >>deu<<."""
    return entry.startswith(">>") and entry.endswith("<<")
