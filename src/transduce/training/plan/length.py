"""How long a run will be, in words: what a budget gives, how long it takes, what is left of it."""

import math
from dataclasses import dataclass
from typing import Literal

from transduce.config.schema import TrainingConfig
from transduce.errors import counted
from transduce.training.step.schedule import Spent, share_spent

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
    seconds: float  # of its steps
    ends_by: EndsBy
    end_seconds: float = 0.0  # after the last step, to choose the weights

    def __str__(self) -> str:
        tokens = counted(self.batch_tokens, "token")
        epochs = counted(self.epochs, "epoch", form=".2g" if self.epochs < 10 else ",.0f")
        return f"{counted(self.steps, 'step')} of {tokens} a side, about {epochs}"


def describe_length(length: Length, minutes: float | None) -> tuple[str, ...]:
    """Say how long the run will be on this machine, and warn of a budget that is too small."""
    time = in_words(length.seconds)
    if length.ends_by == "patience":
        return (f"time: {length} take about {time} here; it ends when it stops improving",)
    if minutes is None:
        return (f"time: about {time} here for {length}",)
    if length.ends_by != "minutes":
        rest = "" if length.ends_by == "steps" else ": on this corpus, more would hardly help"
        return (f"time: about {time} of the {counted(minutes, 'minute')} for {length}{rest}",)
    budget = counted(minutes, "minute is", "minutes are")
    after = f"; choosing the weights afterwards takes about {in_words(length.end_seconds)} more"
    line = f"budget: {budget} about {length} here{after}"
    if length.steps >= USEFUL_STEPS:
        return (line,)
    needed = math.ceil(minutes * 3 * USEFUL_STEPS / length.steps)
    few = counted(length.steps, "step is", "steps are")
    warning = (
        f"warning: {few} too few to learn to translate; better give it "
        f"{counted(needed, 'minute')}, or a faster machine"
    )
    return (line, warning)


def describe_rest(config: TrainingConfig, spent: Spent) -> str | None:
    """Say what is left of a run that resumes, at its speed so far; None: nothing can be said."""
    share = share_spent(config, spent)
    if not 0 < share < 1 or spent.seconds <= 0:
        return None
    steps = round(spent.steps / share) - spent.steps
    seconds = spent.seconds / share - spent.seconds
    if config.minutes is not None and math.isclose(share, spent.seconds / (60 * config.minutes)):
        rest = f"{in_words(seconds)} of the {counted(config.minutes, 'minute')}"
        return f"left: {rest}, about {counted(steps, 'step')} at the speed so far"
    of = f" of {config.steps:,}" if math.isclose(share, spent.steps / config.steps) else ""
    end = "; it ends earlier if it stops improving" if config.patience else ""
    return f"left: about {counted(steps, 'step')}{of}, {in_words(seconds)} at the speed so far{end}"


def in_words(seconds: float) -> str:
    """Write a time with the unit that suits it."""
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= 1.5 * size:
            return counted(seconds / size, unit, form=".2g")
    return counted(max(1, seconds), "second", form=".0f")
