"""Model folders loaded for translation."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Literal, get_args

import torch

from transduce.errors import InputError
from transduce.export.ctranslate2 import is_exported, is_installed, refusal
from transduce.hardware.devices import choose_device
from transduce.models.folder import TOKENIZER, LoadedModel, load_model, load_settings
from transduce.models.model_files import settings_folder
from transduce.models.shortlist import load_shortlist, shortlist_path
from transduce.search.ensemble import Ensemble
from transduce.search.speculative.drafter import Drafter, ModelDrafter, NgramDrafter
from transduce.tasks.base import Task
from transduce.tasks.registry import task_of
from transduce.translation.ctranslate2_engine import CTranslate2Engine
from transduce.translation.inference import Precision, prepare_for_inference
from transduce.translation.languages import source_languages
from transduce.translation.options import Options
from transduce.translation.shortlist.check import check_can_narrow
from transduce.translation.translator import Translator

Folder = str | PathLike[str]
NGRAMS = "ngrams"
"""The draft that needs no model; a folder of this name is ./ngrams."""
EngineName = Literal["auto", "torch", "ctranslate2"]


def load(
    path_or_paths: Folder | Sequence[Folder],
    device: str = "auto",
    *,
    precision: Precision = "float32",
    engine: EngineName | None = None,
    draft: Folder | None = None,
    to: str | None = None,
    shortlist: bool = False,
) -> Translator:
    """Load a model for translation.

    path_or_paths: a model folder, or several with the same vocabulary for an ensemble. A run that
        is not over will do, whose best weights so far are taken, and so will one of its
        checkpoints; the log says which weights these are.
    device: cpu, cuda, cuda:N or mps; auto takes a GPU if there is one.
    precision: float32; bf16, which is faster on GPUs; int8, which is faster on the CPU.
    engine: torch, ctranslate2 or auto. auto takes CTranslate2 on the CPU if it is installed and can
        express the model; sentences with terms are then searched with torch. Without a name it is
        torch, or CTranslate2 for an exported folder.
    draft: for greedy search (a beam of 1), which gives the same translations, one sentence in less
        time: the folder of a smaller model with the same vocabulary, or `ngrams`, for copies of
        what was read or written before. Batches of several sentences are searched without it.
    to: the language to translate into, for a model of several; `translate` takes it too.
    shortlist: search only among the tokens by which those of a sentence are translated, which is
        faster on the CPU; the model's folder has the list, made by `transduce shortlist`.

    A folder, device or combination that cannot be used raises `InputError`; wrong settings in a
    folder raise `ConfigError`.
    """
    given = [path_or_paths] if isinstance(path_or_paths, str | PathLike) else path_or_paths
    folders = [Path(folder) for folder in given]
    if not folders:
        raise InputError("no model: give at least one folder")
    chosen = choose_device(device)
    if shortlist:
        _check_shortlist(folders, chosen)
    if draft is not None and engine in (None, "auto") and not any(map(is_exported, folders)):
        engine = "torch"
    if _chosen_engine(engine, folders, chosen) == "ctranslate2":
        if draft is not None:
            raise InputError("CTranslate2 takes no draft: use the engine torch and a model folder")
        translator = _load_ctranslate2(
            folders, chosen, precision, falls_back=engine == "auto", shortlist=shortlist
        )
    else:
        if shortlist and draft is not None:
            raise InputError(
                "a draft verifies with the whole vocabulary: use no shortlist, or no draft"
            )
        translator = _load_torch(folders, chosen, precision, draft, shortlist=shortlist)
    return translator if to is None else translator.into(to)


def _load_torch(
    folders: list[Path],
    device: torch.device,
    precision: Precision,
    draft: Folder | None,
    *,
    shortlist: bool,
) -> Translator:
    loaded = [load_model(folder, device=device) for folder in folders]
    _check_ensemble(folders, loaded)
    models = [prepare_for_inference(one.model, precision=precision) for one in loaded]
    narrowing = load_shortlist(folders[0], loaded[0].tokenizer) if shortlist else None
    drafter = None
    if draft is not None:
        drafter = _load_drafter(draft, folders, loaded, device=device, precision=precision)
    return Translator(
        models[0] if len(models) == 1 else Ensemble(models),
        loaded[0].tokenizer,
        task=task_of(loaded[0].config.data),
        device=device,
        max_positions=_max_positions(loaded),
        by_sentence=all(one.config.data.lines == "sentences" for one in loaded),
        read_from=[
            (*one.files.paths, *([shortlist_path(folder)] if shortlist else []))
            for one, folder in zip(loaded, folders, strict=True)
            if one.files is not None
        ],
        drafter=drafter,
        shortlist=narrowing,
        tag_on=loaded[0].config.data.tag_on,
        sources=source_languages(loaded[0].config),
        beam=loaded[0].config.run.beam,
    )


def _max_positions(loaded: Sequence[LoadedModel]) -> int | None:
    """Return how long an input may be for all models; None: as long as memory allows."""
    lengths = (one.config.model.max_length for one in loaded)
    return min((length for length in lengths if length is not None), default=None)


def _check_ensemble(folders: list[Path], loaded: list[LoadedModel]) -> None:
    """Raise an error if the models differ in their vocabularies or tasks."""
    for folder, one in zip(folders[1:], loaded[1:], strict=True):
        if one.tokenizer.to_json() != loaded[0].tokenizer.to_json():
            files = [settings_folder(place) / TOKENIZER for place in (folder, folders[0])]
            raise InputError(
                f"{files[0]} differs from {files[1]}: the models of an ensemble must "
                "share one vocabulary"
            )
    if len({one.config.data.tag_on for one in loaded}) > 1 and loaded[0].tokenizer.languages:
        raise InputError(
            "data.tag_on differs: the models of an ensemble have their tags in one place"
        )
    tasks = {one.config.data.task for one in loaded}
    if len(tasks) > 1:
        raise InputError(f"the models of an ensemble have one task, not {', '.join(sorted(tasks))}")


def _load_drafter(
    draft: Folder,
    folders: list[Path],
    loaded: list[LoadedModel],
    *,
    device: torch.device,
    precision: Precision,
) -> Drafter:
    """Load what proposes tokens to a model; raise an error if the two do not go together."""
    if len(loaded) > 1:
        raise InputError("a draft is for one model, not for an ensemble: use one of them")
    [one], [folder] = loaded, folders
    if type(task_of(one.config.data)).constraint is not Task.constraint:
        raise InputError(
            f"{folder}: the task {one.config.data.task} constrains what is written, and a draft is "
            "for greedy search without constraints: use no draft"
        )
    _check_verifies(one, folder)
    if str(draft) == NGRAMS:
        return NgramDrafter(reads_source=one.tokenizer.is_shared)
    path = Path(draft)
    small = load_model(path, device=device)
    _check_verifies(small, path)
    if small.tokenizer.to_json() != one.tokenizer.to_json():
        files = [settings_folder(place) / TOKENIZER for place in (path, folder)]
        raise InputError(
            f"{files[0]} differs from {files[1]}: a draft needs the vocabulary of the model; train "
            f"it with data.tokenizer={files[1]}"
        )
    longest, needed = small.config.model.max_length, one.config.model.max_length
    if longest is not None and (needed is None or longest < needed):
        raise InputError(
            f"{path}: model.max_positions={longest} is less than the {needed} of {folder}: a draft "
            "must be as long as a translation"
        )
    return ModelDrafter(prepare_for_inference(small.model, precision=precision))


def _check_shortlist(folders: list[Path], device: torch.device) -> None:
    """Raise an error if no shortlist can be used with these models on this device."""
    if len(folders) > 1:
        raise InputError("a shortlist is for one model, not for an ensemble: use one of them")
    if device.type != "cpu":
        raise InputError(
            f"a shortlist is for the CPU: on {device.type} the whole vocabulary is as fast; leave "
            "it out, or use the device cpu"
        )
    check_can_narrow(load_settings(folders[0]), folders[0])


def _check_verifies(one: LoadedModel, folder: Path) -> None:
    if not one.model.abilities.multi_token_step:
        raise InputError(
            f"{folder}: a model of the kind {one.config.model.kind} cannot read several tokens at "
            "once and take them back, as drafts need it: use a Transformer whose decoder has only "
            "attention"
        )


def default_options(folder: Folder) -> Options:
    """Return how a model translates if nothing else is asked for: as its settings or task say."""
    config = load_settings(Path(folder))
    task = task_of(config.data)
    return Options(beam=config.run.beam or task.beam, alpha=task.alpha)


def _chosen_engine(
    name: EngineName | None, folders: list[Path], device: torch.device
) -> EngineName:
    """Resolve `auto` and None to an engine."""
    if name not in (None, *get_args(EngineName)):
        raise InputError(f"engine={name!r}: use one of {', '.join(get_args(EngineName))}")
    exported = any(map(is_exported, folders))
    if name == "torch" and exported:
        raise InputError(
            "a folder exported to CTranslate2 has no weights for torch: use the engine "
            "ctranslate2, or the model folder that was exported"
        )
    if name in (None, "auto") and exported:
        return "ctranslate2"
    if name != "auto":
        return name or "torch"
    if len(folders) > 1 or device.type != "cpu" or not is_installed():
        return "torch"
    config = load_settings(folders[0])
    is_constrained = type(task_of(config.data)).constraint is not Task.constraint
    return "torch" if is_constrained or refusal(config.model) else "ctranslate2"


def _load_ctranslate2(
    folders: list[Path],
    device: torch.device,
    precision: Precision,
    *,
    falls_back: bool,
    shortlist: bool,
) -> Translator:
    if len(folders) > 1:
        raise InputError("CTranslate2 loads one model only: use the engine torch for an ensemble")
    config = load_settings(folders[0])
    task = task_of(config.data)
    engine = CTranslate2Engine.load(
        folders[0],
        device=device,
        precision=precision,
        task=task,
        falls_back=falls_back,
        shortlist=shortlist,
    )
    return Translator(
        engine,
        engine.tokenizer,
        task=task,
        device=device,
        max_positions=engine.max_length,
        by_sentence=config.data.lines == "sentences",
        read_from=[_files_of_engine(engine)],
        tag_on=config.data.tag_on,
        sources=source_languages(config),
        beam=config.run.beam,
    )


def _files_of_engine(engine: CTranslate2Engine) -> Sequence[Path]:
    """Return the files that CTranslate2 has loaded, or that were converted for it."""
    if engine.files is not None:
        more = [shortlist_path(engine.folder)] if engine.has_shortlist else []
        return [*engine.files.paths, *more]
    return [path for path in sorted(engine.folder.iterdir()) if path.is_file()]
