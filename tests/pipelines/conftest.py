"""A small model for each direction of the demo corpus, which has learnt to end its sentences."""

from pathlib import Path

import pytest

import transduce
from tests.pipelines.small_models import SETTINGS, write_text


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text of 300 pairs, a.en and a.de, and a test set of 12 others, t.en and t.de."""
    return write_text(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="session")
def forward(corpus: Path) -> Path:
    return trained(corpus, "forward", "en", "de")


@pytest.fixture(scope="session")
def reverse(corpus: Path) -> Path:
    return trained(corpus, "reverse", "de", "en")


def trained(corpus: Path, name: str, src: str, tgt: str) -> Path:
    outcome = transduce.train(
        src=corpus / f"a.{src}", tgt=corpus / f"a.{tgt}", out=corpus / name, settings=SETTINGS
    )
    assert outcome.reason is not None
    return outcome.folder
