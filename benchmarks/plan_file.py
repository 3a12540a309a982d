"""The plan of benchmarks/in_turn.py: its file, and when its steps would run."""

import math
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from transduce.config.load import read_yaml
from transduce.config.rules import broken_rule
from transduce.config.sections.section import Positive, Section
from transduce.errors import ConfigError, did_you_mean


class Step(Section):
    """One command of a plan."""

    name: Annotated[str, Field(pattern=r"^\w[\w.-]*$", description="of letters, digits, . - and _")]
    run: Annotated[str, Field(min_length=1)]
    lane: str
    minutes: Positive
    limit_minutes: Positive = math.inf
    memory: Annotated[float, Field(gt=0, le=1)] | None = None
    after: tuple[str, ...] = ()
    over: tuple[str, ...] = ()
    when: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    command: tuple[str, ...] = ()

    @property
    def before(self) -> tuple[str, ...]:
        """Return the steps that this one waits for."""
        return (*self.after, *self.over)


class Plan(Section):
    """Steps, and the minutes that they may take together."""

    minutes: Positive
    packages: tuple[str, ...] = ()
    variables: dict[str, str | int | float] = Field(default_factory=dict)
    steps: tuple[Step, ...]
    inputs: tuple[str, ...] = ()


def read_plan(path: Path, out: Path, given: Sequence[str] = ()) -> Plan:
    """Read a plan; `given` changes its variables."""
    try:
        plan = Plan.model_validate(read_yaml(path))
    except ValidationError as invalid:
        raise ConfigError(f"{path}: {'; '.join(complaints(invalid))}") from invalid
    values = values_of(plan.variables, out, given)
    names = [step.name for step in plan.steps]
    if not names:
        raise ConfigError(f"{path}: `steps` is empty")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"{path}: two steps have the name {twice[0]}")
    for step in plan.steps:
        for key, others in (("after", step.after), ("over", step.over)):
            for other in others:
                check_name(other, names, f"step in `{key}` of {step.name}:")
    steps = tuple(step.model_copy(update=in_words(step, values)) for step in plan.steps)
    expected_times(steps)
    inputs = inputs_of(steps, values["data"]) if "data" in values else ()
    return plan.model_copy(update={"steps": steps, "inputs": inputs})


def inputs_of(steps: Sequence[Step], folder: str) -> tuple[str, ...]:
    """Return the paths below a folder that commands name, or steps wait for."""
    words = {word for step in steps for word in (*step.command, *step.when)}
    path = re.compile(rf"(?<![\w./-]){re.escape(folder)}/[\w./-]*\w")
    return tuple(sorted({found for word in words for found in path.findall(word)}))


def complaints(invalid: ValidationError) -> Iterator[str]:
    """Say what is wrong with a plan, and where."""
    for error in invalid.errors(include_url=False):
        place = ".".join(str(part + 1 if isinstance(part, int) else part) for part in error["loc"])
        hint = did_you_mean(place, [*Step.model_fields, *Plan.model_fields])
        unknown = error["type"] == "extra_forbidden"
        yield f"unknown {place}{hint}" if unknown else f"{place or 'it'}: {broken_rule(error)}"


def check_name(name: str, known: Sequence[str], what: str) -> None:
    """Refuse a name that is unknown."""
    if name not in known:
        hint = did_you_mean(name, known) or f": known are {', '.join(known)}"
        raise ConfigError(f"unknown {what} {name}{hint}")


def values_of(variables: Mapping[str, object], out: Path, given: Sequence[str]) -> dict[str, str]:
    """Return the values of all variables; each may name those before it."""
    changes = dict(text.partition("=")[::2] for text in given)
    for name in changes:
        check_name(name, [*variables], "variable")
    values = {"python": sys.executable, "out": str(out)}
    for name, value in variables.items():
        values[name] = filled(str(changes.get(name, value)), values)
    return values


def filled(text: str, values: Mapping[str, str]) -> str:
    """Put the values of variables into a text."""

    def value(match: re.Match[str]) -> str:
        check_name(match[1], [*values], "variable")
        return values[match[1]]

    return re.sub(r"\{(\w+)\}", value, text)


def in_words(step: Step, values: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Fill in the texts of a step, and split its command into words."""
    words: list[str] = []
    try:
        for word in shlex.split(step.run):
            is_several = re.fullmatch(r"\{\w+\}", word) and word not in ("{python}", "{out}")
            words += shlex.split(filled(word, values)) if is_several else [filled(word, values)]
    except ValueError as fault:
        raise ConfigError(f"step {step.name}: run: {fault}") from None
    files = {"when": step.when, "keep": step.keep}
    return {"command": tuple(words)} | {
        key: tuple(filled(text, values) for text in texts) for key, texts in files.items()
    }


def expected_times(steps: Sequence[Step]) -> dict[str, tuple[float, float]]:
    """Return the minutes at which each step begins and ends, if all take as long as they say."""
    times: dict[str, tuple[float, float]] = {}
    lane_ends: dict[str, float] = {}
    while left := [step for step in steps if step.name not in times]:
        begins = {
            step: max([lane_ends.get(step.lane, 0.0), *(times[other][1] for other in step.before)])
            for step in left
            if all(other in times for other in step.before)
        }
        if not begins:
            raise ConfigError(f"these steps wait for each other: {', '.join(s.name for s in left)}")
        step = min(begins, key=lambda one: begins[one])
        lane_ends[step.lane] = begins[step] + step.minutes
        times[step.name] = (begins[step], lane_ends[step.lane])
    return times
