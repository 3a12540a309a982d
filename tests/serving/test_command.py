"""`transduce serve` reports mistakes before it serves, in one line."""

import socket
import sys
from collections.abc import Iterator
from importlib import util
from pathlib import Path

import pytest

from transduce.cli.app import main


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


def test_without_its_packages_the_command_says_how_to_get_them(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(util, "find_spec", lambda name: None if name == "fastapi" else name)
    message = failed(["model"], capfd, monkeypatch)
    assert "pip install 'transduce[serve]' (in a clone: pip install '.[serve]')" in message
