"""Unlabelled text is cut into words as the treebanks are."""

import sys

import pytest

from tests.project.documents import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
try:
    from treebank_words import distinct, treebank_words
finally:
    sys.path.pop(0)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("He ran, and she didn't.", "He ran , and she did n't ."),
        ("I can’t say they're John's.", "I ca n’t say they 're John 's ."),
        ("Mr. O'Neill (of the U.S.) left.", "Mr. O'Neill -LRB- of the U.S. -RRB- left ."),
        ("a well-known 3.5-km road", "a well - known 3.5 - km road"),
        ('"Stop!" cost $1,000.50, or 40%...', '" Stop ! " cost $ 1,000.50 , or 40 % ...'),
        ("the boys' toys -- all", "the boys ' toys -- all"),
        ("", ""),
    ],
)
def test_a_line_is_cut_into_the_words_of_treebanks(line: str, words: str) -> None:
    assert " ".join(treebank_words(line)) == words


def test_whole_sentences_are_taken_once_until_there_are_enough() -> None:
    lines = [
        "A Title Without End",
        "Go.",
        "He ran .",
        "He ran.",
        "one " * 9 + ".",
        "It is so!",
        "No?",
    ]
    assert list(distinct(lines, 9, longest=8)) == ["He ran .", "It is so !"]
    assert list(distinct(lines, 1, longest=8)) == ["He ran ."]
