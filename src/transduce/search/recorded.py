"""Beam search on a CUDA device: a step is recorded once as a CUDA graph and then replayed.

A step is some two hundred small kernels, and launching them takes longer than running them. A graph
launches them at once. It is bound to its memory, so searches of one shape share theirs; to keep the
shapes few, sentences and positions are rounded up. The device never waits for the host: which
sentences are done is read one step later.
"""

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from transduce.hardware.cuda_graphs import record
from transduce.models.base import Searchable, State
from transduce.search.beam import Beam, Search
from transduce.search.cancel import raise_if_cancelled
from transduce.search.constraint import Constraint
from transduce.search.hypothesis import Hypothesis
from transduce.text.special_ids import PAD_ID

ROUND_TO = 8
"""The tokens of sources and the steps of a search are rounded up to a multiple of it."""
ROUND_CONSTRAINED_TO = 32
"""The same for the steps of a constrained search, whose limits follow no length of a source."""


class SearchShape(NamedTuple):
    """What searches must have in common to share their memory and their recorded step."""

    sentences: int
    src_tokens: int
    max_steps: int
    beam: Beam
    constraint: Hashable

    @property
    def positions(self) -> int:
        """Count the positions that it takes memory for."""
        return self.sentences * self.beam.size * (self.max_steps + self.src_tokens)


class RecordedBeamSearch(Generic[State]):
    """Does what `beam_search` does, and keeps memory and recorded steps from call to call."""

    def __init__(
        self, model: Searchable[State], *, longest_source: int | None, max_positions: int
    ) -> None:
        """Keep memory for at most max_positions positions of hypotheses.

        `longest_source` is how many tokens the model can read; None: no limit.
        """
        self._model = model
        self._longest_source = longest_source
        self._max_positions = max_positions
        self._kept: OrderedDict[SearchShape, _RecordedSearch[State]] = OrderedDict()  # oldest first
        self._lock = Lock()

    @torch.inference_mode()
    def __call__(
        self,
        src: Tensor,
        beam: Beam,
        *,
        max_tokens: Tensor,
        constraint: Constraint | None = None,
    ) -> list[list[Hypothesis]]:
        """Translate each sentence of [B, S], as `beam_search` does."""
        with self._lock:
            try:
                return self._search(src, beam, max_tokens, constraint)
            except RuntimeError:  # perhaps a lack of memory, which not all libraries name so
                self._kept.clear()  # a second try with fewer sentences needs the memory
                raise
            finally:
                self._drop_oldest()

    def _search(
        self, src: Tensor, beam: Beam, limits: Tensor, constraint: Constraint | None
    ) -> list[list[Hypothesis]]:
        padding = -src.size(1) % ROUND_TO
        if self._longest_source is not None:
            padding = min(padding, self._longest_source - src.size(1))
        longest = int(limits.max())
        max_steps = longest + padding  # what the longest source of this shape may take
        if constraint is not None:
            max_steps += -max_steps % ROUND_CONSTRAINED_TO
        shape = SearchShape(
            _power_of_two(src.size(0)),
            src.size(1) + padding,
            max_steps,
            beam,
            None if constraint is None else (constraint.shape_key, constraint.renormalises),
        )
        fresh = Search.start(
            self._model,
            F.pad(src, (0, padding), value=PAD_ID),
            beam,
            limits.to(src.device),
            max_steps=1,
            constraint=constraint,
        )
        running = self._recorded(shape, like=fresh)
        running.search.copy_from(fresh, list(range(src.size(0))), steps=0)
        del fresh  # and with it a copy of what the encoder made
        return self._run(running, shape, sentences=src.size(0), longest=longest)

    def _run(
        self, running: "_RecordedSearch[State]", shape: SearchShape, *, sentences: int, longest: int
    ) -> list[list[Hypothesis]]:
        """Make steps until all sentences are done; half empty, a search moves to a smaller one."""
        left = list(range(sentences))  # the sentences in its rows
        results: list[list[Hypothesis]] = [[] for _ in left]
        step = 0
        pending: _PendingFlags | None = None
        while left:
            raise_if_cancelled()
            if step < longest:
                running.advance()
                step += 1
            before, pending = pending, _PendingFlags(running.search.done)
            if before is None:
                continue
            done = before.read()
            others = [row for row in range(len(left)) if not done[row]]
            if 2 * _power_of_two(len(others)) > shape.sentences:
                continue
            rows = [row for row in range(len(left)) if done[row]]
            for row, hypotheses in zip(rows, running.search.hypotheses(rows), strict=True):
                results[left[row]] = hypotheses
            left = [left[row] for row in others]
            if left:
                shape = shape._replace(sentences=_power_of_two(len(left)))
                smaller = self._recorded(shape, like=running.search)
                smaller.search.copy_from(running.search, others, steps=step)
                running, pending = smaller, None
        return results

    def _recorded(self, shape: SearchShape, *, like: Search[State]) -> "_RecordedSearch[State]":
        """Return the memory for searches of a shape, with the step that was recorded there."""
        if shape not in self._kept:
            search = like.allocate_like(shape.sentences, max_steps=shape.max_steps)
            self._kept[shape] = _RecordedSearch(search)
        self._kept.move_to_end(shape)
        return self._kept[shape]

    def _drop_oldest(self) -> None:
        while sum(shape.positions for shape in self._kept) > self._max_positions:
            self._kept.popitem(last=False)


class _RecordedSearch(Generic[State]):
    """A search whose step is recorded when it is needed for the second time.

    The first time loads kernels, which cannot be recorded. One recording serves all steps: its
    `reach` is the maximum length, and the kernels read only the positions that are filled.
    """

    def __init__(self, search: Search[State]) -> None:
        self.search = search
        self._is_warm = False
        self._graph: torch.cuda.CUDAGraph | None = None

    def advance(self) -> None:
        """Make one step."""
        if self._graph is None and self._is_warm:
            self._graph = record(self._step, torch.cuda.Stream())  # type: ignore[no-untyped-call]
        if self._graph is not None:
            self._graph.replay()
        else:
            self._step()
            self._is_warm = True

    def _step(self) -> None:
        self.search.advance(reach=self.search.ids.size(2))


class _PendingFlags:
    """Booleans on their way from the device to the host."""

    def __init__(self, flags: Tensor) -> None:
        self._flags = torch.empty(flags.shape, dtype=torch.bool, pin_memory=True)
        self._flags.copy_(flags, non_blocking=True)
        self._arrival = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._arrival.record()

    def read(self) -> list[bool]:
        """Wait for them."""
        self._arrival.synchronize()
        values: list[bool] = self._flags.tolist()
        return values


def _power_of_two(count: int) -> int:
    """Round up; 0 stays 0."""
    return 1 << (count - 1).bit_length() if count else 0
