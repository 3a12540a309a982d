"""The section `search` of a sweep file: which settings are searched, and within which ranges."""

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from transduce.config.schema import Count, Section

DIGITS = 4
"""Numbers that are drawn from a range of decimal numbers have so many significant digits."""


class SettingRange(Section):
    """The values that a setting may get: one of a list, or a number between two ends."""

    choices: tuple[Any, ...] | None = Field(default=None, description="all values")
    low: Any = Field(default=None, description="the lowest number")
    high: Any = Field(default=None, description="the highest number")
    log: bool = Field(default=False, description="whether each factor is as likely, as 1 to 10")
    step: Any = Field(default=None, description="distance between neighbouring values")

    @property
    def is_whole(self) -> bool:
        """Whether all values are whole numbers."""
        numbers = [self.low, self.high, *([] if self.step is None else [self.step])]
        return all(isinstance(number, int) for number in numbers)

    @property
    def count(self) -> float:
        """How many values there are; infinite between decimal numbers without a step."""
        if self.choices is not None:
            return len(self.choices)
        if self.is_whole or self.step is not None:
            steps = (self.high - self.low) / (self.step or 1)
            return math.floor(float(steps) + 1e-9) + 1
        return math.inf

    @property
    def ends(self) -> tuple[Any, ...]:
        """The values to try before a search starts: all choices, or the two ends."""
        return self.choices if self.choices is not None else (self.low, self._highest)

    @property
    def _highest(self) -> Any:
        """The highest value that is reached in steps."""
        if self.is_whole or self.step is not None:
            return self._after(int(self.count) - 1)
        return self.high

    def value_at(self, share: float) -> Any:
        """Return the value at a share of the range, from 0 to just below 1."""
        if self.choices is not None:
            return self.choices[int(share * len(self.choices))]
        if not self.log:
            if self.is_whole or self.step is not None:
                return self._after(int(share * self.count))
            return self.rounded(self.low + share * (self.high - self.low))
        # Whole numbers own the interval that is rounded to them.
        margin = 0.5 if self.is_whole else 0.0
        low, high = math.log(self.low - margin), math.log(self.high + margin)
        return self.rounded(math.exp(low + share * (high - low)))

    def rounded(self, number: float) -> Any:
        """Return a number of the range in the form that a table shows."""
        if self.is_whole:
            return min(max(round(number), self.low), self.high)
        digits = 10 if self.step is not None else DIGITS
        return min(max(float(f"{number:.{digits}g}"), float(self.low)), float(self.high))

    def contains(self, value: Any) -> bool:
        """Whether a value is in the range."""
        if self.choices is not None:
            return value in self.choices
        if not _is_number(value) or not self.low <= value <= self.high:
            return False
        place = (value - self.low) / (self.step or 1)
        return self.count == math.inf or abs(place - round(place)) < 1e-6

    def fault(self) -> str | None:
        """Say what is wrong with the range; None: nothing."""
        if self.choices is not None:
            return self._fault_of_choices(self.choices)
        if not (_is_number(self.low) and _is_number(self.high)):
            return "give a list of values, or numbers, such as {low: 0.1, high: 0.5}"
        if not self.low < self.high:
            return f"the range is empty: low={self.low} must be less than high={self.high}"
        if self.log and self.low <= 0:
            return f"low={self.low} must be more than 0 where log is true"
        if self.log and self.step is not None:
            return "give log or step, not both"
        if self.step is not None and not (_is_number(self.step) and self.step > 0):
            return f"step={self.step!r} must be more than 0"
        return None if self.count > 1 else f"step={self.step} leaves one value"

    def _fault_of_choices(self, choices: tuple[Any, ...]) -> str | None:
        if (self.low, self.high, self.step, self.log) != (None, None, None, False):
            return "give a list of values or low and high, not both"
        if len(choices) < 2:
            return "the range is empty: give two values or more, such as [1, 2]"
        if any(isinstance(value, Mapping) for value in choices):
            return "each value must be a number, a text, true, false or a list"
        if any(value in choices[:place] for place, value in enumerate(choices)):
            return "a value is given twice"
        return None

    def _after(self, steps: int) -> Any:
        number = self.low + steps * (1 if self.step is None else self.step)
        return number if self.is_whole else self.rounded(number)


class SweepPruning(Section):
    """When a trial is stopped early: if it is worse than most finished trials were by then."""

    keep: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.5, description="share of the finished trials that a trial must not fall behind"
    )
    after_trials: Count = Field(
        default=5, description="trials that must be finished before any is stopped"
    )
    after_share: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.25, description="share of a trial's budget before which it is not stopped"
    )


def _as_ranges(value: Any) -> Any:
    """Accept a list where a range is expected."""
    if not isinstance(value, Mapping):
        return value
    return {
        name: {"choices": tuple(found)} if isinstance(found, list | tuple) else found
        for name, found in value.items()
    }


def _as_pruning(value: Any) -> Any:
    """Accept true for the usual pruning, and false or nothing for none."""
    if value is True:
        return {}
    return None if value is False else value


class SweepSearch(Section):
    """A search: trials with settings drawn from ranges."""

    ranges: Annotated[dict[str, SettingRange], BeforeValidator(_as_ranges)] = Field(
        description="settings, each with a list of values or with low and high"
    )
    sampler: Literal["random", "tpe"] = Field(
        default="random",
        description="random, or tpe: near the settings of the best trials so far (Optuna)",
    )
    random_trials: Count = Field(default=10, description="trials of tpe that are drawn at random")
    by: Literal["loss", "metric"] = Field(
        default="loss", description="what is searched for on the development set"
    )
    prune: Annotated[SweepPruning | None, BeforeValidator(_as_pruning)] = Field(
        default_factory=SweepPruning, description="when trials are stopped early; false: never"
    )
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = Field(
        default=1, description="random seed of the settings that are tried"
    )

    @property
    def combinations(self) -> float:
        """How many different trials there can be."""
        return math.prod(found.count for found in self.ranges.values())

    def draw(self, number: int, attempt: int) -> dict[str, Any]:
        """Draw the settings of a trial at random: each attempt, always the same."""
        shares = np.random.default_rng([self.seed, number, attempt]).random(len(self.ranges))
        return {
            name: found.value_at(float(share))
            for (name, found), share in zip(self.ranges.items(), shares, strict=True)
        }

    @model_validator(mode="after")
    def _check_ranges(self) -> Self:
        if not self.ranges:
            raise ValueError(
                "search.ranges: name a setting with its values, such as model.h: [4, 8]"
            )
        for complaint in self._complaints():
            raise ValueError(f"search.ranges: {complaint}")
        return self

    def _complaints(self) -> Iterator[str]:
        for name, found in self.ranges.items():
            if fault := found.fault():
                yield f"{name}: {fault}"
            if self.by == "loss" and (name.startswith("data.") or name == "model.vocab_size"):
                yield (
                    f"{name} changes the vocabulary, and losses per subword cannot be compared "
                    "then: set search.by to metric"
                )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
