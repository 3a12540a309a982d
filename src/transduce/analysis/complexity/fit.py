"""Exponents of measured costs: value ≈ c · n^a · d^b, by least squares on logarithms.

Small sizes cost what starting an operation costs, so only the large end is fitted: the largest
three n that were measured at each of the largest three d.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

LARGEST = 3
"""How many of the largest n, and of the largest d, a fit takes."""

Values = Mapping[tuple[int, int], float]
"""A positive value for each (n, d)."""


@dataclass(frozen=True)
class PowerLaw:
    """A fit, and the points that it was fitted to."""

    n_exponent: float
    d_exponent: float | None  # None if there was one d only
    n: tuple[int, ...]
    d: tuple[int, ...]
    worst_factor: float  # by which a point lies above or below the fit, at most

    def __str__(self) -> str:
        parts = [f"n^{self.n_exponent:.2f}"]
        if self.d_exponent is not None:
            parts.append(f"d^{self.d_exponent:.2f}")
        return " ".join(parts).replace("-0.00", "0.00")


def fit_power_law(values: Values) -> PowerLaw | None:
    """Fit the large end of the values; None if fewer than two n were measured."""
    n_sizes, d_sizes = large_end(values)
    if len(n_sizes) < 2:
        return None
    points = [(n, d) for n in n_sizes for d in d_sizes]
    columns = [[1.0, math.log(n), math.log(d)][: 2 + (len(d_sizes) > 1)] for n, d in points]
    logarithms = np.log([values[point] for point in points])
    solution, *_ = np.linalg.lstsq(np.array(columns), logarithms, rcond=None)
    residuals = logarithms - np.array(columns) @ solution
    return PowerLaw(
        n_exponent=float(solution[1]),
        d_exponent=float(solution[2]) if len(d_sizes) > 1 else None,
        n=n_sizes,
        d=d_sizes,
        worst_factor=math.exp(float(np.abs(residuals).max())),
    )


def large_end(values: Values) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the largest n and d of which every pair was measured.

    A width of which only one n was measured is left out if others have more.
    """
    by_d: dict[int, set[int]] = {}
    for n, d in values:
        by_d.setdefault(d, set()).add(n)
    fitted = {d: sizes for d, sizes in by_d.items() if len(sizes) > 1}
    d_sizes = sorted(fitted)[-LARGEST:]
    while d_sizes:
        shared = set.intersection(*(fitted[d] for d in d_sizes))
        if len(shared) > 1:
            return tuple(sorted(shared)[-LARGEST:]), tuple(d_sizes)
        d_sizes.pop()  # the widest was measured at the smallest n only
    return (), ()
