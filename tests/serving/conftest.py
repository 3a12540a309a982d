"""A small real model, and the application over it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

import transduce
from tests.translation.likely import random_model, saved
from transduce.serving.app import make_app
from transduce.serving.languages import LanguagePair
from transduce.translation.translator import Translator

EN_DE = LanguagePair("en", "de")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(
        tmp_path_factory.mktemp("served") / "model", random_model(seed=5, max_positions=12)
    )


@pytest.fixture(scope="session")
def translator(folder: Path) -> Translator:
    return transduce.load(folder, "cpu")


@pytest.fixture(scope="module")
def client(translator: Translator) -> Iterator[TestClient]:
    with TestClient(make_app({EN_DE: translator}, version="1")) as client:
        yield client
