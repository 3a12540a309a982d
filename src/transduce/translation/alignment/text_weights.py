"""Attention between tokens as weights between the words of a text, by their characters.

A tokenizer may change a text: compose accents, replace quotes. So its letters are counted: those of
the tokens are, one by one, those of the text; if their numbers differ all the same, in proportion.
"""

import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from transduce.text.markup.aligned import Weights
from transduce.text.markup.words import Span
from transduce.text.punctuation import with_plain_punctuation
from transduce.text.scripts import continues_character

ROUNDS = 3
"""How often weights are compared with those of other words.

On 1,027 tags in the demo's development and test sentences, without it 77 % went around the words
that a statistical aligner says, with 1 round 81 %, with 3 rounds 84 %.
"""
TINY = 1e-9


def word_weights(attention: Weights, source: Sequence[range], target: Sequence[range]) -> Weights:
    """Return the weights between words, [T, S], given those between tokens, [N, T, S + 1].

    Words are given by their tokens. The layer is the one whose weights are the most peaked. Weights
    are summed over the tokens of a source word, averaged over those of a translated word.
    """
    n_layers, n_tgt, n_src = attention.shape
    columns = np.zeros((n_layers, n_tgt, n_src + 1))
    np.cumsum(attention, axis=2, out=columns[:, :, 1:])
    by_word = columns[:, :, [word.stop for word in source]]
    by_word = by_word - columns[:, :, [word.start for word in source]]
    rows = np.zeros((n_layers, n_tgt + 1, len(source)))
    np.cumsum(by_word, axis=1, out=rows[:, 1:])
    sizes = np.array([max(1, len(word)) for word in target])
    sums = rows[:, [word.stop for word in target]] - rows[:, [word.start for word in target]]
    averages: Weights = sums / sizes[:, None]  # [N, T, S]
    return mutual(averages[most_peaked(averages)])


def mutual(weights: Weights) -> Weights:
    """Weaken the weights of words that others depend on more, in [T, S]; rows sum to 1.

    Auxiliary verbs, articles and commas attend to the word that another word translates: that one
    should have it.
    """
    for _ in range(ROUNDS):
        weights = weights / np.maximum(weights.sum(axis=1, keepdims=True), TINY)
        weights = weights * (weights / np.maximum(weights.sum(axis=0, keepdims=True), TINY))
    found: Weights = weights / np.maximum(weights.sum(axis=1, keepdims=True), TINY)
    return found


def most_peaked(averages: Weights) -> int:
    """Return the layer of [N, T, S] whose largest weights are the largest on average."""
    return int(averages.max(axis=2, initial=0).mean(axis=1).argmax()) if averages.size else 0


def tokens_of_words(
    text: str, words: Sequence[Span], pieces: Sequence[bytes | None]
) -> list[range]:
    """Return the tokens that each word of a text is made of, given the text of all tokens."""
    token_of = _tokens_of_letters(pieces)
    letters = [place for place, sign in enumerate(text) if not sign.isspace()]
    if len(letters) != len(token_of):
        letters = _normalised_letters(text)
    scale = len(token_of) / max(1, len(letters))
    found, letter = [], 0
    for start, end in words:
        while letter < len(letters) and letters[letter] < start:
            letter += 1
        first = letter
        while letter < len(letters) and letters[letter] < end:
            letter += 1
        if not token_of:
            found.append(range(0))
            continue
        begin = min(int(first * scale), len(token_of) - 1)
        last = min(max(begin, int(np.ceil(letter * scale)) - 1), len(token_of) - 1)
        found.append(range(token_of[begin], token_of[last] + 1))
    return found


def _tokens_of_letters(pieces: Sequence[bytes | None]) -> list[int]:
    """Return the token in which each letter of the tokens begins; spaces are no letters."""
    starts = list(accumulate((len(piece or b"") for piece in pieces), initial=0))[:-1]
    found, place = [], 0
    for letter in b"".join(piece or b"" for piece in pieces).decode(errors="surrogateescape"):
        if not letter.isspace():
            found.append(bisect_right(starts, place) - 1)
        place += len(letter.encode(errors="surrogateescape"))
    return found


def _normalised_letters(text: str) -> list[int]:
    """Return the place of each letter of a text as a tokenizer normalises it."""
    found, start = [], 0
    while start < len(text):
        end = start + 1
        while end < len(text) and continues_character(text[end]):
            end += 1
        composed = with_plain_punctuation(unicodedata.normalize("NFC", text[start:end]))
        found += [start] * sum(not sign.isspace() for sign in composed)
        start = end
    return found
