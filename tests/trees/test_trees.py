"""Trees in brackets, cleaned and as tokens: what is written is read back, broken ones are named."""

import re
from itertools import pairwise
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trees.random_trees import random_sentence, random_tree
from transduce.data.corpus import count_records, read_pairs, read_records, read_side, source_of
from transduce.errors import InputError
from transduce.trees.brackets import (
    MAX_DEPTH,
    TreeError,
    escaped,
    parse_brackets,
    split_trees,
    to_brackets,
)
from transduce.trees.cleaning import cleaned
from transduce.trees.linearise import Order, linearise, rebuild
from transduce.trees.svg import tree_svg
from transduce.trees.tree import Tree

ORDERS: tuple[Order, ...] = ("top-down", "in-order")
DOG = "(TOP (S (NP (DT The) (NN dog)) (VP (VBZ barks)) (. .)))"
seeds = st.integers(0, 10**9)


def drawn(seed: int) -> Tree:
    rng = Random(seed)  # noqa: S311 - a test, not a secret
    return random_tree(rng, *random_sentence(rng))


@given(seeds, st.sampled_from(["", " ", "\n  ", "\n\t"]))
def test_brackets_are_read_back_however_they_are_laid_out(seed: int, space: str) -> None:
    text = to_brackets(drawn(seed))
    [found] = split_trees(text.replace(" (", f" {space}(").split("\n"))
    assert not found.fault
    assert to_brackets(parse_brackets(found.text)) == text


@given(seeds)
def test_a_tree_is_rebuilt_from_its_tokens_and_words(seed: int) -> None:
    tree = drawn(seed)
    for order in ORDERS:
        tokens = linearise(tree, order=order, tags="predicted")
        assert to_brackets(rebuild(tokens, tree.words(), order=order)) == to_brackets(tree)
        unnamed = linearise(tree, order=order, tags="normalised")
        assert len(unnamed) == len(tokens)
        leaves = rebuild(unnamed, tree.words(), order=order).leaves()
        assert {leaf.label for leaf in leaves} == {"XX"}


def test_both_orders_of_a_sentence() -> None:
    tree = parse_brackets(DOG)
    top_down, in_order = (
        " ".join(linearise(tree, order=order, tags="predicted")) for order in ORDERS
    )
    assert top_down == "(S (NP DT NN ) (VP VBZ ) . )"
    assert in_order == "DT (NP NN ) (S VBZ (VP ) . )"


@pytest.mark.parametrize(
    ("tokens", "order", "said"),
    [
        ("(NP NN", "top-down", "not closed"),
        ("NN )", "top-down", "was not opened"),
        ("(NP )", "top-down", "nothing in it"),
        ("NN NN NN", "top-down", "more than 2 words"),
        ("NN", "top-down", "1 of 2 words"),
        ("(NP NN NN )", "in-order", "after no node"),
        ("NN (NP (NP NN ) )", "in-order", "after no node"),
    ],
)
def test_tokens_that_are_no_tree_over_the_words(tokens: str, order: Order, said: str) -> None:
    with pytest.raises(TreeError, match=said):
        rebuild(tokens.split(), ["a", "b"], order=order)


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("( (S (NP-SBJ-1 (NN a)) (VP=2 (VB b))) )", "(TOP (S (NP (NN a)) (VP (VB b))))"),
        ("(ROOT (S (NN a)))", "(TOP (S (NN a)))"),
        ("(S1 (S (NN a)))", "(TOP (S (NN a)))"),
        ("(S (NN a))", "(TOP (S (NN a)))"),
        ("(NN a)", "(TOP (NN a))"),
        ("(S (NP (-NONE- *T*-1)) (NP (NN a)))", "(TOP (S (NP (NN a))))"),
        ("(S (SBAR (S (NP (-NONE- *))) (-NONE- 0)) (NN a))", "(TOP (S (NN a)))"),
        ("(S (-LRB- -LRB-) (NN a) (-RRB- -RRB-))", "(TOP (S (-LRB- -LRB-) (NN a) (-RRB- -RRB-)))"),
        ("(S (NP (NP (NP-SBJ (NN a)))))", "(TOP (S (NP (NP (NP (NN a))))))"),
        ("(S ( (NN a) (NN b)))", "(TOP (S (NN a) (NN b)))"),
        ("( (S (NN a)) (S (NN b)) )", "(TOP (S (NN a)) (S (NN b)))"),
    ],
)
def test_cleaning(raw: str, clean: str) -> None:
    assert to_brackets(cleaned(parse_brackets(raw))) == clean
    assert to_brackets(cleaned(parse_brackets(clean))) == clean


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no brackets"),
        ("(S (NP (NN a))", "1 of its brackets"),
        ("(S (NN a)) )", "after the end"),
        ("(S (NN a)) (S (NN b))", "after the end"),
        ("(S (NN a) b)", "'b' follows after a bracket"),
        ("(NP a (NN b))", "both the word"),
        ("(NP the dog)", "2 words"),
        ("(NP (NN))", "no word"),
        ("()", "no word"),
        ("word", "outside"),
        ("(" * (MAX_DEPTH + 1), "deeper"),
    ],
)
def test_a_text_that_is_no_tree(text: str, said: str) -> None:
    with pytest.raises(TreeError, match=said):
        parse_brackets(text)


