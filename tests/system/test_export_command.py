"""`transduce export`, `import` and `train --init`, as a user runs them."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.command import Command
from transduce.grammar import generate
from transduce.models.folder import load_model

pytest.importorskip("ctranslate2", reason="one of the formats is its own")
pytest.importorskip("sentencepiece", reason="Marian's vocabularies are SentencePiece's")
pytest.importorskip("transformers", reason="it makes the model to import")

from tests.export.marian import SOURCES, marian_folder

Run = Callable[..., str]


@pytest.fixture
def run(command: Command) -> Run:
    """Run the command, check its exit code, and return what it prints."""

    def run(*arguments: str | Path, code: int = 0) -> str:
        result = command(*arguments)
        assert result.code == code, result.err
        return result.out or result.err

    return run


@pytest.fixture(scope="module")
def opus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("work") / "opus"
    marian_folder(folder)
    return folder


@pytest.fixture
def imported(opus: Path, tmp_path: Path, run: Run) -> Path:
    run("import", opus, "--from", "marian-hf", "--out", tmp_path / "imported")
    return tmp_path / "imported"


def test_a_model_goes_to_ctranslate2_and_translates_there(
    imported: Path, tmp_path: Path, run: Run
) -> None:
    run("export", imported, "--to", "ctranslate2", "--out", tmp_path / "fast")
    text = tmp_path / "text"
    text.write_text("\n".join(SOURCES[:3]), encoding="utf-8")
    found = [
        run("translate", folder, text, "--device", "cpu", "--beam", "1", *engine)
        for folder, engine in (
            (imported, ["--engine", "torch"]),
            (imported, ["--engine", "ctranslate2"]),
            (tmp_path / "fast", []),
        )
    ]
    assert found[0].count("\n") == 3
    assert found == [found[0]] * 3


def test_mistakes_are_one_line(imported: Path, tmp_path: Path, run: Run) -> None:
    for arguments, why in (
        (["export", str(imported), "--to", "huggingface", "--quantize", "int8"], "ctranslate2"),
        (["import", str(imported), "--from", "marian-hf"], "config.json"),
    ):
        said = run(*arguments, "--out", tmp_path / "out", code=2)
        assert why in said
        assert said.count("\n") == 1


@pytest.mark.exhaustive
def test_an_imported_model_is_trained_further_and_resumes_without_it(
    imported: Path, tmp_path: Path, run: Run
) -> None:
    pairs = list(generate(300, seed=4))
    for name, side in (("a.en", 0), ("a.de", 1)):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        (tmp_path / name).write_text(text, encoding="utf-8")
    files = ["--src", str(tmp_path / "a.en"), "--tgt", str(tmp_path / "a.de")]
    start = ["train", *files, "--device", "cpu", "--init", str(imported)]
    start += ["--set", "run.score_sentences=1"]
    for arguments, why in (
        (["--preset", "tiny"], "has that model's shape"),
        (["--set", "model.d_model=64"], "settings that its weights depend on cannot be changed"),
        (["--set", "data.punctuation=plain"], "it is kept: leave the setting out"),
    ):
        assert why in run(*start, "--out", tmp_path / "other", *arguments, code=2)

    still = ["--set", "training.schedule=paper", "--set", "training.learning_rate=1.0e-11"]
    words = [*start, "--out", str(tmp_path / "run"), *still]
    run(*words, "--steps", "1")
    before, after = load_model(imported), load_model(tmp_path / "run")
    weights, others = before.model.state_dict(), after.model.state_dict()
    assert all(torch.allclose(weights[name], others[name], atol=1e-8) for name in weights)
    assert before.tokenizer.encode_targets(SOURCES) == after.tokenizer.encode_targets(SOURCES)

    shutil.rmtree(imported)
    assert "step 2  saved" in run(*words, "--steps", "2")
    run("score", tmp_path / "run", *files)
