"""Generated tasks: the answers are right, lines are distinct, splits share none."""

import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.data.corpus import Pair
from transduce.errors import InputError
from transduce.grammar.generated.corpus import LENGTHS, TASKS, GeneratedTask, TaskName, split_task
from transduce.grammar.generated.stories import LEAVES, PLACES, TAKES

seeds = st.integers(0, 10**6)


def task_of(name: TaskName, **choices: int) -> GeneratedTask:
    shortest, longest = LENGTHS[name]
    return GeneratedTask(name, shortest, longest, **choices)


def drawn(task: GeneratedTask, seed: int) -> Pair:
    return task.draw(Random(seed))  # noqa: S311 - a corpus, not a secret


@given(seed=seeds)
def test_symbols_are_copied_and_reversed(seed: int) -> None:
    copied, reversed_ = (drawn(task_of(name), seed) for name in ("copy", "reverse"))
    assert copied.src == copied.tgt
    assert reversed_.tgt.split() == reversed_.src.split()[::-1]
    assert 1 <= len(copied.src.split()) <= 8


@given(seed=seeds)
def test_symbols_are_sorted(seed: int) -> None:
    pair = drawn(task_of("sort"), seed)
    assert pair.tgt.split() == sorted(pair.src.split())


@given(seed=seeds, length=st.integers(1, 40))
def test_what_is_recalled_is_stored_under_the_keys_that_are_asked_for(
    seed: int, length: int
) -> None:
    pair = drawn(GeneratedTask("recall", length, length), seed)
    stored, asked = (part.split() for part in pair.src.split(" ? "))
    value_of = dict(zip(stored[::2], stored[1::2], strict=True))
    assert len(value_of) == length  # no key is there twice
    assert len({*asked}) == len(asked) == min(length, 8)
    assert pair.tgt.split() == [value_of[key] for key in asked]
    assert {*value_of.values()} <= {*"abcdefghij"}


