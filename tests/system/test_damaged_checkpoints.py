"""A flipped byte or a NaN in what was saved is told, and a run goes on from what is sound."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.command import Command
from tests.system.small_runs import stopped_run, training, write_corpus
from transduce.models.folder import load_weights, save_weights

LINE = b"The dog sleeps.\n"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def stopped_before(corpus: Path) -> Path:
    """A run with checkpoints of the steps 8 and 12, which both can be resumed."""
    return stopped_run(corpus, corpus / "stopped", after=14)


@pytest.fixture(scope="module")
def whole(corpus: Path) -> Path:
    """The same run, never stopped."""
    import transduce

    out = corpus / "whole"
    words = training(corpus, out)
    settings = [word.removeprefix("--set=") for word in words if word.startswith("--set=")]
    transduce.train(src=corpus / "a.en", tgt=corpus / "a.de", out=out, settings=settings)
    return out


@pytest.fixture
def run(stopped_before: Path, tmp_path: Path) -> Path:
    return shutil.copytree(stopped_before, tmp_path / "run")


def checkpoint(run: Path, step: int) -> Path:
    return run / "checkpoints" / f"step-{step:012}"


def flip(path: Path) -> None:
    """Flip a bit in the last tensor."""
    content = bytearray(path.read_bytes())
    content[-3] ^= 4
    path.write_bytes(content)


def poison(path: Path) -> None:
    """Write a NaN, with a checksum that is right."""
    tensors = load_weights(path)
    next(iter(tensors.values())).view(-1)[0] = torch.nan
    save_weights(path, tensors, metadata={})


def poison_as_before(path: Path) -> None:
    """Write a NaN, without any checksum, as earlier versions wrote tensors."""
    poison(path)
    forget_checksum(path)


def forget_checksum(path: Path) -> None:
    content = path.read_bytes()
    at = content.index(b'"checksum":"')
    path.write_bytes(content[:at] + b" " * 22 + content[at + 22 :])


def change_progress(path: Path) -> None:
    state = json.loads(path.read_text())
    state["progress"]["batches_done"] += 1
    path.write_text(json.dumps(state))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


@pytest.mark.exhaustive(after=2)
@pytest.mark.parametrize(
    ("name", "damage", "reason"),
    [
        ("model.safetensors", flip, "its checksum differs"),
        ("optimiser.safetensors", flip, "its checksum differs"),
        ("state.json", change_progress, "its checksum differs"),
        ("model.safetensors", poison, "has values that are NaN or infinite"),
        ("optimiser.safetensors", poison_as_before, "has values that are NaN or infinite"),
        ("model.safetensors", cut, "cut short, damaged or not safetensors"),
        ("model.safetensors", Path.unlink, "not a file"),
        ("state.json", Path.unlink, "No such file"),
    ],
)
def test_a_run_goes_on_from_the_checkpoint_before_a_damaged_one_to_the_same_bits(
    name: str,
    damage: Callable[[Path], None],
    reason: str,
    run: Path,
    whole: Path,
    corpus: Path,
    command: Command,
) -> None:
    damage(checkpoint(run, 12) / name)
    done = command(*training(corpus, run))
    assert done.code == 0, done.err
    [told] = [line for line in done.err.splitlines() if "is damaged" in line]
    assert f"{checkpoint(run, 12) / name} is damaged (" in told
    assert reason in told
    assert "): set aside as step-000000000012.damaged, going on from step 8" in told
    assert checkpoint(run, 12).with_suffix(".damaged").is_dir()
    assert (run / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


@pytest.mark.parametrize("damage", [flip, poison])
def test_if_no_checkpoint_is_sound_nothing_is_changed(
    damage: Callable[[Path], None], run: Path, corpus: Path, command: Command
) -> None:
    for step in (8, 12):
        damage(checkpoint(run, step) / "optimiser.safetensors")
    before = sorted(path.name for path in (run / "checkpoints").iterdir())
    done = command(*training(corpus, run))
    assert done.code == 2
    message = done.err.splitlines()[-1]
    assert f"{checkpoint(run, 12) / 'optimiser.safetensors'} is damaged (" in message
    assert "restore it from a copy" in message
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == before


def test_checkpoints_of_a_newer_version_are_not_taken_for_damaged(
    run: Path, corpus: Path, command: Command
) -> None:
    state = checkpoint(run, 12) / "state.json"
    state.write_text(json.dumps(json.loads(state.read_text()) | {"format": 99}))
    done = command(*training(corpus, run))
    assert done.code == 2
    assert "has format 99 but this version reads 1" in done.err
    assert checkpoint(run, 12).is_dir()


def test_damaged_weights_of_an_older_checkpoint_are_left_out_of_the_average(
    corpus: Path, tmp_path: Path, command: Command
) -> None:
    run = stopped_run(corpus, tmp_path / "run", after=14, run__average=3)
    flip(checkpoint(run, 8) / "model.safetensors")
    done = command(*training(corpus, run, run__average=3))
    assert done.code == 0, done.err
    assert "set aside as step-000000000008.damaged, and its weights are not considered" in done.err
    card = (run / "README.md").read_text(encoding="utf-8")
    assert "average of the last 2 checkpoints (steps 16, 20)" in card


def test_a_run_without_checksums_resumes_to_the_same_bits(
    run: Path, whole: Path, corpus: Path, command: Command
) -> None:
    for path in (run / "checkpoints").rglob("*.safetensors"):
        forget_checksum(path)
    for path in (run / "checkpoints").rglob("state.json"):
        state = json.loads(path.read_text())
        del state["checksum"]
        path.write_text(json.dumps(state))
    (run / "checksums.json").unlink()
    done = command(*training(corpus, run))
    assert done.code == 0, done.err
    assert "damaged" not in done.err
    assert (run / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


# Models and exports


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("model.safetensors", "(its checksum differs): restore it from a copy"),
        ("tokenizer.json", "(its checksum differs from that in checksums.json): copy it again"),
    ],
)
def test_a_flipped_byte_in_a_model_is_told(
    name: str, reason: str, whole: Path, tmp_path: Path, command: Command
) -> None:
    model = shutil.copytree(whole, tmp_path / "model")
    path = model / name
    if name == "tokenizer.json":
        swap_entries(path)
    else:
        flip(path)
    assert f"{path} is damaged {reason}" in command("translate", model, given=LINE).mistake()
    (model / "checksums.json").unlink()
    if name == "tokenizer.json":
        assert command("translate", model, given=LINE).code == 0


def swap_entries(path: Path) -> None:
    """Exchange the ids of two words: nothing else would show it."""
    tree = json.loads(path.read_text(encoding="utf-8"))
    vocabulary = tree["model"]["vocab"]
    one, other = list(vocabulary)[-2:]
    vocabulary[one], vocabulary[other] = vocabulary[other], vocabulary[one]
    path.write_text(json.dumps(tree, ensure_ascii=False), encoding="utf-8")


def test_edited_settings_are_told_but_used(whole: Path, tmp_path: Path, command: Command) -> None:
    model = shutil.copytree(whole, tmp_path / "model")
    path = model / "config.yaml"
    path.write_text(path.read_text(encoding="utf-8") + "# mine\n", encoding="utf-8")
    done = command("translate", model, given=LINE)
    assert done.code == 0
    assert f"{path} was changed after it was written: if you did not edit it, restore" in done.err


@pytest.mark.parametrize("name", ["model.bin", "shared_vocabulary.json", "config.json"])
def test_a_flipped_byte_in_an_export_is_told(
    name: str, whole: Path, tmp_path: Path, command: Command
) -> None:
    pytest.importorskip("ctranslate2")
    exported = tmp_path / "exported"
    assert command("export", whole, "--to", "ctranslate2", "--out", exported).code == 0
    assert command("translate", exported, given=LINE).code == 0
    path = exported / name
    content = bytearray(path.read_bytes())
    content[-1 if name == "model.bin" else -2] ^= 1
    path.write_bytes(content)
    assert f"{path} " in command("translate", exported, given=LINE).mistake()


def test_a_flipped_byte_in_another_toolkits_folder_is_told_when_it_comes_back(
    whole: Path, tmp_path: Path, command: Command
) -> None:
    exported, back = tmp_path / "exported", tmp_path / "back"
    assert command("export", whole, "--to", "huggingface", "--out", exported).code == 0
    flip(exported / "model.safetensors")
    message = command("import", exported, "--from", "marian-hf", "--out", back).mistake()
    assert f"{exported / 'model.safetensors'} is damaged (" in message
    assert not back.exists()
