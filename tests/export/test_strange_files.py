"""Export and import copy the files that they name, if these are regular, and nothing else."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.command import Command

pytest.importorskip("sentencepiece", reason="Marian's vocabularies are SentencePiece's")
pytest.importorskip("transformers", reason="it makes the models to import")

from tests.export.marian import marian_folder
from transduce.export.marian_import import import_marian

KEPT = {
    *("checksums.json", "config.json", "generation_config.json", "model.safetensors"),
    *("source.spm", "target.spm", "tokenizer_config.json", "vocab.json"),
}
SECRET = "a secret"  # noqa: S105 - of nobody


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("place")
    marian_folder(place / "opus")
    import_marian(place / "opus", place / "model")
    return place


@pytest.fixture
def model(place: Path, tmp_path: Path) -> Path:
    """An imported model, with a secret beside it."""
    (tmp_path / "secret").write_text(SECRET)
    return shutil.copytree(place / "model", tmp_path / "model")


@pytest.fixture
def opus(place: Path, tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text(SECRET)
    return shutil.copytree(place / "opus", tmp_path / "opus")


def export(command: Command, model: Path) -> Callable[[], str]:
    out = model.parent / "out"
    return lambda: command("export", model, "--to", "huggingface", "--out", out).mistake()


def test_an_export_copies_only_the_files_of_the_format(model: Path, command: Command) -> None:
    """Before, all of the folder was copied, whatever it was."""
    (model / "marian" / "notes.txt").symlink_to(model.parent / "secret")
    os.mkfifo(model / "marian" / "pipe")
    (model / "marian" / "zero").symlink_to("/dev/zero")
    (model / "marian" / "folder").mkdir()
    out = model.parent / "out"
    done = command("export", model, "--to", "huggingface", "--out", out)
    assert done.code == 0, done.err
    assert {path.name for path in out.iterdir()} == KEPT


@pytest.mark.parametrize("name", ["tokenizer_config.json", "vocab.json", "generation_config.json"])
def test_an_export_follows_no_link(name: str, model: Path, command: Command) -> None:
    (model / "checksums.json").unlink()
    (model / "marian" / name).unlink()
    (model / "marian" / name).symlink_to(model.parent / "secret")
    assert f"marian/{name}: it is a link" in export(command, model)()
    assert not (model.parent / "out").exists()


def test_the_folder_itself_may_not_be_a_link(model: Path, command: Command) -> None:
    (model / "marian").rename(model.parent / "elsewhere")
    (model / "marian").symlink_to(model.parent / "elsewhere")
    assert f"cannot read {model / 'marian'}: it is a link" in export(command, model)()


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def sparse(path: Path) -> None:
    os.truncate(path, 2**36)


def of_another_size(path: Path) -> None:
    path.write_text(path.read_text().replace('"d_model": 32', '"d_model": 64'))


def deep(path: Path) -> None:
    path.write_text("[" * 100_000)


def fewer(path: Path) -> None:
    path.write_text('{"<unk>": 1, "</s>": 0, "<pad>": 2}')


@pytest.mark.parametrize(
    ("name", "spoil", "fault"),
    [
        ("source.spm", fifo, "it is not a regular file"),
        ("source.spm", sparse, "it has 68,719,476,736 bytes or more, but such a file has at most"),
        ("config.json", of_another_size, "is of another model: its d_model differs"),
        ("config.json", deep, "it is nested too deeply"),
        ("vocab.json", fewer, "does not have the entries that config.json describes"),
    ],
)
def test_a_strange_file_of_an_imported_model_is_one_line(
    name: str, spoil: Callable[[Path], None], fault: str, model: Path, command: Command
) -> None:
    (model / "checksums.json").unlink()
    spoil(model / "marian" / name)
    assert fault in export(command, model)()
    assert not (model.parent / "out").exists()


@pytest.mark.parametrize("name", ["config.json", "vocab.json", "source.spm", "model.safetensors"])
def test_an_import_waits_for_no_fifo(name: str, opus: Path, command: Command) -> None:
    fifo(opus / name)
    message = command("import", opus, "--from", "marian-hf", "--out", opus.parent / "out").mistake()
    assert str(opus) in message


@pytest.mark.parametrize("name", ["tokenizer_config.json", "generation_config.json"])
def test_an_import_copies_nothing_from_outside(name: str, opus: Path, command: Command) -> None:
    (opus / name).unlink(missing_ok=True)
    (opus / name).symlink_to(opus.parent / "secret")
    message = command("import", opus, "--from", "marian-hf", "--out", opus.parent / "out").mistake()
    assert f"{name} is a link out of its folder" in message
    assert not (opus.parent / "out").exists()


def test_a_folder_of_hugging_faces_cache_is_imported(opus: Path, command: Command) -> None:
    """There each file is a link to one in another folder of the same model."""
    cache = opus.parent / "models--opus"
    (cache / "blobs").mkdir(parents=True)
    (cache / "snapshots" / "1a2b").mkdir(parents=True)
    for number, path in enumerate(sorted(opus.iterdir())):
        path.rename(cache / "blobs" / str(number))
        (cache / "snapshots" / "1a2b" / path.name).symlink_to(f"../../blobs/{number}")
    out = opus.parent / "out"
    done = command("import", cache / "snapshots" / "1a2b", "--from", "marian-hf", "--out", out)
    assert done.code == 0, done.err
    assert not any(path.is_symlink() for path in out.rglob("*"))


@pytest.mark.parametrize(
    ("setting", "value", "fault"),
    [
        ("activation_function", "[]", "activation_function=[]: we have relu and swish"),
        ("activation_function", "{}", "activation_function={}: we have relu and swish"),
        ("dropout", "null", "model.p_drop=None"),
        ("dropout", "[]", "model.p_drop=()"),
        ("attention_dropout", '"x"', "model.p_drop_attention='x'"),
        ("vocab_size", "true", "vocab_size=True is not a positive number"),
        ("d_model", "9" * 200, "d_model=999"),
        ("pad_token_id", "{}", "cannot read"),
    ],
)
def test_settings_of_other_types_are_one_line(
    setting: str, value: str, fault: str, opus: Path, command: Command
) -> None:
    path = opus / "config.json"
    text = path.read_text().rstrip().removesuffix("}")
    path.write_text(f'{text}, "{setting}": {value}}}')
    message = command("import", opus, "--from", "marian-hf", "--out", opus.parent / "out").mistake()
    assert fault in message


def test_a_damaged_table_of_normalised_letters_is_one_line(opus: Path, command: Command) -> None:
    path = opus / "source.spm"
    content = bytearray(path.read_bytes())
    start = content.rindex(b"nmt_nfkc")
    content[start + 2000 : start + 9000] = b"\xff" * 7000  # within the trie
    path.write_bytes(content)
    message = command("import", opus, "--from", "marian-hf", "--out", opus.parent / "out").mistake()
    assert "source.spm and vocab.json cannot be imported: its table of normalised" in message
