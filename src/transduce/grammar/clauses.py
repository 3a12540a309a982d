"""Clauses in words: the German verb first, second or last; the English auxiliaries."""

from dataclasses import dataclass
from typing import Literal

from transduce.data.corpus import Pair
from transduce.grammar.features import Adjective, Complement, Verb
from transduce.grammar.inflection import IRREGULAR, MODALS, PRETERITE
from transduce.grammar.noun_phrases import Nominal
from transduce.grammar.wording import NOTHING, join

Order = Literal["first", "second", "last"]
"""Where the finite verb stands in a German clause."""


@dataclass(frozen=True)
class Object:
    """A nominal as the object of a verb."""

    nominal: Nominal
    governed: Complement

    @property
    def english(self) -> str:
        """The object in English, with its preposition."""
        return join(self.governed.preposition.src, self.nominal.english_object)

    @property
    def german(self) -> str:
        """The object in German, in its case and with its preposition."""
        return join(self.governed.preposition.tgt, self.nominal.german[self.governed.case])


@dataclass(frozen=True)
class Clause:
    """A clause, not yet in words; its tense is present, habit, past, future or a modal verb."""

    subject: Nominal
    verb: Verb
    tense: str = "present"
    objects: tuple[Object, ...] = ()
    time: Pair = NOTHING
    often: Pair = NOTHING
    where: Pair = NOTHING
    goal: Pair = NOTHING  # a direction, or what follows the verb be
    negated: bool = False


def english_verb(clause: Clause) -> tuple[str, str, str]:
    """Return the auxiliary, what follows it, and the form without an auxiliary, if there is one."""
    verb, form = clause.verb, clause.subject.agreement
    be = ("am", "are", "is", "are")[form]
    do, have, want = (("do", "have", "want"), ("does", "has", "wants"))[form == 2]
    if verb.base == "be" and clause.tense in ("present", "past"):
        return (be if clause.tense == "present" else "was" if form in (0, 2) else "were"), "", ""
    match clause.tense:
        case "present" if verb.aspect != "state":
            return be, verb.ing, ""
        case "present" | "habit":
            return do, verb.base, verb.third if form == 2 else verb.base
        case "past":
            return "did", verb.base, verb.past
        case "have to" | "want to" as modal:
            inflected = have if modal == "have to" else want
            return do, f"{modal} {verb.base}", f"{inflected} to {verb.base}"
        case "allowed to":
            return be, f"allowed to {verb.base}", ""
        case "like to":
            return "would", f"like to {verb.base}", ""
        case "future":
            return "will", verb.base, ""
        case modal:
            return modal, verb.base, ""


def english_statement(clause: Clause, gap: Object | None = None) -> str:
    """Word a statement; `gap` is the object that a relative pronoun replaces."""
    auxiliary, main, plain = english_verb(clause)
    if clause.negated:
        verb = join(auxiliary, "not", main).replace("can not", "cannot")
    elif plain:
        verb = join(clause.often.src, plain)
    else:
        verb = join(auxiliary, clause.often.src, main)
    return join(clause.subject.english, verb, _english_rest(clause, gap))


def english_question(clause: Clause, gap: Object | None = None) -> str:
    """Word a question, with the auxiliary first."""
    auxiliary, main, _ = english_verb(clause)
    return join(
        auxiliary, clause.subject.english, clause.often.src, main, _english_rest(clause, gap)
    )


def english_imperative(clause: Clause) -> str:
    """Word a command, without `do not` or `please`."""
    return join(clause.verb.base, _english_rest(clause, None))


def _english_rest(clause: Clause, gap: Object | None) -> str:
    bare = [thing for thing in clause.objects if not thing.governed.preposition.src]
    others = [thing for thing in clause.objects if thing.governed.preposition.src]
    words = [thing.english for thing in bare if thing is not gap]
    pronoun_first = any(thing.nominal.is_pronoun for thing in bare)
    words.insert(len(words) if pronoun_first else 0, clause.verb.particle)
    words += [thing.governed.preposition.src if thing is gap else thing.english for thing in others]
    return join(*words, clause.goal.src, clause.where.src, clause.time.src)


