"""Inflection: the rules, and the verbs that follow none."""

import re
from typing import Literal

from transduce.grammar.features import Forms


def english_plural(noun: str) -> str:
    """Form the regular plural; the third person of a regular verb is formed the same way."""
    if noun.endswith(("s", "sh", "ch", "x", "o")) and not noun.endswith(("io", "oo")):
        return noun + "es"
    return noun[:-1] + "ies" if re.search("[^aeiou]y$", noun) else noun + "s"


def suffixed(verb: str, suffix: Literal["ing", "ed"]) -> str:
    """Add -ing or -ed by the rules of English spelling."""
    if re.fullmatch("[^aeiou]*[aeiou][^aeiouwxy]", verb):
        return verb + verb[-1] + suffix
    if suffix == "ing":
        verb = re.sub("ie$", "y", verb)
        return re.sub("(?<!e)e$", "", verb) + suffix
    return re.sub("([^aeiou])y$", r"\1i", verb).removesuffix("e") + suffix


def adjective_stem(adjective: str) -> str:
    """Drop the e that disappears before an ending: müde, müder; teuer, teurer."""
    return re.sub("uer$", "ur", adjective).removesuffix("e")


def split_verb(text: str) -> tuple[str, str]:
    """Split a separable verb such as auf+machen into (machen, auf)."""
    first, plus, second = text.partition("+")
    return (second, first) if plus else (first, "")


def german_present(infinitive: str, third: str) -> Forms:
    """Conjugate; the er form gives the vowel change (liest, fährt), which the du form shares."""
    if infinitive in IRREGULAR:
        return IRREGULAR[infinitive]
    stem = infinitive.removesuffix("n").removesuffix("e")
    first = stem[:-2] + "le" if infinitive.endswith("eln") else stem + "e"
    changed = third.removesuffix("t")
    second = changed + ("t" if changed.endswith(("s", "ß", "z", "x")) else "st")
    return first, second, third, infinitive


# Verbs that follow no rule.
IRREGULAR: dict[str, Forms] = {
    "sein": ("bin", "bist", "ist", "sind"),
    "haben": ("habe", "hast", "hat", "haben"),
    "werden": ("werde", "wirst", "wird", "werden"),
    "wissen": ("weiß", "weißt", "weiß", "wissen"),
    "mögen": ("mag", "magst", "mag", "mögen"),
}
PRETERITE: dict[str, Forms] = {
    "sein": ("war", "warst", "war", "waren"),
    "haben": ("hatte", "hattest", "hatte", "hatten"),
}
MODALS: dict[str, Forms] = {
    "can": ("kann", "kannst", "kann", "können"),
    "have to": ("muss", "musst", "muss", "müssen"),
    "want to": ("will", "willst", "will", "wollen"),
    "should": ("sollte", "solltest", "sollte", "sollten"),
    "allowed to": ("darf", "darfst", "darf", "dürfen"),
    "like to": ("möchte", "möchtest", "möchte", "möchten"),
}
