"""A folder in CTranslate2's format is compared with its settings before the library reads it.

The library believes what its files say: it computes with the heads and the sizes that it finds, and
reads beyond a tensor that is too small. So `model.bin` must hold the tensors that an export of the
model in `config.yaml` has, by name, shape and type, with finite values and nothing else.
"""

import math
import reprlib
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from transduce.config.schema import ModelConfig
from transduce.errors import InputError
from transduce.export.ctranslate2 import (
    SETTINGS,
    WEIGHTS,
    Entries,
    check_vocabulary,
    description,
    refusal,
)
from transduce.export.vocabulary_map import check_vocabulary_map
from transduce.files.checksums import check_files
from transduce.files.errors import reporting_read_errors
from transduce.files.regular import open_regular, read_json
from transduce.models.build import assemble
from transduce.models.folder import check_depth
from transduce.models.transformer.model import Transformer
from transduce.models.transformer.settings import TransformerConfig
from transduce.text.tokenizer import Tokenizer

FORMAT, KIND, REVISION = 6, "TransformerSpec", 7
"""The version of the file's format, and the kind of model with the version of its tensors."""
DTYPES = ("float32", "int8", "int16", "int32", "float16", "bfloat16")
"""Its types, in the order of their codes."""
WIDTHS = {"float32": 4, "int8": 1, "int16": 2, "int32": 4, "float16": 2, "bfloat16": 2}
FLOATS = ("float32", "float16", "bfloat16")
EXPONENT_BITS = {"float32": 0x7F800000, "float16": 0x7C00, "bfloat16": 0x7F80}
"""All of them are set in numbers that are infinite, and in those that are none."""
SCALE = "_scale"
"""Ends the name of the factors that an int8 matrix was multiplied with, one a row."""
ALIGNMENT_HEADS = "decoder/alignment_heads"
"""How many heads are averaged for the attention that it returns; version 0.1 wrote 1."""
BLOCK = 2**22

OTHER_FILES = tuple(
    f"{side}_vocabulary{suffix}"
    for side in ("shared", "source", "target")
    for suffix in (".json", ".txt")
)
"""Files that the library would also read, unless they are those of the export."""


@dataclass(frozen=True)
class _Stored:
    """A tensor in model.bin."""

    shape: tuple[int, ...]
    dtype: str
    place: int  # of its first byte

    @property
    def size(self) -> int:
        """Its bytes."""
        return math.prod(self.shape) * WIDTHS[self.dtype]


class _DamageError(Exception):
    """Why a model.bin is not one of ours."""


def check_exported(folder: Path, config: ModelConfig, tokenizer: Tokenizer) -> None:
    """Raise an InputError unless a folder's files are those of an export of this model."""
    with _reporting_damage(folder), open_regular(folder / WEIGHTS) as file:
        check_depth(config, _read_start(file), folder / WEIGHTS)
    reason = refusal(config)
    if reason is not None:
        raise InputError(f"{folder} cannot be an export to CTranslate2: {reason}")
    assert isinstance(config, TransformerConfig), config
    entries = Entries.of(tokenizer)
    for name in OTHER_FILES:
        if name not in entries.files() and (folder / name).exists():
            raise InputError(f"{folder / name} is no file of an export: remove it")
    check_files(folder, [WEIGHTS, SETTINGS, *entries.files()])
    check_vocabulary(folder, tokenizer)
    check_vocabulary_map(folder, tokenizer)
    with torch.device("meta"):
        model = assemble(config)
    assert isinstance(model, Transformer), type(model)
    expected = description(model, config, entries)
    _check_settings(folder / SETTINGS, expected.config.to_dict())
    with _reporting_damage(folder), open_regular(folder / WEIGHTS) as file:
        _check_weights(file, expected)


@contextmanager
def _reporting_damage(folder: Path) -> Iterator[None]:
    path = folder / WEIGHTS
    try:
        with reporting_read_errors(path):
            yield
    except _DamageError as damaged:
        raise InputError(
            f"CTranslate2 cannot load {folder}: {path} is damaged, or not of the model in "
            f"config.yaml ({damaged}): export the model again"
        ) from damaged


def _check_settings(path: Path, expected: dict[str, Any]) -> None:
    try:
        found = read_json(path)
    except (OSError, ValueError) as unreadable:
        reason = getattr(unreadable, "strerror", None) or unreadable
        raise InputError(f"cannot read {path} ({reason}): export the model again") from unreadable
    if not isinstance(found, dict):
        raise InputError(f"{path} is not a JSON object: export the model again")
    always = {name for name in expected if name.endswith("_token")} | {"layer_norm_epsilon"}
    for name in sorted(found.keys() | always):
        ours = expected.get(name)
        # Other versions of the library may write fewer settings.
        if name not in found or name not in expected or repr(found[name]) != repr(ours):
            raise InputError(
                f"{path}: {reprlib.repr(name)} is {reprlib.repr(found.get(name))}, but the model "
                f"in config.yaml has {ours!r}: export the model again"
            )


def _check_weights(file: BinaryIO, expected: Any) -> None:
    """Compare the tensors and their other names with those of an export."""
    variables = dict(expected.variables(ordered=True))
    stored = _read_variables(file, _read_start(file), most=2 * len(variables))
    aliases = _read_aliases(file, most=len(variables))
    if file.read(1):
        raise _DamageError("it goes on after its end")
    scales = {name + SCALE for name, one in stored.items() if one.dtype == "int8" and one.shape}
    for name in (stored.keys() - scales) | aliases.keys():
        if name not in variables:
            raise _DamageError(f"{reprlib.repr(name)} is unknown")
    for name, variable in variables.items():
        _check_variable(file, name, variable, stored, aliases)
    _check_dtypes({name: one for name, one in stored.items() if one.shape})
    for name, one in stored.items():
        _check_values(file, name, one)


