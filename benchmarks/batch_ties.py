"""Translations that depend on the batch: how many, and how near the ties are that decide them.

    python benchmarks/batch_ties.py MODEL SENTENCES [--texts 3000] [--beam 4]

Parts of sentences, of random lengths, are translated in three ways: in the batches of the
translator, in batches of 7 in another order, and in batches of 64 in a third. Texts whose
translations differ are translated again in float64, alone and in both batches.

The claims: in float64 no translation depends on the batch, so that in float32 only rounding
decides; and where it decides, two hypotheses of the search are equal within what float32 can tell.
"""

import argparse
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

import transduce
from transduce.models.folder import load_model
from transduce.tasks.registry import find_task
from transduce.translation.options import Options, Translation
from transduce.translation.translator import Translator

PLANS = ((7, 1), (64, 2))
"""Sizes of batches, each with a seed for the order of the texts."""
CLAIM = 1e-5
"""Of log-probabilities of some ten: a sum of some hundred float32 numbers is no more exact."""


def parts_of(lines: list[str], count: int, draw: random.Random) -> list[str]:
    """Draw parts of sentences, of random lengths."""
    long = [words for line in lines if len(words := line.split()) > 3]
    drawn = {" ".join(draw.choice(long)[: draw.randint(1, 50)]) for _ in range(2 * count)}
    return sorted(drawn)[:count]


def in_batches(
    translator: Translator, texts: Sequence[str], options: Options, size: int, seed: int
) -> dict[str, Translation]:
    """Translate texts in another order, so many at a time."""
    order = random.Random(seed).sample(list(texts), len(texts))  # noqa: S311 - the same every time
    batches = [order[start : start + size] for start in range(0, len(order), size)]
    return {one.source: one for batch in batches for one in translator.translate(batch, options)}


def in_float64(folder: Path) -> Translator:
    """Load a model with weights, sums and scores of double precision."""
    loaded = load_model(folder)
    return Translator(
        loaded.model.eval().double(),
        loaded.tokenizer,
        task=find_task(loaded.config.data.task),
        device=torch.device("cpu"),
        max_positions=loaded.config.model.max_length,
        by_sentence=loaded.config.data.lines == "sentences",
    )


def differing(ways: list[dict[str, Translation]]) -> list[str]:
    """Return the texts that have several translations."""
    return [text for text in ways[0] if len({way[text].text for way in ways}) > 1]


def main() -> None:
    """Compare; exit with 1 unless the claims hold."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("sentences", type=Path, help="one a line")
    parser.add_argument("--texts", type=int, default=3000)
    parser.add_argument("--beam", type=int, default=4)
    given = parser.parse_args()
    lines = given.sentences.read_text(encoding="utf-8").splitlines()
    texts = parts_of(lines, given.texts, random.Random(1))  # noqa: S311 - the same every time
    options = Options(beam=given.beam, n_best=given.beam)
    translator = transduce.load(given.model, "cpu")
    ways = [in_batches(translator, texts, options, *plan) for plan in ((len(texts), 0), *PLANS)]
    different = differing(ways)
    same = [text for text in texts if text not in different]
    spread = max(abs(ways[0][text].score - way[text].score) for way in ways for text in same)
    print(f"{len(texts):,} texts in 3 ways: {len(different)} differ")
    print(f"scores of the others differ by at most {spread:.1e}")
    if different:
        sys.exit(not show_ties(in_float64(given.model), options, different, ways))


def show_ties(
    exact: Translator, options: Options, texts: list[str], ways: list[dict[str, Translation]]
) -> bool:
    """Print the exact scores of what float32 has found; return whether the claims hold."""
    again = [in_batches(exact, texts, options, *plan) for plan in ((1, 0), *PLANS)]
    print(f"in float64, {len(differing(again))} of these {len(texts)} differ")
    widest = 0.0
    for text in texts:
        scores = {one.text: one.score for one in again[0][text].alternatives}
        found = sorted({way[text].text for way in ways})
        gap = max(scores.values()) - min(scores.get(one, float("-inf")) for one in found)
        widest = max(widest, gap)
        shown = ", ".join(f"{scores.get(one, float('-inf')):.8f}" for one in found)
        print(f"gap {gap:.1e}: {shown}; in float32", *(f"{way[text].score:.7f}" for way in ways))
    return not differing(again) and widest <= CLAIM


if __name__ == "__main__":
    main()
