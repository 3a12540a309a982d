"""The remark of §3.2.1 on large d_k, tested: attention scores, their softmax and its gradients.

    python benchmarks/softmax_gradients.py [--keys 64] [--queries 2000]
        [--picture docs/images/softmax_gradients.png]

Queries and keys have independent components of variance 1, as the paper's footnote 4 supposes and
as a new model has them.
"""

import argparse
from pathlib import Path

from transduce.analysis.softmax_gradients import (
    LABELS,
    SCORES,
    draw_softmax_gradients,
    measure_softmax,
)

WIDTHS = [2**n for n in range(2, 11)]


def main() -> None:
    """Measure, print a table and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=64)
    parser.add_argument("--queries", type=int, default=2_000)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    found = [
        measure_softmax(score, d_k, keys=options.keys, queries=options.queries)
        for score in SCORES
        for d_k in WIDTHS
    ]
    print(f"softmax over {options.keys} keys, {options.queries:,} queries")
    print("| score | d_k | variance | entropy, nats | largest weight | Jacobian, median norm |")
    print("|---|---:|---:|---:|---:|---:|")
    for each in found:
        print(
            f"| {LABELS[each.score]} | {each.d_k:,} | {each.variance:,.2f} | {each.entropy:.2f} "
            f"| {each.largest_weight:.3f} | {each.jacobian_norm:.2g} |"
        )
    if options.picture:
        draw_softmax_gradients(found, options.picture)
        print(f"wrote {options.picture}")


if __name__ == "__main__":
    main()
