"""What the constraint to trees costs, and how many trees are malformed without it.

    python benchmarks/tree_constraint.py MODEL TREES.mrg [--device cuda] [--beam 21] [--rounds 3]

The sentences of the treebank are parsed with and without the constraint, in turn, and the best time
of each is compared. Printed is one JSON object: sentences a second, their ratio, the share of
malformed trees of both, and the F1 of both (a malformed tree is left out, as EVALB does).
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import torch

from transduce.data.corpus import read_pairs, source_of
from transduce.hardware.devices import choose_device
from transduce.models.folder import load_model
from transduce.tasks.parsing.metric import BracketF1
from transduce.tasks.parsing.task import ParsingTask
from transduce.tasks.registry import task_of
from transduce.translation.inference import prepare_for_inference
from transduce.translation.options import Options
from transduce.translation.translator import Translator
from transduce.trees.brackets import TreeError, parse_brackets


def main() -> None:
    """Measure and print."""
    arguments = _arguments()
    device = choose_device(arguments.device)
    loaded = load_model(arguments.model, device=device)
    task = task_of(loaded.config.data)
    assert isinstance(task, ParsingTask), "a parsing model is needed"
    model = prepare_for_inference(loaded.model, precision="float32")
    pairs = list(read_pairs(source_of(arguments.trees)))[: arguments.sentences]
    options = Options(beam=arguments.beam, alpha=task.alpha, second_try=False)
    seconds: dict[bool, float] = {}
    found: dict[bool, list[str]] = {}
    for _ in range(arguments.rounds):
        for is_constrained in (True, False):
            translator = Translator(
                model,
                loaded.tokenizer,
                task=replace(task, is_constrained=is_constrained),
                max_positions=loaded.config.model.max_length,
                device=device,
            )
            began = time.perf_counter()
            done = translator.translate([pair.src for pair in pairs], options)
            if device.type == "cuda":
                torch.cuda.synchronize()
            took = time.perf_counter() - began
            seconds[is_constrained] = min(took, seconds.get(is_constrained, took))
            found[is_constrained] = [one.text for one in done]
    print(json.dumps(_report(seconds, found, [pair.tgt for pair in pairs]), indent=2))


def _report(
    seconds: dict[bool, float], found: dict[bool, list[str]], references: list[str]
) -> dict[str, float]:
    report: dict[str, float] = {"sentences": len(references)}
    for is_constrained, name in ((True, "constrained"), (False, "free")):
        texts = found[is_constrained]
        report[f"{name} sentences a second"] = len(references) / seconds[is_constrained]
        report[f"{name} malformed, %"] = 100 * sum(map(_is_malformed, texts)) / len(texts)
        report[f"{name} F1"] = BracketF1().score(texts, references).score
    report["time with the constraint / without"] = seconds[True] / seconds[False]
    return report


def _is_malformed(text: str) -> bool:
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
    parser.add_argument("--beam", type=int, default=ParsingTask.beam)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=None)
    return parser.parse_args()


if __name__ == "__main__":
    main()
