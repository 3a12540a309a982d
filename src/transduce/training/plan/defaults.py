"""Settings that the user leaves out, chosen by the corpus and the machine."""

from collections.abc import Sequence

from transduce.config.kinds import DEFAULT_KIND, find_kind
from transduce.config.presets import presets_of
from transduce.config.schema import Tree, merge
from transduce.data.store import Store
from transduce.text.sentences import split_sentences

DROPOUT = ((100_000, 0.3), (1_000_000, 0.2))
"""Below this many pairs, a model that is large for its data needs this much dropout."""

SEVERAL = 0.05
"""Where a smaller share of lines than this has several sentences, a line is one sentence."""

STEPS_PER_EPOCH = 100
"""Batches of a small corpus are made smaller until an epoch has this many."""


def automatic_model(given: Tree, pairs: int, *, on_gpu: bool) -> Tree:
    """Choose a shape for the given kind of model, by the size of the corpus and the machine.

    A kind without a default preset gets its own defaults. Dropout follows from the corpus.
    """
    kind = _kind_of(given)
    default_preset = find_kind(kind).default_preset
    tree: Tree = {"model": {"kind": kind}}
    if default_preset is not None:
        preset = presets_of(kind)[default_preset(pairs, on_gpu)]
        tree = preset().model_dump(exclude_unset=True)
    p_drop = next((p for limit, p in DROPOUT if pairs < limit), 0.1)
    return merge(tree, {"model": {"p_drop": p_drop}})


def automatic_training(store: Store, given: Tree, *, on_gpu: bool) -> Tree:
    """Choose batch size, warm-up, time between scorings and the end by the tokens of an epoch.

    Without a budget, a run trains until it stops improving. With one, the learning rate falls
    linearly to 0 at its end.
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
    """Say whether a line is one sentence or a text of several, by a sample of the corpus."""
    several = sum(len(split_sentences(source)) > 1 for source in sources)
    is_text = several > SEVERAL * len(sources)
    return {"data": {"lines": "texts" if is_text else "sentences"}}


def _kind_of(given: Tree) -> str:
    """Return the kind of model that is given; settings that make no sense are reported later."""
    section = given.get("model")
    kind = section.get("kind") if isinstance(section, dict) else None
    return kind if isinstance(kind, str) else DEFAULT_KIND
