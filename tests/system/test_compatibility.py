"""Runs, model folders and recipes of version 0.1 resume, load and translate as they did then.

`tests/fixtures/version_0_1` was written by that version:

- `stopped` is a run that SIGTERM ended before the dev set of step 16 was scored. It was started by
  `transduce train --src a.en --tgt a.de --out run` with the settings in its config.yaml.
  `finished.safetensors` and `finished.jsonl` are the weights and the journal with which that
  version ended it at step 60.
- `plain` and `odd` are finished model folders; `odd` is pre-norm, with learned positions, biases,
  swish, unigram subwords and plain punctuation. `plain.jsonl` and `odd.jsonl` are what
  `transduce translate FOLDER lines.en --jsonl --n-best 2` printed.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.command import Command
from tests.drawing import transformer_config
from transduce.config.load import load_config, to_yaml
from transduce.models.folder import load_model, load_weights
from transduce.training.run.events import Event, Finished, Scored, Started, Stepped
from transduce.training.run.journal import read_journal

FIXTURES = Path(__file__).parents[1] / "fixtures" / "version_0_1"
FINISHED = FIXTURES / "finished.jsonl"
MODELS = ("plain", "odd")


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A copy of the stopped run, beside the text that it is trained on."""
    for name in ("a.en", "a.de"):
        shutil.copy(FIXTURES / name, tmp_path)
    return shutil.copytree(FIXTURES / "stopped", tmp_path / "run")


def losses(events: list[Event]) -> dict[tuple[str, int], float]:
    kept = (event for event in events if isinstance(event, Stepped | Scored))
    return {(type(event).__name__, event.step): event.loss for event in kept}


def test_a_stopped_run_resumes_and_ends_with_the_same_weights(
    stopped: Path, tmp_path: Path, command: Command
) -> None:
    done = command("train", "--out", "run", folder=tmp_path)
    assert done.code == 0, done.err
    # On the machine that wrote them they are equal bit for bit; others may sum in another order.
    found = load_weights(stopped / "model.safetensors")
    torch.testing.assert_close(
        found, load_weights(FIXTURES / "finished.safetensors"), rtol=0, atol=1e-4
    )
    now, then = (read_journal(path) for path in (stopped / "journal.jsonl", FINISHED))
    assert [event.step for event in now if isinstance(event, Started)] == [0, 16]
    assert losses(now).keys() == losses(then).keys()
    for event, loss in losses(then).items():
        assert losses(now)[event] == pytest.approx(loss, abs=1e-4)
    ends = [event for journal in (now, then) for event in journal if isinstance(event, Finished)]
    assert [end.weights for end in ends] == [
        "average of the last 3 checkpoints (steps 48, 56, 60)"
    ] * 2


def test_the_journal_is_read_with_its_scores() -> None:
    scored = [event for event in read_journal(FINISHED) if isinstance(event, Scored)]
    assert [event.step for event in scored] == [8, 16, 24, 32, 40, 48, 56, 60]
    written = json_lines(FINISHED.read_text(encoding="utf-8"))
    assert [event.loss for event in scored] == [
        line["loss"] for line in written if line["event"] == "Scored"
    ]
    assert {(event.metric, event.score) for event in scored} == {("BLEU", 0.0)}
    assert all(event.signature.startswith("nrefs:1|") for event in scored)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_translates_as_it_did(name: str, command: Command) -> None:
    text = FIXTURES / "lines.en"
    printed = command("translate", FIXTURES / name, text, "--jsonl", "--n-best", "2")
    assert printed.code == 0, printed.err
    for found, expected in zip(
        json_lines(printed.out),
        json_lines((FIXTURES / f"{name}.jsonl").read_text(encoding="utf-8")),
        strict=True,
    ):
        assert found.keys() == expected.keys()
        assert alternatives(found) == alternatives(expected)
        assert (found["source"], found["text"]) == (expected["source"], expected["text"])
        assert found["score"] == pytest.approx(expected["score"], abs=1e-3)
        assert bool(found["note"]) == bool(expected["note"])


def json_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def alternatives(line: dict[str, Any]) -> list[Any]:
    return [(one["text"], pytest.approx(one["score"], abs=1e-3)) for one in line["alternatives"]]


def test_a_model_is_described(command: Command) -> None:
    described = command("describe", FIXTURES / "odd")
    assert described.code == 0, described.err
    model = load_model(FIXTURES / "odd").model
    assert f" {sum(weight.numel() for weight in model.parameters()):,} " in described.out


@pytest.mark.parametrize("name", MODELS)
def test_a_model_scores_text(name: str, command: Command) -> None:
    text = FIXTURES / "lines.en"
    scored = command("score", FIXTURES / name, "--src", text, "--tgt", text)
    assert scored.code == 0, scored.err
    assert scored.out.count("\n") == text.read_text(encoding="utf-8").count("\n")


def test_a_run_is_listed_with_its_scores(stopped: Path, command: Command) -> None:
    listed = command("runs", stopped)
    assert listed.code == 0, listed.err
    [row] = [line for line in listed.out.splitlines() if line.startswith("run *")]
    assert "5.555 258.44 0.00" in row
    assert "BLEU: nrefs:1|" in listed.out


def test_a_recipe_loads(tmp_path: Path) -> None:
    recipe = tmp_path / "old.yaml"
    recipe.write_text(
        "preset: small\n"
        "model: {n_layers: 4}\n"
        "data: {src: a.en, tgt: a.de}\n"
        "run: {bleu_sentences: 7, choose_by: bleu}\n"
    )
    config = load_config(recipe)
    model = transformer_config(config)
    assert (model.kind, model.n_encoder_layers, model.n_decoder_layers) == ("transformer", 4, 4)
    assert config.data.task == "translation"
    assert (config.run.score_sentences, config.run.choose_by) == (7, "metric")


def test_old_names_of_settings_change_new_files(tmp_path: Path) -> None:
    (tmp_path / "new.yaml").write_text(to_yaml(load_config("tiny")), encoding="utf-8")
    changed = load_config(tmp_path / "new.yaml", ["run.bleu_sentences=3", "run.choose_by=bleu"])
    assert (changed.run.score_sentences, changed.run.choose_by) == (3, "metric")
