"""What layers keep between two steps of a search: one state for each layer.

A search extends k hypotheses for each of B sentences by one token a step. Layers of different kinds
keep different things: attention the keys and values of all earlier positions, recurrence only its
last state. All of them answer the same three requests (`LayerState`), so a decoder may mix layers
of any kind. States are written in place: a step allocates no memory that outlives it, so it can be
recorded as a CUDA graph once and then replayed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from transduce.nn.kernels.available import MAX_SLOTS, in_cuda_inference, kernels_support


class LayerState(Protocol):
    """What one layer keeps of B sentences with k hypotheses each."""

    def select(self, beams: Tensor) -> None:
        """Make hypothesis beams[b, j] of sentence b its new j-th; some may repeat, some drop."""
        ...

    def allocate_like(self, sentences: int, *, max_steps: int) -> Self:
        """Allocate a state of the same kind for other numbers of sentences and steps."""
        ...

    def copy_from(self, other: Self, sentences: Tensor, *, steps: int) -> None:
        """Become those sentences of another state, which has made that many steps."""
        ...


@dataclass(frozen=True)
class StateGroup:
    """Several states as one: a subclass names them as its fields.

    A field is a state, None, or a tuple of these.
    """

    def parts(self) -> Iterator[LayerState]:
        """Stream the states of all fields."""

        def states(value: Any) -> Iterator[LayerState]:
            if isinstance(value, tuple):
                for part in value:
                    yield from states(part)
            elif value is not None:
                yield value

        for field in fields(self):
            yield from states(getattr(self, field.name))

    def select(self, beams: Tensor) -> None:
        """Reorder, repeat or drop hypotheses within each sentence; beams is [B, k]."""
        for part in self.parts():
            part.select(beams)

    def allocate_like(self, sentences: int, *, max_steps: int) -> Self:
        """Allocate every part for other numbers of sentences and steps."""

        def allocate(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(allocate(part) for part in value)
            if value is None:
                return None
            return value.allocate_like(sentences, max_steps=max_steps)

        return type(self)(*(allocate(getattr(self, field.name)) for field in fields(self)))

    def copy_from(self, other: Self, sentences: Tensor, *, steps: int) -> None:
        """Become those sentences of another group, part by part."""
        for mine, its in zip(self.parts(), other.parts(), strict=True):
            mine.copy_from(its, sentences, steps=steps)


@dataclass(frozen=True)
class BeamHistory:
    """From which slot of every earlier position each hypothesis descends.

    At each position a sentence has k slots, one for each hypothesis of that step. Keys and values
    stay in the slot where they were written; when hypotheses are reordered, only this small table
    moves. −1 stands where nothing is written yet.
    """

    slots: Tensor  # [B, k, max_steps]

    @classmethod
    def empty(
        cls, sentences: int, hypotheses: int, max_steps: int, device: torch.device
    ) -> "BeamHistory":
        """Allocate the table before the first token."""
        shape = (sentences, hypotheses, max_steps)
        return cls(torch.full(shape, -1, dtype=torch.int32, device=device))

    def extend(self, position: Tensor) -> None:
        """Give every hypothesis its own slot at this position, [1]."""
        own = torch.arange(self.slots.size(1), dtype=torch.int32, device=self.slots.device)
        self.slots.index_copy_(2, position, own[:, None].expand_as(self.slots[:, :, :1]))

    def select(self, beams: Tensor) -> None:
        """Let each hypothesis descend from another; beams is [B, k]."""
        rows = beams[:, :, None].expand_as(self.slots)
        self.slots.copy_(self.slots.gather(1, rows))

    def allocate_like(self, sentences: int, *, max_steps: int) -> "BeamHistory":
        """Allocate an empty table."""
        return self.empty(sentences, self.slots.size(1), max_steps, self.slots.device)

    def copy_from(self, other: "BeamHistory", sentences: Tensor, *, steps: int) -> None:
        """Become those sentences of another table, which has that many steps."""
        self.slots.fill_(-1)
        self.slots[:, :, :steps] = other.slots[sentences, :, :steps]


class StepContext:
    """Where a search stands: what every layer of one step may ask.

    What follows from the history is computed when the first layer asks for it, once for all layers.
    """

    def __init__(self, position: Tensor, *, reach: int, history: BeamHistory) -> None:
        """Take how many tokens were read before, [1], on the device, and a bound on it.

        A `SpanContext` takes the positions of all its tokens, [T].
        """
        self.position = position
        self.reach = reach
        self.history = history

    @cached_property
    def allowed(self) -> Tensor:
        """Which of all slots up to `reach` each hypothesis descends from."""
        slots = self.history.slots
        every_slot = torch.arange(slots.size(1), device=slots.device)
        is_own = slots[:, None, :, : self.reach, None] == every_slot
        return is_own.flatten(3)  # [B, 1, k, reach*k]

    @cached_property
    def distances(self) -> Tensor:
        """How far each slot up to `reach` lies from the position of this step: [1, reach*k]."""
        hypotheses = self.history.slots.size(1)
        slots = torch.arange(self.reach * hypotheses, device=self.position.device)
        return (slots // hypotheses - self.position)[None]

    @cached_property
    def survivors(self) -> tuple[Tensor, Tensor]:
        """List the slots that any hypothesis descends from, and count them, for our kernels."""
        from transduce.nn.kernels.search import surviving_slots

        return surviving_slots(self.history.slots, self.position)


class SpanContext(StepContext):
    """Where a search stands that reads several tokens of one hypothesis at once.

    What was written from its first position on does not count any more: it is not looked at, and
    overwritten. The one hypothesis descends from all earlier slots, so it needs no history.
    """

    @cached_property
    def allowed(self) -> Tensor:
        """Which of all positions up to `reach` each token may attend to: [1, 1, T, reach]."""
        return (self.distances <= 0)[None, None]

    @cached_property
    def distances(self) -> Tensor:
        """How far each position up to `reach` lies from each token: [T, reach]."""
        return torch.arange(self.reach, device=self.position.device) - self.position[:, None]


@dataclass(frozen=True)
class KeyValueCache:
    """Keys and values of all earlier positions, for self-attention: [B, h, position, slot, d]."""

    keys: Tensor  # [B, h, max_steps, k, d_k]
    values: Tensor  # [B, h, max_steps, k, d_v]

    def append(self, k: Tensor, v: Tensor, at: StepContext) -> None:
        """Write the keys and values of one position, [B, h, k, d], or of a span, [B, h, T, d]."""
        if isinstance(at, SpanContext):
            self.keys.index_copy_(2, at.position, k[:, :, :, None])
            self.values.index_copy_(2, at.position, v[:, :, :, None])
        elif in_cuda_inference(k):
            from transduce.nn.kernels.search import write_cache

            write_cache(at.position, self.keys, self.values, k, v)
        elif k.is_cpu:  # reading the position costs no synchronisation there
            self.keys[:, :, int(at.position)] = k
            self.values[:, :, int(at.position)] = v
        else:
            self.keys.index_copy_(2, at.position, k[:, :, None])
            self.values.index_copy_(2, at.position, v[:, :, None])

    def up_to(self, reach: int) -> tuple[Tensor, Tensor]:
        """Return the keys and values of all slots of the first positions."""
        k = self.keys[:, :, :reach].flatten(2, 3)  # [B, h, reach*k, d_k]
        v = self.values[:, :, :reach].flatten(2, 3)  # [B, h, reach*k, d_v]
        return k, v

    def suits_kernels(self) -> bool:
        """Return whether our kernels may attend to it."""
        if not in_cuda_inference(self.keys):
            return False
        hypotheses, d_k, d_v = self.keys.size(3), self.keys.size(4), self.values.size(4)
        is_short = self.keys.size(2) * hypotheses <= MAX_SLOTS
        return is_short and kernels_support(hypotheses, d_k, d_v, self.keys.dtype)

    def select(self, beams: Tensor) -> None:
        """Leave everything where it is: the `BeamHistory` knows whose it is."""

    def allocate_like(self, sentences: int, *, max_steps: int) -> "KeyValueCache":
        """Allocate a cache for other numbers of sentences and steps."""
        _, h, _, hypotheses, _ = self.keys.shape
        slots = (sentences, h, max_steps, hypotheses)
        return KeyValueCache(
            self.keys.new_zeros(*slots, self.keys.size(4)),  # zeros: masked, but finite
            self.values.new_zeros(*slots, self.values.size(4)),
        )

    def copy_from(self, other: "KeyValueCache", sentences: Tensor, *, steps: int) -> None:
        """Become those sentences of another cache, which has that many positions."""
        self.keys[:, :, :steps].copy_(other.keys[:, :, :steps][sentences])
        self.values[:, :, :steps].copy_(other.values[:, :, :steps][sentences])


@dataclass(frozen=True)
class SentenceState:
    """A tensor with one row for each sentence that no step changes, such as keys of the source."""

    tensor: Tensor

    def select(self, beams: Tensor) -> None:
        """Leave it: it is the same for all hypotheses of a sentence."""

    def allocate_like(self, sentences: int, *, max_steps: int) -> "SentenceState":  # noqa: ARG002
        """Allocate a tensor for another number of sentences."""
        return SentenceState(self.tensor.new_zeros(sentences, *self.tensor.shape[1:]))

    def copy_from(self, other: "SentenceState", sentences: Tensor, *, steps: int) -> None:  # noqa: ARG002
        """Become those sentences of another."""
        self.tensor.copy_(other.tensor[sentences])


@dataclass(frozen=True)
class HypothesisState:
    """A tensor, [B, k, …], that every step replaces: a recurrent state, or the last few inputs."""

    tensor: Tensor

    def update(self, tensor: Tensor) -> None:
        """Write what the next step reads."""
        self.tensor.copy_(tensor)

    def select(self, beams: Tensor) -> None:
        """Reorder, repeat or drop hypotheses within each sentence; beams is [B, k]."""
        sentences, hypotheses = beams.shape
        firsts = torch.arange(0, sentences * hypotheses, hypotheses, device=beams.device)
        rows = (firsts[:, None] + beams).flatten()  # whole rows: a gather looks up each number
        chosen = self.tensor.flatten(0, 1).index_select(0, rows)
        self.tensor.copy_(chosen.view_as(self.tensor))

    def allocate_like(self, sentences: int, *, max_steps: int) -> "HypothesisState":  # noqa: ARG002
        """Allocate a tensor for another number of sentences."""
        return HypothesisState(self.tensor.new_zeros(sentences, *self.tensor.shape[1:]))

    def copy_from(self, other: "HypothesisState", sentences: Tensor, *, steps: int) -> None:  # noqa: ARG002
        """Become those sentences of another."""
        self.tensor.copy_(other.tensor[sentences])
