"""Glossaries: which term of the source is translated by which, and where terms occur in a text."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from transduce.errors import InputError, counted
from transduce.text.phrases.boundaries import is_word_character

MAX_TERMS = 100_000
MAX_TERM_CHARACTERS = 200
MAX_ALTERNATIVES = 16
MOST_OF_BEGINNING = 4
"""Characters, at most, by which places are found where a term may begin."""
SAME = "="
"""As a target: the term stays as it is in the source."""
CASE, PART = "case", "part"
NO_TABS = (",", ";", "=", "|", "->", "→")
"""What divides a term and its translation in other files."""
FLAGS = {CASE: "match this case only", PART: "match within longer words too"}


@dataclass(frozen=True)
class Term:
    """A term of the source, and what it may be translated by."""

    source: str
    targets: tuple[str, ...]  # alternatives; none: it stays as it is
    is_case_sensitive: bool = False
    is_part: bool = False  # it may be part of a longer word


@dataclass(frozen=True)
class TermMatch:
    """Where a term occurs in a text, and what its translation must contain."""

    start: int
    end: int
    targets: tuple[str, ...]


@dataclass(frozen=True)
class Glossary:
    """Terms, which are found in texts by their first characters and lengths."""

    terms: tuple[Term, ...]
    _by_text: dict[str, list[Term]] = field(init=False, compare=False, repr=False)
    _lengths: dict[str, list[int]] = field(init=False, compare=False, repr=False)
    _beginning: int = field(init=False, compare=False, repr=False)  # characters that all terms have
    _first: re.Pattern[str] = field(init=False, compare=False, repr=False)  # where one may begin

    def __post_init__(self) -> None:
        by_text: dict[str, list[Term]] = {}
        lengths: dict[str, set[int]] = {}
        for term in self.terms:
            by_text.setdefault(_folded(term.source), []).append(term)
        beginning = min([MOST_OF_BEGINNING, *map(len, by_text)])
        for key in by_text:
            lengths.setdefault(key[:beginning], set()).add(len(key))
        object.__setattr__(self, "_by_text", by_text)
        object.__setattr__(self, "_beginning", beginning)
        longest_first = {first: sorted(some, reverse=True) for first, some in lengths.items()}
        object.__setattr__(self, "_lengths", longest_first)
        object.__setattr__(self, "_first", _first_characters(by_text))

    def matches(self, text: str) -> Iterator[TermMatch]:
        """Stream the terms of a text; of those that begin at one place the longest, then go on."""
        folded, size, free = _folded(text), self._beginning, 0
        for first in self._first.finditer(folded):
            place = first.start()
            if folded[place : place + size] not in self._lengths or place < free:
                continue
            found = self._match_at(text, folded, place)
            if found is not None:
                yield found
                free = found.end

    def _match_at(self, text: str, folded: str, start: int) -> TermMatch | None:
        for length in self._lengths[folded[start : start + self._beginning]]:
            end = start + length
            if end > len(text):
                continue
            for term in self._by_text.get(folded[start:end], ()):
                if term.is_case_sensitive and text[start:end] != term.source:
                    continue
                if term.is_part or _is_word(text, start, end):
                    return TermMatch(start, end, term.targets or (text[start:end],))
        return None


def parse_glossary(lines: Iterable[str], *, name: str) -> Glossary:
    """Read lines of a term, a tab, its translations with | between them, and perhaps flags.

    A line may be a term alone. But if all are, and have the same sign where a tab should be, that
    is a mistake, and not a list of names.
    """
    terms: dict[Term, None] = {}
    signs = set(NO_TABS)
    for number, line in enumerate(lines, start=1):
        if line.strip() and not line.startswith("#"):
            terms.setdefault(_term(line.rstrip("\r\n"), f"{name}, line {number:,}"))
            signs = {sign for sign in signs if sign in line and "\t" not in line}
        if len(terms) > MAX_TERMS:
            raise InputError(f"{name} has more than {MAX_TERMS:,} terms: divide it")
    if terms and signs:
        raise InputError(
            f"{name} has {min(signs)!r} in each line, and no tabs: divide a term and its "
            "translations by a tab (a term without translations stays as it is)"
        )
    return Glossary(tuple(terms))


def make_term(
    source: str, targets: Iterable[str] = (), *, flags: Iterable[str] = (), place: str = "a term"
) -> Term:
    """Check a term and its translations; without any it stays as it is."""
    texts = tuple(dict.fromkeys(_clean(text) for text in targets))
    texts = tuple(text for text in texts if text)
    given = list(flags)
    for flag in given:
        if flag not in FLAGS:
            known = ", ".join(f"{flag} ({what})" for flag, what in FLAGS.items())
            raise InputError(f"{place}: unknown rule {flag!r}; known are {known}")
    if len(texts) > MAX_ALTERNATIVES:
        raise InputError(f"{place}: {len(texts)} translations; at most {MAX_ALTERNATIVES}")
    if not _clean(source):
        raise InputError(f"{place}: the term is empty")
    for text in (source, *texts):
        if len(text) > MAX_TERM_CHARACTERS:
            found = counted(len(text), "character")
            raise InputError(f"{place}: a term of {found}; at most {MAX_TERM_CHARACTERS}")
    same = () if SAME in texts else texts
    return Term(_clean(source), same, CASE in given, PART in given)


def _term(line: str, place: str) -> Term:
    fields = line.split("\t")
    if len(fields) > 3:
        raise InputError(
            f"{place} has {len(fields)} columns: use a term, its translations and its rules"
        )
    source, targets, flags = (*fields, "", "")[:3]
    return make_term(source, targets.split("|"), flags=flags.split(), place=place)


def _clean(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as half:
        raise InputError("a term has half of a surrogate pair") from half
    return unicodedata.normalize("NFC", " ".join(text.split()))


def _first_characters(terms: Mapping[str, list[Term]]) -> re.Pattern[str]:
    """Return a pattern for the characters that a term may begin with: few, in most texts."""
    firsts = {text[0] for text in terms}
    if not firsts:
        return re.compile(r"(?!)")
    some = "[" + "".join(re.escape(first) for first in sorted(firsts)) + "]"
    begins_words = all(map(is_word_character, firsts))
    begins_words &= not any(term.is_part for same in terms.values() for term in same)
    return re.compile(f"(?<![a-z0-9]){some}" if begins_words else some)


def _folded(text: str) -> str:
    """Return a text in lower case, character by character, so that places stay the same."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(low if len(low := character.lower()) == 1 else character for character in text)


def _is_word(text: str, start: int, end: int) -> bool:
    """Return whether a part of a text is no part of a longer word."""
    before, after = text[max(0, start - 1) : start], text[end : end + 1]
    continues_before = before and is_word_character(before) and is_word_character(text[start])
    continues_after = after and is_word_character(after) and is_word_character(text[end - 1])
    return not continues_before and not continues_after
