"""Rules for phrases as a constraint of the search, for one vocabulary."""

from collections.abc import Sequence
from functools import lru_cache

import torch

from transduce.errors import InputError
from transduce.search.constraints.lexical import LexicalConstraint, PhraseBound
from transduce.search.hypothesis import Hypothesis
from transduce.text.phrases.automaton import PhraseAutomaton, automaton_of
from transduce.text.phrases.vocabulary import PhraseVocabulary
from transduce.text.tokenizer import Tokenizer
from transduce.translation.wording.rules import PhraseRule

KEPT_AUTOMATA = 4_096
"""How many automata of phrases are kept, since terms come again."""


class PhraseBounds:
    """Makes constraints from rules; the automata of phrases are kept."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._vocabulary = PhraseVocabulary(tokenizer)
        self._vocab_size = len(tokenizer)
        self._automaton = lru_cache(maxsize=KEPT_AUTOMATA)(self._made)

    def most_tokens(self, rules: Sequence[PhraseRule]) -> int:
        """Return the most tokens that the required phrases take together."""
        return sum(bound.most_tokens for bound in self._bounds(rules))

    def are_met(self, rules: Sequence[PhraseRule], ids: Sequence[int]) -> bool:
        """Return whether a finished translation obeys all rules; what is doubtful does not."""
        for rule in rules:
            count, doubtful = self._automaton(rule.alternatives).count_with_doubt(ids)
            if count < rule.least or count + doubtful > rule.most:
                return False
        return True

    def are_obeyed(self, rules: Sequence[PhraseRule], hypotheses: Sequence[Hypothesis]) -> bool:
        """Return whether all hypotheses are complete and obey all rules."""
        return not rules or all(
            one.is_finished and self.are_met(rules, one.ids) for one in hypotheses
        )

    def constraint(
        self,
        sentences: Sequence[Sequence[PhraseRule]],
        limits: Sequence[int],
        *,
        hypotheses: int,
        device: torch.device,
    ) -> LexicalConstraint:
        """Constrain the translation of each sentence to its rules."""
        return LexicalConstraint.of(
            [self._bounds(rules) for rules in sentences],
            limits,
            vocab_size=self._vocab_size,
            hypotheses=hypotheses,
            device=device,
            separator=self._vocabulary.separator,
        )

    def _bounds(self, rules: Sequence[PhraseRule]) -> list[PhraseBound]:
        return [
            PhraseBound(self._automaton(rule.alternatives), rule.least, rule.most) for rule in rules
        ]

    def _made(self, alternatives: tuple[str, ...]) -> PhraseAutomaton:
        automaton = automaton_of(alternatives, self._vocabulary)
        if not automaton.can_be_written:
            raise InputError(
                f"the vocabulary of this model cannot spell {' or '.join(alternatives)[:80]!r}: "
                "leave it out"
            )
        return automaton
