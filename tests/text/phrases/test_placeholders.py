"""Placeholders are found whole, and nothing else is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.text.phrases.patterns import Pattern
from transduce.text.phrases.placeholders import placeholder_spans


def found(text: str, *patterns: str, known: bool = True) -> list[str]:
    own = [Pattern(pattern) for pattern in patterns]
    return [text[start:end] for start, end in placeholder_spans(text, own, known=known)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See https://a.de/x?y=1&z=2. Now", ["https://a.de/x?y=1&z=2"]),
        ("(www.example.org)", ["www.example.org"]),
        ("Write to a.b+c@mail.example.org!", ["a.b+c@mail.example.org"]),
        ("Hello {name}, {{x}} and ${y}", ["{name}", "{{x}}", "${y}"]),
        ("%s has %d, %(n)d and %1$s", ["%s", "%d", "%(n)d", "%1$s"]),
        ("5 km, 3.5 kg and 1,000 MB", ["5 km", "3.5 kg", "1,000 MB"]),
        ("50% of $30", ["50%", "$30"]),
        ("a dog 🐶 and 👩‍🚀 in 🇩🇪", ["🐶", "👩‍🚀", "🇩🇪"]),
        ("5 kmx and 7 men", []),
        ("100% sure {not closed", ["100%"]),
    ],
)
def test_known_kinds(text: str, expected: list[str]) -> None:
    assert found(text) == expected


def test_patterns_of_the_user_come_first() -> None:
    assert found("Order AB-123 at https://x.de/AB-123", r"[A-Z]{2}-\d+") == [
        "AB-123",
        "https://x.de/AB-123",
    ]
    assert found("{name} AB-1", r"[A-Z]{2}-\d+", known=False) == ["AB-1"]


@given(st.text(alphabet="{}%s@.a1 /:-🐶€km\n", max_size=80))
def test_spans_are_in_order_and_apart(text: str) -> None:
    end = 0
    for start, after in placeholder_spans(text):
        assert end <= start < after
        assert text[start:after].strip() == text[start:after]
        end = after
