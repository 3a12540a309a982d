"""What a run is where the user does not say: found out from the corpus and the machine."""

from collections.abc import Sequence

from transduce.config.presets import preset_named
from transduce.config.schema import Tree, merge
from transduce.data.store import Store
from transduce.text.sentences import sentences

SMALL_PAIRS, BASE_PAIRS = 5_000, 300_000
"""From so many pairs on, the preset is small, and on a GPU base."""

DROPOUT = ((100_000, 0.3), (1_000_000, 0.2))
"""Below so many pairs, a model that is this large beside its data needs more dropout."""

SEVERAL = 0.05
"""Where fewer lines than this have several sentences, a model learns to translate just one."""

STEPS_PER_EPOCH = 100
"""Batches are made smaller until an epoch of a small corpus has so many."""


def automatic_model(pairs: int, *, on_gpu: bool) -> Tree:
    """Choose a shape by the size of the corpus; a CPU gets none larger than small."""
    if pairs < SMALL_PAIRS:
        preset = "tiny"
    elif pairs < BASE_PAIRS or not on_gpu:
        preset = "small"
    else:
        preset = "base"
    tree = preset_named(preset).model_dump(exclude_unset=True)
    p_drop = next((p for limit, p in DROPOUT if pairs < limit), 0.1)
    return merge(tree, {"model": {"p_drop": p_drop}})


def automatic_training(store: Store, given: Tree, *, on_gpu: bool) -> Tree:
    """Choose batches, warm-up, scorings and the end by the tokens of an epoch.

    Without a budget, a run goes on until it stops improving. With one, the learning rate falls to
    0 towards its end.
    """
    tokens = max(store.src.ids.size, store.tgt.ids.size) + len(store)
    most = 25_000 if on_gpu else 2_048
    batch_tokens = max(512, min(most, tokens // STEPS_PER_EPOCH))
    steps_per_epoch = max(1, tokens // batch_tokens)
    tree: Tree = {
        "training": {
            "batch_tokens": batch_tokens,
            "warmup_steps": max(400, min(4000, 8 * steps_per_epoch)),
        },
        "run": {"checkpoint_steps": max(200, min(2000, steps_per_epoch))},
    }
    has_budget = {"steps", "epochs", "minutes"} & given.get("training", {}).keys()
    end: Tree = {"schedule": "linear"} if has_budget else {"patience": 10}
    return merge(tree, {"training": end})


def automatic_lines(sources: Sequence[str]) -> Tree:
    """Say what a line is, by some that are like those learnt from."""
    several = sum(len(sentences(source)) > 1 for source in sources)
    is_text = several > SEVERAL * len(sources)
    return {"data": {"lines": "texts" if is_text else "sentences"}}
