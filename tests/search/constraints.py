"""Constraints for tests: tables of allowed tokens, one sentence only, balanced brackets."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.nn.step_state import HypothesisState, StateGroup
from transduce.search.constraint import SharedState
from transduce.text.special_ids import EOS_ID

AllowedAfter = Callable[[list[int]], Sequence[int]]
"""The same in plain Python: from the tokens so far to those that may follow."""

FORBIDDEN = -1
OPEN, CLOSE = 4, 5


@dataclass(frozen=True)
class Automaton(StateGroup):
    """Allows what a table allows: in which node a token is read, and which node follows."""

    table: SharedState  # [n, V], the next node, or FORBIDDEN
    nodes: HypothesisState  # [B, k]

    @classmethod
    def start(cls, table: Tensor, nodes: Sequence[int], *, hypotheses: int) -> "Automaton":
        """Start each sentence in its own node, with a table, [n, V], for all."""
        first = torch.tensor(nodes, device=table.device)[:, None].repeat(1, hypotheses)  # [B, k]
        return cls(SharedState(table), HypothesisState(first))

    @property
    def renormalises(self) -> bool:
        return False

    @property
    def shape_key(self) -> Hashable:
        return (Automaton, self.table.tensor.shape)

    def allowed(self, position: Tensor) -> Tensor:
        del position
        return self.table.tensor[self.nodes.tensor] != FORBIDDEN  # [B, k, V]

    def advance(self, ids: Tensor, position: Tensor) -> None:
        del position
        # Of hypotheses that do not exist any token may come.
        self.nodes.update(self.table.tensor[self.nodes.tensor, ids].clamp(min=0))


class RenormalisedAutomaton(Automaton):
    """The same; scores are log-probabilities among what it allows."""

    @property
    def renormalises(self) -> bool:
        return True


def walk(table: Tensor, node: int) -> AllowedAfter:
    """Do in plain Python what the automaton does from a node on."""
    rows: list[list[int]] = table.tolist()

    def allowed_after(ids: list[int]) -> list[int]:
        at = node
        for token in ids:
            at = rows[at][token]
        return [token for token, following in enumerate(rows[at]) if following != FORBIDDEN]

    return allowed_after


def only(
    targets: Sequence[Sequence[int]],
    *,
    vocab_size: int,
    hypotheses: int,
    device: str = "cpu",
    kind: type[Automaton] = Automaton,
) -> Automaton:
    """Allow one sentence for each source, which ends with EOS."""
    rows: list[list[int]] = []
    starts = []
    for target in targets:
        starts.append(len(rows))
        for token in [*target, EOS_ID]:
            row = [FORBIDDEN] * vocab_size
            row[token] = len(rows) + 1
            rows.append(row)
    rows.append([FORBIDDEN] * vocab_size)  # after EOS
    return kind.start(torch.tensor(rows, device=device), starts, hypotheses=hypotheses)


@dataclass(frozen=True)
class Brackets(StateGroup):
    """Allows well-formed bracketings up to a depth; it counts how many brackets are open."""

    depths: HypothesisState  # [B, k]
    tokens: SharedState  # [V], what each token adds to the depth

    @classmethod
    def start(
        cls, sentences: int, *, hypotheses: int, vocab_size: int, device: str = "cpu"
    ) -> "Brackets":
        tokens = torch.zeros(vocab_size, dtype=torch.long, device=device)
        tokens[OPEN], tokens[CLOSE] = 1, -1
        depths = torch.zeros(sentences, hypotheses, dtype=torch.long, device=device)
        return cls(HypothesisState(depths), SharedState(tokens))

    @property
    def renormalises(self) -> bool:
        return False

    @property
    def shape_key(self) -> Hashable:
        return (Brackets, self.tokens.tensor.shape)

    def allowed(self, position: Tensor) -> Tensor:
        del position
        after = self.depths.tensor[:, :, None] + self.tokens.tensor  # [B, k, V]
        is_end = torch.arange(after.size(2), device=after.device) == EOS_ID
        return (after >= 0) & (after <= 2) & ~(is_end & (after > 0))

    def advance(self, ids: Tensor, position: Tensor) -> None:
        del position
        self.depths.update(self.depths.tensor + self.tokens.tensor[ids])


def depth_of(ids: list[int]) -> int:
    """Count the open brackets; fail where one closes that was never opened."""
    depth = 0
    for token in ids:
        depth += (token == OPEN) - (token == CLOSE)
        assert 0 <= depth <= 2
    return depth
