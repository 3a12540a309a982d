"""The tasks by name: those that come with this package, and those that are installed.

Another package adds a task by an entry point of the group `transduce.tasks`, which names a subclass
of `Task`. A name in a settings file only chooses among what is installed here.
"""

from collections.abc import Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from transduce.config.schema import DataConfig
from transduce.errors import ConfigError, did_you_mean
from transduce.tasks.base import Metric, Task
from transduce.tasks.error_rates import CharacterErrorRate, ExactMatch, WordErrorRate
from transduce.tasks.generic import AnswersTask, GenericTask
from transduce.tasks.metrics import Bleu, ChrF
from transduce.tasks.parsing.task import ParsingTask
from transduce.tasks.pronunciation import PronunciationTask
from transduce.tasks.rouge import Rouge
from transduce.tasks.tokenization import choose_tokenization
from transduce.tasks.translation import TranslationTask

ENTRY_POINTS = "transduce.tasks"
_OWN: dict[str, type[Task]] = {
    task.name: task
    for task in (TranslationTask, AnswersTask, GenericTask, PronunciationTask, ParsingTask)
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


def choose_metric(task: Task, name: str | None, references: Sequence[str]) -> Metric:
    """Return the metric that `data.metric` names, or the task's own, suited to references."""
    match name:
        case None:
            return task.metric(references)
        case "exact":
            return ExactMatch()
        case "wer":
            return WordErrorRate()
        case "cer":
            return CharacterErrorRate()
        case "bleu":
            return Bleu(choose_tokenization(references).bleu)
        case "chrf":
            return ChrF()
        case "rouge":
            return Rouge()
        case _:
            raise ConfigError(f"no metric named {name!r}")


@cache
def _installed() -> dict[str, Any]:
    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}
