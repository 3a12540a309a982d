"""What the constraint to trees costs, and how many trees are malformed without it.

    python benchmarks/tree_constraint.py MODEL TREES.mrg [--device cuda] [--beam 1 --beam 21]

The sentences of the treebank are parsed with and without the constraint. Printed is a JSON object
for each beam: the share of malformed trees of both, the F1 of both (a malformed tree is left out,
as EVALB does, and counts as missing in "of all"), sentences a second, and the ratio of times.

Timed, in turn, the best of `--rounds` of each, are only the sentences whose tree is well-formed
without the constraint: the others often go on to the limit, and would make the free search slow.
So that it ends, both may write three tokens for each of the source and 30 more, which is enough for
every tree of GUM and CRAFT; sentences may have at most `--longest` words.
"""

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from transduce.data.corpus import read_pairs, source_of
from transduce.hardware.devices import choose_device
from transduce.models.folder import load_model
from transduce.tasks.parsing.metric import BracketF1, BracketF1OfAll
from transduce.tasks.parsing.task import ParsingTask
from transduce.tasks.registry import task_of
from transduce.translation.inference import prepare_for_inference
from transduce.translation.options import Options
from transduce.translation.translator import Translator
from transduce.trees.brackets import TreeError, parse_brackets

NAMES = {True: "constrained", False: "free"}


@dataclass(frozen=True)
class ShortTask(ParsingTask):
    """Parsing that ends soon."""

    def max_tgt_tokens(self, src_tokens: int) -> int:
        """Return a limit that no tree of GUM and CRAFT reaches."""
        return 3 * src_tokens + 30


def main() -> None:
    """Measure and print."""
    arguments = _arguments()
    device = choose_device(arguments.device)
    loaded = load_model(arguments.model, device=device)
    task = task_of(loaded.config.data)
    assert isinstance(task, ParsingTask), "a parsing model is needed"
    model = prepare_for_inference(loaded.model, precision="float32")
    translators = {
        is_constrained: Translator(
            model,
            loaded.tokenizer,
            task=replace(ShortTask(task.order, task.tags), is_constrained=is_constrained),
            max_positions=loaded.config.model.max_length,
            device=device,
        )
        for is_constrained in NAMES
    }
    pairs = list(read_pairs(source_of(arguments.trees)))
    pairs = [pair for pair in pairs if len(pair.src.split()) <= arguments.longest]
    sources, references = zip(*pairs[: arguments.sentences], strict=True)
    for beam in arguments.beam or [ParsingTask.beam]:
        options = Options(beam=beam, alpha=task.alpha, second_try=False)
        report = measured(translators, sources, references, options, arguments.rounds)
        print(json.dumps({"device": str(device), "beam": beam} | report, indent=2), flush=True)


def measured(
    translators: Mapping[bool, Translator],
    sources: Sequence[str],
    references: Sequence[str],
    options: Options,
    rounds: int,
) -> dict[str, float]:
    """Parse all sentences in both ways, then those that need no constraint once more, timed."""
    found = {
        way: [one.text for one in translator.translate(sources, options)]
        for way, translator in translators.items()
    }
    some = [
        source for source, text in zip(sources, found[False], strict=True) if not is_malformed(text)
    ]
    report: dict[str, float] = {"sentences": len(sources), "timed": len(some)}
    for way, name in NAMES.items():
        texts = found[way]
        report[f"{name} malformed, %"] = 100 * sum(map(is_malformed, texts)) / len(texts)
        report[f"{name} F1"] = BracketF1().score(texts, references).score
        report[f"{name} F1 of all"] = BracketF1OfAll().score(texts, references).score
    if some:
        seconds = best_times(translators, some, options, rounds)
        for way, name in NAMES.items():
            report[f"{name} sentences a second"] = len(some) / seconds[way]
        report["time with the constraint / without"] = seconds[True] / seconds[False]
    return report


def best_times(
    translators: Mapping[bool, Translator], sources: Sequence[str], options: Options, rounds: int
) -> dict[bool, float]:
    """Return the shortest time of each way; a first round, which records steps, does not count."""
    seconds = dict.fromkeys(translators, float("inf"))
    for turn in range(rounds + 1):
        for way, translator in translators.items():
            began = time.perf_counter()
            translator.translate(sources, options)
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            took = time.perf_counter() - began
            seconds[way] = min(took, seconds[way]) if turn else seconds[way]
    return seconds


def is_malformed(text: str) -> bool:
    """Return whether a text is no tree: what cannot be rebuilt has no words in it."""
    try:
        parse_brackets(text)
    except TreeError:
        return True
    return False


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("trees", type=Path)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--beam", type=int, action="append", help="may be repeated")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=None)
    parser.add_argument("--longest", type=int, default=40, help="words of a sentence")
    return parser.parse_args()


if __name__ == "__main__":
    main()
