"""Settings from a stranger: what is no YAML of ours is one line, soon and in little memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import Command
from transduce.config.load import MAX_YAML_BYTES, load_config
from transduce.errors import ConfigError

NUMBER = "a number is larger than any setting can be"
MALFORMED = "cannot be read as settings"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("model: {h: " + "9" * 5000 + "}", MALFORMED),
        ("model: {h: 0x" + "f" * 5000 + "}", NUMBER),
        ("model: {h: 0b" + "1" * 20_000 + "}", NUMBER),
        ("model: {h: 1" + ":0" * 3000 + "}", NUMBER),
        ("model: {h: 99999999999999999999}", NUMBER),
        ("model: !!bool zz", MALFORMED),
        ('model: !!int ""', MALFORMED),
        ("model: !!float _", MALFORMED),
        ("model: !!timestamp x", MALFORMED),
        ("model: " + "[" * 500, MALFORMED),
        ("model: " + "{a: " * 500, MALFORMED),
        ("!" * 20_000, "could not determine a constructor"),
        ("\0", MALFORMED),
    ],
    ids=lambda text: text[:25],
)
@pytest.mark.parametrize("words", ["describe {}", "translate {} --device cpu"])
def test_malformed_settings_are_one_short_line(
    words: str, text: str, fault: str, tmp_path: Path, command: Command
) -> None:
    (tmp_path / "config.yaml").write_text(text)
    for name in ("tokenizer.json", "model.safetensors"):
        (tmp_path / name).touch()
    message = command(*words.format(tmp_path).split(), given=b"a\n").mistake()
    assert fault in message
    assert message.startswith(str(tmp_path / "config.yaml"))
    assert len(message) < 500


def test_a_large_file_of_settings_is_not_read(tmp_path: Path, command: Command) -> None:
    (tmp_path / "config.yaml").write_text("a: [1]\n" * 700_000)
    message = command("describe", tmp_path).mistake()
    assert f"but such a file has at most {MAX_YAML_BYTES:,}" in message


@pytest.mark.parametrize("target", ["fifo", "/dev/zero"])
def test_settings_that_are_no_file_are_refused(
    target: str, tmp_path: Path, command: Command
) -> None:
    path = tmp_path / "config.yaml"
    os.mkfifo(path) if target == "fifo" else path.symlink_to(target)
    assert "has no file config.yaml" in command("describe", tmp_path).mistake()
    with pytest.raises(ConfigError, match="it is not a regular file"):
        load_config(tmp_path)


def test_a_message_names_some_of_many_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "many.yaml"
    path.write_text("model:\n" + "".join(f"  wrong_{n}: 1\n" for n in range(1000)))
    with pytest.raises(ConfigError) as raised:
        load_config(path)
    assert "unknown setting model.wrong_19" in str(raised.value)
    assert str(raised.value).endswith("; and more")


def test_the_users_own_pipe_is_read() -> None:
    script = (
        "from transduce.config.load import load_config; print(load_config('/dev/stdin').model.h)"
    )
    found = subprocess.run(
        [sys.executable, "-c", script],
        input=b"model: {h: 4}\n",
        capture_output=True,
        check=False,
    )
    assert (found.stdout, found.stderr) == (b"4\n", b"")
