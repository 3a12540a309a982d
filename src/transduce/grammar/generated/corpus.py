"""Distinct pairs of a generated task, and their split into train, dev and test."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Literal, get_args

from transduce.data.corpus import Pair
from transduce.errors import InputError, counted
from transduce.grammar.generated.questions import draw_question
from transduce.grammar.generated.sequences import (
    KEYS,
    draw_addition,
    draw_copy,
    draw_recall,
    draw_reversal,
    draw_sorting,
)
from transduce.grammar.generated.stories import draw_one_fact, draw_two_facts
from transduce.grammar.generated.trees import draw_tree

TaskName = Literal["copy", "reverse", "sort", "recall", "addition", "stories", "questions", "trees"]
TASKS: tuple[TaskName, ...] = get_args(TaskName)
LENGTHS: dict[TaskName, tuple[int, int]] = {
    "copy": (1, 8),
    "reverse": (1, 8),
    "sort": (1, 8),
    "recall": (1, 8),
    "addition": (1, 3),
    "stories": (2, 10),
    "questions": (1, 1),  # which are as long as they come
    "trees": (3, 20),
}
"""How long lines are, unless it is said: in symbols, pairs, digits, sentences or words."""

ENOUGH_DRAWS = 20
"""There are no new lines left if this many in a row, for each one wanted, were drawn before."""

Draw = Callable[[Random, int], Pair]


@dataclass(frozen=True)
class GeneratedTask:
    """A task, with what can be chosen about it."""

    name: TaskName
    shortest: int
    longest: int
    base: int = 10  # of the numbers that are added
    facts: int = 2  # that answer the question about a story

    def __post_init__(self) -> None:
        least = 2 if self.name == "stories" and self.facts == 2 else 1
        least = 3 if self.name == "trees" else least
        if self.shortest > self.longest:
            raise InputError(
                f"lengths from {self.shortest} to {self.longest}: the first is the shortest, as in "
                f"{self.longest}-{self.shortest}"
            )
        if self.shortest < least:
            raise InputError(
                f"lengths from {self.shortest} to {self.longest}: give a range that starts at "
                f"{least} or more"
            )
        if self.name == "recall" and self.longest > len(KEYS):
            raise InputError(
                f"lengths from {self.shortest} to {self.longest}: a line of recall has at most "
                f"{len(KEYS):,} pairs, each with a key of its own"
            )

    def draw(self, rng: Random) -> Pair:
        """Draw a line of any of its lengths, and the right answer."""
        return self._draws()(rng, rng.randint(self.shortest, self.longest))

    def _draws(self) -> Draw:
        match self.name:
            case "copy":
                return draw_copy
            case "reverse":
                return draw_reversal
            case "sort":
                return draw_sorting
            case "recall":
                return draw_recall
            case "questions":
                return draw_question
            case "trees":
                return draw_tree
            case "addition":
                return partial(draw_addition, base=self.base)
            case "stories":
                return draw_one_fact if self.facts == 1 else draw_two_facts


def split_task(
    task: GeneratedTask, *, train: int, dev: int, test: int, seed: int
) -> dict[str, list[Pair]]:
    """Generate a corpus by its splits; a line is in the same split whatever sizes and seed are.

    If there are not that many lines, dev and test are smaller; train has its size.
    """
    wanted = {"train": train, "dev": dev, "test": test}
    drawn: dict[str, list[Pair]] = {part: [] for part in wanted}
    found = dict.fromkeys(wanted, 0)
    pairs = _distinct(task, seed, enough=ENOUGH_DRAWS * (train + dev + test))
    while any(len(drawn[part]) < count for part, count in wanted.items()):
        pair = next(pairs, None)
        if pair is None:
            if len(drawn["train"]) < train or not (drawn["dev"] and drawn["test"]):
                raise InputError(
                    f"there are no more than {counted(sum(found.values()), 'different line')} of "
                    f"{task.name} of these lengths, {found['train']:,} for training, "
                    f"{found['dev']:,} for development and {found['test']:,} for testing: ask for "
                    "no more, or for longer ones"
                )
            break
        part = _part(pair)
        found[part] += 1
        if len(drawn[part]) < wanted[part]:
            drawn[part].append(pair)
    return drawn


def _distinct(task: GeneratedTask, seed: int, *, enough: int) -> Iterator[Pair]:
    """Draw pairs whose sources differ, until a long search finds none."""
    rng = Random(seed)  # noqa: S311 - a corpus, not a secret
    seen: set[str] = set()
    old = 0
    while old < enough:
        pair = task.draw(rng)
        if pair.src in seen:
            old += 1
            continue
        old = 0
        seen.add(pair.src)
        yield pair


def _part(pair: Pair) -> str:
    digest = hashlib.blake2b(pair.src.encode(), digest_size=8).digest()
    return {0: "dev", 1: "test"}.get(int.from_bytes(digest, "big") % 10, "train")
