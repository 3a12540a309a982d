"""What became of the training text: pairs read, dropped, held out, trained on; the vocabulary."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from transduce.config.schema import Config, Tree
from transduce.data.cleaning import HELD_OUT
from transduce.data.prepare import Prepared


@dataclass(frozen=True)
class DataSummary:
    """How many pairs were read, and what became of them."""

    read: int
    dropped: Mapping[str, int]  # by reason
    held_out: int  # for development, from these files; 0: the development set has its own files
    dev: int  # pairs of the development set
    trained: int
    vocab_size: int
    requested_vocab_size: int | None = None  # None: not requested
    src_vocab_size: int | None = None  # None: shared by both sides
    tokenizer: str | None = None  # the file that was given instead of learning subwords


def summarise_data(prepared: Prepared, config: Config, requested: Tree) -> DataSummary:
    """Count what the training text has become; `requested` are the settings asked for."""
    manifest = prepared.train.manifest
    dropped = dict(manifest["dropped"])
    held_out = 0
    if not (config.data.dev_src or config.data.dev_corpora):
        # The development set was taken from these pairs, so they are among those dropped for it.
        held_out = min(len(prepared.dev_pairs), dropped.get(HELD_OUT, 0))
        dropped[HELD_OUT] = dropped.get(HELD_OUT, 0) - held_out
    too_long = _longer_than(prepared, config.model.max_length)
    dropped[f"longer than model.max_positions={config.model.max_length}"] = too_long
    size = requested.get("model", {}).get("vocab_size")
    return DataSummary(
        read=manifest["read"],
        dropped={reason: count for reason, count in dropped.items() if count},
        held_out=held_out,
        dev=len(prepared.dev_pairs),
        trained=manifest["pairs"] - too_long,
        vocab_size=len(prepared.tokenizer),
        src_vocab_size=prepared.tokenizer.src_size,
        requested_vocab_size=size if isinstance(size, int) else None,
        tokenizer=config.data.tokenizer,
    )


def _longer_than(prepared: Prepared, max_length: int | None) -> int:
    """Count the pairs that are left out of every batch because the model has a maximum length."""
    if max_length is None:
        return 0
    longest = np.maximum(prepared.train.src.lengths, prepared.train.tgt.lengths) + 1  # EOS
    return int((longest > max_length).sum())