def german_verb(clause: Clause) -> tuple[str, str]:
    """Return the finite verb, and the prefix, participle or infinitive that ends the clause."""
    verb, form = clause.verb, clause.subject.agreement
    if clause.tense in ("present", "habit"):
        return verb.present[form], verb.prefix
    if clause.tense == "past":
        if verb.infinitive in PRETERITE:
            return PRETERITE[verb.infinitive][form], verb.prefix
        return IRREGULAR[verb.auxiliary][form], verb.participle
    finite = IRREGULAR["werden"] if clause.tense == "future" else MODALS[clause.tense]
    return finite[form], verb.prefix + verb.infinitive


def german_clause(
    clause: Clause, order: Order, *, front: str = "", gap: Object | None = None
) -> str:
    """Word a clause; `front` takes the first position, `gap` is the object it replaces."""
    finite, closing = german_verb(clause)
    subject, middle = clause.subject.german["nom"], _german_middle(clause, gap)
    if order == "last":
        joined = closing + finite if closing == clause.verb.prefix else f"{closing} {finite}"
        return join(front, subject, middle, joined)
    if order == "second" and not front:
        return join(subject, finite, middle, closing)
    return join(front, finite, subject, middle, closing)


def german_imperative(clause: Clause) -> str:
    """Word a command to a du: e to i is kept (lies, gib), a to ä is not (fahr)."""
    verb = clause.verb
    stem, changed = verb.infinitive.removesuffix("en"), verb.present[2].removesuffix("t")
    if "e" in stem and "i" in changed and "i" not in stem:
        stem = changed
    elif changed.endswith("e") or stem.endswith(("d", "s", "ier", "n")):
        stem = verb.present[0]
    return join(stem, _german_middle(clause, None), verb.prefix)


def _german_middle(clause: Clause, gap: Object | None) -> str:
    objects = [thing for thing in clause.objects if thing is not gap]
    denied = clause.negated and not any(thing.nominal.negative for thing in objects)
    slots: dict[str, list[str]] = {"pronoun": [], "definite": [], "late": []}
    for thing in objects:
        if thing.governed.preposition.tgt or not thing.nominal.definite:
            slot = "late"
        else:
            slot = "pronoun" if thing.nominal.is_pronoun else "definite"
        slots[slot].append(thing.german)
    return join(
        *slots["pronoun"],
        "" if denied else clause.time.tgt,
        clause.often.tgt,
        *slots["definite"],
        clause.time.tgt if denied else "",
        "nicht" if denied else "",
        clause.where.tgt,
        *slots["late"],
        clause.goal.tgt,
    )


def say_main(clause: Clause, front: str = "", gap: Object | None = None) -> Pair:
    """Word a main clause in both languages; the German verb is second."""
    return Pair(
        english_statement(clause, gap), german_clause(clause, "second", front=front, gap=gap)
    )


def say_subordinate(clause: Clause, conjunction: Pair = NOTHING, gap: Object | None = None) -> Pair:
    """Word a subordinate clause in both languages; the German verb is last."""
    return Pair(
        join(conjunction.src, english_statement(clause, gap)),
        german_clause(clause, "last", front=conjunction.tgt, gap=gap),
    )


def say_complex(main: Pair, subordinate: Pair) -> Pair:
    """Append a subordinate clause to a main clause; German puts a comma between them."""
    return Pair(f"{main.src} {subordinate.src}", f"{main.tgt}, {subordinate.tgt}")


def say_predicate(adjective: Adjective, degree: Pair = NOTHING) -> Pair:
    """Word the predicate of be: an adjective without an ending."""
    return Pair(join(degree.src, adjective.english), join(degree.tgt, adjective.german))


def finish(said: Pair, mark: str = ".") -> Pair:
    """Make a sentence: capital letter, final mark, and no comma before it or another comma."""
    english, german = said.src, (said.tgt + mark).replace(",,", ",").replace("," + mark, mark)
    return Pair(english[0].upper() + english[1:] + mark, german[0].upper() + german[1:])
