"""Small runs of the training loop, without files of text."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from transduce.config.schema import Config
from transduce.data.batching import Indices
from transduce.data.loader import Loader
from transduce.data.store import Sentences, Store
from transduce.models.base import TrainingStates
from transduce.models.build import build_model
from transduce.training.distributed import Processes
from transduce.training.run.checkpoint import Checkpoints
from transduce.training.run.events import Event
from transduce.training.session import Setup
from transduce.training.step.machine import Machine

VOCAB_SIZE = 30


def store(pairs: int, *, seed: int = 0) -> Store:
    """Make sentences whose translation is the same words in reverse."""
    dice = np.random.default_rng(seed)
    rows = [dice.integers(4, VOCAB_SIZE, dice.integers(1, 9)) for _ in range(pairs)]
    return Store(_side(rows), _side([row[::-1] for row in rows]), {"source_ends": [pairs]})


def _side(rows: list[Indices]) -> Sentences:
    return Sentences(np.concatenate(rows).astype(np.uint16), np.cumsum([row.size for row in rows]))


def config(**changes: dict[str, Any]) -> Config:
    """Return settings of a very small model without dropout."""
    return Config.from_tree(
        {
            "model": {
                "vocab_size": VOCAB_SIZE,
                "n_layers": 1,
                "d_model": 16,
                "d_ff": 32,
                "h": 2,
                "p_drop": 0.0,
            }
            | changes.get("model", {}),
            "training": {
                "batch_tokens": 60,
                "warmup_steps": 20,
                "steps": 40,
                "learning_rate": 5e-3,
            }
            | changes.get("training", {}),
            "run": {"checkpoint_steps": 10} | changes.get("run", {}),
            "data": changes.get("data", {}),
        }
    )


def setup(
    folder: Path,
    settings: Config,
    *,
    processes: Processes | None = None,
    tell: Callable[[Event], None] = lambda _event: None,
    pairs: int = 200,
    device: str = "cpu",
) -> Setup:
    """Set up a run as the command does."""
    place = processes or Processes()
    loader = Loader(
        store(pairs),
        max_tokens=-(-settings.training.batch_tokens // settings.training.accumulate),
        per_step=settings.training.accumulate,
        seed=settings.run.seed,
        rank=place.rank,
        world=place.world,
        packed=device == "cuda",
        pin=device == "cuda",
    )
    dev = replace(loader, store=store(30, seed=1), per_step=place.world, packed=False)
    return Setup(
        config=settings,
        model=build_model(settings.model, seed=settings.run.seed).to(device),
        machine=Machine(torch.device(device)),
        loader=loader,
        dev_batches=list(dev.batches(0)),
        checkpoints=Checkpoints(
            folder, keep_last=settings.run.average, keep_best=settings.run.keep_best
        ),
        processes=place,
        tell=tell,
        evaluate=lambda _model: None,
        stopped=lambda: False,
    )


def scaled(found: TrainingStates, factor: float) -> TrainingStates:
    """Multiply the states that a loss is computed from; NaN spoils the step."""
    return replace(found, states=found.states * factor)
