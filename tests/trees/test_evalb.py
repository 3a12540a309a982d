"""Bracket scores are EVALB's, sentence by sentence and in sum."""

import math
from random import Random

import pytest

from tests.trees.evalb_reference import evalb
from tests.trees.random_trees import random_pair
from transduce.tasks.parsing.metric import BracketF1, BracketF1OfAll
from transduce.trees.brackets import parse_brackets, to_brackets
from transduce.trees.evalb import compare, summary, with_tags_of

STATUSES = {"scored": 0, "error": 1, "skipped": 2}


def test_counts_are_those_of_the_reference_on_random_pairs() -> None:
    rng = Random(1)  # noqa: S311 - a test, not a secret
    statuses = set()
    for _ in range(1_000):
        gold, test = random_pair(rng)
        found = compare(gold, test)
        statuses.add(found.status)
        assert evalb(to_brackets(gold), to_brackets(test)) == (
            STATUSES[found.status],
            found.length,
            found.matched,
            found.gold,
            found.test,
            found.words,
            found.right_tags,
        )
    assert statuses == set(STATUSES)


GOLD = "(TOP (S (NP (DT a) (NN b)) (VP (VB c) (PRT (RP d))) (. .)))"


@pytest.mark.parametrize(
    ("test", "matched", "tests", "status"),
    [
        (GOLD, 4, 4, "scored"),
        (GOLD.replace("PRT", "ADVP"), 4, 4, "scored"),  # equal by COLLINS.prm
        (GOLD.replace("(NP", "(NP-SBJ"), 4, 4, "scored"),
        (GOLD.replace("(S (NP", "(S (X"), 3, 4, "scored"),
        (GOLD.replace(" (. .)", "").replace("(RP d))", "(RP d) (. .))"), 4, 4, "scored"),
        (GOLD.replace("(. .)", "(NN .)"), 0, 0, "error"),  # a word that should be punctuation
        (GOLD.replace("(RP d)", "(RP e)"), 0, 0, "error"),
        ("(TOP (S (, a) (. b)))", 0, 0, "skipped"),
    ],
)
def test_what_counts(test: str, matched: int, tests: int, status: str) -> None:
    found = compare(parse_brackets(GOLD), parse_brackets(test))
    assert (found.matched, found.test, found.status) == (matched, tests, status)
    assert found.length == 5


def test_a_repeated_bracket_matches_once() -> None:
    gold, test = map(parse_brackets, ["(NP (NP (NN a)))", "(NP (NP (NP (NN a))))"])
    found = compare(gold, test)
    assert (found.matched, found.gold, found.test) == (2, 2, 3)


def test_the_sum_leaves_out_errors_and_tells_them() -> None:
    gold = parse_brackets(GOLD)
    wrong = parse_brackets(GOLD.replace("(S (NP", "(S (X"))
    scores = summary(compare(gold, test) for test in (gold, wrong, None))
    assert (scores.scored, scores.errors) == (2, 1)
    assert scores.precision == scores.recall == scores.f1 == pytest.approx(100 * 7 / 8)
    assert (scores.complete, scores.tagging) == (50, 100)


def test_nothing_to_score_is_no_number() -> None:
    scores = summary([compare(parse_brackets(GOLD), None)])
    assert all(map(math.isnan, (scores.f1, scores.precision, scores.recall, scores.tagging)))


def test_normalised_tags_are_taken_from_the_reference() -> None:
    gold = parse_brackets(GOLD)
    test = parse_brackets("(TOP (S (XX a) (XX b) (VP (XX c) (XX d)) (XX .)))")
    assert compare(gold, test).status == "error"
    found = compare(gold, with_tags_of(test, gold))
    assert (found.status, found.matched, found.test) == ("scored", 2, 2)


def test_f1_of_all_counts_what_evalb_leaves_out() -> None:
    mistagged, broken = GOLD.replace("(. .)", "(NN .)"), "(TOP"
    found = BracketF1().scores(BracketF1().sums([GOLD, mistagged, broken], [GOLD] * 3))
    assert (found["F1"], found["left out"]) == (100, 2)
    assert found["F1 of all"] == pytest.approx(100 * 2 * 8 / (8 + 12))
    assert BracketF1OfAll().score([mistagged], [GOLD]).score == 100
