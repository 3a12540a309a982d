"""Statements, and the questions that they answer with yes."""

from random import Random

from transduce.data.corpus import Pair
from transduce.grammar.clauses import english_question, english_statement, finish
from transduce.grammar.lexicon.verbs import ALL_VERBS
from transduce.grammar.patterns.questions import draw_asked_clause


def draw_question(rng: Random, length: int) -> Pair:
    """Draw an English statement; the target asks whether it is so. Its length is as it comes."""
    del length
    clause = draw_asked_clause(rng, rng.choice(ALL_VERBS))
    statement, question = english_statement(clause), english_question(clause)
    return Pair(finish(Pair(statement, statement)).src, finish(Pair(question, question), "?").src)
