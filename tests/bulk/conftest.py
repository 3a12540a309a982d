"""A tiny random model, a text that takes three shards, and a Ray cluster on this machine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.translation.likely import random_model, saved, sentences


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("models") / "one", random_model(seed=5, max_positions=12))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "a.en"
    path.write_text("".join(f"{line}\n" for line in sentences(22)), encoding="utf-8")
    return path


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A node for this process; others are added. Each is a group of processes."""
    from ray.cluster_utils import Cluster

    quick = {"worker_niceness": 0}  # else its processes wait for all others on this machine
    head = {"num_cpus": 0, "include_dashboard": False, "_system_config": quick}
    found = Cluster(initialize_head=True, head_node_args=head)
    yield found
    found.shutdown()
