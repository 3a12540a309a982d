"""Messages: what is counted has the noun's number."""

import pytest

from transduce.errors import counted


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 steps"), (1, "1 step"), (1.0, "1 step"), (1.5, "1.5 steps"), (2000, "2,000 steps")],
)
def test_a_number_with_its_noun(count: float, text: str) -> None:
    assert counted(count, "step") == text


def test_a_plural_may_be_given_and_so_may_the_form_of_the_number() -> None:
    assert counted(1, "entry is", "entries are") == "1 entry is"
    assert counted(3, "entry is", "entries are") == "3 entries are"
    assert counted(1.02, "epoch", form=".2g") == "1 epoch"
