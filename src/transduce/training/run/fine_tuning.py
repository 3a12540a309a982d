"""Training that starts from a model folder: fine-tuning, or going on with an imported model."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from transduce.config.schema import Config, Tree, merge
from transduce.errors import ConfigError
from transduce.models.build import build_model
from transduce.models.folder import TOKENIZER, LoadedModel, load_settings, read_model
from transduce.models.model_files import find_model
from transduce.models.other_formats import check_has_weights

FINE_TUNING_RATE = 2e-4
"""The default peak of the learning rate: the paper's would undo much of what the model knows."""


def settings_from(folder: str, given: Tree) -> Tree:
    """Return the settings of a run that starts from a model folder; given settings take priority.

    If the model is that of a run that is not over, `run.init` becomes the checkpoint that is taken.
    Raises if the user gives another vocabulary or another kind of model.
    """
    if _given(given, "data", "tokenizer") is not None:
        raise ConfigError("data.tokenizer: a run that starts from a model keeps its vocabulary")
    check_has_weights(Path(folder))
    files = find_model(Path(folder))
    settings = load_settings(files.folder)
    model = settings.model
    kind = _given(given, "model", "kind")
    if kind not in (None, model.kind):
        raise ConfigError(
            f"model.kind={kind}, but the model in {folder} is of the kind {model.kind}: "
            "a run that starts from a model keeps its architecture"
        )
    start: Tree = {
        "model": model.model_dump(exclude_unset=True),
        "data": {
            "task": settings.data.task,
            "tree_order": settings.data.tree_order,
            "tree_tags": settings.data.tree_tags,
            "tokenizer": str(files.folder / TOKENIZER),
            "shared_vocabulary": settings.data.shared_vocabulary,
            "tag_on": settings.data.tag_on,
        },
        "training": {"learning_rate": FINE_TUNING_RATE},
    }
    taken = str(files.weights.parent) if files.is_choice else folder
    return merge(merge(start, given), {"run": {"init": taken}})


def check_same_model(config: Config, folder: str) -> None:
    """Raise if the settings describe another model than the one to start from."""
    theirs = load_settings(Path(folder)).model
    free = theirs.free_settings()
    ours = config.model.model_dump()
    for name, value in theirs.model_dump().items():
        if name not in free and ours.get(name) != value:
            raise ConfigError(
                f"model.{name}={ours.get(name)}, but the model in {folder} has {value}: "
                "settings that its weights depend on cannot be changed"
            )


def starting_model(config: Config, folder: str) -> LoadedModel:
    """Load the model to start from, with this run's settings such as its dropout.

    Where languages were added, it has new rows for their tags; all others keep theirs.
    """
    files = find_model(Path(folder))
    size = load_settings(files.folder).model.vocab_size
    if size == config.model.vocab_size:
        return read_model(files, model_config=config.model)
    loaded = read_model(files, model_config=config.model.model_copy(update={"vocab_size": size}))
    grown = build_model(config.model, seed=config.run.seed)
    known = loaded.model.state_dict()
    with torch.no_grad():
        for name, tensor in grown.state_dict().items():
            old = known[name]
            if old.shape[1:] != tensor.shape[1:] or len(old) > len(tensor):
                raise ConfigError(
                    f"model.vocab_size={config.model.vocab_size}: {name} of the model in {folder} "
                    f"has the shape {list(old.shape)}, which cannot grow to {list(tensor.shape)}; "
                    "train a new model for these languages"
                )
            tensor[: len(old)] = old
    return replace(loaded, model=grown)


def describe_start(given: Tree, config: Config) -> list[str]:
    """Say which weights a new run starts from, unless they are new or those of a finished run."""
    taken, named = config.run.init, _given(given, "run", "init")
    note = None if taken is None else find_model(Path(taken)).note
    if note is None:
        return []
    return [note if named == taken else f"{named} is not over; starting from {note}"]


def _given(tree: Tree, section: str, name: str) -> Any:
    """Return one of the given settings, None if there is none; wrong ones are reported later."""
    values = tree.get(section)
    return values.get(name) if isinstance(values, dict) else None
