"""A small model that has learnt to end its sentences, for all pipelines."""

from pathlib import Path

import pytest

import transduce
from tests.pipelines.small_models import SETTINGS, write_text


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write 300 pairs, a.en and a.de, 12 others, t.en and t.de, and the first 100 lines as d.de."""
    return write_text(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="session")
def model(corpus: Path) -> Path:
    """A model from German to English."""
    outcome = transduce.train(
        src=corpus / "a.de", tgt=corpus / "a.en", out=corpus / "model", settings=SETTINGS
    )
    assert outcome.reason is not None
    return outcome.folder
