"""How long a run will be, in words."""

import pytest

from transduce.training.plan.length import Length


@pytest.mark.parametrize(
    ("epochs", "words"),
    [
        (0.057, "about 0.057 epochs"),
        (1.0, "about 1 epoch"),
        (3.42, "about 3.4 epochs"),
        (9.99, "about 10 epochs"),
        (173.2, "about 173 epochs"),
        (2345.6, "about 2,346 epochs"),
    ],
)
def test_epochs_are_told_without_exponents(epochs: float, words: str) -> None:
    length = Length(7, batch_tokens=512, epochs=epochs, seconds=1.0, ends_by="epochs")
    assert str(length) == f"7 steps of 512 tokens a side, {words}"
