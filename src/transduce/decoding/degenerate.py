"""Answers that are plainly no translations: they repeat themselves, never end, or say nothing."""

from collections.abc import Sequence
from enum import Enum
from itertools import pairwise

from transduce.decoding.answer import Answer

LONGEST_LOOP = 16
"""Tokens that are repeated as one."""
FEWEST_REPEATS = 4
FEWEST_REPEATS_OF_ONE = 8
"""A single token may well stand several times in a row, as the 0 in 1000000."""
FEWEST_DOUBLES = (FEWEST_REPEATS - 1) * 2
"""Every loop has at least so many tokens that occurred before."""


class Fault(Enum):
    """What is wrong with an answer, from the least to the worst."""

    RUNAWAY = "did not end"  # what there is may be right
    LOOP = "repeated itself"
    EMPTY = "was empty"


def fault_of(answer: Answer, src_ids: Sequence[int]) -> Fault | None:
    """Find what is wrong with an answer; what repeats itself as its source does is sound."""
    if not answer.ids:
        return Fault.EMPTY
    if _loops(answer.ids, src_ids):
        return Fault.LOOP
    return None if answer.is_finished else Fault.RUNAWAY


def badness(fault: Fault | None) -> int:
    """Rank faults, for choosing the least; 0 is sound."""
    return 0 if fault is None else 1 + list(Fault).index(fault)


def _loops(ids: Sequence[int], src_ids: Sequence[int]) -> bool:
    if len(ids) - len(set(ids)) < FEWEST_DOUBLES:
        return False  # nearly always: the search for loops is spared
    of_one, of_several = _repeats(ids)
    if of_one < FEWEST_REPEATS_OF_ONE and of_several < FEWEST_REPEATS:
        return False
    return max(of_one, of_several) > 2 * max(_repeats(src_ids))


def _repeats(ids: Sequence[int]) -> tuple[int, int]:
    """Count how often the same token stands in a row at most, and the same several tokens."""
    counts = [_longest_run(ids, size) // size + 1 for size in range(1, LONGEST_LOOP + 1)]
    return counts[0], max(counts[1:])


def _longest_run(ids: Sequence[int], size: int) -> int:
    """Count the most tokens in a row that are each what stood so many places before."""
    others = [place for place in range(size, len(ids)) if ids[place] != ids[place - size]]
    ends = [size - 1, *others, max(len(ids), size)]
    return max(end - start - 1 for start, end in pairwise(ends))
