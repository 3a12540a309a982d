"""`transduce serve` reports mistakes before it serves, in one line."""

import shutil
import socket
import sys
from collections.abc import Iterator
from importlib import util
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from tests.command import Command
from tests.translation.test_shortlist import write_pairs
from transduce import load, make_shortlist
from transduce.cli.app import main
from transduce.serving import server


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def failed(
    arguments: list[str], capture: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch
) -> str:
    """Run the command in this process, which has loaded torch already."""
    port = () if "--port" in arguments else ("--port", "0")
    patch.setattr(sys, "argv", ["transduce", "serve", *port, *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    message = capture.readouterr().err
    assert (ended.value.code, message.count("\n")) == (2, 1), message
    return message


def test_a_mistake_is_one_line_and_exit_code_2(
    folder: Path,
    tmp_path: Path,
    taken: int,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    empty = tmp_path / "keys"
    empty.write_text("# none\n")
    for arguments, message in (
        ([str(folder)], f"name them, as in en-de={folder}"),
        ([str(tmp_path)], "has no file config.yaml: a model is a folder"),
        ([f"en-de={folder}", f"en-de={folder}"], "are both for en-de"),
        ([f"en-de={folder}", "--port", str(taken)], "Address already in use; choose another"),
        ([f"en-de={folder}", "--port", "99999"], "--port 99999"),
        ([f"en-de={folder}", "--keys", str(empty)], "has no key"),
        ([f"en-de={folder}", "--max-queue", "0"], "max_queue=0: use more than 0"),
        ([f"en-de={folder}", "--deadline", "inf"], "deadline_s=inf: use a number"),
        ([f"en-de={folder}", "--deadline", "nan"], "deadline_s=nan: use more than 0"),
        ([f"en-de={folder}", "--max-sentences", "2000"], "never fit into a queue of 1,000"),
    ):
        assert message in failed(arguments, capfd, monkeypatch)


def test_it_searches_with_a_shortlist(
    folder: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[str] = []

    def ask(app: FastAPI, *_: object, **_options: object) -> None:
        with TestClient(app, base_url="http://127.0.0.1") as client:
            asked = {"q": "A dog eats bread.", "source": "en", "target": "de"}
            answers.append(client.post("/translate", json=asked).json()["translatedText"])

    monkeypatch.setattr(server, "serve", ask)
    src, tgt = write_pairs(tmp_path)
    model = shutil.copytree(folder, tmp_path / "model")
    make_shortlist(model, src=[src], tgt=[tgt], frequent=5, per_token=3)
    for option in ((), ("--shortlist",)):
        done = command("serve", f"en-de={model}", "--port", "0", "--device", "cpu", *option)
        assert done.code == 0, done.err
        [expected] = load(model, "cpu", shortlist=bool(option)).translate(["A dog eats bread."])
        assert answers[-1] == expected.text
    assert answers[0] != answers[1]


def test_without_its_packages_the_command_says_how_to_get_them(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(util, "find_spec", lambda name: None if name == "fastapi" else name)
    message = failed(["model"], capfd, monkeypatch)
    assert "pip install 'transduce[serve]' (in a clone: pip install '.[serve]')" in message