def test_recalled_values_and_asked_places_are_even() -> None:
    """Neither a frequent symbol nor the first pairs may be a good guess."""
    pairs = [drawn(GeneratedTask("recall", 16, 16), seed) for seed in range(1_000)]
    values = [value for pair in pairs for value in pair.tgt.split()]
    assert all(700 < values.count(value) < 900 for value in "abcdefghij")
    places = [pair.src.split().index(key) // 2 for pair in pairs for key in pair.src.split()[-8:]]
    assert all(400 < places.count(place) < 600 for place in range(16))


def test_more_pairs_than_there_are_keys_are_refused() -> None:
    assert len(drawn(GeneratedTask("recall", 2048, 2048), 1).src.split()) == 4105
    with pytest.raises(InputError, match="at most 2,048 pairs"):
        GeneratedTask("recall", 1, 2049)


@given(seed=seeds)
def test_a_question_has_the_words_of_its_statement(seed: int) -> None:
    """The auxiliary goes to the front; where there was none, do comes in and the verb is bare."""
    pair = drawn(task_of("questions"), seed)
    assert pair.src.endswith(".")
    assert pair.tgt.endswith("?")
    said, asked = (text[:-1].lower().split() for text in (pair.src, pair.tgt))
    if asked[0] in ("do", "does", "did") and asked[0] not in said:
        assert len(asked) == len(said) + 1
        assert len(set(said) - set(asked)) <= 1  # the inflected verb
    else:
        auxiliary = "cannot" if "cannot" in said else asked[0]
        rest = [word for word in said if word not in (auxiliary, "not")]
        assert sorted(rest) == sorted(word for word in asked[1:] if word != "not")


def number(digits: str, base: int) -> int:
    """Read digits, the least significant first."""
    return int("".join(reversed(digits.split())), base)


@given(seed=seeds, base=st.integers(2, 10))
def test_sums_are_right(seed: int, base: int) -> None:
    pair = drawn(task_of("addition", base=base), seed)
    terms = [number(term, base) for term in pair.src.split(" + ")]
    assert len(terms) == 2
    assert number(pair.tgt, base) == sum(terms)
    assert not re.search(r"\d 0( \+|$)", pair.src)  # no zeros in front
    assert max(len(term.split()) for term in pair.src.split("+")) <= 3


def answer(source: str) -> str:
    """Answer a question by following the story backwards, as its two supporting facts allow."""
    *story, question = source.removesuffix(" ?").split(" . ")
    asked = question.removeprefix("where is ")

    def last_place(person: str, sentences: list[str]) -> str:
        return next(
            sentence.split()[-1]
            for sentence in reversed(sentences)
            if sentence.split()[0] == person and sentence.split()[-1] in PLACES
        )

    if not asked.startswith("the "):
        return last_place(asked, story)
    latest = max(n for n, sentence in enumerate(story) if sentence.endswith(asked))
    person, verb = re.fullmatch(rf"(\w+) (.*) {asked}", story[latest]).groups()  # type: ignore[union-attr]
    assert verb in (*TAKES, *LEAVES)
    return last_place(person, story if verb in TAKES else story[:latest])


@given(seed=seeds, facts=st.sampled_from([1, 2]))
def test_the_supporting_facts_give_the_answer(seed: int, facts: int) -> None:
    pair = drawn(task_of("stories", facts=facts), seed)
    assert answer(pair.src) == pair.tgt
    assert 2 <= pair.src.count(" . ") <= 10


@given(seed=seeds)
def test_things_are_taken_where_they_are_and_left_by_those_who_hold_them(seed: int) -> None:
    holder_of: dict[str, str] = {}
    place_of: dict[str, str] = {}
    for sentence in drawn(task_of("stories"), seed).src.split(" . ")[:-1]:
        person, *verb, _the, what = sentence.split()
        if what in PLACES:
            assert place_of.get(person) != what
            place_of[person] = what
            place_of |= {thing: what for thing, holder in holder_of.items() if holder == person}
        elif " ".join(verb) in TAKES:
            assert what not in holder_of
            assert place_of.get(what, place_of[person]) == place_of[person]
            holder_of[what], place_of[what] = person, place_of[person]
        else:
            assert holder_of.pop(what) == person


def test_no_place_is_the_answer_much_more_often_than_others() -> None:
    pairs = [drawn(task_of("stories"), seed) for seed in range(3_000)]
    counts = [sum(pair.tgt == place for pair in pairs) for place in PLACES]
    assert min(counts) > 400
    assert max(counts) < 600
    mentioned = [re.findall("|".join(PLACES), pair.src)[-1] for pair in pairs]
    by_guess = sum(place == pair.tgt for place, pair in zip(mentioned, pairs, strict=True))
    assert by_guess < 0.6 * len(pairs)  # the last place of a story is often wrong


@pytest.mark.parametrize("name", TASKS)
def test_splits_are_distinct_share_no_line_and_follow_from_the_seed(name: TaskName) -> None:
    parts = split_task(task_of(name), train=300, dev=30, test=30, seed=4)
    sources = [pair.src for part in parts.values() for pair in part]
    assert [len(part) for part in parts.values()] == [300, 30, 30]
    assert len(set(sources)) == len(sources)
    assert parts == split_task(task_of(name), train=300, dev=30, test=30, seed=4)
    other = split_task(task_of(name), train=300, dev=30, test=30, seed=5)
    assert other != parts
    trained = {pair.src for pair in parts["train"]} | {pair.src for pair in other["train"]}
    assert trained.isdisjoint(pair.src for pair in (*parts["test"], *other["test"]))


def test_more_lines_than_there_are_is_one_clear_error() -> None:
    with pytest.raises(InputError, match="no more than 10 different lines of copy"):
        split_task(GeneratedTask("copy", 1, 1), train=50, dev=5, test=5, seed=1)


@pytest.mark.parametrize(("name", "shortest"), [("copy", 0), ("stories", 1), ("reverse", 9)])
def test_impossible_lengths_are_refused(name: TaskName, shortest: int) -> None:
    with pytest.raises(InputError, match="lengths from"):
        GeneratedTask(name, shortest, 8)
