"""Training that goes on from a model folder: fine-tuning, or a model that was imported."""

from pathlib import Path

from transduce.config.schema import Config, Tree, merge
from transduce.errors import ConfigError
from transduce.models.folder import TOKENIZER, LoadedModel, load_model, load_settings

GENTLE_RATE = 2e-4
"""The peak of the learning rate where nobody says: the paper's would undo much of what is there."""

FREE = {"p_drop", "p_drop_attention", "p_drop_ff", "max_positions"}
"""Settings of a model that do not decide what its weights are."""


def settings_from(folder: str, given: Tree) -> Tree:
    """Return the settings of a run that starts there, with what is given laid over them."""
    if given.get("data", {}).get("tokenizer") is not None:
        raise ConfigError("data.tokenizer: a run that starts from a model keeps its vocabulary")
    model = load_settings(Path(folder)).model.model_dump(exclude_unset=True)
    start: Tree = {
        "model": model,
        "data": {"tokenizer": str(Path(folder) / TOKENIZER)},
        "training": {"learning_rate": GENTLE_RATE},
    }
    return merge(start, given)


def check_same_model(config: Config, folder: str) -> None:
    """Raise if the settings describe another model than the one to start from."""
    theirs = load_settings(Path(folder)).model
    free = FREE if theirs.positions == "sinusoidal" else FREE - {"max_positions"}
    ours = config.model.model_dump()
    for name, value in theirs.model_dump().items():
        if name not in free and ours[name] != value:
            raise ConfigError(
                f"model.{name}={ours[name]}, but the model in {folder} has {value}: "
                "what its weights are cannot be changed"
            )


def starting_model(config: Config, folder: str) -> LoadedModel:
    """Load the model to start from, with the dropout and the positions of this run."""
    return load_model(Path(folder), model_config=config.model)
