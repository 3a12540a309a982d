"""Automata find the phrases of a text, however its tokens cut it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.drawing import seeds
from tests.text.phrases.oracle import count_phrases, cut_at_random, is_whole, small_tokenizer
from transduce.text.phrases.automaton import DOUBTFUL, automaton_of
from transduce.text.phrases.vocabulary import PhraseVocabulary
from transduce.text.special_ids import EOS_ID

TOKENIZER = small_tokenizer()
VOCABULARY = PhraseVocabulary(TOKENIZER)
WORDS = [
    "Haus",
    "am See",
    "Haustür",
    "ein",
    "Größe",
    "{name}",
    "5 km",
    "家",
    "Öl",
    "—",
    ".",
    "s",
    "aa",
]
LINKS = [" ", "", ", ", "„", "“ ", "é", "x", "。", "(", "-", "_", "  "]

phrases = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3, unique=True)
texts = st.lists(
    st.tuples(st.sampled_from([*WORDS, "Hau", "Hausa", "größer", "läuft"]), st.sampled_from(LINKS)),
    max_size=8,
).map(lambda parts: "".join(word + link for word, link in parts))


@given(alternatives=phrases, text=texts, seed=seeds)
@settings(max_examples=60)
def test_it_counts_what_is_in_the_text(alternatives: list[str], text: str, seed: int) -> None:
    automaton = automaton_of(alternatives, VOCABULARY)
    random = np.random.default_rng(seed)
    ids = cut_at_random(text, VOCABULARY.texts, random, splits_characters=False)
    if all(is_whole(VOCABULARY.texts[token]) for token in ids):
        assert automaton.count(ids) == count_phrases(text, alternatives)


@given(alternatives=phrases, text=texts, seed=seeds)
@settings(max_examples=60)
def test_where_a_character_is_cut_it_says_what_is_doubtful(
    alternatives: list[str], text: str, seed: int
) -> None:
    automaton = automaton_of(alternatives, VOCABULARY)
    ids = cut_at_random(text, VOCABULARY.texts, np.random.default_rng(seed), splits_characters=True)
    state, is_doubtful = 0, False
    for token in [*ids, EOS_ID]:
        column = automaton.columns[token]
        is_doubtful |= bool(automaton.found[state, column] == DOUBTFUL)
        state = int(automaton.following[state, column])
    expected = count_phrases(text, alternatives)
    assert automaton.count(ids) == expected or (is_doubtful and automaton.count(ids) <= expected)


@given(alternatives=phrases, seed=seeds)
@settings(max_examples=50)
def test_forced_tokens_write_it_from_every_state(alternatives: list[str], seed: int) -> None:
    automaton = automaton_of(alternatives, VOCABULARY)
    choice = np.random.default_rng(seed)
    before = [int(choice.integers(4, len(TOKENIZER))) for _ in range(int(choice.integers(6)))]
    state = 0
    for token in before:
        state = int(automaton.following[state, automaton.columns[token]])
    ids = list(before)
    steps = int(automaton.distances[state])
    had = automaton.count(before)
    for _ in range(steps):
        token = int(automaton.forced[state])
        ids.append(token)
        state = int(automaton.following[state, automaton.columns[token]])
    assert steps <= automaton.most_tokens
    assert automaton.count(ids) > had


@given(alternatives=phrases)
@settings(max_examples=30)
def test_tokens_that_touch_no_phrase_share_columns(alternatives: list[str]) -> None:
    automaton = automaton_of(alternatives, VOCABULARY)
    assert automaton.following.shape[1] < len(TOKENIZER)
    assert automaton.following.max() < len(automaton.following)


def test_what_the_tokenizer_writes_is_proposed() -> None:
    automaton = automaton_of(["Haus"], VOCABULARY)
    [led] = TOKENIZER.encode_targets([" Haus"])
    assert led[0] in automaton.proposed[0]


@pytest.mark.parametrize("text", ["Haus", "東京", "{x}"])
def test_everything_can_be_written_with_subwords_over_bytes(text: str) -> None:
    assert automaton_of([text], VOCABULARY).can_be_written


def test_a_word_that_a_vocabulary_of_words_lacks_cannot_be_written() -> None:
    from transduce.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.learn(["ein Haus", "ein Hund"], kind="whitespace", vocab_size=20)
    vocabulary = PhraseVocabulary(tokenizer)
    assert automaton_of(["Haus"], vocabulary).can_be_written
    assert not automaton_of(["Katze"], vocabulary).can_be_written
