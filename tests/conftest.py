"""Settings for all tests: the same examples on every run, and no deadlines: no test is a timing.

`pytest --hypothesis-profile explore` draws new and more examples instead.
"""

import pytest
import torch
from hypothesis import settings

settings.register_profile("default", derandomize=True, deadline=None, max_examples=40)
settings.register_profile("explore", derandomize=False, deadline=None, max_examples=400)
settings.load_profile("default")

torch.set_num_threads(1)  # the tensors are small: a second thread would only wait


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the tests that kill a run try more moments than the usual few."""
    parser.addoption("--moments", type=int, default=2, help="how often a run is killed")
