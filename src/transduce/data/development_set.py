"""The development set, held out from the training corpora where the user gives none."""

from collections import Counter
from pathlib import Path

import numpy as np

from transduce.data.batching import hash_noise
from transduce.data.cleaning import advice_on_dropped, describe_dropped
from transduce.data.corpus import Pair, TwoFiles
from transduce.data.store import StoreSpec, identity_digest
from transduce.errors import InputError, counted
from transduce.files.atomic import atomic_folder, sync
from transduce.files.errors import reporting_write_errors
from transduce.files.unchanged import unchanged_files

PAIRS_PER_DEV_PAIR = 20
"""At most one pair in this many is held out."""

SPLIT_SEED = 1
"""The same for all runs: the development set follows from the data, whatever the seed of a run."""


@unchanged_files()
def hold_out_development_set(
    spec: StoreSpec, cache: Path, *, pairs: int, max_count: int, seed: int = SPLIT_SEED
) -> TwoFiles:
    """Write pairs chosen by the seed to the cache, unless they are there; return their files.

    Only runs begun before the split was the same for all have another seed. The pairs are distinct
    and pass the filters of the spec, whose sources have `pairs` pairs in all.
    """
    count = max(1, min(max_count, pairs // PAIRS_PER_DEV_PAIR))
    identity = spec.identity(cache) | {"count": count, "seed": seed}
    folder = cache / f"dev-{identity_digest(identity)}"
    files = TwoFiles(folder / "dev.src", folder / "dev.tgt")
    if folder.exists():
        return files
    chosen = _choose(spec, pairs=pairs, count=count, seed=seed)
    with reporting_write_errors(folder), atomic_folder(folder) as making:
        for side, name in enumerate(("dev.src", "dev.tgt")):
            text = "".join(f"{pair[side]}\n" for pair in chosen)
            (making / name).write_text(text, encoding="utf-8", newline="")
            sync(making / name)
    return files


def _choose(spec: StoreSpec, *, pairs: int, count: int, seed: int) -> list[Pair]:
    """Return the `count` distinct pairs of lowest noise that pass the filters."""
    # Some candidates will be dropped or equal, so there are twice as many as needed.
    noise = hash_noise(pairs, seed, -1)
    last = min(2 * count + 100, pairs) - 1
    candidates = {int(n): int(noise[n]) for n in noise.argpartition(last)[: last + 1]}
    found: dict[Pair, int] = {}
    dropped: Counter[str] = Counter()
    is_candidate = np.zeros(pairs, dtype=bool)
    is_candidate[list(candidates)] = True
    for number, pair, fault in spec.judged_pairs(is_candidate.tobytes()):
        if fault is not None:
            dropped[fault] += 1
        elif all(map(_is_one_line, pair)):
            found.setdefault(pair, candidates[number])
    if not found:
        raise InputError(
            f"no development set can be held out: of {counted(len(candidates), 'pair')} drawn, "
            "none can be "
            f"used ({describe_dropped(dropped) or 'they have line breaks'}); "
            f"{advice_on_dropped(dropped)}"
        )
    return sorted(found, key=lambda pair: found[pair])[:count]


def _is_one_line(text: str) -> bool:
    """Whether a text written as a line is read back unchanged."""
    return "\n" not in text and not text.endswith("\r") and not text.startswith("\ufeff")
