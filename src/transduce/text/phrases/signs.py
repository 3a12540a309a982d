"""Placeholders of a text as signs: characters that no text has, each an entry of a vocabulary.

A model that was trained with them (`data.placeholders`) reads and writes signs; the text has the
placeholders themselves, before and after.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from transduce.text.phrases.boundaries import is_word_character
from transduce.text.phrases.patterns import Pattern
from transduce.text.phrases.placeholders import placeholder_spans
from transduce.text.tokenizer import Tokenizer
from transduce.text.vocabulary import PLACEHOLDERS, SIGN, Vocabulary

SIGNS = "".join(PLACEHOLDERS.values())
Span = tuple[int, int]


@dataclass(frozen=True)
class SignedText:
    """A text with signs, and what they stand for: `values[n]` is the n-th of `SIGNS`."""

    text: str
    values: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str, patterns: Sequence[Pattern] = ()) -> "SignedText":
        """Replace the first placeholders of a text, as many different ones as there are signs.

        Characters that are signs already are placeholders too, and then there are no others.
        """
        spans = [match.span() for match in SIGN.finditer(text)]
        spans = spans or placeholder_spans(text, patterns)
        found = dict.fromkeys(text[start:end] for start, end in spans)
        values = tuple(found)[: len(SIGNS)]
        return cls(replaced(text, spans, dict(zip(values, SIGNS, strict=False))), values)

    def like(self, text: str, patterns: Sequence[Pattern] = ()) -> str:
        """Return another text with the same signs for the same placeholders.

        What would be taken for another sign is left out.
        """
        if not self.values:
            return text
        signs = dict(zip(self.values, SIGNS, strict=False))
        if SIGN.match(self.values[0]):
            return SIGN.sub(lambda sign: signs.get(sign[0], ""), text)
        text = SIGN.sub("", text)
        return replaced(text, placeholder_spans(text, patterns), signs)


def signed_source(text: str, tokenizer: Tokenizer, patterns: Sequence[Pattern] = ()) -> SignedText:
    """Return a source as a model with this vocabulary reads it: with signs, if it knows them."""
    return SignedText.of(text, patterns) if tokenizer.has_placeholders else SignedText(text)


def put_back(text: str, values: Sequence[str]) -> str:
    """Return a text with the placeholders in the place of their signs; others are left out.

    A placeholder that would become a part of a longer word gets a space.
    """
    unknown = f"[{SIGNS[len(values) :]}]"
    if len(values) < len(SIGNS):
        text = re.sub(f"^{unknown} ?| ?{unknown}", "", text)
    between, signs = SIGN.split(text), SIGN.findall(text)
    parts = between[:1]
    for sign, part in zip(signs, between[1:], strict=True):
        parts += [values[SIGNS.index(sign)], part]
    joined = ""
    for part in filter(None, parts):
        joins = joined and is_word_character(joined[-1]) and is_word_character(part[0])
        joined += f" {part}" if joins else part
    return joined


def shown_tokens(tokens: Sequence[str], values: Sequence[str], vocabulary: Vocabulary) -> list[str]:
    """Return tokens as the vocabulary writes them, with placeholders instead of their signs."""
    texts = dict(zip(PLACEHOLDERS, values, strict=False))
    return [
        "".join(vocabulary.pieces(texts[token])) if token in texts else token for token in tokens
    ]


def replaced(text: str, spans: Sequence[Span], known: Mapping[str, str]) -> str:
    """Replace parts of a text, given in order, by what is known to stand for them, if anything."""
    parts, place = [], 0
    for start, end in spans:
        if text[start:end] in known:
            parts += [text[place:start], known[text[start:end]]]
            place = end
    return "".join([*parts, text[place:]])
