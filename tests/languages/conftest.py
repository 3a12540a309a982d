"""Toy texts and models that the tests of many languages share."""

from pathlib import Path

import pytest

import transduce
from tests.languages.toy_languages import LEARNING, changes, write_texts


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    write_texts(folder, "train", 400, seed=1)
    write_texts(folder, "dev", 6, seed=2)
    write_texts(folder, "test", 8, seed=5)
    return folder


@pytest.fixture(scope="session")
def learnt(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learnt the words of three languages, from four of six directions."""
    out = tmp_path_factory.mktemp("runs") / "learnt"
    transduce.train(
        texts=sorted(texts.glob("train.*")),
        dev_texts=sorted(texts.glob("dev.*")),
        out=out,
        settings=changes(
            data__without_directions="[bb-cc, cc-bb]",
            data__metric="chrf",
            data__subwords="whitespace",
            **LEARNING,
        ),
    )
    return out


@pytest.fixture(scope="session")
def tagged_source(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of subwords that has learnt nothing, with tags before the source."""
    return untrained_model(texts, tmp_path_factory.mktemp("runs") / "source", tag_on="source")


@pytest.fixture(scope="session")
def tagged_target(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with tags before the target."""
    return untrained_model(texts, tmp_path_factory.mktemp("runs") / "target", tag_on="target")


@pytest.fixture(scope="session", params=["tagged_source", "tagged_target"])
def untrained(request: pytest.FixtureRequest) -> Path:
    """Either of them."""
    found: Path = request.getfixturevalue(request.param)
    return found


def untrained_model(texts: Path, out: Path, *, tag_on: str) -> Path:
    transduce.train(
        texts=sorted(texts.glob("train.*")),
        dev_texts=sorted(texts.glob("dev.*")),
        out=out,
        settings=changes(training__steps=1, data__tag_on=tag_on),
    )
    return out
