"""Speculative decoding against greedy search: the same output, and the time of one sentence.

    python benchmarks/speculative.py MODEL DRAFT SENTENCES [--lines 1000] [--device cpu]

DRAFT is a folder of a smaller model, or `ngrams`. Each sentence of the file is translated alone by
each way in turn, so that other work on the machine disturbs all of them alike:

- greedy: `beam_search` with a beam of one, as `transduce translate --beam 1` searches;
- no draft: speculative decoding with drafts of no tokens, one pass for each token. Its difference
  from greedy is what the shorter code around the model gives;
- draft n: with drafts of up to n tokens.

Printed are, for each way, the sentences whose ids differ from those of greedy search, the largest
difference of scores, the seconds, the ratio to greedy's and the tokens of a pass.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from transduce.models.base import Seq2Seq
from transduce.search.beam import Beam
from transduce.search.hypothesis import Hypothesis
from transduce.search.speculative.decoding import speculative_search
from transduce.search.speculative.drafter import Drafter
from transduce.text.special_ids import EOS_ID
from transduce.translation.inference import threads_for
from transduce.translation.load import load
from transduce.translation.torch_engine import TorchEngine

ALPHA = 0.6
Search = Callable[[Tensor, int], list[Hypothesis]]


@dataclass
class Tally:
    """What one way has found and taken."""

    search: Search
    seconds: float = 0.0
    tokens: int = 0
    differing: int = 0
    score_gap: float = 0.0

    def run(self, src: Tensor, limit: int) -> Hypothesis:
        """Search once, and count the time."""
        began = time.perf_counter()
        found = self.search(src, limit)[0]
        self.seconds += time.perf_counter() - began
        self.tokens += len(found.ids) + found.is_finished
        return found

    def compare(self, found: Hypothesis, expected: Hypothesis) -> None:
        """Compare with what greedy search has found."""
        self.differing += found.ids != expected.ids
        self.score_gap = max(self.score_gap, abs(found.score - expected.score))


class CountedModel:
    """Counts the passes of a model."""

    def __init__(self, model: Seq2Seq) -> None:
        self._model, self.passes = model, 0
        self.encode, self.start = model.encode, model.start

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def multi_token_step(self, *given: Any, **named: Any) -> Tensor:
        """Count one, and do what the model does."""
        self.passes += 1
        return self._model.multi_token_step(*given, **named)


def sources(engine: TorchEngine, path: Path, lines: int) -> Iterator[tuple[Tensor, int]]:
    """Encode the first lines of a file; yield each with the most tokens of its translation."""
    texts = [line for line in path.read_text().splitlines() if line.strip()][:lines]
    for ids in engine.tokenizer.encode_batch(texts):
        src = torch.tensor([[*ids, EOS_ID]], device=engine.device)
        limit = engine.task.max_tgt_tokens(src.size(1))
        yield src, min(limit, engine.max_length or limit)


def ways(engine: TorchEngine, drafter: Drafter, sizes: list[int]) -> dict[str, Tally]:
    """Return greedy search and speculative decoding with drafts of each size."""
    model = engine.model
    assert isinstance(model, Seq2Seq)

    def greedy(src: Tensor, limit: int) -> list[Hypothesis]:
        beam = Beam(1, ALPHA)
        [found] = engine._beam_search(src, beam, max_tokens=torch.tensor([limit]), constraint=None)
        return found

    def drafting(size: int) -> Search:
        return lambda src, limit: speculative_search(
            model, src, drafter, max_tokens=limit, alpha=ALPHA, draft_tokens=size
        )

    found = {"greedy": Tally(greedy), "no draft": Tally(drafting(0))}
    return found | {f"draft {size}": Tally(drafting(size)) for size in sizes}


def main() -> None:
    """Compare, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("draft")
    parser.add_argument("sentences", type=Path)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sizes", type=int, nargs="+", default=[2, 3, 5, 8])
    given = parser.parse_args()
    engine = load(given.model, given.device, engine="torch", draft=given.draft)._engine
    assert isinstance(engine, TorchEngine)
    assert engine.drafter is not None
    tallies = ways(engine, engine.drafter, given.sizes)
    read = list(sources(engine, given.sentences, given.lines))
    passes = passes_by_size(engine, read[:100], given.sizes)
    with threads_for(engine._multiplications(1)):
        for number, (src, limit) in enumerate(read[:5] + read):
            if number == 5:  # the first are for warming up
                tallies = ways(engine, engine.drafter, given.sizes)
            found = {name: tally.run(src, limit) for name, tally in tallies.items()}
            for name, tally in tallies.items():
                tally.compare(found[name], found["greedy"])
    report(tallies, passes, len(read))


def passes_by_size(
    engine: TorchEngine, read: list[tuple[Tensor, int]], sizes: list[int]
) -> dict[str, float]:
    """Return the tokens that a pass of the model gives, for drafts of each size."""
    result = {"greedy": 1.0, "no draft": 1.0}
    assert isinstance(engine.model, Seq2Seq)
    assert engine.drafter is not None
    for size in sizes:
        counted, tokens = CountedModel(engine.model), 0
        for src, limit in read:
            [found] = speculative_search(
                counted, src, engine.drafter, max_tokens=limit, draft_tokens=size
            )
            tokens += len(found.ids) + found.is_finished
        result[f"draft {size}"] = tokens / max(1, counted.passes)
    return result


def report(tallies: dict[str, Tally], passes: dict[str, float], lines: int) -> None:
    """Print a row for each way."""
    whole = tallies["greedy"].seconds
    print(f"{lines} sentences, one at a time, {torch.get_num_threads()} threads at most")
    print(
        f"{'way':10} {'differing':>9} {'score gap':>9} {'ms each':>8} {'speed':>6} {'per pass':>8}"
    )
    for name, tally in tallies.items():
        each, speed = 1000 * tally.seconds / lines, whole / tally.seconds
        gap = "nan" if math.isnan(tally.score_gap) else f"{tally.score_gap:.1e}"
        print(
            f"{name:10} {tally.differing:9} {gap:>9} {each:8.2f} {speed:6.2f} {passes[name]:8.2f}"
        )


if __name__ == "__main__":
    main()
