"""The entries of the lexicon: a word's gender, forms, and what it governs."""

from dataclasses import dataclass
from typing import Literal, get_args

from transduce.data.corpus import Pair

Case = Literal["nom", "acc", "dat", "gen"]
CASES: tuple[Case, ...] = get_args(Case)
Gender = Literal["m", "f", "n"]
Forms = tuple[str, str, str, str]
"""A finite verb for ich, du, er/sie/es and the plural."""


@dataclass(frozen=True, eq=False)
class Noun:
    """A noun; a `weak` one takes -n outside the nominative; a place has prepositions `at`, `to`."""

    kind: str
    english: str
    english_plural: str
    german: str
    german_plural: str
    gender: Gender
    weak: bool
    at: Pair
    to: Pair


@dataclass(frozen=True)
class Adjective:
    """An adjective, the stem that endings are added to, and its comparative if one is used."""

    english: str
    german: str
    stem: str
    comparative: Pair | None


@dataclass(frozen=True, eq=False)
class Complement:
    """What a verb governs: a preposition in each language, a German case, and possible nouns."""

    preposition: Pair
    case: Case
    single: bool
    nouns: tuple[Noun, ...]


@dataclass(frozen=True, eq=False)
class Verb:
    """A verb with its forms, what it governs, and where its action can take place."""

    base: str
    third: str
    past: str
    ing: str
    particle: str
    infinitive: str
    prefix: str
    present: Forms
    participle: str
    auxiliary: str
    aspect: str
    subjects: tuple[Noun, ...]
    human: bool
    complements: tuple[Complement, ...]
    direction: str
    places: tuple[Noun | Pair, ...]
