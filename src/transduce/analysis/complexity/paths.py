"""The longest path between two positions, found by gradients.

A layer's elementary operation is applied to all positions at once, again and again: one attention,
one convolution, or one step of a recurrence, which takes the state of the position beside it. The
path is the number of times until every output depends on every input: on every input up to it, if
the layer is causal. A recurrent layer connects all positions, so that 1 layer would do; what lies
between two of its positions are its steps.

What an output of one operation depends on is where its gradient is not zero, with random weights
and inputs in float64. These patterns are multiplied: gradients through hundreds of operations would
leave the range of numbers, and only zero or not is asked.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.analysis.complexity.layers import LayerKind, LayerShape, drawn

WIDTH = 4
"""The width of layers here: whether a gradient is zero does not depend on it."""

MAX_SCORES = 2**22
"""How many weights of attention are in memory at once."""


@dataclass(frozen=True)
class Dependence:
    """Which states and which inputs each output of one operation depends on: [n, n] each."""

    on_states: Tensor
    on_inputs: Tensor | None  # None in a stack: its input is the first state


def path_length(kind: LayerKind, n: int, *, k: int, r: int, causal: bool) -> int | None:
    """Return how many elementary operations connect all pairs; None if no number of them does."""
    shape = LayerShape(WIDTH, k, r, causal)
    if kind.step is None:
        return layers_to_connect(kind, n, k=k, r=r, causal=causal)
    step = recurrent_dependence(kind, n, shape)
    return _operations_to_connect(lambda _: step, n, causal=causal)


def layers_to_connect(kind: LayerKind, n: int, *, k: int, r: int, causal: bool) -> int | None:
    """Return how many layers connect all pairs; None if no number of them does."""
    shape = LayerShape(WIDTH, k, r, causal)
    if not kind.levels_differ:
        every = layer_dependence(kind, n, shape, level=0)
        return _operations_to_connect(lambda _: every, n, causal=causal)
    return _operations_to_connect(
        lambda level: layer_dependence(kind, n, shape, level=level), n, causal=causal
    )


def layer_dependence(kind: LayerKind, n: int, shape: LayerShape, *, level: int) -> Dependence:
    """Find what the outputs of a layer depend on."""
    layer = drawn(kind.layer_of_stack(shape, level), seed=level).double()
    [pattern] = dependence_by_gradients(layer, n, [shape.d])
    return Dependence(pattern, None)


def recurrent_dependence(kind: LayerKind, n: int, shape: LayerShape) -> Dependence:
    """Find what the states after one step of a recurrence depend on."""
    assert kind.step is not None
    step = drawn(kind.step(shape), seed=0).double()
    states = (2 if shape.causal else 4) * shape.d
    on_inputs, on_states = dependence_by_gradients(step, n, [shape.d, states])
    return Dependence(on_states, on_inputs)


def dependence_by_gradients(
    operation: Callable[..., Tensor], n: int, widths: Sequence[int]
) -> list[Tensor]:
    """Return, for each input of an operation, which of its positions each output depends on.

    The inputs are sentences of n random vectors, each input with a width of its own.
    """
    random = torch.Generator().manual_seed(n)
    sentences = [_random((n, width), random) for width in widths]
    patterns = [torch.zeros(n, n, dtype=torch.bool) for _ in widths]
    for outputs in torch.split(torch.arange(n), max(1, MAX_SCORES // n**2)):
        # A copy of the sentences for each output, so that one backward pass serves many outputs.
        copies = [x.repeat(len(outputs), 1, 1).requires_grad_() for x in sentences]
        found = operation(*copies)[torch.arange(len(outputs)), outputs]
        gradients = torch.autograd.grad(found, copies, _random(found.shape, random))
        for pattern, gradient in zip(patterns, gradients, strict=True):
            pattern[outputs] = (gradient != 0).any(dim=-1)
    return patterns


def _random(shape: Sequence[int], random: torch.Generator) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=random)


def _operations_to_connect(
    dependence: Callable[[int], Dependence], n: int, *, causal: bool
) -> int | None:
    wanted = torch.ones(n, n, dtype=torch.bool)
    wanted = wanted.tril() if causal else wanted
    for done, seen in zip(range(1, n + 1), _seen_inputs(dependence, n), strict=False):
        if bool((seen | ~wanted).all()):
            return done
    return None  # each of n operations would have to connect another pair


def _seen_inputs(dependence: Callable[[int], Dependence], n: int) -> Iterator[Tensor]:
    """Yield which inputs each output depends on, after 1, 2, … operations."""
    on_states = torch.eye(n, dtype=torch.bool)
    on_inputs = torch.zeros(n, n, dtype=torch.bool)
    level = 0
    while True:
        last = dependence(level)
        if last.on_inputs is not None:
            on_inputs = on_inputs | _product(on_states, last.on_inputs)
        on_states = _product(on_states, last.on_states)
        yield on_states if last.on_inputs is None else on_inputs
        level += 1


def _product(some: Tensor, others: Tensor) -> Tensor:
    return (some.float() @ others.float()) > 0
