"""`transduce score --jsonl` shows text, not the letters by which a vocabulary writes bytes."""

import json
from pathlib import Path

import pytest

from tests.command import Command
from tests.translation.likely import random_model, saved


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("models") / "one", random_model(seed=5, max_positions=40))


def scored(command: Command, model: Path, folder: Path, translation: str) -> dict[str, list[str]]:
    (folder / "src").write_text("The gardener sleeps.\n", encoding="utf-8")
    (folder / "tgt").write_text(f"{translation}\n", encoding="utf-8")
    files = ("--src", folder / "src", "--tgt", folder / "tgt")
    result = command("score", model, *files, "--jsonl")
    assert result.code == 0, result.err
    found: dict[str, list[str]] = json.loads(result.out)
    assert len(found["pieces"]) == len(found["log_probs"])
    return found


def test_pieces_joined_are_the_translation(model: Path, tmp_path: Path, command: Command) -> None:
    text = "Der Gärtner grüßt."
    found = scored(command, model, tmp_path, text)
    assert "".join(found["pieces"]) == f"{text}< eos >"
    assert not any("Ġ" in piece or "Ã" in piece for piece in found["pieces"])


def test_bytes_of_a_divided_character_are_shown(
    model: Path, tmp_path: Path, command: Command
) -> None:
    found = scored(command, model, tmp_path, "a日")
    assert "".join(found["pieces"]) == r"a\xe6\x97\xa5< eos >"
