"""A wording applied to an encoded sentence: rules for its translation, hints in its source."""

import unicodedata
from dataclasses import replace

from transduce.errors import InputError
from transduce.text.phrases.hints import encoded_with_hints
from transduce.text.tokenizer import Tokenizer
from transduce.translation.engine import EncodedSentence
from transduce.translation.wording.rules import MAX_REQUIRED, Wording


def check_can_hint(wording: Wording, tokenizer: Tokenizer) -> None:
    """Raise if a glossary is to be a hint, but the model has not learnt what hints are."""
    if wording.is_soft and tokenizer.source.term_markers is None:
        raise InputError(
            "this model was not trained with hints, so a glossary cannot be soft: leave out soft, "
            "or train a model with data.terms, such as --set data.terms=0.1"
        )


def with_wording(
    sentence: EncodedSentence, wording: Wording, tokenizer: Tokenizer, *, max_tokens: int | None
) -> EncodedSentence:
    """Find out what a translation must contain, and put hints into the source.

    max_tokens: the most tokens of a source, without EOS; hints that do not fit are left out.
    """
    rules, note = wording.rules_for(sentence.text)
    wording.check_permitted(sentence.values)
    if rules or note:
        sentence = replace(sentence, rules=(*sentence.rules, *rules), note=note)
    if not wording.is_soft:
        return sentence
    text = unicodedata.normalize("NFC", sentence.text)
    found = wording.hints_for(text)
    hints = found[:MAX_REQUIRED]
    while hints:
        ids = encoded_with_hints(text, hints, tokenizer.source)
        if max_tokens is None or len(ids) <= max_tokens:
            # What a hint proposes need not be a translation that a shortlist knows.
            sentence = replace(sentence, ids=ids, needs_all=True)
            break
        hints = hints[:-1]
    if len(hints) < len(found):
        left_out = f"only {len(hints)} of {len(found)} terms of a sentence are hints"
        return replace(sentence, note="; ".join(filter(None, (note, left_out))))
    return sentence
