"""A text with one kind of noise: what a test of robustness translates."""

from transduce.text.noise.draws import Draws
from transduce.text.noise.typos import with_typos
from transduce.text.noise.words import title, without_end, words_of


def upper_cased(text: str) -> str:
    """Write a text in upper case."""
    return text.upper()


def title_cased(text: str) -> str:
    """Write the first letter of every word in upper case."""
    return "".join(map(title, words_of(text)))


def unpunctuated(text: str) -> str:
    """Leave out the marks at the end of a text."""
    words = words_of(text)
    return "".join([*words[:-1], *map(without_end, words[-1:])])


def mistyped_text(text: str, number: int) -> str:
    """Mistype one word in ten; line `number` always gets the same typos (`with_typos`)."""
    return "".join(with_typos(words_of(text), Draws(number)))
