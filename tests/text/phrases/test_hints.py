"""Hints in encoded texts: no text encodes to their markers, and they are found again."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transduce.errors import InputError
from transduce.grammar import generate
from transduce.text.phrases.glossary import TermMatch
from transduce.text.phrases.hints import (
    encoded_with_hints,
    folded,
    owners_of_tokens,
    without_hints,
)
from transduce.text.spelling import scripts_of_vocabulary, spelled
from transduce.text.tokenizer import Kind, Tokenizer
from transduce.text.vocabulary import TERM_MARKERS

KINDS: tuple[Kind, ...] = ("bpe", "unigram", "wordpiece", "characters", "whitespace")
TEXTS = [text for pair in generate(200, seed=3) for text in pair]
TOKENIZERS = {
    kind: Tokenizer.learn(TEXTS, kind=kind, vocab_size=400, term_markers=True) for kind in KINDS
}
BPE = TOKENIZERS["bpe"].source


@pytest.mark.parametrize("kind", KINDS)
@given(text=st.text() | st.sampled_from(["".join(TERM_MARKERS), "a < term > b< /term >", "Ġ term"]))
@settings(max_examples=50)
def test_no_text_encodes_to_the_markers(kind: Kind, text: str) -> None:
    tokenizer = Tokenizer.parse(TOKENIZERS[kind].to_json())
    markers = tokenizer.source.term_markers
    assert markers == (4, 5)
    assert set(tokenizer.encode_batch([text])[0]).isdisjoint(markers)
    [ids] = tokenizer.encode_batch(["the dog"])
    assert tokenizer.decode_batch([[*markers, *ids, markers[0]]]) == tokenizer.decode_batch([ids])


def test_vocabularies_without_markers_are_as_before() -> None:
    plain = Tokenizer.learn(TEXTS, vocab_size=400)
    assert plain.source.term_markers is None
    assert len(plain) == len(BPE) == 400
    assert owners_of_tokens([4, 5, 6], plain.source) is None
    assert spelled(TERM_MARKERS, are_bytes=True) == [None, None]
    assert scripts_of_vocabulary(TOKENIZERS["bpe"]) == scripts_of_vocabulary(plain)
    with pytest.raises(InputError, match="262 to"):
        Tokenizer.learn(TEXTS, vocab_size=261, term_markers=True)


@given(
    text=st.sampled_from([text for text in TEXTS if " " in text]),
    chosen=st.sets(st.integers(0, 5), max_size=4),
)
def test_a_hint_stands_after_its_term_and_is_found_again(text: str, chosen: set[int]) -> None:
    places, start = [], 0
    for number, word in enumerate(text.rstrip(".?!").split(" ")):
        if number in chosen and word.isalpha():
            places.append((start, start + len(word)))
        start += len(word) + 1
    matches = [TermMatch(*place, ("Wort", "anderes")) for place in places]
    ids = encoded_with_hints(text, matches, BPE)
    assert BPE.term_markers is not None
    begin, end = BPE.term_markers
    [hint] = BPE.encode([" Wort"])
    [plain] = BPE.encode([text])
    owners = owners_of_tokens(ids, BPE)
    if not matches:
        assert ids == plain
        assert owners is None
        return
    assert owners is not None
    assert without_hints(ids, owners) == plain
    for _, place in places:
        [before] = BPE.encode([text[:place]])
        first = owners.index(len(before) - 1)
        assert ids[first + 1 : first + 3 + len(hint)] == [begin, *hint, end]
    weights = np.random.default_rng(1).random((2, 3, len(ids)))
    narrow = folded(weights, owners)
    assert narrow.shape == (2, 3, len(plain))
    for token in range(len(plain)):
        own = [place for place, owner in enumerate(owners) if owner == token]
        np.testing.assert_allclose(narrow[..., token], weights[..., own].sum(axis=-1))


def test_a_hint_for_a_part_of_a_word_stands_after_the_word() -> None:
    [first, rest] = BPE.encode(["The doghouse", " is old."])
    assert BPE.term_markers is not None
    begin, end = BPE.term_markers
    found = encoded_with_hints("The doghouse is old.", [TermMatch(4, 7, ("Hund",))], BPE)
    assert found == [*first, begin, *BPE.encode([" Hund"])[0], end, *rest]
