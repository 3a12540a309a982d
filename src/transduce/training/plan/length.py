"""How long a run will be, in words: what a budget gives, or how long it takes."""

import math
from dataclasses import dataclass
from typing import Literal

ENDS_EARLY = 0.75
"""Where a corpus needs no more than this part of the minutes, its epochs end the run."""

USEFUL_STEPS = 600
"""With fewer steps from new weights, translations are hardly usable."""

EndsBy = Literal["minutes", "epochs", "steps", "patience"]


@dataclass(frozen=True)
class Length:
    """A run as it is planned."""

    steps: int
    batch_tokens: int  # a side
    epochs: float
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.steps:,} steps of {self.batch_tokens:,} tokens a side, {self.epochs:.3g} epochs"
        )


def describe_length(length: Length, minutes: float | None, ends_by: str) -> tuple[str, ...]:
    """Say how long the run will be on this machine, and warn of a budget that is too small."""
    time = in_words(length.seconds)
    if ends_by == "patience":
        return (f"time: {length} take about {time} here; it ends when it stops improving",)
    if minutes is None:
        rest = "; --minutes sets a limit, and what is done can be used at any time"
        return (f"time: about {time} here for {length}{rest}",)
    if ends_by != "minutes":
        rest = "" if ends_by == "steps" else ": on this corpus, more would hardly help"
        return (f"time: about {time} of the {minutes:g} minutes for {length}{rest}",)
    budget = f"budget: {minutes:g} minutes are about {length} here"
    if length.steps >= USEFUL_STEPS:
        return (budget,)
    needed = math.ceil(minutes * 3 * USEFUL_STEPS / length.steps)
    warning = (
        f"warning: {length.steps:,} steps are too few to learn to translate; give it at least "
        f"{needed:,} minutes, or a faster machine"
    )
    return (budget, warning)


def in_words(seconds: float) -> str:
    """Write a time with the unit that suits it."""
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.2g} {unit}"
    return f"{max(1, seconds):.0f} seconds"
