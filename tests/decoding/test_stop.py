"""A search that nobody wants any longer ends at its next step."""

import pytest

from tests.decoding.likely import random_model, sentences
from transduce.decoding.options import DEFAULT_OPTIONS, Options
from transduce.decoding.sample import Sampling
from transduce.decoding.stop import Stopped, stopping
from transduce.decoding.translator import Translator

TEXTS = list(sentences(3))


@pytest.fixture(scope="module")
def translator() -> Translator:
    loaded = random_model(seed=5)  # its answers seldom end before their tokens are used up
    return Translator(loaded.model, loaded.tokenizer, max_positions=24)


@pytest.mark.parametrize("options", [DEFAULT_OPTIONS, Options(sampling=Sampling())])
def test_a_search_asks_at_every_step_and_stops_when_told(
    translator: Translator, options: Options
) -> None:
    answers = iter([False] * 5 + [True])
    with pytest.raises(Stopped), stopping(lambda: next(answers)):
        translator.translate(TEXTS, options)
    assert next(answers, None) is None  # asked six times, and not once more


def test_a_search_that_is_wanted_finds_what_it_always_does(translator: Translator) -> None:
    with stopping(lambda: False):
        found = translator.translate(TEXTS)
    assert found == translator.translate(TEXTS)


def test_what_stops_one_search_does_not_stop_the_next(translator: Translator) -> None:
    with pytest.raises(Stopped), stopping(lambda: True):
        translator.translate(TEXTS)
    assert len(translator.translate(TEXTS)) == len(TEXTS)
