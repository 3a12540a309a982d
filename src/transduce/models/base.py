"""The protocol every architecture obeys. Training and decoding know only this.

Training reads whole sentences: `encode`, then `decode` with the target shifted right.
Search goes token by token: `start`, then `step` with the last token of each hypothesis, and
`select` on the state in between.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

from torch import Tensor, nn

from transduce.nn.spans import Layout, Spans


@dataclass(frozen=True)
class Memory:
    """What the encoder hands to the decoder."""

    states: Tensor  # [B, S, d_model]
    allowed: Tensor | Spans  # a mask, [B, 1, 1, S], or runs of keys


class SearchState(Protocol):
    """What a decoder remembers of B source sentences with k hypotheses each.

    Its memory is taken once and written in place: no step waits for the device or for memory, and
    a step can be recorded once and played again.
    """

    def select(self, beams: Tensor) -> None:
        """Make hypothesis beams[b, j] of sentence b its new j-th; some may repeat, some drop."""
        ...

    def room_for(self, sentences: int, *, max_steps: int) -> Self:
        """Take the memory for so many sentences and steps of the same kind."""
        ...

    def take(self, other: Self, sentences: Tensor, *, steps: int) -> None:
        """Become those sentences of another state, which has read so many tokens."""
        ...


State = TypeVar("State", bound=SearchState)


class Searchable(Protocol[State]):
    """What a search asks of a model: to read the source, and to go on token by token."""

    def encode(self, src: Tensor) -> Any:
        """Read source ids, [B, S]."""
        ...

    def start(self, memory: Any, *, hypotheses: int, max_steps: int) -> State:
        """Return the state before the first token, with so many hypotheses a sentence."""
        ...

    def step(self, last_ids: Tensor, state: State, *, position: Tensor, reach: int) -> Tensor:
        """Read one more token of each hypothesis, [B, k]; score the next: logits, [B, k, V].

        `position`, [1], lies on the device: how many tokens each hypothesis has read before. It is
        less than `reach`, which says how far back a step must look: positions from there on are
        not yet written.
        """
        ...


class Seq2Seq(Searchable[State], Protocol[State]):
    """A sequence-to-sequence model over one shared vocabulary."""

    @property
    def projection(self) -> Tensor:
        """The matrix, [V, d_model], that turns the decoder's states into scores (§3.4)."""
        ...

    def encode(self, src: Tensor, layout: Layout | None = None) -> Memory:
        """Read source ids, [B, S]: padded sentences, or a row of them laid out end to end."""
        ...

    def decode_states(self, memory: Memory, tgt_in: Tensor, layout: Layout | None = None) -> Tensor:
        """Read every prefix of tgt_in, [B, T]: a state for each, [B, T, d_model].

        Training takes these and the projection instead of logits, which would fill the memory.
        """
        ...

    def decode(self, memory: Memory, tgt_in: Tensor) -> Tensor:
        """Score every next token after every prefix of tgt_in, [B, T]: logits, [B, T, V]."""
        ...


class Learnable(Seq2Seq[Any], Protocol):
    """Such a model as a torch module: with weights, and with a mode for training."""

    training: bool

    def parameters(self) -> Iterator[nn.Parameter]:
        """Stream the weights."""
        ...

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Stream the weights with their names."""
        ...

    def modules(self) -> Iterator[nn.Module]:
        """Stream the parts, down to the smallest."""
        ...

    def compile_parts(self) -> None:
        """Have torch compile the model, for training, when it is next used."""
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """Name all that a checkpoint must hold."""
        ...

    def train(self, mode: bool = True) -> Self:
        """Turn dropout on or off."""
        ...

    def eval(self) -> Self:
        """Turn dropout off."""
        ...
