"""A path that is not a model folder is named for what it is, by every command, with what to do."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.command import Command
from tests.translation.likely import random_model, saved
from transduce.export.ctranslate2 import export_ctranslate2
from transduce.export.huggingface import export_huggingface

COMMANDS = {
    "translate": "translate {} s",
    "score": "score {} --src s --tgt t",
    "evaluate": "evaluate {} --src s --ref t",
    "attention": "attention {} text",
    "export": "export {} --to huggingface --out exported",
    "describe": "describe {}",
    "serve": "serve en-de={} --port 0",
    "train": "train --src s --tgt t --init {} --out run",
}
NO_MODEL = "a model is a folder of config.yaml, tokenizer.json and model.safetensors"
FAULTS = {
    "hf": "is a Marian model in Hugging Face's format: 'transduce import ",
    "bart": "is a Hugging Face model of type bart: only Marian models can be imported",
    "ct2other": "is a CTranslate2 model without the settings and the vocabulary",
    "empty": f"is an empty folder: {NO_MODEL}",
    "folder": f"has no file config.yaml: {NO_MODEL}",
    "runs": "is no model but holds 1: give one, such as ",
    "model/model.safetensors": "is a file: give the model folder that it is in, ",
    "no/where": "does not exist: give a model folder",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with folders of other formats beside two text files."""
    place = tmp_path_factory.mktemp("place")
    model = saved(place / "model", random_model(seed=5))
    export_ctranslate2(model, place / "ct2")
    export_huggingface(model, place / "hf")
    for name in ("ct2other", "bart", "empty", "folder", "runs"):
        (place / name).mkdir()
    for name in ("model.bin", "config.json", "shared_vocabulary.json"):
        shutil.copy(place / "ct2" / name, place / "ct2other")
    (place / "bart" / "config.json").write_text(json.dumps({"model_type": "bart"}))
    (place / "folder" / "notes.txt").write_text("a\n")
    shutil.copytree(model, place / "runs" / "first")
    (place / "s").write_text("The king sleeps.\n")
    (place / "t").write_text("Der König schläft.\n", encoding="utf-8")
    return place


@pytest.mark.parametrize("name", FAULTS)
def test_every_command_says_what_it_is_and_what_to_do(
    place: Path, name: str, command: Command
) -> None:
    for written in COMMANDS.values():
        if written.startswith("describe") and name == "no/where":
            continue  # it may also be a preset or a file of settings
        result = command(*written.format(name).split(), folder=place)
        assert f"{name} {FAULTS[name]}" in result.mistake(), written
    assert not (place / "run").exists()
    assert not (place / "exported").exists()


@pytest.mark.parametrize("name", ["score", "export", "train"])
def test_an_exported_folder_is_not_said_to_lack_files(
    place: Path, name: str, command: Command
) -> None:
    mistake = command(*COMMANDS[name].format("ct2").split(), folder=place).mistake()
    assert mistake.startswith("ct2 was exported to CTranslate2: it can translate, be evaluated")
    assert mistake.endswith("for all else use the model folder that was exported")


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ("export model --to ctranslate2 --out exported", ""),
        ("translate model s --engine ctranslate2", ", or use the engine torch"),
        ("translate ct2 s", ", or use the model it was made from"),
    ],
)
def test_without_ctranslate2_only_what_helps_is_suggested(
    place: Path,
    written: str,
    instead: str,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    mistake = command(*written.split(), folder=place).mistake()
    install = "pip install 'transduce[export]' (in a clone: pip install '.[export]')"
    assert mistake == f"CTranslate2 is not installed: {install}{instead}"
