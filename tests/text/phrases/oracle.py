"""Phrases found in plain text, independently of tokens; and texts cut into tokens at random."""

import numpy as np

from transduce.text.phrases.boundaries import is_word_character
from transduce.text.tokenizer import Tokenizer

LINES = [
    "Das kleine Haus am See, die Haustür und ein Fahrrad.",
    "ein Haus {name} 5 km „Haus“ https://a.de/x Größe größer",
    "東京の家 und Öl; der Hund läuft — ein Haus.",
]


def small_tokenizer(vocab_size: int = 300) -> Tokenizer:
    """Learn subwords over bytes from a few lines."""
    return Tokenizer.learn(LINES * 5, vocab_size=vocab_size)


def count_phrases(text: str, alternatives: list[str]) -> int:
    """Count the ends of phrases that are no part of a longer word."""
    ends = set()
    for phrase in alternatives:
        start = text.find(phrase)
        while start >= 0:
            end = start + len(phrase)
            before, after = text[:start][-1:], text[end : end + 1]
            is_inside = (before and is_word_character(before) and is_word_character(phrase[0])) or (
                after and is_word_character(after) and is_word_character(phrase[-1])
            )
            if not is_inside:
                ends.add(end)
            start = text.find(phrase, start + 1)
    return len(ends)


def cut_at_random(
    text: str, texts: list[bytes], choice: np.random.Generator, *, splits_characters: bool
) -> list[int]:
    """Spell a text with tokens chosen at random among all that fit."""
    rest, ids = text.encode(), []
    tokens = [(token, spelt) for token, spelt in enumerate(texts) if spelt and token > 3]
    while rest:
        fitting = [token for token, spelt in tokens if rest.startswith(spelt)]
        if not splits_characters:
            whole = [t for t in fitting if is_whole(texts[t])]
            if not whole:  # a character that no token spells whole
                whole = fitting
            fitting = whole
        ids.append(int(choice.choice(fitting)))
        rest = rest[len(texts[ids[-1]]) :]
    return ids


def is_whole(spelt: bytes) -> bool:
    try:
        spelt.decode()
    except UnicodeDecodeError:
        return False
    return True
