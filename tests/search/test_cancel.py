"""A search that is cancelled ends at its next step."""

import pytest

from tests.translation.likely import random_model, sentences
from transduce.search.cancel import Cancelled, cancelled_when
from transduce.search.sample import Sampling
from transduce.translation.options import DEFAULT_OPTIONS, Options
from transduce.translation.translator import Translator

TEXTS = list(sentences(3))


@pytest.fixture(scope="module")
def translator() -> Translator:
    loaded = random_model(seed=5)  # its translations seldom end before their maximum length
    return Translator(loaded.model, loaded.tokenizer, max_positions=24)


@pytest.mark.parametrize("options", [DEFAULT_OPTIONS, Options(sampling=Sampling())])
def test_a_search_asks_at_every_step_and_stops_when_cancelled(
    translator: Translator, options: Options
) -> None:
    is_cancelled = iter([False] * 5 + [True])
    with pytest.raises(Cancelled), cancelled_when(lambda: next(is_cancelled)):
        translator.translate(TEXTS, options)
    assert next(is_cancelled, None) is None  # asked six times, and not once more


def test_a_search_that_is_not_cancelled_finds_what_it_always_does(translator: Translator) -> None:
    with cancelled_when(lambda: False):
        found = translator.translate(TEXTS)
    assert found == translator.translate(TEXTS)


def test_a_cancelled_search_does_not_stop_the_next(translator: Translator) -> None:
    with pytest.raises(Cancelled), cancelled_when(lambda: True):
        translator.translate(TEXTS)
    assert len(translator.translate(TEXTS)) == len(TEXTS)
