"""Settings for all tests: the same examples on every run, and no deadlines: no test is a timing.

`pytest --hypothesis-profile explore` draws new and more examples instead.
"""

import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

# The tensors are small: a second thread would only wait. Also for the commands that tests start,
# because another number of threads sums in another order, and some tests compare bits.
os.environ["OMP_NUM_THREADS"] = "1"  # noqa: TID251

import pytest
from hypothesis import settings

from tests.command import UNSEEN, Command

settings.register_profile("default", derandomize=True, deadline=None, max_examples=20)
settings.register_profile("explore", derandomize=False, deadline=None, max_examples=400)
settings.load_profile("default")


LONG = ("sweeps", "system", "project", "training", "serving", "export")
"""Folders with the files that take longest."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of `make test-all`."""
    parser.addoption("--all", action="store_true", help="also run the exhaustive tests")
    parser.addoption("--moments", type=int, default=1, help="how often a run is killed")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put long files first, and skip exhaustive tests unless they are asked for.

    A file is run by one process: a long one at the end would leave the others without work. Of a
    test marked `exhaustive(after=n)`, the first n sets of parameters run, whatever `-m` selects.
    """
    items.sort(key=_place)
    if config.getoption("--all"):
        return
    skip = pytest.mark.skip(reason="exhaustive: make test-all, or --all, runs it")
    seen: Counter[str] = Counter()
    for item in items:
        if marker := item.get_closest_marker("exhaustive"):
            name = item.nodeid.partition("[")[0]
            seen[name] += 1
            if seen[name] > marker.kwargs.get("after", 0):
                item.add_marker(skip)


def _place(item: pytest.Item) -> int:
    folder = item.path.relative_to(Path(__file__).parent).parts[0]
    return LONG.index(folder) if folder in LONG else len(LONG)


@pytest.fixture(scope="session", autouse=True)
def quick_runs() -> Iterator[None]:
    """Have runs that tests start through Python do nothing that is `UNSEEN`, but for curves."""
    with mock.patch("os.fsync", UNSEEN["os.fsync"]):
        if "torch" not in sys.modules:  # which would take longer to load than such tests
            yield
            return
        name = "transduce.training.plan.speed.TIMED_S"
        with mock.patch(name, UNSEEN[name]):
            yield


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command `transduce`, in this process."""
    return Command(capfd, monkeypatch)
