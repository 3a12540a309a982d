"""Drawing times, places and directions."""

from random import Random

from transduce.data.corpus import Pair
from transduce.grammar.declension import DETERMINERS
from transduce.grammar.draw.nominals import OWNABLE, chance, draw_adjectives, draw_owner
from transduce.grammar.features import Case, Noun, Verb
from transduce.grammar.inflection import MODALS
from transduce.grammar.lexicon.times import MONTHS, TIMES, WEEKDAYS
from transduce.grammar.noun_phrases import Nominal, noun_phrase
from transduce.grammar.numerals import cardinal, ordinal
from transduce.grammar.wording import NOTHING, join, pairs

_UNITS = pairs("days/Tagen, weeks/Wochen")
_SPOTS = pairs("on/auf, under/unter, next to/neben, behind/hinter, in front of/vor")
_BY_RAIL_OR_ROAD = pairs("by train/mit dem Zug, by bus/mit dem Bus, by car/mit dem Auto")
_BY_ROAD = pairs("by bicycle/mit dem Fahrrad, by bus/mit dem Bus, by car/mit dem Auto")
_CONTRACTIONS = {
    "in dem": "im",
    "in das": "ins",
    "an dem": "am",
    "zu dem": "zum",
    "zu der": "zur",
}


def draw_time(rng: Random, tense: str, verb: Verb) -> Pair:
    """Draw a time that suits the tense and the verb."""
    kind = "modal" if tense in MODALS else tense
    if verb.aspect == "schedule":
        hour, day = cardinal(rng.randint(1, 12)), _draw_day(rng, kind)
        return Pair(f"{day.src} at {hour.src} o'clock", f"{day.tgt} um {hour.tgt} Uhr")
    # "She will smile next year" sounds odd.
    lasting = verb.human and (verb.complements or verb.direction in ("to", "by", "in"))
    if not lasting:
        return rng.choice(TIMES[kind][:3])
    if kind in ("past", "future") and chance(rng, 0.4):
        return _draw_day(rng, kind)
    return rng.choice(TIMES[kind])


def _draw_day(rng: Random, kind: str) -> Pair:
    if kind == "habit":
        return rng.choice((Pair("every day", "jeden Tag"), *TIMES["habit"][4:]))
    choice = rng.random()
    if choice < 0.4:
        weekday = rng.choice(WEEKDAYS)
        return Pair(f"on {weekday.src}", f"am {weekday.tgt}")
    if choice < 0.7:
        return draw_date(rng)
    count, unit = cardinal(rng.randint(2, 6)), rng.choice(_UNITS)
    if kind == "past":
        return Pair(f"{count.src} {unit.src} ago", f"vor {count.tgt} {unit.tgt}")
    return Pair(f"in {count.src} {unit.src}", f"in {count.tgt} {unit.tgt}")


def draw_date(rng: Random) -> Pair:
    """Draw a day of the year."""
    day, month = ordinal(rng.randint(1, 28)), rng.choice(MONTHS)
    return Pair(f"on the {day.src} of {month.src}", f"am {day.tgt} {month.tgt}")


def draw_place(rng: Random, place: Noun | Pair, subject: Nominal, *, goal: bool) -> Pair:
    """Draw a place: dative for a location, accusative (except after zu) for a goal."""
    if isinstance(place, Pair):
        return Pair(*map(join, ("to", "nach") if goal else ("in", "in"), place))
    if place.kind == "furniture":
        preposition = rng.choice(_SPOTS)
    else:
        preposition = place.to if goal else place.at
    key = rng.choice(("the", "the", "the", "the", "this", "a"))
    if place.english in OWNABLE and chance(rng, 0.25):
        key = draw_owner(rng, subject)
    nominal = noun_phrase(DETERMINERS[key], place, draw_adjectives(rng, place))
    case: Case = "acc" if goal and preposition.tgt != "zu" else "dat"
    return Pair(
        f"{preposition.src} {nominal.english}",
        _contract(f"{preposition.tgt} {nominal.german[case]}"),
    )


def _contract(german: str) -> str:
    start = " ".join(german.split()[:2])
    return _CONTRACTIONS.get(start, start) + german[len(start) :]


def draw_surroundings(
    rng: Random, verb: Verb, subject: Nominal, *, optional: bool
) -> tuple[Pair, Pair]:
    """Draw the location and the goal, as far as the verb takes them."""
    if not verb.places or (verb.direction == "at" and not optional):
        return NOTHING, NOTHING
    place = rng.choice(verb.places)
    goal = verb.direction in ("to", "by", "onto")
    english, german = draw_place(rng, place, subject, goal=goal)
    if verb.direction == "by":
        means = rng.choice(_BY_RAIL_OR_ROAD if isinstance(place, Pair) else _BY_ROAD)
        english, german = f"{english} {means.src}", f"{means.tgt} {german}"
    drawn = Pair(english, german)
    return (NOTHING, drawn) if goal else (drawn, NOTHING)
