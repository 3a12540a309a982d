"""A model as a folder that can be copied, compared and trusted: settings, vocabulary, weights.

Nothing in it is pickled, so loading a stranger's model runs no code. The settings are compared with
the header of the weights before memory is allocated for either.
"""

import logging
import reprlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from textwrap import shorten
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from transduce.config.load import load_config, to_yaml
from transduce.config.schema import Config, ModelConfig
from transduce.errors import ConfigError, InputError, TransduceError
from transduce.files.atomic import atomic_file
from transduce.files.checksums import (
    DamagedFileError,
    check_files,
    is_as_written,
    write_checksums,
)
from transduce.files.errors import reporting_read_errors, reporting_write_errors
from transduce.models.base import Seq2Seq
from transduce.models.build import assemble
from transduce.models.model_files import CONFIG as CONFIG
from transduce.models.model_files import TOKENIZER as TOKENIZER
from transduce.models.model_files import WEIGHTS as WEIGHTS
from transduce.models.model_files import ModelFiles, find_model, settings_folder
from transduce.models.other_formats import check_has_settings, why_no_model
from transduce.models.safetensors_file import DTYPES, check_tensors, write_tensors
from transduce.text.tokenizer import Tokenizer

FORMAT = "1"
SHALLOW = 100
"""Fewer layers are always built: a kind of model may share weights between its layers."""
MAX_READS = 5
"""How often a run's best checkpoint is looked for: a running one may remove what was found."""

_log = logging.getLogger("transduce")

MAX_COMPUTED_NUMBERS = 2**28
"""Limit of buffers that are computed from the settings, such as sinusoids: no file bounds them."""


@dataclass(frozen=True)
class LoadedModel:
    """A model with its settings and its tokenizer."""

    model: Seq2Seq
    config: Config
    tokenizer: Tokenizer
    files: ModelFiles | None = None  # that it was read from


def save_model(folder: Path, loaded: LoadedModel) -> None:
    """Write a model folder, the weights last: without them it is not a model folder."""
    save_settings(folder, loaded.config, loaded.tokenizer)
    save_weights(folder / WEIGHTS, loaded.model.state_dict(), metadata={})


def save_settings(folder: Path, config: Config, tokenizer: Tokenizer) -> None:
    """Write the settings and the tokenizer of a model folder."""
    with reporting_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with _replacing(folder / CONFIG) as making:
        making.write_text(to_yaml(config), encoding="utf-8")
    with _replacing(folder / TOKENIZER) as making:
        tokenizer.save(making)
    write_checksums(folder, [CONFIG, TOKENIZER])


def load_model(
    folder: Path,
    *,
    device: torch.device | str = "cpu",
    model_config: ModelConfig | None = None,
) -> LoadedModel:
    """Load a model, in eval mode; raise if its files do not belong together.

    `folder` is a model folder, the folder of a run that is not over, or one of its checkpoints. Of
    the latter two, the log says which weights were taken. `model_config` replaces the folder's
    model settings; they may differ in dropout, for example.
    """
    for attempt in range(MAX_READS):
        files = find_model(folder)
        try:
            loaded = read_model(files, device=device, model_config=model_config)
        except InputError:
            was_removed = files.is_choice and not files.weights.exists()
            if not was_removed or attempt == MAX_READS - 1:
                raise
        else:
            break
    if files.note is not None:
        _log.log(logging.WARNING if files.is_choice else logging.INFO, files.note)
    return loaded


def read_model(
    files: ModelFiles,
    *,
    device: torch.device | str = "cpu",
    model_config: ModelConfig | None = None,
) -> LoadedModel:
    """Read the model in these files, in eval mode; raise if they do not belong together."""
    folder = files.folder
    for path in (folder / CONFIG, folder / TOKENIZER, files.weights):
        if not path.is_file():
            raise InputError(why_no_model(path.parent, path.name))
    config = load_settings(folder)
    warn_if_edited(folder)
    if model_config is not None:
        config = config.model_copy(update={"model": model_config})
    with _opened(files.weights) as file:
        check_depth(config.model, len(file.keys()), files.weights)
        model = _on_meta_device(config.model)
        _check(model, file, files)
        tokenizer = load_tokenizer(folder, config)
        weights = _tensors(file)
    for name, tensor in weights.items():
        if not bool(tensor.isfinite().all()):
            raise InputError(
                f"{files.weights}: {name} has values that are NaN or infinite, so the model "
                "cannot be used; take an earlier checkpoint, or train it again"
            )
    _fill(model, weights)
    return LoadedModel(model.to(device).eval(), config, tokenizer, files)


def check_depth(config: ModelConfig, n_tensors: int, weights: Path) -> None:
    """Raise if settings ask for more layers than a file has tensors: to build them takes long."""
    values = [getattr(config, name) for name in type(config).model_fields if "layers" in name]
    depth = max((value for value in values if isinstance(value, int)), default=0)
    if depth > max(n_tensors, SHALLOW):
        raise InputError(
            f"{weights} does not fit the model in {CONFIG}: it has {n_tensors:,} tensors, fewer "
            f"than the {depth:,} layers there"
        )


def load_settings(folder: Path) -> Config:
    """Read only the settings of a model folder; for a checkpoint, those of its run."""
    check_has_settings(folder)
    folder = settings_folder(folder)
    try:
        return load_config(folder / CONFIG)
    except ConfigError as wrong:
        if str(folder / CONFIG) in str(wrong):
            raise
        raise ConfigError(f"{folder / CONFIG}: {wrong}") from wrong


