"""Parsing: the source is a sentence, the target its tree without the words."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Self

import torch

from transduce.config.schema import DataConfig, Tree
from transduce.errors import ConfigError, InputError
from transduce.search.constraint import Constraint
from transduce.search.constraints.trees import TokenKind, TreeConstraint
from transduce.search.hypothesis import Hypothesis
from transduce.tasks.base import Metric, Task
from transduce.tasks.degenerate import Fault
from transduce.tasks.parsing.metric import BracketF1, BracketF1OfAll
from transduce.text.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from transduce.text.tokenizer import Tokenizer
from transduce.trees.brackets import TreeError, escaped, parse_brackets, to_brackets
from transduce.trees.cleaning import cleaned
from transduce.trees.linearise import CLOSE, Order, Tags, is_open, linearise, rebuild


@dataclass(frozen=True)
class ParsingTask(Task):
    """Write the tree of a sentence, whose words are separated by spaces.

    Every output is a tree over exactly these words, unless the constraint is taken away.
    """

    name: ClassVar[str] = "parsing"
    splits_lines: ClassVar[bool] = False
    has_own_scores: ClassVar[bool] = True
    beam: ClassVar[int] = 21
    alpha: ClassVar[float] = 0.3

    order: Order = "top-down"
    tags: Tags = "predicted"
    is_constrained: bool = True

    def settings(self) -> Tree:
        """Give the target a vocabulary of its own: labels, brackets and tags.

        Positions are rotary: with the paper's, the decoder often loses count of the words.
        """
        return {
            "data": {
                "shared_vocabulary": False,
                "tgt_subwords": "whitespace",
                "clean": False,  # its rules are for two languages
                "held_out_by": "source",
            },
            "model": {"positions": "rotary"},
        }

    def configured(self, data: DataConfig) -> Self:
        """Write trees in the order, and with the tags, of the settings."""
        return type(self)(data.tree_order, data.tree_tags)

    @property
    def max_src_tokens(self) -> None:
        """A sentence is never cut into pieces."""

    def max_tgt_tokens(self, src_tokens: int) -> int:
        """Return the length of the source and 300 more (§6.3)."""
        return src_tokens + 300

    def metric(self, references: Sequence[str]) -> Metric:  # noqa: ARG002
        """Return labelled bracketing F1, as EVALB computes it."""
        return BracketF1()

    def dev_metric(self, references: Sequence[str]) -> Metric:  # noqa: ARG002
        """Return the F1 of all sentences, those included that EVALB leaves out."""
        return BracketF1OfAll()

    def fault_of(self, hypothesis: Hypothesis, src_ids: Sequence[int]) -> Fault | None:  # noqa: ARG002
        """Return whether the tree does not end; labels may repeat as they like."""
        return None if hypothesis.is_finished else Fault.RUNAWAY

    def to_source(self, text: str) -> str:
        """Write brackets in words as treebanks do."""
        return " ".join(map(escaped, text.split()))

    def to_target(self, text: str) -> str:
        """Write a tree in brackets as tokens; no text stays none."""
        if not text:
            return text
        try:
            tree = cleaned(parse_brackets(text))
        except TreeError as fault:
            raise InputError(f"{text[:60]!r} is no tree in brackets: {fault}") from fault
        return " ".join(linearise(tree, order=self.order, tags=self.tags))

    def read_target(self, text: str, source: str) -> str:
        """Write the tree in brackets, with its words; what is no tree stays as it is."""
        words = self.to_source(source).split()
        try:
            return to_brackets(rebuild(text.split(), words, order=self.order))
        except TreeError:
            return text

    @property
    def target_form(self) -> str:
        """Name the form of the tokens, which the settings change."""
        return f"parsing {self.order} {self.tags}"

    def constraint(
        self,
        sources: Sequence[str],
        tokenizer: Tokenizer,
        *,
        max_tokens: Sequence[int],
        hypotheses: int,
        device: torch.device,
    ) -> Constraint | None:
        """Allow trees over the words of each source alone."""
        if not self.is_constrained:
            return None
        words = [len(source.split()) for source in sources]
        for count, limit in zip(words, max_tokens, strict=True):
            if count >= limit:
                raise InputError(
                    f"a sentence of {count:,} words, but the model writes at most {limit:,} "
                    "tokens: shorten it"
                )
        return TreeConstraint.of(
            words,
            _kinds(tokenizer),
            in_order=self.order == "in-order",
            max_tokens=max_tokens,
            hypotheses=hypotheses,
            device=device,
        )


@lru_cache(maxsize=8)
def _kinds(tokenizer: Tokenizer) -> tuple[TokenKind, ...]:
    """Return what every entry of the target's vocabulary does to a tree."""
    kinds = [_kind(text) for text in tokenizer.entries()]
    for special in (PAD_ID, UNK_ID, BOS_ID):
        kinds[special] = TokenKind.OTHER
    kinds[EOS_ID] = TokenKind.END
    if not tokenizer.is_pretokenized or not {TokenKind.CLOSE, TokenKind.WORD} <= set(kinds):
        raise ConfigError(
            "the vocabulary of the target has no tokens of trees: the task parsing needs "
            "data.shared_vocabulary=false and data.tgt_subwords=whitespace"
        )
    return tuple(kinds)


def _kind(text: str) -> TokenKind:
    if text == CLOSE:
        return TokenKind.CLOSE
    if is_open(text):
        return TokenKind.OPEN
    return TokenKind.WORD if text else TokenKind.OTHER
