"""Settings that the user leaves out, fitted to the corpus, the machine and the budget.

Where the budget is in minutes, what this machine can do in that time decides. Otherwise nothing
depends on a clock: the same command gives the same run again.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from transduce.config.kinds import DEFAULT_KIND, find_kind
from transduce.config.presets import presets_of
from transduce.config.schema import Config, ModelConfig, TrainingConfig, Tree, merge
from transduce.config.sections.training import NO_LIMIT
from transduce.data.languages.weights import stage_weights
from transduce.data.store import Store
from transduce.errors import ConfigError, counted
from transduce.text.sentences import split_sentences
from transduce.training.plan.length import ENDS_EARLY, EndsBy, Length, describe_length
from transduce.training.plan.scoring import (
    MANY_SENTENCES,
    DevSize,
    score_by_epochs,
    score_in_budget,
    score_seconds,
)
from transduce.training.plan.speed import SpeedOf

MAX_DROPOUT_BY_PAIRS = ((100_000, 0.3), (1_000_000, 0.2), (math.inf, 0.1))
MAX_DROPOUT_BY_EPOCHS = ((8, 0.0), (20, 0.1), (50, 0.2), (math.inf, 0.3))
"""Below this many pairs or epochs, at most this much dropout: few epochs cannot overfit."""

SEVERAL = 0.05
"""Where a smaller share of lines than this has several sentences, a line is one sentence."""

STEPS_PER_EPOCH = 100
"""Batches of a small corpus are made smaller until an epoch has this many."""

ENOUGH_STEPS = 3_000
"""A larger model is chosen if the budget gives it this many steps."""

WEIGHTS_TO_CHOOSE = 3
"""At the end an average, the best and the last weights are scored."""

COMPILING_S = 45
"""The part of a budget that a CUDA device needs to compile and record the steps."""


@dataclass(frozen=True)
class Plan:
    """Settings for what the user leaves open, and lines that say why."""

    settings: Tree
    notes: tuple[str, ...] = ()
    length: Length | None = None


@dataclass(frozen=True)
class Conditions:
    """What a run is fitted to, besides the budget."""

    on_gpu: bool
    speed_of: SpeedOf
    compiles: bool = False  # whether the first steps wait for the compiler

    @property
    def max_batch(self) -> int:
        """The tokens a side that are enough for a step."""
        return 25_000 if self.on_gpu else 2_048

    @property
    def timed_batch(self) -> int:
        """The tokens a side of the steps that are timed."""
        return 8_192 if self.on_gpu else 1_024

    def seconds_of_training(self, minutes: float) -> float:
        """Return the seconds of a budget that are left for steps."""
        compiling = COMPILING_S if self.compiles else 0
        return max(60 * minutes - compiling, 15 * minutes) * 0.95  # the rest is for scoring


def vocabulary_size(pairs: int, *, on_gpu: bool) -> int:
    """Choose the number of subwords by the size of the corpus: 8,000 for 30,000 pairs."""
    size = 8_000 * (pairs / 30_000) ** 0.35
    return int(max(1_000, min(37_000 if on_gpu else 8_000, round(size, -2))))


def max_epochs(pairs: int) -> int:
    """Choose how many epochs to train on a corpus: 100 of 30,000 pairs, fewer of more."""
    return int(max(20, min(200, 100 * (30_000 / pairs) ** 0.4)))


def choose_model(given: Tree, pairs: int, conditions: Conditions) -> Plan:
    """Choose a shape for the given kind of model: the largest that corpus and budget can train.

    A kind without default presets gets its own defaults.
    """
    size = vocabulary_size(pairs, on_gpu=conditions.on_gpu)
    kind = _kind_of(given)
    names = find_kind(kind).default_presets
    presets = [presets_of(kind)[name] for name in names(pairs, conditions.on_gpu)] if names else []
    shapes: list[Tree] = [preset().model_dump(exclude_unset=True) for preset in presets]
    shapes = shapes or [{"model": {"kind": kind}}]
    candidates = [merge(shape, {"model": {"vocab_size": size}}) for shape in shapes]
    minutes = _section(given, "training").get("minutes")
    if minutes is None or len(candidates) == 1:
        return Plan(candidates[-1])
    chosen = candidates[0]
    batch_tokens = conditions.timed_batch
    for larger in candidates[1:]:
        try:
            config = Config.from_tree(merge(larger, given))
        except ConfigError:
            break  # what is given does not fit this shape, which nobody asked for
        speed = conditions.speed_of(config, batch_tokens)
        steps = speed * conditions.seconds_of_training(minutes) / (2 * batch_tokens)
        if steps < ENOUGH_STEPS:
            note = (
                f"shape: {config.model.summary().split(', dropout')[0]} would make only "
                f"{counted(steps, 'step', form=',.0f')} in {counted(minutes, 'minute')} here, so a "
                "smaller one is taken"
            )
            return Plan(chosen, (note,))
        chosen = larger
    return Plan(chosen)


def fit_training(train: Store, dev: Store, config: Config, given: Tree, on: Conditions) -> Plan:
    """Choose batch size, learning rate, dropout, scoring and the end, for the model in `config`.

    With a budget or without one, the learning rate falls linearly to 0 at a planned end; only where
    nothing but patience is given, it is the paper's.
    """
    asked, run = _section(given, "training"), _section(given, "run")
    tokens = _tokens_an_epoch(train, stage_weights(config.data, train)[0])  # a side
    minutes: float | None = asked.get("minutes")
    seconds = math.inf if minutes is None else on.seconds_of_training(minutes)
    timed = min(on.timed_batch, _stated(config, "batch_tokens") or on.timed_batch)
    speed = _speed_a_side(train, config, on, timed)
    end = _end(asked, len(train), fine_tunes="init" in run)
    if "epochs" in end and end["epochs"] * tokens > ENDS_EARLY * speed * seconds:
        del end["epochs"]  # the minutes end the run
    batch = _stated(config, "batch_tokens") or _batch_tokens(tokens, speed * seconds, on)
    if batch < timed:  # smaller batches are slower by the token
        speed = min(speed, _speed_a_side(train, config, on, batch))
    most_steps = _stated(config, "steps") or end.get("steps") or TrainingConfig().steps
    limits: dict[EndsBy, float] = {
        "minutes": speed * seconds / batch,
        "epochs": (asked.get("epochs") or end.get("epochs") or math.inf) * tokens / batch,
        "steps": most_steps,
    }
    ends_by = min(limits, key=lambda name: limits[name])
    steps = max(1, int(limits[ends_by]))
    warmup = _warmup(steps, tokens // batch, end["schedule"], config.model)
    training: Tree = {"batch_tokens": batch, "warmup_steps": warmup} | end
    if end["schedule"] == "linear" and not {"warmup_steps", "learning_rate"} & asked.keys():
        known_good = max(warmup, config.model.reference_warmup())
        training["learning_rate"] = float(f"{(config.model.d_model * known_good) ** -0.5:.2g}")
    size = DevSize(len(dev), _tokens_a_side(dev))
    scoring = score_by_epochs(tokens // batch)
    if minutes is not None:
        scoring = score_in_budget(60 * minutes, steps, size, token_s=1 / speed, on_gpu=on.on_gpu)
    sentences = run.get("score_sentences") or scoring.get("score_sentences", MANY_SENTENCES)
    if "checkpoint_steps" in run:
        scoring = {}  # the user says when to score
    if run.get("score_sentences") != 0:
        scoring["choose_by"] = "metric"
    length = Length(
        steps,
        batch,
        epochs=steps * batch / tokens,
        seconds=steps * batch / speed,
        ends_by="patience" if end.get("patience") or asked.get("patience") else ends_by,
        end_seconds=_end_seconds(sentences, size, speed, on),
    )
    p_drop = _dropout(len(train), length.epochs)
    tree: Tree = {"training": training, "run": scoring, "model": {"p_drop": p_drop}}
    return Plan(tree, describe_length(length, minutes), length)


def automatic_lines(sources: Sequence[str]) -> Tree:
    """Say whether a line is one sentence or a text of several, by a sample of the corpus."""
    several = sum(len(split_sentences(source)) > 1 for source in sources)
    is_text = several > SEVERAL * len(sources)
    return {"data": {"lines": "texts" if is_text else "sentences"}}


def _end(asked: Tree, pairs: int, *, fine_tunes: bool) -> Tree:
    """Say when a run ends, unless the user does, and which schedule leads there.

    How long fine-tuning helps cannot be known beforehand.
    """
    budgets = {"steps", "epochs", "minutes"} & asked.keys()
    free = "constant" if asked.get("optimiser") == "schedule_free" else None
    end: Tree = {"schedule": asked.get("schedule") or free or "linear"}
    if not budgets and (fine_tunes or asked.get("patience") is not None):
        return {"patience": 10, "schedule": asked.get("schedule") or free or "paper"}
    if not {"steps", "epochs"} & budgets:
        end["epochs"] = max_epochs(pairs)
    if "minutes" in budgets and "steps" not in budgets:
        end["steps"] = NO_LIMIT  # the paper's 100,000 would end a long budget early
    return end


def _batch_tokens(tokens: int, affordable: float, on: Conditions) -> int:
    """Choose the tokens a side of a step: few enough for many steps, but at least 512."""
    return int(max(512, min(on.max_batch, tokens / STEPS_PER_EPOCH, affordable / ENOUGH_STEPS)))


def _warmup(steps: int, steps_per_epoch: int, schedule: str, model: ModelConfig) -> int:
    if schedule == "linear":
        return max(1, min(4_000, max(steps // 12, min(model.least_warmup(), steps // 4))))
    return max(400, min(4_000, 8 * steps_per_epoch))


def _dropout(pairs: int, epochs: float) -> float:
    by_pairs = next(p for limit, p in MAX_DROPOUT_BY_PAIRS if pairs < limit)
    return min(by_pairs, next(p for limit, p in MAX_DROPOUT_BY_EPOCHS if epochs < limit))


def _end_seconds(sentences: int, dev: DevSize, speed: float, on: Conditions) -> float:
    """Return about how long a run within a budget chooses its weights: by 4 times the sentences."""
    one = score_seconds(4 * sentences, dev, token_s=1 / speed, on_gpu=on.on_gpu)
    return WEIGHTS_TO_CHOOSE * one


def _speed_a_side(train: Store, config: Config, on: Conditions, batch_tokens: int) -> float:
    """Return the tokens a second of the longer side, in batches of that many a side."""
    both = train.total_tokens("src") + train.total_tokens("tgt")
    return on.speed_of(config, batch_tokens) * _tokens_a_side(train) / both


def _tokens_an_epoch(train: Store, weights: Sequence[float]) -> int:
    """Count the tokens a side of an epoch, in which corpora are used as often as they weigh."""
    if not weights:
        return _tokens_a_side(train)
    ends = train.manifest["source_ends"]
    pairs = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    used = sum(weight * count for weight, count in zip(weights, pairs, strict=True))
    return max(1, int(_tokens_a_side(train) * used / len(train)))


def _tokens_a_side(store: Store) -> int:
    """Count the tokens of the longer side, with EOS."""
    return max(store.total_tokens("src"), store.total_tokens("tgt"))


def _stated(config: Config, name: str) -> int | None:
    """Return a number of the training section if the user or a preset gives it."""
    return getattr(config.training, name) if name in config.training.model_fields_set else None


def _kind_of(given: Tree) -> str:
    kind = _section(given, "model").get("kind")
    return kind if isinstance(kind, str) else DEFAULT_KIND


def _section(given: Tree, name: str) -> dict[str, Any]:
    """Return a section of the settings that are given; those that make no sense are named later."""
    section = given.get(name)
    return section if isinstance(section, dict) else {}