def warn_if_edited(folder: Path) -> None:
    """Log if the settings are not those that were written: they may be edited, or damaged."""
    path = settings_folder(folder) / CONFIG
    if not is_as_written(path):
        _log.warning(
            "%s was changed after it was written: if you did not edit it, restore it from a copy",
            path,
        )


def load_tokenizer(folder: Path, config: Config) -> Tokenizer:
    """Read only the tokenizer of a model folder, whose sizes must be those in its settings."""
    folder = settings_folder(folder)
    tokenizer = Tokenizer.load(folder / TOKENIZER)
    for name, found in (("vocab_size", len(tokenizer)), ("src_vocab_size", tokenizer.src_size)):
        stated = getattr(config.model, name)
        if found != stated:
            entries = (
                "no entries of its own for the source" if found is None else f"{found:,} entries"
            )
            raise InputError(
                f"{folder / TOKENIZER} has {entries} but {CONFIG} says "
                f"model.{name}={stated}: they are of different models"
            )
    check_files(folder, [TOKENIZER])
    return tokenizer


def save_weights(path: Path, weights: Mapping[str, Tensor], *, metadata: dict[str, str]) -> None:
    """Write tensors by name as safetensors; if that fails, the old file is unchanged."""
    with _replacing(path) as making, making.open("wb") as stream:
        write_tensors(stream, weights, metadata=metadata | {"format": FORMAT})


def load_weights(path: Path) -> dict[str, Tensor]:
    """Read what `save_weights` wrote, onto the CPU."""
    if not path.is_file():
        raise DamagedFileError(path, "not a file", "", message=f"{path} is not a file")
    with _opened(path) as file:
        return _tensors(file)


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Give a temporary file to write to, which then replaces `path`."""
    with reporting_write_errors(path), atomic_file(path) as making:
        yield making


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open weights of our format; a damaged file is reported in one line."""
    try:
        with reporting_read_errors(path), safe_open(path, framework="pt") as file:
            found = (file.metadata() or {}).get("format")
            if found != FORMAT:
                raise InputError(
                    f"{path} has format {reprlib.repr(found)} but this version reads "
                    f"{FORMAT!r}: use the version of transduce that wrote it"
                )
            check_tensors(path)
            yield file
    except SafetensorError as malformed:
        reason = f"cut short, damaged or not safetensors ({shorten(str(malformed), 200)})"
        remedy = "copy or save it again; pickled weights are never loaded"
        raise DamagedFileError(
            path, reason, remedy, message=f"{path} is {reason}: {remedy}"
        ) from malformed


def _tensors(file: Any) -> dict[str, Tensor]:
    """Copy the tensors: the library's own are mapped to the file, which others may overwrite."""
    return {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 - no mapping


def _check(model: Seq2Seq, file: Any, files: ModelFiles) -> None:
    """Raise unless the file holds the tensors of this model, which is on the meta device."""
    persistent = model.state_dict()
    computed = [(n, b) for n, b in model.named_buffers() if n not in persistent]
    size = sum(buffer.numel() for _, buffer in computed)
    if size > MAX_COMPUTED_NUMBERS:
        largest, _ = max(computed, key=lambda named: named[1].numel())
        setting = "random_features" if largest.endswith(".directions") else "max_positions"
        raise InputError(
            f"{files.folder / CONFIG} asks for {size:,} computed numbers, the most of them in "
            f"{largest}, but the maximum is {MAX_COMPUTED_NUMBERS:,}; lower model.{setting}"
        )
    differences = list(islice(_differences(persistent, file), 4))
    if differences:
        shown = "; ".join(differences[:3]) + ("; and more" if len(differences) > 3 else "")
        raise InputError(f"{files.weights} does not fit the model in {CONFIG}: {shown}")


def _differences(described: Mapping[str, Tensor], file: Any) -> Iterator[str]:
    unknown = set(file.keys())
    for name, tensor in described.items():
        expected = f"{DTYPES[tensor.dtype]} {list(tensor.shape)}"
        if name not in unknown:
            yield f"{name} is missing"
            continue
        unknown.remove(name)
        held = file.get_slice(name)
        found = f"{held.get_dtype()} {held.get_shape()}"
        if found != expected:
            yield f"{name} is {found} instead of {expected}"
    for name in sorted(unknown):
        yield f"{reprlib.repr(name)} is unknown"


def _fill(model: Seq2Seq, weights: dict[str, Tensor]) -> None:
    """Give a model on the meta device its weights, and compute the buffers that no file holds."""
    tied = _tied_parameters(model)
    model.load_state_dict(weights, assign=True)
    for first, *others in tied:
        for name in others:
            owner, _, attribute = name.rpartition(".")
            setattr(model.get_submodule(owner), attribute, model.get_parameter(first))
    for module in model.modules():
        if any(buffer.is_meta for buffer in module.buffers(recurse=False)):
            rebuild = getattr(module, "rebuild_buffers", None)
            if rebuild is not None:
                rebuild()
    tensors = (*model.named_parameters(), *model.named_buffers())
    unfilled = [name for name, tensor in tensors if tensor.is_meta]
    if unfilled:
        raise TransduceError(
            f"nothing rebuilds {', '.join(unfilled)} when the model is loaded: give the module "
            "that holds it a method rebuild_buffers(), or register the buffer as persistent"
        )


def _tied_parameters(model: Seq2Seq) -> list[list[str]]:
    """Group the names of parameters that are one and the same."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return [group for group in names.values() if len(group) > 1]


def _on_meta_device(config: ModelConfig) -> Seq2Seq:
    with torch.device("meta"):
        return assemble(config)
