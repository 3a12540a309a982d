"""Sequences of symbols: copied, reversed, sorted, looked up, or two numbers to be added."""

from random import Random

from transduce.data.corpus import Pair

SYMBOLS = "abcdefghij"
DIGITS = "0123456789"
KEYS = [f"k{number}" for number in range(2048)]
"""What values are stored under in a line of pairs; no key is in a line twice."""
MAX_QUERIES = 8


def draw_copy(rng: Random, length: int) -> Pair:
    """Draw symbols; the target is the same."""
    symbols = _symbols(rng, length)
    return Pair(symbols, symbols)


def draw_reversal(rng: Random, length: int) -> Pair:
    """Draw symbols; the target has them in the opposite order."""
    symbols = _symbols(rng, length)
    return Pair(symbols, symbols[::-1])


def draw_sorting(rng: Random, length: int) -> Pair:
    """Draw symbols; the target has them in alphabetical order."""
    symbols = _symbols(rng, length)
    return Pair(symbols, " ".join(sorted(symbols.split())))


def draw_recall(rng: Random, length: int) -> Pair:
    """Draw pairs of a key and a symbol, then some of the keys; the target has their symbols.

    Associative recall with several queries, as state spaces and attention have been compared by
    (Arora et al. 2023). Of fewer than `MAX_QUERIES` pairs all are asked for, in any order.
    """
    keys = rng.sample(KEYS, length)
    value_of = dict(zip(keys, rng.choices(SYMBOLS, k=length), strict=True))
    asked = rng.sample(keys, min(length, MAX_QUERIES))
    pairs = " ".join(f"{key} {value}" for key, value in value_of.items())
    return Pair(f"{pairs} ? {' '.join(asked)}", " ".join(value_of[key] for key in asked))


def draw_addition(rng: Random, length: int, *, base: int) -> Pair:
    """Draw two numbers, one of so many digits and one of at most as many; the target is their sum.

    Digits are separated by spaces, the least significant first, as for the Neural GPU (Kaiser and
    Sutskever, 2016): a carry then goes in the direction in which the sum is written.
    """
    first, second = (_number(rng, digits, base) for digits in (length, rng.randint(1, length)))
    if rng.random() < 0.5:
        first, second = second, first
    terms = f"{digits_of(first, base)} + {digits_of(second, base)}"
    return Pair(terms, digits_of(first + second, base))


def digits_of(number: int, base: int) -> str:
    """Write a number, least significant digit first, with spaces: 6 in base 2 is `0 1 1`."""
    digits = [DIGITS[number % base]]
    while number := number // base:
        digits.append(DIGITS[number % base])
    return " ".join(digits)


def _number(rng: Random, digits: int, base: int) -> int:
    """Draw a number of so many digits; with one digit, 0 too."""
    return rng.randrange(base ** (digits - 1) if digits > 1 else 0, base**digits)


def _symbols(rng: Random, length: int) -> str:
    return " ".join(rng.choices(SYMBOLS, k=length))
