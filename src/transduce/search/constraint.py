"""Constraints: which tokens may follow each hypothesis, at every step of a search.

A constraint is a state of the search like those of the layers (see `nn.step_state`): it lies on the
device, is written in place and is reordered with the beams. So it works in recorded steps too, if
it never waits for the device and keeps everything that may differ between two searches in tensors
that `copy_from` copies: a step that is replayed reads the memory of the search it was recorded for.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from transduce.nn.step_state import HypothesisState, SentenceState, StateGroup
from transduce.text.special_ids import PAD_ID

ROUND_ENDINGS_TO = 16
"""The bytes of the texts of a `TextConstraint` are rounded up to a multiple of it."""


class Constraint(Protocol):
    """Says which tokens may follow each of k hypotheses of B sentences."""

    @property
    def renormalises(self) -> bool:
        """Whether scores are log-probabilities among the allowed tokens alone.

        If not, they are those of the model, and the probability of what is forbidden is lost.
        """
        ...

    @property
    def shape_key(self) -> Hashable:
        """What two constraints must share for one to become the other by `copy_from`.

        It names the class and the shapes, but not the numbers of sentences and steps.
        """
        ...

    def allowed(self, position: Tensor) -> Tensor:
        """Return a boolean mask that broadcasts to [B, k, V]: the tokens that may come next.

        `position`, [1], on the device, is how many tokens each hypothesis has. A hypothesis that no
        token may follow is dropped from the search.
        """
        ...

    def advance(self, ids: Tensor, position: Tensor) -> None:
        """Read the token, [B, k], that each hypothesis got at this position, after `select`.

        Where a sentence has fewer than k hypotheses, the ids of the others are any tokens at all.
        """
        ...

    def select(self, beams: Tensor) -> None:
        """Make hypothesis beams[b, j] of sentence b its new j-th; some may repeat, some drop."""
        ...

    def allocate_like(self, sentences: int, *, max_steps: int) -> Self:
        """Allocate a constraint of the same kind for other numbers of sentences and steps."""
        ...

    def copy_from(self, other: Self, sentences: Tensor, *, steps: int) -> None:
        """Become those sentences of another constraint, which has made that many steps."""
        ...


def private_copy(
    constraint: Constraint, sentences: int, *, max_steps: int, device: torch.device
) -> Constraint:
    """Copy a constraint before the first step, so that a search leaves the given one as it is."""
    mine = constraint.allocate_like(sentences, max_steps=max_steps)
    mine.copy_from(constraint, torch.arange(sentences, device=device), steps=0)
    return mine


@dataclass(frozen=True)
class PrefixConstraint:
    """Every hypothesis begins with its sentence's prefix and is free after it.

    Scores are those of the model, those of the prefix included.
    """

    prefix: Tensor  # [B, P], padded with PAD_ID
    vocab_size: int

    def __post_init__(self) -> None:
        assert self.prefix.size(1) >= 1, "prefixes without a single token: use no constraint"

    @property
    def renormalises(self) -> bool:
        """Keep the model's own scores."""
        return False

    @property
    def shape_key(self) -> Hashable:
        """Prefixes of any length fit: they are padded to the number of steps."""
        return (PrefixConstraint, self.vocab_size)

    def allowed(self, position: Tensor) -> Tensor:
        """Allow the next token of the prefix alone; after its last, all tokens."""
        last = self.prefix.size(1) - 1
        ids = self.prefix.index_select(1, position.clamp(max=last))  # [B, 1]
        ids = ids.masked_fill(position > last, PAD_ID)[:, :, None]  # [B, 1, 1]
        every_id = torch.arange(self.vocab_size, device=ids.device)
        return (ids == every_id).logical_or_(ids == PAD_ID)  # [B, 1, V]

    def advance(self, ids: Tensor, position: Tensor) -> None:
        """Keep nothing: the position tells which token comes next."""

    def select(self, beams: Tensor) -> None:
        """Leave it: the prefix is the same for all hypotheses of a sentence."""

    def allocate_like(self, sentences: int, *, max_steps: int) -> Self:
        """Allocate empty prefixes as long as a hypothesis may become."""
        empty = self.prefix.new_full((sentences, max_steps), PAD_ID)
        return type(self)(empty, self.vocab_size)

    def copy_from(self, other: Self, sentences: Tensor, *, steps: int) -> None:  # noqa: ARG002
        """Take the prefixes of those sentences, as far as there is memory for steps."""
        width = min(self.prefix.size(1), other.prefix.size(1))
        self.prefix.fill_(PAD_ID)
        self.prefix[:, :width] = other.prefix[sentences, :width]


@dataclass(frozen=True)
class SharedState:
    """A tensor of a constraint that is the same for all sentences, such as a table of tokens.

    It is copied like the others, because the next search may come with another table.
    """

    tensor: Tensor

    def select(self, beams: Tensor) -> None:
        """Leave it: it is the same for all hypotheses."""

    def allocate_like(self, sentences: int, *, max_steps: int) -> Self:  # noqa: ARG002
        """Allocate a tensor of the same shape."""
        return type(self)(torch.zeros_like(self.tensor))

    def copy_from(self, other: Self, sentences: Tensor, *, steps: int) -> None:  # noqa: ARG002
        """Become another."""
        self.tensor.copy_(other.tensor)


