"""Which models can be searched with a shortlist."""

from pathlib import Path

import torch

from transduce.config.schema import Config
from transduce.errors import InputError
from transduce.models.build import assemble
from transduce.tasks.base import Task
from transduce.tasks.registry import task_of


def check_can_narrow(config: Config, model: str | Path) -> None:
    """Raise an error if models with these settings need the whole vocabulary."""
    task = task_of(config.data)
    if task.target_form is not None or type(task).constraint is not Task.constraint:
        raise InputError(
            f"{model}: the task {task.name} does not write free text: use no shortlist"
        )
    with torch.device("meta"):
        abilities = assemble(config.model).abilities
    if not abilities.step_states:
        raise InputError(
            f"{model}: a model of the kind {config.model.kind} scores its whole vocabulary: use no "
            "shortlist"
        )
