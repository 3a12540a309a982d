"""Degenerate hypotheses: those that repeat themselves, never end, or are empty."""

from collections import Counter
from collections.abc import Sequence
from enum import Enum
from itertools import pairwise

from transduce.search.hypothesis import Hypothesis

LONGEST_LOOP = 16
"""Tokens that are repeated as one."""
FEWEST_REPEATS = 4
FEWEST_REPEATS_OF_ONE = 8
"""A single token may well occur several times in a row, as the 0 in 1000000."""
FEWEST_DOUBLES = (FEWEST_REPEATS - 1) * 2
"""Every loop has at least this many tokens that occurred before."""


class Fault(Enum):
    """What is wrong with a hypothesis, from the least to the worst."""

    RUNAWAY = "did not end"  # what was written so far may be right
    LOOP = "repeated itself"
    EMPTY = "was empty"


def fault_of(hypothesis: Hypothesis, src_ids: Sequence[int]) -> Fault | None:
    """Return the fault of a hypothesis; one that repeats itself as its source does is sound."""
    if not hypothesis.ids:
        return Fault.EMPTY
    if _loops(hypothesis.ids, src_ids):
        return Fault.LOOP
    return None if hypothesis.is_finished else Fault.RUNAWAY


def badness(fault: Fault | None) -> int:
    """Rank faults, for choosing the least; 0 is sound."""
    return 0 if fault is None else 1 + list(Fault).index(fault)


def _loops(ids: Sequence[int], src_ids: Sequence[int]) -> bool:
    if not _may_loop(ids):
        return False  # nearly always: the search for loops is spared
    of_one, of_several = _repeats(ids)
    if of_one < FEWEST_REPEATS_OF_ONE and of_several < FEWEST_REPEATS:
        return False
    return max(of_one, of_several) > 2 * max(_repeats(src_ids))


def _may_loop(ids: Sequence[int]) -> bool:
    """Return whether enough tokens occur often enough: each of a loop does in every repetition."""
    if len(ids) - len(set(ids)) < FEWEST_DOUBLES:
        return False
    often = sorted(Counter(ids).values(), reverse=True)
    of_two = often[1] if len(often) > 1 else 0
    return often[0] >= FEWEST_REPEATS_OF_ONE or of_two >= FEWEST_REPEATS


def _repeats(ids: Sequence[int]) -> tuple[int, int]:
    """Count the most repetitions in a row of one token, and of several tokens."""
    counts = [_longest_run(ids, size) // size + 1 for size in range(1, LONGEST_LOOP + 1)]
    return counts[0], max(counts[1:])


def _longest_run(ids: Sequence[int], size: int) -> int:
    """Count the most tokens in a row that each equal the token `size` positions before."""
    others = [place for place in range(size, len(ids)) if ids[place] != ids[place - size]]
    ends = [size - 1, *others, max(len(ids), size)]
    return max(end - start - 1 for start, end in pairwise(ends))
