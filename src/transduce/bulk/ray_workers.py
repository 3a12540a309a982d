"""Shards on a Ray cluster: an actor holds the model on each GPU or node, a shard is a call of it.

This process reads the text and writes the parts; the nodes need only the model, in a folder that
all of them see under the same name. Ray decides where actors run. If a node or a process dies, the
shards it had are given to other actors, and Ray is asked for a new one.
"""

import os
import socket
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from transduce.bulk.shards import Shard
from transduce.bulk.workers import (
    ModelIdentity,
    ModelSource,
    OutputRecord,
    ShardSettings,
    translated_lines,
)
from transduce.errors import InputError, TransduceError
from transduce.hardware.ray_connection import connect, living_nodes
from transduce.translation.translator import Translator

SHARDS_PER_ACTOR = 2
"""One that is translated, and one that waits, so that an actor never does."""
MAX_LOSSES = 3
"""How often a shard may lose its actor before it is taken for the cause; the same for loading."""


class ModelActor:
    """Holds a model on some node and translates shards with it."""

    def __init__(self) -> None:
        self._translator: Translator | None = None

    def load(
        self, source: ModelSource, place: Path | None, threads: int | None
    ) -> tuple[str, ModelIdentity | str]:
        """Load the model; return the machine's name, with the model's identity or what is wrong.

        place: the folder to which names are relative; None: they are absolute.
        """
        import torch

        try:
            if place is not None:
                os.chdir(place)
        except OSError:
            return socket.gethostname(), f"it does not see {place}: use a folder that all share"
        if threads is not None:
            torch.set_num_threads(threads)
        try:
            self._translator = source.load()
            return socket.gethostname(), ModelIdentity.of(self._translator)
        except TransduceError as fault:
            return socket.gethostname(), str(fault)

    def translate(self, shard: Shard, settings: ShardSettings) -> list[OutputRecord] | str:
        """Translate a shard; return its lines, or what is wrong with them."""
        assert self._translator is not None
        try:
            return list(translated_lines(self._translator, shard, settings))
        except TransduceError as fault:
            return str(fault)


@dataclass(eq=False)
class _Actor:
    """An actor, and what was asked of it."""

    handle: Any
    loading: Any  # a reference to what `load` will return; None: it is loaded
    machine: str = ""
    shards: dict[Any, tuple[Shard, ShardSettings]] = field(default_factory=dict)  # by reference


