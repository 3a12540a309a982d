"""A tiny random model and a text that takes three shards."""

from pathlib import Path

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
