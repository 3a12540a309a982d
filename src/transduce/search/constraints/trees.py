"""The constraint that every hypothesis is a tree over exactly the words of its sentence.

A tree is written as brackets that open with a label, brackets that close, and a tag for each word
(`trees.linearise`). At every step the constraint keeps enough tokens in reserve to write the words
that are left, close all brackets and end: so a tree is always complete within the maximum length.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor

from transduce.nn.step_state import HypothesisState, SentenceState, StateGroup
from transduce.search.constraint import SharedState

MAX_OPENED = 16
"""Brackets that may open between two words, so that no chain of labels goes on for long.

In 33,000 trees of the GUM and CRAFT treebanks there are at most 8.
"""


class TokenKind(IntEnum):
    """What a token does to a tree."""

    OTHER = 0  # no part of a tree: never allowed
    OPEN = 1
    CLOSE = 2
    WORD = 3
    END = 4  # EOS


@dataclass(frozen=True)
class TreeConstraint(StateGroup):
    """Every hypothesis is a tree, top-down or in order, with as many words as its sentence has.

    Top-down, a bracket opens before its first child, so it must not close at once. In order, it
    opens after its first child, so a complete node must come before it. Scores are those of the
    model.
    """

    kinds: SharedState  # [V], the TokenKind of every token
    in_order: SharedState  # [1], whether brackets open after their first child
    limits: SentenceState  # [B], the maximum number of tokens, EOS included
    words_left: HypothesisState  # [B, k]
    depth: HypothesisState  # [B, k], brackets that are open
    opened: HypothesisState  # [B, k], brackets that were opened since the last word
    after_node: HypothesisState  # [B, k], whether the last token completed a node

    @classmethod
    def of(
        cls,
        words: Sequence[int],
        kinds: Sequence[TokenKind],
        *,
        in_order: bool,
        max_tokens: Sequence[int],
        hypotheses: int,
        device: torch.device,
    ) -> "TreeConstraint":
        """Constrain each sentence to a tree over its number of words.

        There must be more tokens than words: one for each, and EOS.
        """
        for count, limit in zip(words, max_tokens, strict=True):
            assert 0 < count < limit, f"{count} words, but {limit} tokens"

        def zeros(dtype: torch.dtype) -> HypothesisState:
            shape = (len(words), hypotheses)
            return HypothesisState(torch.zeros(shape, dtype=dtype, device=device))

        left = zeros(torch.long)
        left.update(torch.tensor(words, device=device)[:, None].expand_as(left.tensor))
        return cls(
            SharedState(torch.tensor([int(kind) for kind in kinds], device=device)),
            SharedState(torch.tensor([in_order], device=device)),
            SentenceState(torch.tensor(max_tokens, device=device)),
            words_left=left,
            depth=zeros(torch.long),
            opened=zeros(torch.long),
            after_node=zeros(torch.bool),
        )

    @property
    def renormalises(self) -> bool:
        """Keep the model's own scores."""
        return False

    @property
    def shape_key(self) -> Hashable:
        """One vocabulary; the rest is in tensors."""
        return (TreeConstraint, self.kinds.tensor.shape)

    def allowed(self, position: Tensor) -> Tensor:
        """Allow the tokens after which the tree can still be completed."""
        left, depth, after_node = self.words_left.tensor, self.depth.tensor, self.after_node.tensor
        has_words = left > 0  # [B, k]
        # The words, the brackets that are open and EOS must always fit; another bracket takes two.
        spare = self.limits.tensor[:, None] - position - left - depth - 1  # [B, k]
        has_first_child = torch.where(self.in_order.tensor, after_node, has_words)  # [B, k]
        is_filled = after_node | self.in_order.tensor  # [B, k]
        by_kind = torch.stack(
            [
                torch.zeros_like(has_words),
                (spare >= 2) & (self.opened.tensor < MAX_OPENED) & has_first_child,
                (depth > 0) & is_filled,
                has_words,
                (depth == 0) & ~has_words,
            ],
            dim=2,
        )  # [B, k, 5]
        return by_kind.index_select(2, self.kinds.tensor)  # [B, k, V]

    def advance(self, ids: Tensor, position: Tensor) -> None:  # noqa: ARG002
        """Read what the tokens do to the trees."""
        kind = self.kinds.tensor[ids]  # [B, k]
        is_word, opens = kind == TokenKind.WORD, kind == TokenKind.OPEN
        closes = kind == TokenKind.CLOSE
        self.words_left.update(self.words_left.tensor - is_word.long())
        self.depth.update(self.depth.tensor + opens.long() - closes.long())
        self.opened.update((self.opened.tensor + opens.long()).masked_fill(is_word, 0))
        self.after_node.update(is_word | closes)
