"""A run whose model learns no more than how frequent tokens are says so."""

import math
from pathlib import Path

import numpy as np
import pytest

from tests.training.runs import VOCAB_SIZE, config, setup, store
from transduce.data.batch import Batch
from transduce.training.collapse import guessing_loss
from transduce.training.loop import fit
from transduce.training.run.events import Event, Warned
from transduce.training.session import Setup

STEPS = 600


def warnings_of(folder: Path, **training: object) -> list[str]:
    told: list[Event] = []
    plan = {"steps": STEPS, "schedule": "linear"} | training
    settings = config(training=plan, run={"checkpoint_steps": STEPS // 2})
    run = setup(folder, settings, tell=told.append)
    fit(with_guessing_loss(run))
    return [event.message for event in told if isinstance(event, Warned)]


def with_guessing_loss(run: Setup) -> Setup:
    guessing = guessing_loss(run.loader.store, run.dev_batches, VOCAB_SIZE)
    return Setup(**vars(run) | {"guessing_loss": guessing})


def test_guessing_has_the_entropy_of_the_tokens() -> None:
    text = store(500)
    dev = Batch.padded(text, np.arange(len(text)))
    ids, counts = np.unique(dev.tgt_out.numpy()[dev.tgt_out.numpy() != 0], return_counts=True)
    assert len(ids) < VOCAB_SIZE
    shares = counts / counts.sum()
    entropy = -(shares * np.log(shares)).sum()
    assert guessing_loss(text, [dev], VOCAB_SIZE) == pytest.approx(entropy, rel=1e-3)
    assert guessing_loss(text, [], VOCAB_SIZE) == math.inf


def test_a_model_that_learns_nothing_is_told_once_with_what_helps(tmp_path: Path) -> None:
    # Steps so small that nothing is learnt; without a rise, the rate is past its peak at once.
    (message,) = warnings_of(tmp_path, learning_rate=1e-9, warmup_steps=1)
    assert "has probably collapsed" in message
    assert "training.learning_rate (its peak is 1e-09)" in message
    assert "model.norm=pre" in message


def test_a_model_that_learns_is_not_told_so(tmp_path: Path) -> None:
    assert warnings_of(tmp_path) == []


def test_nor_one_whose_rate_still_rises(tmp_path: Path) -> None:
    asked = {"schedule": "paper", "warmup_steps": 10 * STEPS, "learning_rate": 1e-9}
    assert warnings_of(tmp_path, **asked) == []
