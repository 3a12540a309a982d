"""Numbers in words."""

from transduce.data.corpus import Pair
from transduce.grammar.wording import words


def cardinal(number: int) -> Pair:
    """Write a number from 1 to 99 in words."""
    tens, units = divmod(number, 10)
    if tens < 2:
        return Pair(_ENGLISH_UNITS[number], _GERMAN_UNITS[number])
    english, german = _ENGLISH_TENS[tens - 2], _GERMAN_TENS[tens - 2]
    if not units:
        return Pair(english, german)
    return Pair(f"{english}-{_ENGLISH_UNITS[units]}", f"{_GERMAN_UNITS[units]}und{german}")


def ordinal(number: int) -> Pair:
    """Write a day of the month in words, in German in the form after am: am dritten."""
    english, german = cardinal(number)
    *tens, last = english.split("-")
    irregular = {1: "ersten", 3: "dritten", 7: "siebten", 8: "achten"}
    return Pair(
        "-".join([*tens, _ORDINALS.get(last, last + "th")]),
        irregular.get(number, german + ("ten" if number < 20 else "sten")),
    )


_ENGLISH_UNITS = words("""
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
    sixteen seventeen eighteen nineteen""")
_ENGLISH_TENS = words("twenty thirty forty fifty sixty seventy eighty ninety")
_GERMAN_UNITS = words("""
    null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn
    sechzehn siebzehn achtzehn neunzehn""")
_GERMAN_TENS = words("zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig")
_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
    "twenty": "twentieth",
}
