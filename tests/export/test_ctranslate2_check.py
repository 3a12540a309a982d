"""A folder in CTranslate2's format is checked before the library reads it, which checks nothing.

Without the checks these cases end the process, hang it, or translate with memory of others.
"""

import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.command import Command
from tests.translation.likely import random_model, saved

pytest.importorskip("ctranslate2", reason="its format is checked")

from tests.export.ctranslate2_binary import Binary, Tensor
from transduce.export.ctranslate2 import export_ctranslate2

Forge = Callable[[Path], None]
ATTENTION = "encoder/layer_0/self_attention/linear_1/weight"
GAMMA = "decoder/layer_0/attention/layer_norm/gamma"  # the first: others are its aliases


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Exports of one model, with float32 and int8 weights."""
    place = tmp_path_factory.mktemp("exported")
    model = saved(place / "model", random_model(seed=5))
    export_ctranslate2(model, place / "float32")
    export_ctranslate2(model, place / "int8", quantize="int8")
    return place


def forged(change: Callable[[Binary], None]) -> Forge:
    """Change the tensors of a model.bin."""

    def forge(folder: Path) -> None:
        binary = Binary.read(folder / "model.bin")
        change(binary)
        binary.write(folder / "model.bin")

    return forge


def scalar(name: str, value: int) -> Forge:
    def change(binary: Binary) -> None:
        tensor = binary.tensors[name]
        tensor.content = struct.pack("<h" if len(tensor.content) == 2 else "<b", value)

    return forged(change)


def shaped(name: str, shape: list[int], *, dtype: int = 0) -> Forge:
    def change(binary: Binary) -> None:
        size = 4
        for one in shape:
            size *= one
        binary.tensors[name] = Tensor(shape, dtype, bytes(size))

    return forged(change)


def renamed(name: str, other: str) -> Forge:
    def change(binary: Binary) -> None:
        binary.tensors = {
            other if found == name else found: tensor for found, tensor in binary.tensors.items()
        }

    return forged(change)


def filled(name: str, number: float) -> Forge:
    def change(binary: Binary) -> None:
        tensor = binary.tensors[name]
        tensor.content = struct.pack("<f", number) + tensor.content[4:]

    return forged(change)


def alias(name: str, target: str) -> Forge:
    def change(binary: Binary) -> None:
        binary.tensors.pop(name, None)
        binary.aliases[name] = target

    return forged(change)


def another(**values: Any) -> Forge:
    def change(binary: Binary) -> None:
        for name, value in values.items():
            setattr(binary, name, value)

    return forged(change)


def setting(**values: Any) -> Forge:
    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return change


def in_place(name: str, put: Callable[[Path], object]) -> Forge:
    def change(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        put(folder / name)

    return change


def longer(folder: Path) -> None:
    with (folder / "model.bin").open("ab") as file:
        file.write(b"\0")


FORGED: dict[str, tuple[Forge, str]] = {
    "no heads": (scalar("encoder/num_heads", 0), "encoder/num_heads is not 2"),
    "more heads": (scalar("decoder/num_heads", 16), "decoder/num_heads is not 2"),
    "pre-norm": (scalar("encoder/pre_norm", 1), "encoder/pre_norm is not 0"),
    "a name": (renamed(GAMMA, GAMMA[:-1] + "b"), "is unknown"),
    "a name of no use": (renamed("decoder/alibi", "decoder/rotary_dim"), "is unknown"),
    "fewer rows": (shaped(ATTENTION, [2, 16]), "is [2, 16] instead of [16, 16]"),
    "another rank": (shaped(ATTENTION, [256]), "is [256] instead of [16, 16]"),
    "a short norm": (shaped(GAMMA, [1]), "is [1] instead of [16]"),
    "one of int32": (shaped(GAMMA, [16], dtype=3), "its types are"),
    "an unknown type": (shaped(GAMMA, [16], dtype=77), "has an unknown type"),
    "nan": (filled(ATTENTION, float("nan")), f"{ATTENTION} has values that are NaN or infinite"),
    "infinite": (filled(GAMMA, float("-inf")), f"{GAMMA} has values that are NaN or infinite"),
    "an alias of nothing": (alias(GAMMA, "nothing"), "is an alias of 'nothing'"),
    "an alias of itself": (alias(GAMMA, GAMMA), "is an alias of"),
    "an alias of another shape": (alias(GAMMA, ATTENTION), "is an alias of"),
    "no tensors": (another(tensors={}), "is missing"),
    "no aliases": (another(aliases={}), "is missing"),
    "another version": (another(version=5), "is not a TransformerSpec of format 6"),
    "another kind": (another(kind="WhisperSpec"), "is not a TransformerSpec of format 6"),
    "longer": (longer, "it goes on after its end"),
    "cut": (lambda folder: os.truncate(folder / "model.bin", 3000), "it is cut short"),
    "fifo": (in_place("model.bin", os.mkfifo), "it is not a regular file"),
    "zero": (in_place("model.bin", lambda path: path.symlink_to("/dev/zero")), "regular file"),
    "folder": (in_place("model.bin", Path.mkdir), "Is a directory"),
    "vocabulary fifo": (in_place("shared_vocabulary.json", os.mkfifo), "not a regular file"),
    "settings fifo": (in_place("config.json", os.mkfifo), "not a regular file"),
    "a map": (
        in_place("vmap.txt", os.mkfifo),
        "vmap.txt has no shortlist.safetensors beside it: remove it",
    ),
    "deep": (
        in_place("config.json", lambda path: path.write_text("[" * 100_000)),
        "nested too deeply",
    ),
    "deep vocabulary": (
        in_place("shared_vocabulary.json", lambda path: path.write_text("[" * 100_000)),
        "nested too deeply",
    ),
    "no settings": (in_place("config.json", lambda path: path.write_text("[]")), "JSON object"),
    "epsilon": (setting(layer_norm_epsilon="x"), "'layer_norm_epsilon' is 'x', but the model"),
    "start": (setting(decoder_start_token=None), "'decoder_start_token' is None, but"),
    "unknown": (setting(quantization_bits=4), "'quantization_bits' is 4, but"),
}


@pytest.fixture
def folder(exported: Path, tmp_path: Path) -> Path:
    return _strangers(exported / "float32", tmp_path / "folder")


def _strangers(exported: Path, folder: Path) -> Path:
    """Copy an export without its checksums: a stranger would write the right ones."""
    shutil.copytree(exported, folder)
    (folder / "checksums.json").unlink()
    return folder


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_folder_is_one_line(name: str, folder: Path, command: Command) -> None:
    forge, fault = FORGED[name]
    forge(folder)
    message = command("translate", folder, "--device", "cpu", given=b"a\n").mistake()
    assert fault in message


@pytest.mark.parametrize(
    ("forge", "fault"),
    [
        (filled(f"{ATTENTION}_scale", 0.0), "has values that are not positive"),
        (renamed(f"{ATTENTION}_scale", "x_scale"), "is unknown"),
        (shaped(f"{ATTENTION}_scale", [4]), "_scale is float32 [4]"),
        (alias(f"{ATTENTION}_scale", GAMMA), "is unknown"),
        (shaped(ATTENTION, [16, 16]), "is unknown"),
    ],
)
def test_a_forged_scale_is_one_line(
    forge: Forge, fault: str, exported: Path, tmp_path: Path, command: Command
) -> None:
    folder = _strangers(exported / "int8", tmp_path / "folder")
    forge(folder)
    message = command("translate", folder, "--device", "cpu", given=b"a\n").mistake()
    assert fault in message


def test_damage_is_told_by_the_checksums(exported: Path, tmp_path: Path, command: Command) -> None:
    """A flipped bit in a weight is no other shape: only its checksum tells."""
    folder = shutil.copytree(exported / "float32", tmp_path / "folder")
    content = bytearray((folder / "model.bin").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "model.bin").write_bytes(content)
    message = command("translate", folder, "--device", "cpu", given=b"a\n").mistake()
    assert message.startswith(f"{folder / 'model.bin'} is damaged (its checksum differs")


def test_a_thousand_layers_are_not_built_for_a_small_file(folder: Path, command: Command) -> None:
    config = folder / "config.yaml"
    text = config.read_text(encoding="utf-8").replace("n_layers: 1\n", "n_layers: 1000\n")
    config.write_text(text, encoding="utf-8")
    message = command("translate", folder, "--device", "cpu", given=b"a\n").mistake()
    assert "fewer than the 1,000 layers there" in message


def test_settings_of_a_model_that_it_cannot_hold_are_refused(
    folder: Path, command: Command
) -> None:
    (folder / "config.yaml").write_text("model: {kind: rnn, vocab_size: 500}\n")
    message = command("translate", folder, "--device", "cpu", given=b"a\n").mistake()
    assert "cannot be an export to CTranslate2: model.kind=rnn" in message


def test_a_sound_folder_may_be_a_link_of_its_owner(folder: Path, command: Command) -> None:
    (folder / "model.bin").rename(folder.parent / "weights")
    (folder / "model.bin").symlink_to(folder.parent / "weights")
    assert command("translate", folder, "--device", "cpu", given=b"a\n").code == 0


def test_an_export_that_returns_one_head_is_sound(folder: Path, command: Command) -> None:
    scalar("decoder/alignment_heads", 1)(folder)  # as version 0.1 wrote it
    page = command("translate", folder, "--format", "html", given=b"<p>a <b>b</b>")
    assert (page.code, page.out.count("<b>")) == (0, 1)
    scalar("decoder/alignment_heads", 7)(folder)
    assert "decoder/alignment_heads is not 2" in command("translate", folder).mistake()
