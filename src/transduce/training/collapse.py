"""Models that have learnt no more than how frequent tokens are, as a collapsed one does.

A post-norm model whose learning rate rises too fast or too high stays at that loss, or above it.
"""

import math
from collections.abc import Sequence

import numpy as np

from transduce.config.schema import Config
from transduce.data.batch import Batch
from transduce.data.store import Store
from transduce.text.special_ids import EOS_ID, PAD_ID
from transduce.training.step.schedule import Spent, is_past_peak, peak_rate

SAMPLE_PAIRS = 50_000
NO_BETTER = 0.99
"""A loss above this share of that of guessing is no better."""
ENOUGH_STEPS = 500
"""After so many, a model that learns is better than guessing."""


def guessing_loss(train: Store, dev: Sequence[Batch], vocab_size: int) -> float:
    """Return the dev loss of guessing tokens by how frequent they are in the training text."""
    if not len(train) or not dev:
        return math.inf
    pairs = np.unique(np.linspace(0, len(train) - 1, SAMPLE_PAIRS).astype(np.int64))
    counts = 1 + np.bincount(train.tgt.gather(pairs), minlength=vocab_size)
    counts[EOS_ID] += len(pairs)
    targets = np.concatenate([batch.tgt_out.numpy().ravel() for batch in dev])
    of_targets = counts[targets[targets != PAD_ID]]
    return float(np.log(counts.sum()) - np.log(of_targets).mean())


def has_collapsed(config: Config, spent: Spent, loss: float, guessing: float) -> bool:
    """Return whether a dev loss is no better than guessing when it should be."""
    return (
        loss >= NO_BETTER * guessing
        and spent.steps >= ENOUGH_STEPS
        and is_past_peak(config.training, config.model.d_model, spent)
    )


def collapse_message(config: Config, loss: float, guessing: float) -> str:
    """Say what a model that has probably collapsed needs."""
    peak = peak_rate(config.training, config.model.d_model)
    norm = ", or model.norm=pre" if getattr(config.model, "norm", None) == "post" else ""
    return (
        f"dev loss {loss:.2f}, and guessing by how frequent tokens are has {guessing:.2f}: the "
        "learning rate is past its peak, so the model has probably collapsed, and more steps will "
        f"not help. Start again (--fresh) with a lower training.learning_rate (its peak is "
        f"{peak:.2g}), a longer training.warmup_steps ({config.training.warmup_steps:,}){norm}"
    )