def _check_variable(
    file: BinaryIO,
    name: str,
    variable: Any,
    stored: Mapping[str, _Stored],
    aliases: Mapping[str, str],
) -> None:
    if (name in stored) == (name in aliases):
        raise _DamageError(f"{name} is {'there twice' if name in stored else 'missing'}")
    target = aliases.get(name, name)
    one = stored.get(target)
    if one is None or target.endswith(SCALE) or _is_weight(name) != _is_weight(target):
        raise _DamageError(f"{name} is an alias of {reprlib.repr(target)}")
    if one.shape != tuple(variable.shape):
        raise _DamageError(f"{name} is {list(one.shape)} instead of {list(variable.shape)}")
    if variable.is_scalar():
        file.seek(one.place)
        value = variable.numpy()
        allowed = [value, np.ones_like(value)] if name == ALIGNMENT_HEADS else [value]
        found = file.read(one.size)
        if one.dtype != variable.dtype or found not in [each.tobytes() for each in allowed]:
            raise _DamageError(f"{name} is not {value}")
        return
    scale = stored.get(target + SCALE)
    if (one.dtype == "int8") != (scale is not None):
        raise _DamageError(f"{name} is {one.dtype}, {'with' if scale else 'without'} a scale")
    if scale is not None and (scale.shape, scale.dtype) != (one.shape[:1], "float32"):
        raise _DamageError(f"{name}{SCALE} is {scale.dtype} {list(scale.shape)}")


def _check_dtypes(stored: Mapping[str, _Stored]) -> None:
    """Raise unless all matrices have one type, and all else one type of floating point."""
    kept = {name: one.dtype for name, one in stored.items() if not name.endswith(SCALE)}
    weights = {dtype for name, dtype in kept.items() if _is_weight(name)}
    others = {dtype for name, dtype in kept.items() if not _is_weight(name)}
    is_known = others <= set(FLOATS) and (weights == {"int8"} or weights == others)
    if len(weights) != 1 or len(others) != 1 or not is_known:
        raise _DamageError(f"its types are {', '.join(sorted(weights | others))}")


def _is_weight(name: str) -> bool:
    """Return whether it is a matrix, which may be quantized."""
    return name.endswith("/weight")


def _check_values(file: BinaryIO, name: str, one: _Stored) -> None:
    """Raise if a number is not finite, or if a scale is not positive."""
    if one.dtype not in FLOATS:
        return
    unsigned = np.dtype(f"<u{WIDTHS[one.dtype]}")
    exponent = EXPONENT_BITS[one.dtype]
    file.seek(one.place)
    left = one.size
    while left:
        block = file.read(min(left, BLOCK))
        if not block:
            raise _DamageError("it is cut short")
        left -= len(block)
        bits = np.frombuffer(block, dtype=unsigned)
        if ((bits & exponent) == exponent).any():
            raise _DamageError(f"{name} has values that are NaN or infinite")
        if name.endswith(SCALE) and not (np.frombuffer(block, dtype="<f4") > 0).all():
            raise _DamageError(f"{name} has values that are not positive")


def _read_start(file: BinaryIO) -> int:
    """Return how many tensors follow; raise unless it is a Transformer of the known format."""
    start = _number(file, "I"), _text(file), _number(file, "I")
    if start != (FORMAT, KIND, REVISION):
        raise _DamageError(f"it is not a {KIND} of format {FORMAT}.{REVISION}")
    return _number(file, "I")


def _read_variables(file: BinaryIO, count: int, *, most: int) -> dict[str, _Stored]:
    if count > most:
        raise _DamageError(f"it has {count:,} tensors")
    stored = {}
    for _ in range(count):
        name = _text(file)
        shape = tuple(_number(file, "I") for _ in range(_number(file, "B")))
        code, size = _number(file, "B"), _number(file, "I")
        if code >= len(DTYPES):
            raise _DamageError(f"{reprlib.repr(name)} has an unknown type")
        stored[name] = one = _Stored(shape, DTYPES[code], file.tell())
        if one.size != size:
            raise _DamageError(f"{reprlib.repr(name)} has {size:,} bytes instead of {one.size:,}")
        file.seek(one.place + size)
    if len(stored) != count:
        raise _DamageError("a tensor is there twice")
    return stored


def _read_aliases(file: BinaryIO, *, most: int) -> dict[str, str]:
    count = _number(file, "I")
    if count > most:
        raise _DamageError(f"it has {count:,} aliases")
    return {_text(file): _text(file) for _ in range(count)}


def _number(file: BinaryIO, kind: str) -> int:
    size = struct.calcsize(f"<{kind}")
    content = file.read(size)
    if len(content) != size:
        raise _DamageError("it is cut short")
    return int(struct.unpack(f"<{kind}", content)[0])


def _text(file: BinaryIO) -> str:
    size = _number(file, "H")
    content = file.read(size)
    if len(content) != size or not content.endswith(b"\0"):
        raise _DamageError("it is cut short, or a name is damaged")
    return content[:-1].decode("utf-8", errors="backslashreplace")
