"""The sentence patterns and their weights."""

from collections.abc import Callable
from random import Random

from transduce.data.corpus import Pair
from transduce.grammar.patterns.questions import (
    draw_adverb_question,
    draw_object_question,
    draw_who_question,
    draw_yes_no_question,
)
from transduce.grammar.patterns.relative import (
    draw_relative_object,
    draw_relative_subject,
    draw_whose,
)
from transduce.grammar.patterns.simple import (
    draw_age,
    draw_birth,
    draw_command,
    draw_comparison,
    draw_coordination,
    draw_description,
    draw_existence,
    draw_fronted,
    draw_price,
    draw_statement,
)
from transduce.grammar.patterns.subordinate import (
    draw_condition,
    draw_indirect_question,
    draw_opinion,
    draw_reason_in_object,
    draw_reason_in_subject,
)


def draw_sentence(rng: Random) -> Pair:
    """Draw a sentence of a random pattern, in both languages."""
    (draw,) = rng.choices(_SENTENCES, _WEIGHTS)
    return draw(rng)


_DRAWS: dict[Callable[[Random], Pair], int] = {
    draw_statement: 26,
    draw_fronted: 10,
    draw_yes_no_question: 8,
    draw_who_question: 4,
    draw_object_question: 6,
    draw_adverb_question: 4,
    draw_description: 4,
    draw_comparison: 3,
    draw_opinion: 8,
    draw_indirect_question: 6,
    draw_reason_in_subject: 6,
    draw_reason_in_object: 5,
    draw_condition: 6,
    draw_relative_subject: 6,
    draw_relative_object: 6,
    draw_whose: 2,
    draw_command: 5,
    draw_existence: 2,
    draw_price: 1,
    draw_age: 1,
    draw_birth: 1,
    draw_coordination: 5,
}
_SENTENCES, _WEIGHTS = tuple(_DRAWS), tuple(_DRAWS.values())