def test_deep_trees_are_no_trouble() -> None:
    text = "(X " * 9_000 + "(NN a)" + ")" * 9_000
    tree = cleaned(parse_brackets(text))
    for order in ORDERS:
        tokens = linearise(tree, order=order, tags="predicted")
        assert to_brackets(rebuild(tokens, ["a"], order=order)) == to_brackets(tree)
    assert tree_svg(tree).count("<text") == 9_003


BROKEN = """\
*x*x*x*x*x*x*
(S (NN a))
(S (NP (NN b
(S
  (NN c)
  (VB d))
stray
(S (NN e f)) (S (NN g))
(S (-NONE- *))
( (S (NN h)) )
"""


def test_broken_trees_are_named_and_the_others_read(tmp_path: Path) -> None:
    path = tmp_path / "trees.mrg"
    path.write_text(BROKEN)
    records = list(read_records(source_of(path)))
    assert [pair.src for pair in records if pair.tgt.startswith("(TOP")] == ["a", "c d", "g", "h"]
    faults = [pair.src.removeprefix(str(path)) for pair in records if "line" in pair.src]
    for fault, said in zip(
        faults,
        [
            "line 3: .*not closed before the next",
            "line 7: .*outside",
            "line 8: .*2 words",
            "line 9: .*only traces",
        ],
        strict=True,
    ):
        assert re.search(said, fault)
    with pytest.raises(InputError, match=r"line 3.* 3 more of 8"):
        count_records(source_of(path))
    with pytest.raises(InputError, match="line 3"):
        list(read_side(path, "src"))


def test_a_treebank_has_both_sides(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "trees.ptb"
    path.write_text(30 * f"{DOG}\n" + "(S (NN a b))\n")
    assert [*read_side(path, "src")] == 30 * ["The dog barks ."]
    assert [*read_side(path, "tgt")] == 30 * [DOG]
    assert "line 31" in caplog.text
    assert count_records(source_of(path)) == 31
    assert len(list(read_pairs(source_of(path)))) == 30


def test_brackets_in_words_are_written_as_treebanks_do() -> None:
    assert escaped("f(x)") == "f-LRB-x-RRB-"


@given(st.text(min_size=1).filter(lambda text: not re.search(r"[\s()]", text)))
def test_a_drawing_is_xml_whatever_the_words_are(word: str) -> None:
    picture = ElementTree.fromstring(tree_svg(Tree("TOP", (Tree("<&>", word=word),))))  # noqa: S314
    texts = [one.text or "" for one in picture.iter() if one.tag.endswith("text")]
    assert texts[:2] == ["<&>", "".join(c for c in word if c >= " " and c not in "\ufffe\uffff")]


def test_no_two_words_of_a_drawing_overlap() -> None:
    picture = ElementTree.fromstring(tree_svg(drawn(5)))  # noqa: S314
    words = sorted(
        (float(one.get("x", "")), len(one.text or ""))
        for one in picture.iter()
        if one.get("class") == "word"
    )
    assert all(x + 3.5 * n < y - 3.5 * m for (x, n), (y, m) in pairwise(words))
