"""What a path is if it is not a model folder, and what to do about it."""

from pathlib import Path

from transduce.errors import InputError
from transduce.files.regular import read_json
from transduce.models.model_files import CONFIG, TOKENIZER, WEIGHTS, find_model, settings_folder

CTRANSLATE2_WEIGHTS, OTHER_CONFIG = "model.bin", "config.json"


def check_has_settings(place: Path) -> None:
    """Raise unless a path is a folder with our settings: of a model, a run or a checkpoint."""
    folder = settings_folder(place)
    if not (folder / CONFIG).is_file():
        raise InputError(why_no_model(folder, CONFIG))


def check_has_weights(place: Path) -> None:
    """Raise unless a path has all files of a model: a model folder, a run or a checkpoint."""
    check_has_settings(place)
    files = find_model(place)
    for path in (files.folder / TOKENIZER, files.weights):
        if not path.is_file():
            raise InputError(why_no_model(path.parent, path.name))


def why_no_model(folder: Path, missing: str) -> str:
    """Return why a path without this file is not a model folder, and what to use instead."""
    if missing == CONFIG and not folder.exists():
        return f"{folder} does not exist: give a model folder, as 'transduce train' makes one"
    if folder.is_file():
        return _why_not_a_file(folder)
    if (folder / CTRANSLATE2_WEIGHTS).is_file() and (folder / OTHER_CONFIG).is_file():
        return _why_not_ctranslate2(folder)
    if missing == CONFIG and (folder / OTHER_CONFIG).is_file():
        return _why_not_huggingface(folder)
    inside = sorted(path.parent for path in folder.glob(f"*/{CONFIG}"))
    if missing == CONFIG and inside:
        return f"{folder} is no model but holds {len(inside):,}: give one, such as {inside[0]}"
    is_empty = folder.is_dir() and not any(folder.iterdir())
    what = "is an empty folder" if is_empty else f"has no file {missing}"
    return f"{folder} {what}: a model is a folder of {CONFIG}, {TOKENIZER} and {WEIGHTS}"


def _why_not_a_file(path: Path) -> str:
    if (path.parent / CONFIG).is_file():
        return f"{path} is a file: give the model folder that it is in, {path.parent}"
    return f"{path} is a file: a model is a folder of {CONFIG}, {TOKENIZER} and {WEIGHTS}"


def _why_not_ctranslate2(folder: Path) -> str:
    if (folder / CONFIG).is_file():
        return (
            f"{folder} was exported to CTranslate2: it can translate, be evaluated and be served; "
            "for all else use the model folder that was exported"
        )
    return (
        f"{folder} is a CTranslate2 model without the settings and the vocabulary that 'transduce "
        "export' adds: export the model again, or import its original ('transduce import')"
    )


def _why_not_huggingface(folder: Path) -> str:
    try:
        found = read_json(folder / OTHER_CONFIG)
        kind = found.get("model_type")
    except (OSError, ValueError, AttributeError):
        kind = None
    if kind == "marian":
        return (
            f"{folder} is a Marian model in Hugging Face's format: "
            f"'transduce import {folder} --from marian-hf --out MODEL' makes a model folder of it"
        )
    what = f"a Hugging Face model of type {kind}" if isinstance(kind, str) else "of another format"
    return f"{folder} is {what}: only Marian models can be imported ('transduce import')"
