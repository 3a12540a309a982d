"""Pairs of texts and their translations by a model, and which of them are kept.

Translations come from the parts of `translate_in_shards`, as JSON lines. They stream through twice:
to judge them all, and to write those that are kept. In memory are some 30 bytes of each line:
digests, qualities and their order.
"""

import json
import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import tee
from pathlib import Path
from typing import Any

import numpy as np
from sacrebleu.metrics.chrf import CHRF

from transduce.bulk.output_lines import on_one_line
from transduce.data.cleaning import DEFAULT_RULES, DuplicateFilter, PairFilter, judge
from transduce.data.corpus import Pair
from transduce.data.formats.lines import read_lines
from transduce.errors import InputError, counted
from transduce.models.model_files import TOKENIZER, settings_folder
from transduce.text.tokenizer import Tokenizer
from transduce.translation.engine import penalty
from transduce.translation.options import Options

UNUSUAL = "degenerate, or cut into pieces"
WORST = "among the worst"
EXAMPLES = 3
SHOWN_CHARACTERS = 200


@dataclass(frozen=True)
class LineTranslations:
    """A line and its best translations, each with its score."""

    source: str
    alternatives: tuple[tuple[str, float], ...]
    note: str  # what was unusual about the search


Rank = Callable[[LineTranslations], tuple[int, float]]
"""Returns which of the translations to take, and how good it is."""


@dataclass
class Judgement:
    """Which translations of a text are kept, and why others are not."""

    is_kept: "np.ndarray[Any, np.dtype[np.bool_]]"
    choices: Sequence[int]  # which of its translations is taken, for each line
    dropped: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[Pair]] = field(default_factory=dict)
    least: float | None = None  # the quality of the worst that is kept

    def described(self) -> dict[str, Any]:
        """Describe it as JSON."""
        return {
            "lines": len(self.is_kept),
            "kept": int(self.is_kept.sum()),
            "dropped": dict(self.dropped),
            "least": self.least,
            "examples": {
                name: [list(pair) for pair in some] for name, some in self.examples.items()
            },
        }


def read_translations(parts: Iterable[Path]) -> Iterator[LineTranslations]:
    """Stream the translations of a text from its parts; each is made one line."""
    for part in parts:
        for line in read_lines(part):
            row = json.loads(line)
            found = tuple(
                (on_one_line(one["text"]), -math.inf if one["score"] is None else one["score"])
                for one in row["alternatives"]
            )
            yield LineTranslations(on_one_line(row["source"]), found, row["note"])


def by_score(model: Path, options: Options) -> Rank:
    """Rank by the log-probability per token, EOS included: the score without length penalty."""
    tokenizer = Tokenizer.load(settings_folder(model) / TOKENIZER)
    alpha = 0.0 if options.sampling else options.alpha

    def rank(line: LineTranslations) -> tuple[int, float]:
        text, score = line.alternatives[0]
        [ids] = tokenizer.encode_targets([text])
        return 0, score * penalty(len(ids) + 1, alpha) / (len(ids) + 1)

    return rank


def by_agreement(references: Iterator[str]) -> Rank:
    """Rank by chrF against the reference of each line, and take the best translation by it."""
    metric = CHRF()

    def rank(line: LineTranslations) -> tuple[int, float]:
        reference = next(references, None)
        if reference is None:
            raise InputError("there are fewer references than lines: give one for each")
        scores = [
            float(metric.sentence_score(text, [reference]).score) for text, _ in line.alternatives
        ]
        best = max(range(len(scores)), key=lambda number: scores[number])
        return best, scores[best]

    return rank


def judge_translations(lines: Iterable[LineTranslations], rank: Rank, *, keep: float) -> Judgement:
    """Decide which translations are kept: those without a fault, and of these the best.

    Faults are what the search has noted, and what cleaning drops: copies, odd lengths, other
    scripts, duplicates. `keep` is the share of all lines; of equal ones the first are kept.
    """
    fit = partial(PairFilter.fit, rules=DEFAULT_RULES)
    ranked = ((line, *rank(line)) for line in lines)
    with_pairs, with_ranks = tee(ranked)
    pairs = (Pair(line.source, line.alternatives[best][0]) for line, best, _ in with_pairs)
    judged = judge(pairs, fit, duplicates=DuplicateFilter())
    choices, qualities = array("H"), array("f")
    found = Judgement(np.zeros(0, dtype=bool), choices)
    for (pair, fault), (line, best, quality) in zip(judged, with_ranks, strict=True):
        if fault is None and (line.note or not math.isfinite(quality)):
            fault = UNUSUAL
        choices.append(best)
        qualities.append(math.nan if fault else quality)
        if fault:
            _note(found, fault, pair)
    _keep_best(found, np.frombuffer(qualities, dtype=np.float32), keep)
    return found


def kept_pairs(lines: Iterable[LineTranslations], judgement: Judgement) -> Iterator[Pair]:
    """Stream the pairs that are kept; the lines are those that were judged."""
    known = zip(lines, judgement.is_kept, judgement.choices, strict=True)
    for line, is_kept, choice in known:
        if is_kept:
            yield Pair(line.source, line.alternatives[choice][0])


def require_kept(judgement: Judgement, translations: Path) -> None:
    """Raise if no translation is kept."""
    if not judgement.is_kept.any():
        raise InputError(
            f"none of {counted(len(judgement.is_kept), 'translation')} is usable (see "
            f"{translations}): train the model longer, or give it text in its own language"
        )


def best_share(
    qualities: "np.ndarray[Any, np.dtype[np.float32]]", share: float
) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Return which of some numbers are the best share, at least one; of equal ones the first.

    NaN is never among them.
    """
    most = max(1, round(share * qualities.size))
    order = np.argsort(-qualities, kind="stable")  # NaN comes last
    sound = int(np.sum(~np.isnan(qualities)))
    chosen = np.zeros(qualities.size, dtype=bool)
    chosen[order[: min(most, sound)]] = True
    return chosen


def _keep_best(
    found: Judgement, qualities: "np.ndarray[Any, np.dtype[np.float32]]", keep: float
) -> None:
    chosen = best_share(qualities, keep)
    worse = int(np.sum(~np.isnan(qualities))) - int(chosen.sum())
    if worse:
        found.dropped[WORST] = worse
    found.least = float(qualities[chosen].min()) if chosen.any() else None
    found.is_kept = chosen


def _note(found: Judgement, fault: str, pair: Pair) -> None:
    found.dropped[fault] += 1
    examples = found.examples.setdefault(fault, [])
    if len(examples) < EXAMPLES:
        examples.append(Pair(*(text[:SHOWN_CHARACTERS] for text in pair)))
