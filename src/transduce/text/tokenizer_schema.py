"""What a tokenizer.json may hold: only what our own tokenizers, and imported ones, are made of.

The library behind them runs whatever a file describes. Replacements can make a text grow without
limit, patterns can take hours, and odd shapes abort it. So a file is compared with ours first: its
parts must be exactly those that we write, and the sizes of its vocabulary are checked.
"""

import base64
import binascii
import json
import math
from collections.abc import Iterable
from functools import cache
from typing import Any

from tokenizers import Tokenizer as Backend

from transduce.errors import InputError
from transduce.files.regular import MIB, parse_json
from transduce.text.charsmap import check_charsmap
from transduce.text.punctuation import PLAIN

MAX_BYTES = 128 * MIB
MAX_ENTRIES = 4_000_000
"""Of lists and objects in a file: each takes many times its two bytes once it is read."""
MAX_SCORE = 1e9

WORDS = r" ?[\p{L}\p{M}]+| ?\p{N}+| ?[^\s\p{L}\p{M}\p{N}]+|\s+"
"""No piece crosses these: a word or a number with the space before it, a run of signs, spaces."""

SHORT_WORDS = WORDS.replace("+", "{1,64}")
"""The same, cut after 64 characters: WordPiece takes time cubic in the length of a word."""

CHARACTER = r"[\s\S]"
"""Any single character, line breaks included."""

SPACE = "▁"
"""How SentencePiece writes a space."""

Part = dict[str, Any] | None


def _replace(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def _split(pattern: dict[str, str], behavior: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": False}


def _bytes_of(words: str) -> dict[str, Any]:
    as_bytes = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    steps = [_split({"Regex": words}, "Isolated"), as_bytes | {"use_regex": False}]
    return {"type": "Sequence", "pretokenizers": steps}


_NFC = {"type": "NFC"}
_PUNCTUATION = [_replace({"Regex": f"[{signs}]"}, plain) for signs, plain in PLAIN.items()]
_SINGLE_SPACES = [
    _replace({"Regex": " {2,}"}, " "),
    {"type": "Strip", "strip_left": True, "strip_right": True},
]
_METASPACE = {
    "type": "Metaspace",
    "replacement": SPACE,
    "prepend_scheme": "always",
    "split": True,
}
_BYTES = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}

_NORMALIZERS: list[Part] = [  # other versions may know fewer groups of signs
    None,
    _NFC,
    *(
        {"type": "Sequence", "normalizers": [_NFC, *_PUNCTUATION[:n]]}
        for n in range(len(PLAIN) + 1)
    ),
    *({"type": "Sequence", "normalizers": _PUNCTUATION[:n]} for n in range(len(PLAIN) + 1)),
    {"type": "Sequence", "normalizers": _SINGLE_SPACES},
]
_WITH_SPACES_KEPT = _NORMALIZERS[:-1]
_CUT_AT_WORDS = [_bytes_of(words) for words in (WORDS, SHORT_WORDS, CHARACTER)]
_SPACES = _split({"String": " "}, "Removed")
_WITHOUT_OTHER_SIDE = _replace({"String": " "}, "")
_DECODED_PIECES: Part = {"type": "Sequence", "decoders": [_WITHOUT_OTHER_SIDE, _METASPACE]}
_MODELS: dict[str, tuple[dict[str, Any], list[tuple[Part, Part]]]] = {
    "BPE": (
        {
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
        },
        [(_bytes_of(WORDS), _BYTES)],
    ),
    "Unigram": (
        {"unk_id": 1, "byte_fallback": False},
        [(_bytes_of(WORDS), _BYTES), (_METASPACE, _DECODED_PIECES)],
    ),
    "WordPiece": (
        {
            "unk_token": "< unk >",
            "continuing_subword_prefix": "",
            "max_input_chars_per_word": 2**31,
        },
        [(_bytes_of(SHORT_WORDS), _BYTES)],
    ),
    "WordLevel": (
        {"unk_token": "< unk >"},
        [(_SPACES, None), (_bytes_of(CHARACTER), _BYTES)],
    ),
}
"""The settings of each kind of model, and the pre-tokenizers and decoders that go with it."""


def encodes_words_alone(normalizer: Part, pre_tokenizer: Part) -> bool:
    """Return whether a text with single spaces is encoded as its words are, one by one."""
    return normalizer in _WITH_SPACES_KEPT and pre_tokenizer in _CUT_AT_WORDS


def sentencepiece_tokenizer(pieces: list[tuple[str, float]], charsmap: bytes) -> dict[str, Any]:
    """Describe a tokenizer that segments as a SentencePiece model with these pieces does."""
    steps: list[dict[str, Any]] = list(_SINGLE_SPACES)
    if charsmap:
        text = base64.b64encode(charsmap).decode()
        steps.insert(0, {"type": "Precompiled", "precompiled_charsmap": text})
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": _METASPACE,
        "post_processor": None,
        "decoder": _DECODED_PIECES,
        "model": {"type": "Unigram", **_MODELS["Unigram"][0], "vocab": pieces},
    }


def parse_description(text: str) -> dict[str, Any]:
    """Parse the content of a tokenizer.json, of one side or of two; it is not checked yet."""
    if len(text) > MAX_BYTES or text.count("[") + text.count("{") > MAX_ENTRIES:
        raise InputError("it is larger than any tokenizer of transduce")
    try:
        tree = parse_json(text)
    except ValueError as malformed:
        raise InputError(str(malformed)) from malformed
    if not isinstance(tree, dict):
        raise InputError("it is not a JSON object")
    return tree


