"""The model card: data, training, scores, and how those were measured."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from transduce.config.schema import Config
from transduce.data.languages.corpora import (
    target_languages,
    trained_directions,
    zero_shot_directions,
)
from transduce.data.prepare import Prepared
from transduce.errors import counted
from transduce.models.base import Seq2Seq
from transduce.tasks.base import MetricScore
from transduce.training.data_summary import summarise_data
from transduce.training.run.checkpoint import Progress
from transduce.training.run.folder import RunFolder
from transduce.training.run.scores import BestBy, Scores
from transduce.training.step.machine import Machine


@dataclass(frozen=True)
class CandidateWeights:
    """Weights that a run may end with, and their scores on the development set."""

    name: str
    scores: Scores  # by the metric only where that decides


@dataclass(frozen=True)
class Result:
    """What the card says about the run itself."""

    reason: str
    progress: Progress
    chosen: CandidateWeights
    chosen_by: BestBy
    candidates: Sequence[CandidateWeights]
    metric: MetricScore | None  # of the chosen weights, on the development set
    dev_pairs: int
    translated_pairs: int  # of these, for the metric
    tokens_per_s: float
    machine: Machine
    processes: int


def card(
    folder: RunFolder, config: Config, model: Seq2Seq, prepared: Prepared, result: Result
) -> str:
    """Write the card as Markdown."""
    origin = folder.provenance()
    parts = [
        f"# {folder.path.resolve().name}",
        _summary(config, model, has_tags=bool(prepared.tokenizer.languages)),
        "## Scores",
        _scores(result),
        "## Data",
        _data(config, prepared),
        "## Training",
        " ".join([_training(config, result), *_budget_changes(folder, config)]),
        "## Origin",
        f"transduce {origin['versions']['transduce']}"
        + (f" (commit {origin['commit']})" if origin["commit"] else "")
        + f", torch {origin['versions']['torch']}, Python {origin['versions']['python']}, "
        f"started {origin['began']}, seed {origin['seed']}. Digests of all files: "
        "`provenance.json`; every setting: `config.yaml`.",
    ]
    return "\n\n".join(parts) + "\n"


def _summary(config: Config, model: Seq2Seq, *, has_tags: bool) -> str:
    parameters = sum(weights.numel() for weights in model.parameters())
    targets = target_languages(trained_directions(config.data))
    to = f" --to {targets[0]}" if has_tags else ""
    in_python = f', to="{targets[0]}"' if has_tags else ""
    return (
        f"A model for {config.data.task} that {_purpose(config)}: {config.model.summary()}, "
        f"{config.model.sizes()} subwords ({config.data.kinds}), "
        f"{parameters:,} parameters.\n\n"
        f"Copied anywhere, `transduce translate FOLDER{to} < in.txt` translates with it, and so "
        f'does `transduce.load("FOLDER").translate(["…"]{in_python})` in Python.\n\n'
        "`model.safetensors` holds the weights, `tokenizer.json` the subwords. Nothing here is "
        "pickled: loading it runs no code."
    )


def _purpose(config: Config) -> str:
    """Say what the model turns into what."""
    directions = trained_directions(config.data)
    if not directions:
        return f"turns {_side(config.data.src, 'source')} into {_side(config.data.tgt, 'target')}"
    untrained = zero_shot_directions(config.data)
    rest = f"; zero-shot: {', '.join(map(str, untrained))}" if untrained else ""
    return f"translates {', '.join(map(str, directions))}{rest}"


def _side(files: Sequence[str], side: str) -> str:
    names = ", ".join(f"`{file}`" for file in files[:3]) + (", …" if len(files) > 3 else "")
    return f"the {side} text of {names}" if names else f"the {side} text"


def _scores(result: Result) -> str:
    by_metric = result.chosen_by == "metric"
    decisive = result.metric.name if result.metric and by_metric else None
    lines = [
        f"On the development set ({counted(result.dev_pairs, 'pair')}). "
        f"The model holds the best of these, by {decisive or 'the loss'}: "
        f"**{result.chosen.name}**.",
        _table(result.candidates, metric=decisive),
    ]
    if result.metric:
        is_whole = result.translated_pairs == result.dev_pairs
        where = "the whole" if is_whole else f"{counted(result.translated_pairs, 'pair')} of the"
        lines.append(
            f"{result.metric.name} **{result.metric.score:.2f}** on {where} development set, "
            f"greedy search, these weights (signature `{result.metric.signature}`). The set also "
            "decided when to stop and which weights to keep, so this score is a little "
            "optimistic: judge by a test set."
        )
        lines += _parts(result.metric)
    return "\n\n".join(lines)


def _table(candidates: Sequence[CandidateWeights], *, metric: str | None) -> str:
    """Tabulate the candidates; with a metric that decided, its scores too."""
    head = ["weights", "dev loss (nats per token)", "perplexity", *([metric] if metric else [])]
    rows = [head, ["---"] * len(head)]
    for found in candidates:
        loss, scored = found.scores.loss, found.scores.metric
        row = [found.name, f"{loss:.4f}", f"{math.exp(min(loss, 700)):.2f}"]
        rows.append([*row, f"{scored.score:.2f}" if scored else ""] if metric else row)
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _parts(metric: MetricScore) -> list[str]:
    """Tabulate the scores of directions, as a matrix, or of files."""
    if not metric.parts:
        return []
    pairs = {name: name.rpartition(" ")[2].split("-") for name in metric.parts}
    is_matrix = all(len(ends) == 2 for ends in pairs.values()) and len(
        {tuple(ends) for ends in pairs.values()}
    ) == len(pairs)
    if not is_matrix:
        rows = [["part", metric.name], ["---"] * 2]
        rows += [[f"`{name}`", f"{score:.2f}"] for name, score in metric.parts.items()]
        return ["\n".join(f"| {' | '.join(row)} |" for row in rows)]
    scores = {tuple(pairs[name]): score for name, score in metric.parts.items()}
    order = list(dict.fromkeys(end for ends in pairs.values() for end in ends))
    sources = [code for code in order if any(code == src for src, _ in scores)]
    targets = [code for code in order if any(code == tgt for _, tgt in scores)]
    rows = [["from \\ to", *targets], ["---"] * (1 + len(targets))]
    for source in sources:
        cells = (scores.get((source, target)) for target in targets)
        rows.append([source, *("" if one is None else f"{one:.2f}" for one in cells)])
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return [f"{metric.name} by direction; the score above is their mean:\n\n{table}"]


def _data(config: Config, prepared: Prepared) -> str:
    data = summarise_data(prepared, config, {})
    dropped = ", ".join(f"{count:,} {why}" for why, count in data.dropped.items())
    sources = "\n".join(_sources(config))
    given = [
        *config.data.dev_src,
        *(f for s in config.data.dev_corpora.values() for f in s.values()),
    ]
    dev = (
        ", ".join(f"`{file}`" for file in given)
        if given
        else f"{counted(len(prepared.dev_pairs), 'pair')} held out from these files"
    )
    return (
        f"{sources}\n\n{counted(data.read, 'pair')} read, {data.trained:,} trained on; "
        f"dropped: {dropped or 'none'}. Development set: {dev}; no sentence of it was trained on."
    )


def _sources(config: Config) -> list[str]:
    """List the training files, a corpus in each line."""
    data = config.data
    if data.corpora:
        named = {
            name: ", ".join(f"`{f}`" for f in one.values()) for name, one in data.corpora.items()
        }
        return [f"- {name}: {files}" for name, files in named.items()]
    return [
        f"- `{src}`" + (f" and `{tgt}`" if tgt else "")
        for src, tgt in zip(data.src, data.tgt or [""] * len(data.src), strict=True)
    ]


def _training(config: Config, result: Result) -> str:
    t, p = config.training, result.progress
    epochs = p.epoch + p.batches_done / max(1, p.epoch_batches)
    spent = f"{p.seconds / 3600:.2f} hours" if p.seconds > 5400 else f"{p.seconds / 60:.1f} minutes"
    count = f"{result.processes} × " if result.processes > 1 else ""
    return (
        f"{counted(p.step, 'step')} of {counted(t.batch_tokens, 'token')} a side, "
        f"{epochs:.1f} epochs, "
        f"{p.tokens:,} source and target tokens in {spent} on {count}{result.machine.device} "
        f"({result.machine.precision}; median {result.tokens_per_s:,.0f} tokens/s while "
        f"training). It ended because {result.reason}. "
        f"{counted(p.skipped, 'step was', 'steps were')} skipped "
        "because the loss spiked or was not finite."
    )


def _budget_changes(folder: RunFolder, config: Config) -> list[str]:
    """Tell every change of the budget, which the learning rate may follow."""
    followed = "; the learning rate followed" if config.training.schedule == "linear" else ""
    return [f"The budget was changed {change}{followed}." for change in folder.budget_changes()]
