"""The scores of all pairs, in parts that a later process continues."""

import json
import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from transduce.bulk.manifest import opened_manifest
from transduce.data.cleaning import LONG
from transduce.data.corpus import Pair
from transduce.data.formats.lines import read_lines
from transduce.pipelines.filtering.cross_entropy import DualCrossEntropy, PairEntropy
from transduce.pipelines.filtering.judging import JudgedPair, LanguageRule
from transduce.pipelines.filtering.lengths import LENGTH_WEIGHT, LengthModel
from transduce.pipelines.translated_pairs import WORST, best_share

SHARD_PAIRS = 10_000
"""Pairs that are scored together and written to one file; what a kill costs."""


class PairScorer:
    """Finds the faults of pairs that take time to find, and scores the others."""

    def __init__(
        self,
        languages: LanguageRule | None,
        load_models: Callable[[], DualCrossEntropy] | None,
        lengths: LengthModel,
    ) -> None:
        """Models are loaded when they are first needed; None: pairs get no score."""
        self._languages, self._load, self._lengths = languages, load_models, lengths
        self._models: DualCrossEntropy | None = None

    def records(self, shard: Sequence[JudgedPair], *, first: int) -> Iterator[dict[str, Any]]:
        """Stream what is known of each pair of a shard."""
        faults = [one.fault or self._language_fault(one) for one in shard]
        sound = [one.pair for one, fault in zip(shard, faults, strict=True) if fault is None]
        entropies: Iterator[PairEntropy | None] = iter(())
        if self._load is not None:
            self._models = self._models or self._load()
            entropies = self._models.score(sound)
        for number, (one, fault) in enumerate(zip(shard, faults, strict=True), start=first + 1):
            record: dict[str, Any] = {"pair": number, "reason": fault}
            if fault is None and self._load is not None:
                found = next(entropies)
                record |= {"reason": LONG} if found is None else self._scored(one.pair, found)
            yield record

    def _scored(self, pair: Pair, found: PairEntropy) -> dict[str, float]:
        """Return the score and its parts, rounded to what float32 tells apart: files stay short."""
        length = self._lengths.distance(pair)
        score = found.agreement - LENGTH_WEIGHT * length
        parts = {"score": score, "forward": found.forward, "reverse": found.reverse}
        return {name: float(f"{value:.6g}") for name, value in (parts | {"length": length}).items()}

    def _language_fault(self, one: JudgedPair) -> str | None:
        return self._languages.fault(one.pair) if self._languages else None


def write_scores(
    folder: Path,
    pairs: Iterable[JudgedPair],
    scorer: PairScorer,
    made_from: dict[str, Any],
    *,
    shard_pairs: int,
    progress: Callable[[int], None],
) -> list[Path]:
    """Score all pairs, or those that no part has; return the parts."""
    stream = iter(pairs)
    first = number = 0
    with opened_manifest(folder) as manifest:
        manifest.begin({**made_from, "jsonl": True, "shard-pairs": shard_pairs}, may_change=())
        while shard := list(islice(stream, shard_pairs)):
            if not manifest.is_done(number, first=first, lines=len(shard)):
                outputs = _outputs(scorer.records(shard, first=first), progress)
                manifest.write_part(number, first=first, outputs=outputs)
            first, number = first + len(shard), number + 1
            progress(first)
        manifest.complete(lines=first, parts=number)
        return [manifest.path_of(part) for part in range(number)]


def _outputs(
    records: Iterable[dict[str, Any]], progress: Callable[[int], None]
) -> Iterator[list[str]]:
    for record in records:
        yield [json.dumps(record)]
        progress(record["pair"])


class Selection:
    """Which pairs are kept, from their scores: 5 bytes of each pair in memory."""

    def __init__(self, parts: Iterable[Path], *, keep: float | None) -> None:
        """Read the scores; `keep` is the share of all pairs, None: all without a fault."""
        self.dropped: Counter[str] = Counter()
        qualities, self.reasons = array("f"), []
        codes: dict[str | None, int] = {None: 0}
        coded = array("B")
        for part in parts:
            for line in read_lines(part):
                record = json.loads(line)
                coded.append(codes.setdefault(record["reason"], len(codes)))
                qualities.append(math.nan if record["reason"] else record.get("score", 0.0))
        self.reasons = list(codes)
        self._codes = np.frombuffer(coded, dtype=np.uint8)
        self.scores = np.frombuffer(qualities, dtype=np.float32)
        total = len(coded)
        self.is_kept = best_share(self.scores, 1.0 if keep is None else keep)
        self._count(total)

    def _count(self, total: int) -> None:
        for code, reason in enumerate(self.reasons):
            if reason is not None and (count := int(np.sum(self._codes == code))):
                self.dropped[reason] = count
        worse = total - int(self.is_kept.sum()) - self.dropped.total()
        if worse:
            self.dropped[WORST] = worse

    def reason(self, number: int) -> str | None:
        """Return why a pair is dropped, given its number from 0; None: it is kept."""
        if self.is_kept[number]:
            return None
        return self.reasons[self._codes[number]] or WORST

    @property
    def cut(self) -> float | None:
        """The score of the worst pair that is kept."""
        return float(self.scores[self.is_kept].min()) if self.is_kept.any() else None

    def examples(self, count: int) -> dict[int, str]:
        """Choose pairs to show: the first of each fault, and the worst and best by score."""
        chosen: dict[int, str] = {}
        for code, reason in enumerate(self.reasons):
            if reason is not None:
                places = np.flatnonzero(self._codes == code)[:count]
                chosen |= {int(place): reason for place in places}
        worse = np.flatnonzero(~self.is_kept & (self._codes == 0))
        order = worse[np.argsort(self.scores[worse], kind="stable")]
        for name, places in (
            ("the worst", order[:count]),
            ("near the cut", order[count:][-count:]),
        ):
            chosen |= {int(place): f"{WORST}: {name}" for place in places}
        return chosen
