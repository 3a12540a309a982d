"""The subword vocabulary of a run, learned from the training corpora and kept in the cache."""

import math
from itertools import chain, islice
from pathlib import Path

from transduce.data.store import StoreSpec, identity_digest
from transduce.errors import ConfigError, InputError
from transduce.files.atomic import atomic_folder, sync
from transduce.files.errors import reporting_write_errors
from transduce.files.unchanged import ChangedFileError, compared_in_threads, unchanged_files
from transduce.text.tokenizer import Kind, Tokenizer

LEARN_PAIRS = 1_000_000
"""Subwords are learned from at most about this many pairs, spread evenly over the corpora."""


@unchanged_files()
def learn_subwords(
    spec: StoreSpec, cache: Path, *, pairs: int, kind: Kind, vocab_size: int
) -> Path:
    """Learn a vocabulary from the corpora of a spec, unless it is cached; return its file."""
    identity = spec.identity(cache)
    identity |= {"kind": kind, "vocab_size": vocab_size, "pairs": LEARN_PAIRS}
    folder = cache / f"subwords-{identity_digest(identity)}"
    path = folder / "tokenizer.json"
    if not path.exists():
        sample = islice(spec.judged_pairs(), 0, None, math.ceil(pairs / LEARN_PAIRS))
        form = spec.target_form
        lines = chain.from_iterable(
            (pair.src, form.write(pair.tgt) if form else pair.tgt)
            for pair, fault in sample
            if fault is None
        )
        try:
            tokenizer = Tokenizer.learn(
                compared_in_threads(lines),
                kind=kind,
                vocab_size=vocab_size,
                plain_punctuation=spec.is_plain,
            )
        except ChangedFileError:
            raise
        except InputError as fault:
            raise ConfigError(f"model.vocab_size={vocab_size}: {fault}") from fault
        with reporting_write_errors(folder), atomic_folder(folder) as making:
            tokenizer.save(making / path.name)
            sync(making / path.name)
    return path
