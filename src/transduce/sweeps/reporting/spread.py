"""The spread of scores over seeds, and rank correlations with the noise that follows from it."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

REDRAWS = 2000
SEED = 12345

_T_QUANTILES = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18)
"""The 97.5th percentile of Student's distribution with 1 to 12 degrees of freedom."""


@dataclass(frozen=True)
class Spread:
    """The scores of one setting over its seeds."""

    n: int
    mean: float
    deviation: float | None  # the standard deviation of a sample; None: there is one seed
    lowest: float
    highest: float


@dataclass(frozen=True)
class SeedNoise:
    """How much runs that differ only in their seed vary."""

    deviation: float  # of one run
    freedom: int  # degrees of freedom of this estimate

    @property
    def chance_difference(self) -> float:
        """How far two equally good rows of one seed each are apart in 19 of 20 cases, at most."""
        return _t_quantile(self.freedom) * math.sqrt(2) * self.deviation


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's ρ of two columns, one of which has noise."""

    rows: int
    rho: float
    interval: tuple[float, float] | None  # the middle 95 % if the scores are drawn again
    ceiling: float | None  # the median ρ of the other column with itself under that noise
    noise: SeedNoise | None  # by which scores are drawn; None: not known


def spread(values: Sequence[float]) -> Spread | None:
    """Summarise scores; None: there are none."""
    if not values:
        return None
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Spread(len(values), statistics.fmean(values), deviation, min(values), max(values))


def seed_noise(groups: Iterable[Sequence[float]]) -> SeedNoise | None:
    """Estimate the noise of seeds from all groups with several; None: each has one value."""
    several = [group for group in groups if len(group) > 1]
    freedom = sum(len(group) - 1 for group in several)
    if not freedom:
        return None
    squares = sum(statistics.variance(group) * (len(group) - 1) for group in several)
    return SeedNoise(math.sqrt(squares / freedom), freedom)


def mean_ranks(values: Sequence[float]) -> list[float]:
    """Rank values from 1, the lowest; equal values share the mean of their ranks."""
    places: dict[float, list[int]] = {}
    for rank, value in enumerate(sorted(values), start=1):
        places.setdefault(value, []).append(rank)
    return [statistics.fmean(places[value]) for value in values]


def spearman(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Return the correlation of the ranks of two columns; None: one of them is constant."""
    if min(len(set(one)), len(set(other))) < 2:
        return None
    return statistics.correlation(mean_ranks(one), mean_ranks(other))


def rank_correlation(
    known: Sequence[float], spreads: Sequence[Spread], noise: SeedNoise | None
) -> RankCorrelation | None:
    """Correlate known values with means over seeds; None: with fewer than three rows."""
    means = [found.mean for found in spreads]
    rho = spearman(known, means) if len(known) > 2 else None
    if rho is None:
        return None
    if noise is None:
        return RankCorrelation(len(known), rho, None, None, None)
    seeds = [found.n for found in spreads]
    low, _, high = _redrawn(known, means, seeds, noise)
    _, ceiling, _ = _redrawn(known, known, seeds, noise)
    return RankCorrelation(len(known), rho, (low, high), ceiling, noise)


def _redrawn(
    known: Sequence[float], means: Sequence[float], seeds: Sequence[int], noise: SeedNoise
) -> tuple[float, float, float]:
    """Return the 2.5th, 50th and 97.5th percentile of ρ if the means over seeds are drawn again.

    The noise is known only from some runs, so each draw has a deviation that fits those.
    """
    rng = np.random.default_rng(SEED)
    fits = np.sqrt(noise.freedom / rng.chisquare(noise.freedom, size=(REDRAWS, 1)))
    scale = noise.deviation * fits / np.sqrt(seeds)
    draws = np.asarray(means) + scale * rng.standard_normal((REDRAWS, len(means)))
    found = [spearman(known, draw) for draw in draws.tolist()]
    low, median, high = np.quantile([rho for rho in found if rho is not None], (0.025, 0.5, 0.975))
    return float(low), float(median), float(high)


def _t_quantile(freedom: int) -> float:
    """Return the 97.5th percentile of Student's distribution, to two digits."""
    if freedom <= len(_T_QUANTILES):
        return _T_QUANTILES[freedom - 1]
    z = statistics.NormalDist().inv_cdf(0.975)  # the first terms of its expansion in 1 / freedom
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    return z + first / freedom + second / freedom**2