def has_separate_sides(tree: dict[str, Any], sides: tuple[str, str], mark: str) -> bool:
    """Return whether a description of two sides is marked as having ids of its own for each."""
    unknown = tree.keys() - {*sides, mark}
    if unknown or tree.get(mark, True) is not True:
        raise InputError(f"beside {' and '.join(sides)} it may have only {mark}: true")
    return mark in tree


def check_description(tree: Any) -> None:
    """Raise an InputError unless a description is of one of our tokenizers."""
    if not isinstance(tree, dict):
        raise InputError("it is not a JSON object")
    for name in ("truncation", "padding", "added_tokens", "post_processor"):
        if tree.get(name):
            raise InputError(f"it must have no {name}")
    known = {"version", "truncation", "padding", "added_tokens", "post_processor"}
    unknown = tree.keys() - known - {"normalizer", "pre_tokenizer", "decoder", "model"}
    if unknown or tree.get("version") != "1.0":
        raise InputError("it has unknown entries, or another version")
    _check_normalizer(tree.get("normalizer"))
    model = tree.get("model")
    kind = model.get("type") if isinstance(model, dict) else None
    if not (isinstance(model, dict) and isinstance(kind, str) and kind in _MODELS):
        raise InputError("its model is none of BPE, Unigram, WordPiece and WordLevel")
    settings, pairs = _MODELS[kind]
    found = {name: model[name] for name in model.keys() - {"type", "vocab", "merges"}}
    if not _same(found, [settings, _as_written_by_library(kind)]):
        raise InputError(f"the settings of its {kind} model are not ours")
    parts = [tree.get("pre_tokenizer"), tree.get("decoder")]
    if not _same(parts, (list(pair) for pair in (*pairs, *_pairs_by_library(kind)))):
        raise InputError("its pre_tokenizer or its decoder is not ours")
    _check_entries(model, kind)


def _check_normalizer(found: Any) -> None:
    steps = found.get("normalizers") if isinstance(found, dict) else None
    if isinstance(steps, list) and steps and isinstance(steps[0], dict):
        first = dict(steps[0])
        charsmap = first.pop("precompiled_charsmap", None)
        if first == {"type": "Precompiled"} and isinstance(charsmap, str):
            try:
                check_charsmap(base64.b64decode(charsmap, validate=True))
            except binascii.Error as undecodable:
                raise InputError("its table of normalised letters is damaged") from undecodable
            found = {**found, "normalizers": steps[1:]}
    if not _same(found, _NORMALIZERS) and not _same(found, _normalizers_by_library()):
        raise InputError("its normalizer is not ours")


def _check_entries(model: dict[str, Any], kind: str) -> None:
    vocabulary = model.get("vocab")
    if kind == "Unigram":
        are_entries = isinstance(vocabulary, list) and all(map(_is_piece, vocabulary))
    else:
        are_entries = isinstance(vocabulary, dict) and all(
            name and type(number) is int for name, number in vocabulary.items()
        )
    if vocabulary is None or not are_entries:
        raise InputError("its vocabulary is damaged")
    if kind != "Unigram" and not all(0 <= id_ < len(vocabulary) for id_ in vocabulary.values()):
        raise InputError("its ids must be 0, 1, 2 and so on")
    merges = model.get("merges", None if kind == "BPE" else [])
    if not isinstance(merges, list) or not all(_is_merge(one, vocabulary) for one in merges):
        raise InputError("its merges are damaged, or not of its vocabulary")


def _is_piece(found: Any) -> bool:
    return (
        isinstance(found, list | tuple)
        and len(found) == 2
        and isinstance(found[0], str)
        and found[0] != ""
        and type(found[1]) in (int, float)
        and math.isfinite(found[1])
        and abs(found[1]) <= MAX_SCORE
    )


def _is_merge(found: Any, vocabulary: Any) -> bool:
    parts = found.split(" ") if isinstance(found, str) else found  # so in older files
    return (
        isinstance(parts, list)
        and len(parts) == 2
        and all(isinstance(part, str) and part in vocabulary for part in parts)
        and "".join(parts) in vocabulary
    )


def _same(found: Any, allowed: Iterable[Any]) -> bool:
    """Compare JSON values, for which 1, 1.0 and true are three."""
    text = json.dumps(found, sort_keys=True)
    return any(text == json.dumps(one, sort_keys=True) for one in allowed)


@cache
def _normalizers_by_library() -> list[Part]:
    return [_by_library("WordLevel", normalizer=one)["normalizer"] for one in _NORMALIZERS]


@cache
def _pairs_by_library(kind: str) -> list[tuple[Part, Part]]:
    written = [
        _by_library(kind, pre_tokenizer=pre_tokenizer, decoder=decoder)
        for pre_tokenizer, decoder in _MODELS[kind][1]
    ]
    return [(one["pre_tokenizer"], one["decoder"]) for one in written]


@cache
def _as_written_by_library(kind: str) -> dict[str, Any]:
    model: dict[str, Any] = _by_library(kind)["model"]
    return {name: model[name] for name in model.keys() - {"type", "vocab", "merges"}}


def _by_library(kind: str, **parts: Part) -> dict[str, Any]:
    """Return a description as the installed version of the library writes it.

    A later version may write more about a part of ours than the one that we know.
    """
    names = ["< pad >", "< unk >"]
    vocabulary = [[name, 0.0] for name in names] if kind == "Unigram" else dict(_numbered(names))
    model: dict[str, Any] = {"type": kind, **_MODELS[kind][0], "vocab": vocabulary}
    if kind == "BPE":
        model["merges"] = []
    written: dict[str, Any] = json.loads(
        Backend.from_str(json.dumps({"model": model, **parts})).to_str()
    )
    return written


def _numbered(names: list[str]) -> Iterable[tuple[str, int]]:
    return ((name, number) for number, name in enumerate(names))
