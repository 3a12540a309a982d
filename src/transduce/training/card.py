"""The card of a model: what it was made from, how good it is, and how that was measured."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from transduce.config.schema import Config
from transduce.models.base import Learnable
from transduce.training.checkpoint import Progress
from transduce.training.machine import Machine
from transduce.training.prepare import Prepared
from transduce.training.run_folder import RunFolder


@dataclass(frozen=True)
class Candidate:
    """Weights that the run could give, and what the development set says of them."""

    name: str
    loss: float
    bleu: tuple[float, str] | None = None  # with its signature; only where it decides


@dataclass(frozen=True)
class Result:
    """What came out of a run."""

    reason: str
    progress: Progress
    chosen: Candidate
    candidates: Sequence[Candidate]
    bleu: tuple[float, str] | None
    dev_pairs: int
    tokens_per_s: float
    machine: Machine
    processes: int


def card(
    folder: RunFolder, config: Config, model: Learnable, prepared: Prepared, result: Result
) -> str:
    """Write the card as Markdown."""
    origin = folder.provenance()
    parts = [
        f"# {folder.path.resolve().name}",
        _summary(config, model),
        "## Scores",
        _scores(result),
        "## Data",
        _data(config, prepared),
        "## Training",
        _training(config, result),
        "## Origin",
        f"transduce {origin['versions']['transduce']}"
        + (f" (commit {origin['commit']})" if origin["commit"] else "")
        + f", torch {origin['versions']['torch']}, Python {origin['versions']['python']}, "
        f"begun {origin['began']}, seed {origin['seed']}. Digests of all files: "
        "`provenance.json`; every setting: `config.yaml`.",
    ]
    return "\n\n".join(parts) + "\n"


def _summary(config: Config, model: Learnable) -> str:
    m = config.model
    parameters = sum(weights.numel() for weights in model.parameters())
    return (
        f"A Transformer that turns {_side(config.data.src, 'source')} into "
        f"{_side(config.data.tgt, 'target')}: {m.n_layers}+{m.n_layers} layers, d_model "
        f"{m.d_model}, d_ff {m.d_ff}, {m.h} heads, {m.norm}-norm, {m.vocab_size:,} subwords "
        f"({config.data.subwords}), {parameters:,} parameters.\n\n"
        "Copied anywhere, `transduce translate FOLDER < in.txt` translates with it, and so does "
        '`transduce.load("FOLDER").translate(["…"])` in Python.\n\n'
        "`model.safetensors` holds the weights, `tokenizer.json` the subwords. Nothing here is "
        "pickled: loading it runs no code."
    )


def _side(files: Sequence[str], side: str) -> str:
    names = ", ".join(f"`{file}`" for file in files[:3]) + (", …" if len(files) > 3 else "")
    return f"the {side} language of {names}" if names else f"the {side} language"


def _scores(result: Result) -> str:
    by_bleu = result.chosen.bleu is not None
    rows = [
        f"| {found.name} | {found.loss:.4f} | {math.exp(min(found.loss, 700)):.2f} |"
        + (f" {found.bleu[0]:.2f} |" if found.bleu else "")
        for found in result.candidates
    ]
    head = "| weights | dev loss (nats a token) | perplexity |" + (" BLEU |" if by_bleu else "")
    table = "\n".join([head, "|---|---|---|" + ("---|" if by_bleu else ""), *rows])
    lines = [
        f"On the development set ({result.dev_pairs:,} pairs). The model holds the best of these, "
        f"by {'BLEU' if by_bleu else 'the loss'}: **{result.chosen.name}**.",
        table,
    ]
    if result.bleu:
        bleu, signature = result.bleu
        lines.append(
            f"BLEU **{bleu:.2f}** on the whole development set, greedy search, these weights "
            f"(sacreBLEU `{signature}`). The set also decided when to stop and which weights to "
            "keep, so this flatters a little: judge by a test set."
        )
    return "\n\n".join(lines)


def _data(config: Config, prepared: Prepared) -> str:
    manifest = prepared.train.manifest
    dropped = ", ".join(f"{count:,} {why}" for why, count in manifest["dropped"].items())
    sources = "\n".join(
        f"- `{src}`" + (f" and `{tgt}`" if tgt else "")
        for src, tgt in zip(
            config.data.src, config.data.tgt or [""] * len(config.data.src), strict=True
        )
    )
    dev = (
        ", ".join(f"`{file}`" for file in config.data.dev_src)
        if config.data.dev_src
        else f"{len(prepared.dev_pairs):,} pairs held out from these files by the seed"
    )
    return (
        f"{sources}\n\n{manifest['read']:,} pairs read, {manifest['pairs']:,} learnt from; "
        f"dropped: {dropped or 'none'}. Development set: {dev}; no sentence of it was learnt from."
    )


def _training(config: Config, result: Result) -> str:
    t, p = config.training, result.progress
    epochs = p.epoch + p.batches_done / max(1, p.epoch_batches)
    spent = f"{p.seconds / 3600:.2f} hours" if p.seconds > 5400 else f"{p.seconds / 60:.1f} minutes"
    count = f"{result.processes} × " if result.processes > 1 else ""
    return (
        f"{p.step:,} steps of {t.batch_tokens:,} tokens a side, {epochs:.1f} epochs, "
        f"{p.tokens:,} source and target tokens in {spent} on {count}{result.machine.device} "
        f"({result.machine.precision}; median {result.tokens_per_s:,.0f} tokens/s while "
        f"training). It ended because {result.reason}. "
        f"{p.skipped:,} steps were skipped for a loss that was not finite or leapt."
    )
