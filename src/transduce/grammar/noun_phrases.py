"""Noun phrases: determiners, adjectives and nouns agree in gender, case and number."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from transduce.grammar.declension import DECLENSION, ENDINGS, Determiner, noun_form
from transduce.grammar.features import CASES, Adjective, Case, Gender, Noun
from transduce.grammar.lexicon.nouns import FEMALE, HUMAN, MALE
from transduce.grammar.wording import join


@dataclass(frozen=True)
class Nominal:
    """A subject or object, with the features that other words agree with."""

    english: str
    english_object: str
    german: Mapping[Case, str]
    person: int = 3
    plural: bool = False
    gender: Gender = "m"
    noun: Noun | None = None
    pronoun: str = ""  # which pronoun can stand for it, if one can
    is_pronoun: bool = False
    definite: bool = True
    negative: bool = False
    described: bool = False  # has an adjective

    @property
    def agreement(self) -> int:
        """The index of the agreeing verb form in Forms."""
        return 3 if self.plural else self.person - 1

    @property
    def heads(self) -> frozenset[str]:
        """The nouns or names it consists of; none for a pronoun."""
        if self.noun:
            return frozenset([self.noun.english])
        return frozenset([] if self.is_pronoun else self.english.split(" and "))


def noun_phrase(
    determiner: Determiner,
    noun: Noun,
    adjectives: tuple[Adjective, ...] = (),
    *,
    plural: bool = False,
    owner: str = "",
) -> Nominal:
    """Build a noun phrase; `owner` is a German genitive that follows the noun."""
    column = "p" if plural else noun.gender
    declension = DECLENSION.get(determiner.pattern, "strong")
    german: dict[Case, str] = {}
    for case in CASES:
        words = [determiner.german + ENDINGS[determiner.pattern, case, column]]
        words += [adjective.stem + ENDINGS[declension, case, column] for adjective in adjectives]
        german[case] = join(*words, noun_form(noun, case, plural=plural), owner)
    english = join(
        determiner.english_plural if plural else determiner.english,
        *(adjective.english for adjective in adjectives),
        noun.english_plural if plural else noun.english,
    )
    if determiner.english == "a" and not plural:
        english = "an" + english[1:] if _starts_with_vowel(english[2:]) else english
    return Nominal(
        english=english,
        english_object=english,
        german=german,
        plural=plural,
        gender=noun.gender,
        noun=noun,
        pronoun=_pronoun_for(noun, plural=plural),
        definite=determiner.definite,
        negative=determiner.negative,
        described=bool(adjectives),
    )


def _starts_with_vowel(word: str) -> bool:
    return word[0] in "aeiou" and not word.startswith("uni")


def _pronoun_for(noun: Noun, *, plural: bool) -> str:
    # A teacher or a child is he or she in English; in German the noun's gender decides.
    if plural:
        return "they"
    if noun.english in MALE or noun.english in FEMALE:
        return "he" if noun.english in MALE else "she"
    return "" if noun.kind in HUMAN else f"it {noun.gender}"


def _pronoun(key: str, row: str) -> Nominal:
    english, english_object, nom, acc, dat, person, number = row.split()
    return Nominal(
        english=english,
        english_object=english_object,
        german={"nom": nom, "acc": acc, "dat": dat, "gen": ""},
        person=int(person),
        plural=number == "plural",
        pronoun=key,
        is_pronoun=True,
    )


PRONOUNS = {
    key: _pronoun(key, row)
    for key, row in {
        "I": "I me ich mich mir 1 singular",
        "you": "you you du dich dir 2 singular",
        "he": "he him er ihn ihm 3 singular",
        "she": "she her sie sie ihr 3 singular",
        "we": "we us wir uns uns 1 plural",
        "they": "they them sie sie ihnen 3 plural",
        "it m": "it it er ihn ihm 3 singular",
        "it f": "it it sie sie ihr 3 singular",
        "it n": "it it es es ihm 3 singular",
        "who": "who who wer wen wem 3 singular",
        "what": "what what was was - 3 singular",
    }.items()
}
PERSONAL = ("I", "you", "he", "she", "we", "they")
POSSESSIVE = dict(zip(PERSONAL, ("my", "your", "his", "her", "our", "their"), strict=True))
_RELATIVE = ENDINGS | {("definite", "dat", "p"): "denen"}


def name(*names: str) -> Nominal:
    """Build a nominal from one name, or from several joined by and."""
    english, german = " and ".join(names), " und ".join(names)
    pronoun = "they" if names[1:] else "he" if names[0] in MALE else "she"
    forms: dict[Case, str] = dict.fromkeys(CASES, german)
    return Nominal(english, english, forms, plural=len(names) > 1, pronoun=pronoun)


def relative_pronoun(antecedent: Nominal) -> Nominal:
    """Build the relative pronoun of an antecedent; the clause decides its case."""
    human = antecedent.noun is not None and antecedent.noun.kind in HUMAN
    column = "p" if antecedent.plural else antecedent.gender
    return replace(
        antecedent,
        english="who" if human else "that",
        english_object="whom" if human else "that",
        german={case: _RELATIVE["definite", case, column] for case in CASES},
    )
