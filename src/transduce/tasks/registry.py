"""The tasks by name: those that come with this package, and those that are installed.

Another package adds a task by an entry point of the group `transduce.tasks`, which names a subclass
of `Task`. A name in a settings file only chooses among what is installed here.
"""

from functools import cache
from importlib.metadata import entry_points
from typing import Any

from transduce.config.schema import DataConfig
from transduce.errors import ConfigError, did_you_mean
from transduce.tasks.answers import AnswersTask
from transduce.tasks.base import Task
from transduce.tasks.parsing.task import ParsingTask
from transduce.tasks.translation import TranslationTask

ENTRY_POINTS = "transduce.tasks"
_OWN: dict[str, type[Task]] = {
    task.name: task for task in (TranslationTask, AnswersTask, ParsingTask)
}


def task_names() -> list[str]:
    """Name all tasks, those of this package first."""
    return [*_OWN, *sorted(_installed().keys() - _OWN.keys())]


def task_of(data: DataConfig) -> Task:
    """Return the task of a run or a model, as its settings want it."""
    return find_task(data.task).configured(data)


def find_task(name: str) -> Task:
    """Look a task up by its name."""
    if name in _OWN:
        return _OWN[name]()
    if name not in _installed():
        known = task_names()
        raise ConfigError(
            f"no task named {name!r}{did_you_mean(name, known)}: "
            f"data.task is one of {', '.join(known)}"
        )
    try:
        found = _installed()[name].load()
    except Exception as fault:  # another package's code may raise anything
        raise ConfigError(
            f"the task {name!r} is installed but cannot be loaded: {fault!r}"
        ) from fault
    if not (isinstance(found, type) and issubclass(found, Task) and found.name == name):
        raise ConfigError(
            f"the entry point {name!r} of {ENTRY_POINTS} is not a Task whose name is {name!r}"
        )
    return found()


@cache
def _installed() -> dict[str, Any]:
    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}
