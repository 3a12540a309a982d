"""Settings for all tests: the same examples on every run, and no deadlines: no test is a timing.

`pytest --hypothesis-profile explore` draws new and more examples instead.
"""

import os

# The tensors are small: a second thread would only wait. Also for the commands that tests start,
# because another number of threads sums in another order, and some tests compare bits.
os.environ["OMP_NUM_THREADS"] = "1"  # noqa: TID251

import pytest
from hypothesis import settings

settings.register_profile("default", derandomize=True, deadline=None, max_examples=40)
settings.register_profile("explore", derandomize=False, deadline=None, max_examples=400)
settings.load_profile("default")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the tests that kill a run try more moments than the usual few."""
    parser.addoption("--moments", type=int, default=2, help="how often a run is killed")
