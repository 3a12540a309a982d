"""The edit distance is what its definition says."""

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from transduce.tasks.error_rates import edit_distance

words = st.lists(st.sampled_from(["a", "b", "c", "dd"]), max_size=6)
long = st.lists(st.sampled_from("ab"), min_size=60, max_size=140)


def by_definition(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """Try every first edit."""

    @cache
    def fewest(i: int, j: int) -> int:
        if i == len(one) or j == len(other):
            return len(one) - i + len(other) - j
        edited = 1 + min(fewest(i + 1, j), fewest(i, j + 1), fewest(i + 1, j + 1))
        return min(edited, fewest(i + 1, j + 1)) if one[i] == other[j] else edited

    return fewest(0, 0)


@given(one=words, other=words)
def test_the_edit_distance_is_the_fewest_edits(one: list[str], other: list[str]) -> None:
    assert edit_distance(one, other) == by_definition(tuple(one), tuple(other))


@given(one=long, other=long)
def test_it_is_that_of_a_table_for_more_tokens_than_a_machine_word_has_bits(
    one: list[str], other: list[str]
) -> None:
    before = list(range(len(other) + 1))
    for row, token in enumerate(one, start=1):
        now = [row]
        for column, against in enumerate(other, start=1):
            replaced = before[column - 1] + (token != against)
            now.append(min(replaced, before[column] + 1, now[-1] + 1))
        before = now
    assert edit_distance(one, other) == before[-1]
