"""Patterns of users match what Python's own do, in bounded time."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transduce.errors import InputError
from transduce.text.phrases.patterns import MAX_MATCH, Pattern

atoms = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", r"\w", r"\.", "(?:ab)", "(a|b)"])
pieces = st.tuples(atoms, st.sampled_from(["", "", "?", "*", "+", "{2}", "{1,3}", "{2,}"])).map(
    "".join
)
patterns = st.lists(st.lists(pieces, min_size=1, max_size=4).map("".join), min_size=1, max_size=3)


@given(parts=patterns, text=st.text(alphabet="ab1. ", max_size=20))
@settings(max_examples=150)
def test_it_finds_the_longest_match_at_each_place(parts: list[str], text: str) -> None:
    written = "|".join(parts)
    if re.fullmatch(written, ""):
        with pytest.raises(InputError, match="empty"):
            Pattern(written)
        return
    place = 0
    for start, end in Pattern(written).spans(text):
        ends = [e for e in range(start + 1, len(text) + 1) if re.fullmatch(written, text[start:e])]
        assert end == max(ends)
        earlier = (text[s:e] for s in range(place, start) for e in range(s + 1, len(text) + 1))
        assert not any(re.fullmatch(written, part) for part in earlier)
        place = end


@pytest.mark.parametrize("written", ["(a+)+b", "(a|a)*b", "(a|aa)+b", "((a*)*)*b"])
def test_what_takes_pythons_matcher_forever_takes_no_time(written: str) -> None:
    assert list(Pattern(written).spans("a" * 300)) == []


def test_a_match_is_bounded() -> None:
    assert next(Pattern("a+").spans("a" * 1_000)) == (0, MAX_MATCH)


@pytest.mark.parametrize(
    "written",
    ["", "a" * 201, "(", ")", "[a", "a{2,1}", "a{500}", "*a", "^a", "a$", r"\b", r"\1", "(?=a)",
     "(((a{99}){99}){99})", "(" * 30 + "a" + ")" * 30, "[z-a]", "\\"],
)  # fmt: skip
def test_what_is_not_supported_is_refused_in_one_line(written: str) -> None:
    with pytest.raises(InputError) as refused:
        Pattern(written)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("written", "said"),
    [("[", "']' is missing"), ("[]", "']' is missing"), ("(a", "')' is missing"),
     ("(?=a)", "':' is missing"), ("a\\", "it ends too early"), ("[a\\", "it ends too early")],
)  # fmt: skip
def test_what_is_missing_is_named(written: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        Pattern(written)
    assert str(refused.value) == f"the pattern {written!r}: {said}"
