"""Measures the layers of Table 1 with torch and pydantic alone, and writes JSON.

For machines without what the command line needs. `transduce complexity --from FILE` shows it.
"""

import argparse
import logging
from pathlib import Path

from transduce.analysis.complexity.grid import measure_layers
from transduce.analysis.complexity.options import grid_options
from transduce.analysis.complexity.records import write_measurements

_LOG = logging.getLogger("transduce.complexity")


def main() -> None:
    """Read the options, measure, and write the file."""
    parser = argparse.ArgumentParser(description="Measure the layers of Table 1.")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    parser.add_argument("--n", metavar="N,N,…")
    parser.add_argument("--d", metavar="D,D,…")
    parser.add_argument("--k", type=int, default=3)
    parser.add_argument("--r", type=int, default=64)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--all", action="store_true", dest="everything")
    given = vars(parser.parse_args())
    path = given.pop("json")
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    write_measurements(measure_layers(grid_options(**given), _LOG.info), path)
    _LOG.info("wrote %s", path)


if __name__ == "__main__":
    main()
