"""A model without self-attention: the command and the server show what there is."""

import base64
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from matplotlib.image import imread

import transduce
from tests.analysis import shown
from tests.command import Command
from tests.serving.conftest import EN_DE
from tests.translation.likely import VOCAB_SIZE, learnt_tokenizer, random_model, saved, sentences
from transduce.analysis.attention_page import attention_page
from transduce.config.schema import Config
from transduce.models.attention import attention_between
from transduce.models.build import build_model
from transduce.models.folder import LoadedModel
from transduce.models.rnn.settings import RNNConfig
from transduce.serving.app import make_app

NODE = shutil.which("node")
SCRIPT = Path(shown.__file__).with_name("attention_page.mjs")
needs_node = pytest.mark.skipif(NODE is None, reason="node runs the page's script")
[TEXT] = sentences(1)


def recurrent() -> LoadedModel:
    config = Config(model=RNNConfig(vocab_size=VOCAB_SIZE, d_model=16, n_layers=1))
    return LoadedModel(build_model(config.model, seed=5).eval(), config, learnt_tokenizer())


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("models") / "rnn", recurrent())


def seen_on(page: str) -> dict[str, Any]:
    """Run the page's script and return what it lets a reader choose."""
    assert NODE is not None
    done = subprocess.run(
        [NODE, str(SCRIPT)], input=page, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_it_has_no_layers_of_self_attention() -> None:
    found = attention_between(recurrent(), TEXT, "ein Wort")
    s, t = len(found.source), len(found.target)
    assert found.cross.shape == (1, 1, t, s)
    np.testing.assert_allclose(found.cross.sum(axis=-1), 1, rtol=1e-5)
    assert found.encoder.shape == (0, 0, s, s)
    assert found.decoder.shape == (0, 0, t, t)


@needs_node
def test_the_page_offers_only_what_there_is(model: Path, tmp_path: Path, command: Command) -> None:
    result = command("attention", model, TEXT, "--translation", "ein Wort", folder=tmp_path)
    assert result.code == 0, result.err
    page = (tmp_path / "attention.html").read_text(encoding="utf-8")
    found = seen_on(page)
    assert found.pop("caption").startswith("Encoder–decoder attention;")
    assert found == {
        "kinds": None,
        "layers": None,
        "heads": None,
        "averages": False,
        "explainsSelf": False,
        "drawn": 1,
    }


@needs_node
def test_the_page_of_a_transformer_offers_all() -> None:
    found = attention_between(random_model(seed=5), "a", "b")
    page = attention_page([found], source="a", translation="b")
    seen = seen_on(page)
    assert seen["kinds"] == ["Encoder", "Encoder–decoder", "Decoder"]
    assert seen["heads"] == ["1", "2"]
    assert seen["layers"] is None  # it has one
    assert seen["explainsSelf"]


def test_the_picture_and_the_alignment_are_those_of_its_one_head(
    model: Path, tmp_path: Path, command: Command
) -> None:
    given = ("attention", model, TEXT, "--translation", "ein Wort")
    png = tmp_path / "heads.png"
    result = command(*given, "--png", png, "--out", tmp_path / "page.html")
    assert (result.code, result.err) == (0, "")
    assert imread(png).ndim == 3
    aligned = command(*given, "--align")
    assert command(*given, "--align", "--layer", "1", "--head", "1").out == aligned.out
    assert aligned.out.startswith(f"{TEXT} ||| ein Wort ||| ")
    assert "layer 2: the model has layers 1 to 1" in command(*given, "--align", "--layer", "2").err


def test_the_server_shows_it(model: Path) -> None:
    translator = transduce.load(model, "cpu")
    with TestClient(make_app({EN_DE: translator}, version="1")) as client:
        body = {"text": "a", "attention": True, "alignment": True}
        [found] = client.post("/v1/translate", json=body).json()["translations"]
        form = {"text": "a", "source": "en", "target": "de"}
        page = client.post("/attention", data=form)
    assert page.status_code == 200
    assert page.text.startswith("<!doctype html>")
    [line] = found["lines"]
    assert line["attention"]
    for part in line["attention"]:
        for kind, shape in part["shapes"].items():
            weights = np.frombuffer(base64.b64decode(part[kind]), "<u2").reshape(shape)
            assert bool(weights.size) == (kind == "cross")
