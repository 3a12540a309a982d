"""Which phrases the translation of a text must contain, and which it must not."""

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256

from transduce.errors import InputError, counted
from transduce.text.phrases.automaton import MAX_PHRASE_BYTES
from transduce.text.phrases.boundaries import is_word_character
from transduce.text.phrases.glossary import Glossary, TermMatch
from transduce.text.phrases.patterns import Pattern
from transduce.text.phrases.placeholders import placeholder_spans
from transduce.text.phrases.signs import SIGNS
from transduce.text.vocabulary import SIGN

MAX_REQUIRED = 32
"""The most phrases that the translation of one piece of text must contain."""
MAX_WORD_CHARACTERS = 200
"""The most characters of a forbidden word or phrase."""
UNLIMITED = 1 << 20


@dataclass(frozen=True)
class PhraseRule:
    """A phrase, as alternatives, and how often one of them must and may occur."""

    alternatives: tuple[str, ...]
    least: int = 1
    most: int = UNLIMITED
    is_learnt: bool = False  # models mostly obey by themselves: also engines that know no rules


@dataclass(frozen=True)
class Wording:
    """What all translations have to obey: a glossary, forbidden words, kept placeholders."""

    glossary: Glossary | None = None
    forbidden: tuple[str, ...] = ()
    keeps_placeholders: bool = False  # those of known kinds
    patterns: tuple[Pattern, ...] = ()  # of other parts to keep
    is_soft: bool = False  # the glossary is a hint to the model, and no constraint

    def __post_init__(self) -> None:
        size = sum(len(text.encode()) for text in self.forbidden)
        if size > MAX_PHRASE_BYTES:
            raise InputError(
                f"forbidden words of {size:,} bytes in all: use at most {MAX_PHRASE_BYTES:,}"
            )

    @cached_property
    def digest(self) -> str:
        """A digest of all of it."""
        terms = () if self.glossary is None else self.glossary.terms
        patterns = [pattern.text for pattern in self.patterns]
        whole = repr((terms, self.forbidden, self.keeps_placeholders, patterns))
        whole += " soft" * self.is_soft
        return sha256(whole.encode()).hexdigest()

    def rules_for(self, text: str) -> tuple[tuple[PhraseRule, ...], str]:
        """Return the rules for the translation of a text, and a note if not all could be kept."""
        text = unicodedata.normalize("NFC", text)
        kept, terms = self._kept(text), {} if self.is_soft else self._terms(text)
        required = [*kept.items(), *terms.items()]
        note = ""
        if len(required) > MAX_REQUIRED:
            required = required[:MAX_REQUIRED]
            note = f"only the first {MAX_REQUIRED} terms and placeholders of a sentence are kept"
        rules = []
        for alternatives, count in required:
            least, most = count, UNLIMITED
            if alternatives in kept:
                # Other required texts may contain it too.
                least = most = sum(
                    times * max(_occurrences(alternatives[0], other) for other in others)
                    for others, times in required
                )
            rules.append(PhraseRule(self._permitted(alternatives), least, most))
        if self.forbidden:
            rules.append(PhraseRule(self.forbidden, 0, 0))
        return tuple(rules), note

    def hints_for(self, text: str) -> list[TermMatch]:
        """Return the terms of a text, in NFC, that are hints to the model; of each alternative."""
        if not self.is_soft:
            return []
        return [
            replace(match, targets=self._permitted(match.targets)) for match in self._matches(text)
        ]

    def _kept(self, text: str) -> dict[tuple[str, ...], int]:
        """Count the placeholders of a text."""
        found: dict[tuple[str, ...], int] = {}
        for start, end in self._spans(text):
            key = (text[start:end],)
            found[key] = found.get(key, 0) + 1
        return found

    def _spans(self, text: str) -> list[tuple[int, int]]:
        if not self.keeps_placeholders and not self.patterns:
            return []
        spans = placeholder_spans(text, self.patterns, known=self.keeps_placeholders)
        return [(start, end) for start, end in spans if not SIGN.search(text[start:end])]

    def _terms(self, text: str) -> dict[tuple[str, ...], int]:
        """Count the terms of a text by their translations, outside of placeholders."""
        found: dict[tuple[str, ...], int] = {}
        for match in self._matches(text):
            found[match.targets] = found.get(match.targets, 0) + 1
        return found

    def _matches(self, text: str) -> Iterator[TermMatch]:
        if self.glossary is None:
            return
        spans = self._spans(text)
        for match in self.glossary.matches(text):
            if not any(start < match.end and match.start < end for start, end in spans):
                yield match

    def check_permitted(self, texts: Iterable[str]) -> None:
        """Raise if a text that translations must contain contains a forbidden word."""
        for text in texts:
            self._permitted((text,))

    def _permitted(self, alternatives: tuple[str, ...]) -> tuple[str, ...]:
        """Leave out alternatives that contain a forbidden word; raise if none is left."""
        if not self.forbidden:
            return alternatives
        allowed = [
            text
            for text in alternatives
            if not any(_occurrences(word, text) for word in self.forbidden)
        ]
        if not allowed:
            raise InputError(
                f"{alternatives[0]!r} must be in a translation, but contains a forbidden word: "
                "change one of them"
            )
        return tuple(allowed)


NO_WORDING = Wording()


def sign_rules(text: str, prefix: str) -> tuple[PhraseRule, ...]:
    """Return the rules for the signs in a source: each as often, or as in a prefix; no others."""
    signs = list(dict.fromkeys(SIGN.findall(text)))
    if not signs:
        return ()
    rules = [
        PhraseRule((sign,), text.count(sign), max(text.count(sign), prefix.count(sign)), True)
        for sign in signs
    ]
    others = tuple(sign for sign in SIGNS if sign not in text + prefix)
    return (*rules, *([PhraseRule(others, 0, 0, is_learnt=True)] if others else []))


def forbidden_words(lines: Iterable[str], *, name: str) -> tuple[str, ...]:
    """Read forbidden words or phrases, one a line; a # begins a comment line."""
    words = []
    for number, line in enumerate(lines, start=1):
        text = unicodedata.normalize("NFC", " ".join(line.split()))
        if not text or text.startswith("#"):
            continue
        if len(text) > MAX_WORD_CHARACTERS:
            raise InputError(
                f"{name}, line {number:,}: {counted(len(text), 'character')}; "
                f"at most {MAX_WORD_CHARACTERS}"
            )
        words.append(text)
    return tuple(dict.fromkeys(words))


def are_obeyed(rules: Iterable[PhraseRule], text: str) -> bool:
    """Return whether a text certainly obeys rules.

    Alternatives may overlap: those of one kind must be enough, and all together not too many.
    """
    text = unicodedata.normalize("NFC", text)
    for rule in rules:
        counts = [_occurrences(phrase, text) for phrase in rule.alternatives]
        if max(counts) < rule.least or sum(counts) > rule.most:
            return False
    return True


def _occurrences(phrase: str, text: str) -> int:
    """Count a phrase in a text, where it is no part of a longer word."""
    count, start = 0, text.find(phrase)
    while start >= 0:
        end = start + len(phrase)
        sides = ((text[max(0, start - 1) : start], phrase[0]), (text[end : end + 1], phrase[-1]))
        count += not any(
            other and is_word_character(other) and is_word_character(own) for other, own in sides
        )
        start = text.find(phrase, start + 1)
    return count