class RayWorkers:
    """Actors on the nodes of a Ray cluster, each with the model."""

    def __init__(self, address: str, source: ModelSource, note: Callable[[str], None]) -> None:
        """`note` is told of actors that are lost."""
        connect(address)
        self._address, self._note = address, note
        self._resources, count = resources_of_actors(source.device, f"--on {address}")
        device = "cuda" if self._resources["num_gpus"] else "cpu"
        self._source = replace(source, device=device)
        self._waiting: deque[tuple[Shard, ShardSettings]] = deque()
        self._losses: Counter[int | None] = Counter()  # of shards; None: while loading
        self._known: ModelIdentity | None = None
        self._actors = [self._start() for _ in range(count)]

    @cached_property
    def identity(self) -> ModelIdentity:
        """What the model is; waits until the first actor has loaded it."""
        while self._known is None:
            self._wait()
        return self._known

    @property
    def max_in_flight(self) -> int:
        """Two shards for each actor."""
        return SHARDS_PER_ACTOR * len(self._actors)

    def submit(self, shard: Shard, settings: ShardSettings) -> None:
        """Give a shard to an actor that has room, or let it wait for one."""
        self._waiting.append((shard, settings))
        self._hand_out()

    def next_done(self) -> tuple[Shard, Iterable[OutputRecord]]:
        """Wait for a shard that an actor has translated."""
        while True:
            done = self._wait()
            if done is not None:
                return done

    def close(self) -> None:
        """End all actors."""
        import ray

        for actor in self._actors:
            ray.kill(actor.handle)

    def _start(self) -> _Actor:
        import ray

        handle = ray.remote(**self._resources)(ModelActor).remote()
        threads = None if self._resources["num_gpus"] else int(self._resources["num_cpus"])
        return _Actor(handle, handle.load.remote(self._source, Path.cwd(), threads))

    def _hand_out(self) -> None:
        """Give waiting shards to the actors that are loaded and have the fewest."""
        loaded = [actor for actor in self._actors if actor.loading is None]
        while self._waiting and loaded:
            actor = min(loaded, key=lambda one: len(one.shards))
            if len(actor.shards) >= SHARDS_PER_ACTOR:
                return
            shard, settings = self._waiting.popleft()
            actor.shards[actor.handle.translate.remote(shard, settings)] = (shard, settings)

    def _wait(self) -> tuple[Shard, list[OutputRecord]] | None:
        """Wait until an actor has done something; return a shard if it is that."""
        import ray

        asked = {actor.loading: actor for actor in self._actors if actor.loading is not None}
        asked |= {result: actor for actor in self._actors for result in actor.shards}
        try:
            [ready], _ = ray.wait(list(asked))
            actor = asked[ready]
            answer = ray.get(ready)
        except (ray.exceptions.RayActorError, ray.exceptions.ObjectLostError):
            self._replace(actor)
            return None
        except (ray.exceptions.RayError, ConnectionError) as lost:
            first = next(iter(str(lost).splitlines()), "") or type(lost).__name__
            raise InputError(f"--on {self._address}: {first}; the same command goes on") from lost
        if ready == actor.loading:
            self._loaded(actor, *answer)
            return None
        shard, _ = actor.shards.pop(ready)
        self._hand_out()
        if isinstance(answer, str):
            raise InputError(answer)
        return shard, answer

    def _loaded(self, actor: _Actor, machine: str, found: ModelIdentity | str) -> None:
        if isinstance(found, str):
            raise InputError(f"{machine} cannot load the model: {found}")
        if self._known is not None and found != self._known:
            raise InputError(
                f"{machine} has another model in {self._source.folders[0]} than the other nodes, "
                "or another engine: use a folder that all share"
            )
        self._known, actor.loading, actor.machine = found, None, machine
        self._losses[None] = 0
        self._hand_out()

    def _replace(self, actor: _Actor) -> None:
        """Give the shards of a lost actor to others, before those that wait; start a new actor."""
        import ray

        ray.kill(actor.handle)  # it may live on where it cannot be reached
        where = f" on {actor.machine}" if actor.machine else ""
        self._note(
            f"a process{where} is lost; the shards it had, {len(actor.shards)}, are done again"
        )
        lost: list[int | None] = [shard.number for shard, _ in actor.shards.values()]
        for number in lost or [None]:
            self._losses[number] += 1
            if self._losses[number] > MAX_LOSSES:
                what = "loading the model" if number is None else f"part {number}"
                raise InputError(
                    f"--on {self._address}: {what} has ended {self._losses[number]} processes: is "
                    "there enough memory? The same command goes on"
                )
        self._waiting.extendleft(reversed(actor.shards.values()))
        self._actors.remove(actor)
        self._actors.append(self._start())
        self._hand_out()


def resources_of_actors(device: str, where: str) -> tuple[dict[str, float], int]:
    """Return what an actor needs, a GPU or the cores of a node, and for how many there is room.

    where: what messages begin with.
    """
    nodes = [node["Resources"] for node in living_nodes()]
    gpus = sum(int(node.get("GPU", 0)) for node in nodes)
    if device == "mps" or device.startswith("cuda:"):
        raise InputError(f"{where}: device {device}: Ray chooses the GPU; use auto, cuda or cpu")
    if device != "cpu" and gpus:
        return {"num_cpus": 1, "num_gpus": 1}, gpus
    if device == "cuda":
        raise InputError(f"{where}: device cuda: no node of the cluster has a GPU")
    cores = [int(node["CPU"]) for node in nodes if node.get("CPU", 0) >= 1]
    if not cores:
        raise InputError(f"{where}: no node of the cluster offers a CPU")
    threads = min(cores)
    return {"num_cpus": threads, "num_gpus": 0}, sum(count // threads for count in cores)
