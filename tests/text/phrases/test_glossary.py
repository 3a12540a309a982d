"""Terms are found where they are words, the longest first, by the rules of their line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.errors import InputError
from transduce.text.phrases.glossary import Glossary, Term, make_term, parse_glossary


def found(lines: list[str], text: str) -> list[tuple[str, tuple[str, ...]]]:
    glossary = parse_glossary(lines, name="terms.tsv")
    return [(text[match.start : match.end], match.targets) for match in glossary.matches(text)]


def test_a_line_is_a_term_and_its_translations() -> None:
    lines = ["# comment", "", "dog\tHund", "bike\tRad|Fahrrad", "Berlin", "Paris\t="]
    text = "The dog, a Bike and Berlin, paris."
    assert found(lines, text) == [
        ("dog", ("Hund",)),
        ("Bike", ("Rad", "Fahrrad")),
        ("Berlin", ("Berlin",)),
        ("paris", ("paris",)),
    ]


def test_the_longest_term_counts() -> None:
    lines = ["fire\tFeuer", "fire engine\tFeuerwehr", "engine\tMotor"]
    assert found(lines, "A fire engine, an engine.") == [
        ("fire engine", ("Feuerwehr",)),
        ("engine", ("Motor",)),
    ]


def test_a_term_is_no_part_of_a_longer_word_unless_it_may_be() -> None:
    assert found(["cat\tKatze"], "concatenate cats cat") == [("cat", ("Katze",))]
    assert len(found(["cat\tKatze\tpart"], "concatenate cats cat")) == 3


def test_in_scripts_without_spaces_a_term_is_found_anywhere() -> None:
    assert found(["東京\tTokio"], "私は東京に行く") == [("東京", ("Tokio",))]


def test_case_counts_if_the_rule_says_so() -> None:
    assert found(["US\tUSA\tcase"], "Tell us about the US.") == [("US", ("USA",))]
    assert len(found(["US\tUSA"], "Tell us about the US.")) == 2


@given(st.text(max_size=60))
def test_places_are_right_whatever_the_letters(text: str) -> None:
    glossary = Glossary((make_term("a", ["x"]), make_term("İ", ["y"]), make_term("ß", ["z"])))
    end = 0
    for match in glossary.matches(text):
        assert end <= match.start < match.end
        assert text[match.start : match.end].lower() in ("a", "i̇", "ß")
        end = match.end


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("a\tb\tc\td", "line 1 has 4 columns"),
        ("\tb", "the term is empty"),
        ("a\tb\tloud", "unknown rule 'loud'"),
        ("a\t" + "|".join(map(str, range(17))), "17 translations"),
        ("a" * 201 + "\tb", "201 characters"),
    ],
)
def test_a_wrong_line_is_named(line: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_glossary([line], name="terms.tsv")


@pytest.mark.parametrize("sign", [", ", ";", " = ", "|", " -> "])
def test_another_sign_instead_of_tabs_is_told(sign: str) -> None:
    lines = ["# of bicycles", f"bike{sign}Rad", "", f"brake{sign}Bremse"]
    with pytest.raises(InputError, match=r"in each line, and no tabs: divide a term"):
        parse_glossary(lines, name="terms.tsv")
    for harmless in (["bike\tRad", f"brake{sign}Bremse"], [f"bike{sign}Rad", "brake"], ["Munich"]):
        assert len(parse_glossary(harmless, name="terms.tsv").terms) == len(harmless)


def test_the_same_line_twice_is_one_term() -> None:
    assert parse_glossary(["a\tb", "a\tb"], name="t").terms == (Term("a", ("b",)),)


def test_a_term_at_the_end_of_a_text_ends_there() -> None:
    glossary = Glossary((make_term("bread", ["Brot"]), make_term("berlin", ["Berlin"])))
    [match] = glossary.matches("old bread")
    assert (match.start, match.end) == (4, 9)
