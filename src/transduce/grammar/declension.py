"""The endings of German determiners, adjectives and nouns."""

import re
from dataclasses import dataclass

from transduce.grammar.features import CASES, Case, Noun


@dataclass(frozen=True)
class Determiner:
    """A determiner: English singular and plural, German stem and pattern of endings."""

    english: str
    english_plural: str
    german: str
    pattern: str
    definite: bool = True
    negative: bool = False


def noun_form(noun: Noun, case: Case, *, plural: bool = False) -> str:
    """Decline a German noun."""
    if plural:
        takes_n = case == "dat" and not noun.german_plural.endswith(("n", "s"))
        return noun.german_plural + "n" * takes_n
    if noun.weak:
        return noun.german if case == "nom" else noun.german_plural
    if case == "gen" and noun.gender != "f":
        syllables = len(re.findall("[aeiouyäöü]+", noun.german.lower()))
        return noun.german + ("es" if syllables == 1 and noun.german != "Chef" else "s")
    return noun.german


# Each row: masculine, feminine, neuter, plural.
_STRONG: dict[Case, str] = {
    "nom": "er e es e",
    "acc": "en e es e",
    "dat": "em er em en",
    "gen": "es er es er",
}
_ENDINGS: dict[str, dict[Case, str]] = {
    "definite": {
        "nom": "der die das die",
        "acc": "den die das die",
        "dat": "dem der dem den",
        "gen": "des der des der",
    },
    "dieser": _STRONG,
    "viele": _STRONG,
    "ein": {"nom": "- e - e", "acc": "en e - e", "dat": "em er em en", "gen": "es er es er"},
    "fixed": dict.fromkeys(CASES, "- - - -"),
    "strong": _STRONG | {"gen": "en er en er"},
    "weak": {"nom": "e e e en", "acc": "en e e en", "dat": "en en en en", "gen": "en en en en"},
    "mixed": {"nom": "er e es en", "acc": "en e es en", "dat": "en en en en", "gen": "en en en en"},
}
ENDINGS: dict[tuple[str, Case, str], str] = {
    (pattern, case, column): ending.replace("-", "")
    for pattern, table in _ENDINGS.items()
    for case in CASES
    for column, ending in zip("mfnp", table[case].split(), strict=True)
}
DECLENSION = {"definite": "weak", "dieser": "weak", "ein": "mixed"}
DETERMINERS = {
    "the": Determiner("the", "the", "", "definite"),
    "a": Determiner("a", "", "ein", "ein", definite=False),
    "": Determiner("", "", "", "fixed", definite=False),
    "this": Determiner("this", "these", "dies", "dieser"),
    "every": Determiner("every", "", "jed", "dieser", definite=False),
    "which": Determiner("which", "which", "welch", "dieser"),
    "no": Determiner("no", "no", "kein", "ein", definite=False, negative=True),
    "not a": Determiner("a", "any", "kein", "ein", definite=False, negative=True),
    "not any": Determiner("any", "any", "kein", "ein", definite=False, negative=True),
    "many": Determiner("", "many", "viel", "viele", definite=False),
    "some": Determiner("", "some", "einig", "viele", definite=False),
    "how many": Determiner("", "how many", "wie viel", "viele", definite=False),
    "my": Determiner("my", "my", "mein", "ein"),
    "your": Determiner("your", "your", "dein", "ein"),
    "his": Determiner("his", "his", "sein", "ein"),
    "her": Determiner("her", "her", "ihr", "ein"),
    "our": Determiner("our", "our", "unser", "ein"),
    "their": Determiner("their", "their", "ihr", "ein"),
}
