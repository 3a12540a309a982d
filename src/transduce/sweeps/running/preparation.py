"""The data of all runs, prepared once before they start, and what a budget means for each."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from transduce.analysis.cost import cost_of
from transduce.config.schema import Config, ModelConfig, Tree
from transduce.data.languages.weights import stage_weights
from transduce.data.prepare import Phase
from transduce.data.store import Store
from transduce.sweeps.file import SweepBudget
from transduce.sweeps.plan import SweepRun, naming_row
from transduce.text.tokenizer import Tokenizer
from transduce.training.distributed import ProcessRank
from transduce.training.run.folder import RunFolder
from transduce.training.run.prepare import PreparedRun, check_settings, fitted_to, prepare_run


@dataclass(frozen=True)
class _Text:
    """What is known of prepared text."""

    epoch_tokens: int  # source and target, with EOS
    mean_length: int
    tokenizer: Tokenizer


def prepare_runs(
    runs: Sequence[SweepRun], cache: Path, budget: SweepBudget | None, phase: Phase
) -> dict[str, float]:
    """Prepare the data of all rows; return the epochs of each row for a budget that needs them.

    That is a budget in tokens or operations; for others the result is empty.
    """
    texts: dict[str, _Text] = {}
    epochs: dict[str, float] = {}
    for run in {run.variation: run for run in reversed(runs)}.values():
        with naming_row(run.variation):
            key = _data_key(run)
            model: ModelConfig | None = None
            if key not in texts:
                prepared = _prepared(run, cache, phase)
                texts[key], model = _text(prepared), prepared.config.model
            if budget is None or (budget.tokens is None and budget.operations is None):
                continue
            tokens = budget.tokens
            if budget.operations is not None:
                model = model or _model(run, texts[key], cache, phase)
                cost = cost_of(model, length=texts[key].mean_length)
                tokens = budget.operations / (cost.training_operations_per_token / 2)
            assert tokens is not None
            epochs[run.variation] = tokens / texts[key].epoch_tokens
    return epochs


def _prepared(run: SweepRun, cache: Path, phase: Phase) -> PreparedRun:
    return prepare_run(run.request(cache), RunFolder(run.folder), None, ProcessRank(), phase)


def _data_key(run: SweepRun) -> str:
    """Return what decides the data of a run; runs with the same key share it."""
    asked = run.request().settings()
    model: Tree = asked.get("model", {})
    shape = None if "vocab_size" in model else (run.preset, model)  # which decides the vocabulary
    return repr(
        (
            asked.get("data"),
            model.get("vocab_size"),
            model.get("src_vocab_size"),
            shape,
            asked.get("run", {}).get("init"),
        )
    )


def _text(prepared: PreparedRun) -> _Text:
    train = prepared.prepared.train
    both = train.total_tokens("src") + train.total_tokens("tgt")
    used = _pairs_an_epoch(train, stage_weights(prepared.config.data, train)[0])
    return _Text(
        max(1, round(both * used / len(train))),
        max(1, round(both / 2 / len(train))),
        prepared.prepared.tokenizer,
    )


def _pairs_an_epoch(train: Store, weights: Sequence[float]) -> float:
    """Return the pairs of an epoch, in which corpora are used as often as they weigh."""
    if not weights:
        return len(train)
    ends = train.manifest["source_ends"]
    pairs = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    return float(sum(weight * count for weight, count in zip(weights, pairs, strict=True)))


def _model(run: SweepRun, text: _Text, cache: Path, phase: Phase) -> ModelConfig:
    """Return the model of a run, whose shape its preset and settings or the corpus decide."""
    if run.preset is None:
        return _prepared(run, cache, phase).config.model
    config: Config = check_settings(run.request())
    return config.with_changes(fitted_to(text.tokenizer, config)).model
