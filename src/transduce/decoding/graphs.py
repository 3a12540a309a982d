"""Beam search on a CUDA device: a step is recorded once as a graph and then played again.

A step is some two hundred small kernels, and to launch them takes longer than to run them. Played
as a graph they are launched at once. A graph is bound to its memory, so searches of one kind share
theirs; to keep the kinds few, sentences and positions are rounded up. Nor does the device ever wait
for the host: which sentences are done is looked at one step later.
"""

from collections import OrderedDict
from threading import Lock
from typing import Generic, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from transduce.decoding.answer import Answer
from transduce.decoding.beam import Beam, Search
from transduce.decoding.stop import go_on
from transduce.models.base import Searchable, State
from transduce.nn.recording import record
from transduce.text.special_ids import PAD_ID

SRC_STEP = 8
"""Sources are padded to a multiple of it."""


class _Kind(NamedTuple):
    """What searches have in common that share their memory and their recordings."""

    sentences: int
    src_tokens: int
    max_steps: int
    beam: Beam
    has_prefix: bool

    @property
    def positions(self) -> int:
        """Count what it takes memory for."""
        return self.sentences * self.beam.size * (self.max_steps + self.src_tokens)


class GraphedBeamSearch(Generic[State]):
    """Does what `beam_search` does; keeps memory for so many positions from call to call."""

    def __init__(
        self, model: Searchable[State], *, longest_source: int, max_positions: int
    ) -> None:
        """Take a model that reads sources up to a length; keep so many positions of hypotheses."""
        self._model = model
        self._longest_source = longest_source
        self._max_positions = max_positions
        self._kept: OrderedDict[_Kind, _Recorded[State]] = OrderedDict()  # the oldest first
        self._turn = Lock()

    @torch.inference_mode()
    def __call__(
        self, src: Tensor, beam: Beam, *, max_tokens: Tensor, prefix: Tensor
    ) -> list[list[Answer]]:
        """Translate each sentence of [B, S], as `beam_search` does."""
        with self._turn:
            try:
                return self._search(src, beam, max_tokens, prefix)
            except torch.OutOfMemoryError:
                self._kept.clear()  # whoever tries again with less needs the room
                raise
            finally:
                self._forget_oldest()

    def _search(
        self, src: Tensor, beam: Beam, limits: Tensor, prefix: Tensor
    ) -> list[list[Answer]]:
        more = min(-src.size(1) % SRC_STEP, self._longest_source - src.size(1))
        longest = int(limits.max())
        kind = _Kind(
            _power_of_two(src.size(0)),
            src.size(1) + more,
            longest + more,  # what the longest source of this kind may take
            beam,
            has_prefix=prefix.size(1) > 0,
        )
        given = F.pad(prefix, (0, kind.max_steps - prefix.size(1)), value=PAD_ID)
        fresh = Search.start(
            self._model,
            F.pad(src, (0, more), value=PAD_ID),
            beam,
            limits.to(src.device),
            max_steps=1,
            prefix=given if kind.has_prefix else None,
        )
        sentences = list(range(src.size(0)))
        results: list[list[Answer]] = [[] for _ in sentences]
        playing = self._room(kind, fresh)
        playing.search.take(fresh, sentences, steps=0)
        del fresh  # and with it a copy of what the encoder made
        step = 0
        seen: _Flags | None = None
        while sentences:
            go_on()
            if step < longest:
                playing.advance()
                step += 1
            before, seen = seen, _Flags(playing.search.done)
            if before is None:
                continue
            done = before.read()
            others = [row for row in range(len(sentences)) if not done[row]]
            if 2 * _power_of_two(len(others)) > kind.sentences:
                continue
            rows = [row for row in range(len(sentences)) if done[row]]
            for row, answers in zip(rows, playing.search.answers(rows), strict=True):
                results[sentences[row]] = answers
            sentences = [sentences[row] for row in others]
            if sentences:
                kind = kind._replace(sentences=_power_of_two(len(sentences)))
                smaller = self._room(kind, playing.search)
                smaller.search.take(playing.search, others, steps=step)
                playing, seen = smaller, None
        return results

    def _room(self, kind: _Kind, like: Search[State]) -> "_Recorded[State]":
        """Return the memory for searches of a kind, and what was recorded there."""
        if kind not in self._kept:
            search = like.room_for(kind.sentences, max_steps=kind.max_steps)
            self._kept[kind] = _Recorded(search)
        self._kept.move_to_end(kind)
        return self._kept[kind]

    def _forget_oldest(self) -> None:
        while sum(kind.positions for kind in self._kept) > self._max_positions:
            self._kept.popitem(last=False)


class _Recorded(Generic[State]):
    """A search whose step is recorded when it is needed for the second time.

    A first time loads kernels, which cannot be recorded. All steps are one: how far it looks back
    is the greatest length, and a kernel reads only what is filled.
    """

    def __init__(self, search: Search[State]) -> None:
        self.search = search
        self._is_known = False
        self._graph: torch.cuda.CUDAGraph | None = None

    def advance(self) -> None:
        """Do one step."""
        if self._graph is None and self._is_known:
            self._graph = record(self._step, torch.cuda.Stream())  # type: ignore[no-untyped-call]
        if self._graph is not None:
            self._graph.replay()
        else:
            self._step()
            self._is_known = True

    def _step(self) -> None:
        self.search.advance(reach=self.search.ids.size(2))


class _Flags:
    """Booleans on their way from the device."""

    def __init__(self, flags: Tensor) -> None:
        self._flags = torch.empty(flags.shape, dtype=torch.bool, pin_memory=True)
        self._flags.copy_(flags, non_blocking=True)
        self._arrival = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._arrival.record()

    def read(self) -> list[bool]:
        self._arrival.synchronize()
        values: list[bool] = self._flags.tolist()
        return values


def _power_of_two(count: int) -> int:
    """Round up; 0 stays 0."""
    return 1 << (count - 1).bit_length() if count else 0