class Continuable(Protocol):
    """Which tokens agree with the rest of a text: `text.open_prefix.Continuations`."""

    @property
    def first(self) -> int:
        """The rank of the first token that contains all of the rest."""
        ...

    @property
    def end(self) -> int:
        """The rank after that of the last such token."""
        ...

    @property
    def partial(self) -> Sequence[int]:
        """The tokens that are a part of the rest."""
        ...


@dataclass(frozen=True)
class TextConstraint(StateGroup):
    """The text of every hypothesis, from a position on, begins with given bytes, then is free.

    The tokens that spell these bytes are up to the model; the last one may spell more than them.
    Scores are those of the model.
    """

    ranks: SharedState  # [V + 1], by text; no text agrees with the last, which is no token
    sizes: SharedState  # [V], the bytes of each token
    first: SentenceState  # [B, L + 1], by the bytes that are spelt: ranks from this one on
    end: SentenceState  # [B, L + 1], and before this one
    partial: SentenceState  # [B, L + 1, L], and these tokens; V: none
    start: SentenceState  # [B], the position of the first byte
    spelt: HypothesisState  # [B, k], how many bytes are spelt

    @classmethod
    def of(
        cls,
        endings: Sequence[Sequence[Continuable]],
        starts: Sequence[int],
        *,
        ranks: Sequence[int],
        sizes: Sequence[int],
        hypotheses: int,
        device: torch.device,
    ) -> "TextConstraint":
        """Constrain each sentence to one ending: what may follow each number of its bytes.

        Tokens without a text have the rank V.
        """
        vocab_size, count = len(ranks), len(endings)
        longest = max(map(len, endings))
        longest += -longest % ROUND_ENDINGS_TO  # few shapes, for recorded steps
        first = np.zeros((count, longest + 1), dtype=np.int64)
        end = np.full((count, longest + 1), vocab_size + 1)  # after the last byte: any token
        partial = np.full((count, longest + 1, longest), vocab_size)
        for sentence, ending in enumerate(endings):
            for place, following in enumerate(ending):
                first[sentence, place], end[sentence, place] = following.first, following.end
                partial[sentence, place, : len(following.partial)] = following.partial

        def on_device(numbers: Any) -> Tensor:
            return torch.as_tensor(numbers, dtype=torch.long).to(device)

        return cls(
            SharedState(on_device([*ranks, vocab_size + 1])),
            SharedState(on_device(sizes)),
            SentenceState(on_device(first)),
            SentenceState(on_device(end)),
            SentenceState(on_device(partial)),
            SentenceState(on_device(starts)),
            HypothesisState(torch.zeros(count, hypotheses, dtype=torch.long, device=device)),
        )

    @property
    def renormalises(self) -> bool:
        """Keep the model's own scores."""
        return False

    @property
    def shape_key(self) -> Hashable:
        """Endings of one rounded length, and one vocabulary."""
        return (TextConstraint, self.ranks.tensor.shape, self.first.tensor.size(1))

    def allowed(self, position: Tensor) -> Tensor:
        """Allow the tokens that agree with what is left of the bytes."""
        is_before = (position < self.start.tensor)[:, None]  # [B, 1]
        last = self.first.tensor.size(1) - 1  # where any token is allowed
        place = self.spelt.tensor.masked_fill(is_before, last)  # [B, k]
        first, end = (
            bound.tensor.gather(1, place)[:, :, None] for bound in (self.first, self.end)
        )  # [B, k, 1]
        ranks = self.ranks.tensor  # [V + 1]
        allowed = (ranks >= first).logical_and_(ranks < end)  # [B, k, V + 1]
        places = place[:, :, None].expand(-1, -1, self.partial.tensor.size(2))  # [B, k, L]
        parts = self.partial.tensor.gather(1, places)  # [B, k, L]
        return allowed.scatter_(2, parts, value=True)[:, :, :-1]  # [B, k, V]

    def advance(self, ids: Tensor, position: Tensor) -> None:
        """Count the bytes of the tokens."""
        is_before = (position < self.start.tensor)[:, None]  # [B, 1]
        more = self.sizes.tensor[ids].masked_fill(is_before, 0)  # [B, k]
        last = self.first.tensor.size(1) - 1
        self.spelt.update((self.spelt.tensor + more).clamp(max=last))


@dataclass(frozen=True)
class AllOf(StateGroup):
    """Several constraints as one: it allows what all of them allow.

    It renormalises if one of them does, then among the tokens that all of them allow.
    """

    constraints: tuple[Constraint, ...]

    @property
    def renormalises(self) -> bool:
        """Whether one of them renormalises."""
        return any(constraint.renormalises for constraint in self.constraints)

    @property
    def shape_key(self) -> Hashable:
        """All of theirs."""
        return (AllOf, *(constraint.shape_key for constraint in self.constraints))

    def allowed(self, position: Tensor) -> Tensor:
        """Allow what all of them allow."""
        masks = (constraint.allowed(position) for constraint in self.constraints)
        return reduce(torch.logical_and, masks)

    def advance(self, ids: Tensor, position: Tensor) -> None:
        """Let each of them read the tokens."""
        for constraint in self.constraints:
            constraint.advance(ids, position)
