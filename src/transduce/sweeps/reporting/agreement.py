"""How the order of a sweep's rows agrees with the paper's Table 3."""

from collections.abc import Callable

from transduce.sweeps.reporting.spread import RankCorrelation, SeedNoise, Spread, rank_correlation
from transduce.sweeps.reporting.table3 import TABLE_3, PaperRow
from transduce.sweeps.results import RowResult, SweepResults


def is_of_paper(results: SweepResults) -> bool:
    """Whether rows besides the base have the names of the paper's rows."""
    return any(row.name in TABLE_3 for row in results.rows if row.name != "base")


def agreement_with_paper(results: SweepResults) -> dict[str, RankCorrelation]:
    """Correlate perplexity, and BLEU on the first set that has it, with the paper's columns."""
    found = {
        "perplexity": _agreement(
            results,
            lambda row: row.perplexity,
            lambda known: known.perplexity,
            results.perplexity_noise,
        )
    }
    names = [name for name in results.sets if results.metrics(name)[0].name == "BLEU"]
    if names:
        found["BLEU"] = _agreement(
            results,
            lambda row: row.score(names[0]),
            lambda known: known.bleu,
            results.noise(names[0]),
        )
    return {column: value for column, value in found.items() if value is not None}


def _agreement(
    results: SweepResults,
    ours: Callable[[RowResult], Spread | None],
    paper: Callable[[PaperRow], float],
    noise: SeedNoise | None,
) -> RankCorrelation | None:
    known = {
        row.name: found for row in results.rows if row.name in TABLE_3 and (found := ours(row))
    }
    values = [paper(TABLE_3[name]) for name in known]
    return rank_correlation(values, list(known.values()), noise)
