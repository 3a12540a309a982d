"""The ids of texts that are encoded word by word are those of the library."""

import sys

import numpy as np
import pytest
from tokenizers import Regex, pre_tokenizers

from transduce.data.encoding import word_cache
from transduce.data.encoding.side import Side
from transduce.data.encoding.word_cache import WordCache
from transduce.grammar import generate
from transduce.text.vocabulary import Kind, Vocabulary

ODD = [
    "",
    " ",
    "one",
    " led by a space",
    "followed by one ",
    "two  spaces",
    "a tab\there, a no-break\u00a0space, \u2003 a wide one",
    "u\u0308ber e\u0301te\u0301, \u0301 alone, and \u00fcber",
    "\u201equoted\u201c \u2013 and so on\u2026 \u2026 it\u2019s",
    "a\u2028b \x1c c\x85d \u200b e \ufeff f",
    "3.14 m\u00b2 \u2460 x_y a-b!? \U0001f600",
    "\u4f60\u597d \u0928\u092e\u0938\u094d\u0924\u0947 \ud55c\uae00",
    "x" * 200 + " " + "," * 200,
]


def _ids(side: Side) -> list[list[int]]:
    return [part.tolist() for part in np.split(side.ids, np.cumsum(side.lengths)[:-1])]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece", "characters", "whitespace"])
@pytest.mark.parametrize("plain_punctuation", [False, True])
def test_words_have_the_ids_of_whole_texts(kind: Kind, plain_punctuation: bool) -> None:
    texts = [text for pair in generate(200, seed=3) for text in pair] + ODD
    vocabulary = Vocabulary.learn(
        texts, kind=kind, max_size=400, plain_punctuation=plain_punctuation
    )
    assert vocabulary.encodes_words_alone == (kind not in ("unigram", "whitespace"))
    cache = WordCache(vocabulary, np.dtype(np.uint16))
    for some in (texts, list(reversed(texts)), ODD, ODD[:1], ["Haus"]):
        assert _ids(cache.encode(some)) == vocabulary.encode(some)
    assert cache.encode([]).lengths.size == 0


def test_a_full_table_is_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_cache, "MAX_WORDS", 5)
    texts = [pair.src for pair in generate(40, seed=4)]
    vocabulary = Vocabulary.learn(texts, kind="bpe", max_size=300)
    cache = WordCache(vocabulary, np.dtype(np.uint16))
    for start in range(0, len(texts), 4):
        some = texts[start : start + 4]
        assert _ids(cache.encode(some)) == vocabulary.encode(some)


def test_all_that_the_library_takes_for_a_space_is_one_in_python() -> None:
    cut = pre_tokenizers.Split(Regex(r"\s"), "removed")
    surrogates = range(0xD800, 0xE000)
    characters = "".join(chr(n) for n in range(sys.maxunicode + 1) if n not in surrogates)
    kept = "".join(piece for piece, _ in cut.pre_tokenize_str(characters))
    assert set(characters) - set(kept) == {sign for sign in characters if sign.isspace()} - set(
        "\x1c\x1d\x1e\x1f"
    )
