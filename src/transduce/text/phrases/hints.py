"""Hints in an encoded source: after a term, its translation between two markers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transduce.text.phrases.boundaries import is_word_character
from transduce.text.phrases.glossary import TermMatch
from transduce.text.scripts import has_unspaced_script
from transduce.text.vocabulary import Vocabulary

Weights = NDArray[np.floating[Any]]


def encoded_with_hints(
    text: str, matches: Sequence[TermMatch], vocabulary: Vocabulary
) -> list[int]:
    """Encode a text with a hint after each term; of several translations the first is named.

    The terms are in order. A hint for a part of a word stands after the word.
    """
    markers = vocabulary.term_markers
    assert markers is not None, "only a vocabulary with markers can write hints"
    parts, place = [], 0
    for match in matches:
        end = _word_end(text, match.end)
        hint = match.targets[0]
        parts += [text[place:end], hint if has_unspaced_script(hint[0]) else f" {hint}"]
        place = end
    encoded = iter(vocabulary.encode([*parts, text[place:]]))
    ids: list[int] = []
    for _ in matches:
        ids += [*next(encoded), markers[0], *next(encoded), markers[1]]
    return ids + next(encoded)


def owners_of_tokens(ids: Sequence[int], vocabulary: Vocabulary) -> list[int] | None:
    """Return for each token the number of the token of the text that it belongs to.

    Tokens of the text count from 0, without those of hints. These belong to the last token of their
    term. None: there are no hints.
    """
    if vocabulary.term_markers is None or vocabulary.term_markers[0] not in ids:
        return None
    begin, end = vocabulary.term_markers
    owners, last, is_hint = [], -1, False
    for token in ids:
        is_hint |= token == begin
        last += not is_hint
        owners.append(max(last, 0))
        is_hint &= token != end
    return owners


def without_hints(ids: Sequence[int], owners: Sequence[int]) -> list[int]:
    """Return the tokens of the text."""
    return [ids[int(place)] for place in np.flatnonzero(np.diff(owners, prepend=-1))]


def folded(weights: Weights, owners: Sequence[int]) -> Weights:
    """Add the weights of hints to those of their terms, [..., S] to [..., tokens of the text]."""
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    found: Weights = np.add.reduceat(weights, starts, axis=-1)
    return found


def _word_end(text: str, place: int) -> int:
    """Return where the word ends that a place is in."""
    if place and not is_word_character(text[place - 1]):
        return place
    while place < len(text) and is_word_character(text[place]):
        place += 1
    return place
