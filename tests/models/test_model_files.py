"""The weights of a run that is not over: the best so far, the newest, or those of one step."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from transduce.config.load import to_yaml
from transduce.config.schema import Config
from transduce.errors import InputError
from transduce.models import folder as model_folder
from transduce.models.build import build_model
from transduce.models.folder import LoadedModel, load_model, save_model
from transduce.models.model_files import ModelFiles, find_model, settings_folder
from transduce.text.tokenizer import Tokenizer

TOKENIZER = Tokenizer.learn(["a b c d e"], kind="whitespace", vocab_size=9)
SHAPE = {"vocab_size": 9, "n_layers": 1, "d_model": 8, "d_ff": 8, "h": 2}


class Run:
    """The folder of a run that is not over, with checkpoints of a very small model."""

    def __init__(self, path: Path, *, choose_by: str = "loss") -> None:
        self.path = path
        config = Config.from_tree({"model": SHAPE, "run": {"choose_by": choose_by}})
        self.loaded = LoadedModel(build_model(config.model, seed=1), config, TOKENIZER)
        save_model(path, self.loaded)
        self.weights = (path / "model.safetensors").read_bytes()
        (path / "model.safetensors").unlink()
        self.describe({})

    def describe(self, provenance: dict[str, Any]) -> None:
        (self.path / "provenance.json").write_text(json.dumps(provenance))

    def checkpoint(self, step: int, scores: Any = None, **progress: Any) -> Path:
        folder = self.path / "checkpoints" / f"step-{step:012}"
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(self.weights)
        state = {"format": 1, "progress": progress, "scores": scores}
        (folder / "state.json").write_text(json.dumps(state))
        return folder


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path / "run")


def scores(loss: float, bleu: float | None = None) -> dict[str, Any]:
    metric = None if bleu is None else {"name": "BLEU", "score": bleu, "signature": ""}
    return {"loss": loss, "metric": metric}


def test_the_best_of_a_run_that_is_not_over_is_taken(run: Run) -> None:
    best = run.checkpoint(8, scores(2.0, 1.5), best=scores(2.0, 1.5))
    run.checkpoint(16, scores(3.0, 9.5), best=scores(2.0, 1.5))
    run.checkpoint(20, best=scores(2.0, 1.5))
    assert find_model(run.path) == ModelFiles(
        run.path,
        best / "model.safetensors",
        f"{run.path} is not over: weights of step 8, its best so far by dev loss (2.000)",
        is_choice=True,
    )


def test_the_best_is_the_best_by_the_criterion_of_the_run(tmp_path: Path) -> None:
    run = Run(tmp_path / "run", choose_by="metric")
    run.checkpoint(8, scores(2.0, 1.5), best=scores(2.0, 1.5))
    best = run.checkpoint(16, scores(3.0, 9.5), best=scores(3.0, 9.5))
    found = find_model(run.path)
    assert found.weights == best / "model.safetensors"
    assert found.note is not None
    assert found.note.endswith("weights of step 16, its best so far by BLEU (9.50)")


def test_checkpoints_of_version_0_1_are_read(run: Run) -> None:
    old = {"bleu": 0.5, "signature": "x"}
    best = run.checkpoint(8, {"loss": 2.0} | old, best_loss=2.0)
    run.checkpoint(16, {"loss": 3.0} | old, best_loss=2.0)
    assert find_model(run.path).weights.parent == best
    assert (find_model(best).note or "").endswith("weights of step 8, dev loss 2.000, BLEU 0.50")


def test_without_scores_the_newest_is_taken(run: Run) -> None:
    run.checkpoint(0)
    run.checkpoint(3, best=None)
    newest = run.checkpoint(5, best=None)
    found = find_model(run.path)
    assert found.weights.parent == newest
    assert (found.note or "").endswith("weights of step 5, its newest; none is the best yet")


@pytest.mark.parametrize("steps", [[], [0]])
def test_before_the_first_steps_there_is_no_model(steps: list[int], run: Run) -> None:
    for step in steps:
        run.checkpoint(step)
    with pytest.raises(InputError, match="no checkpoint with trained weights yet: wait for its"):
        find_model(run.path)


def test_a_checkpoint_is_a_model_with_the_settings_of_its_run(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    eight = run.checkpoint(8, scores(2.0))
    run.checkpoint(16, scores(1.0), best=scores(1.0))
    for place in (eight, run.path / "checkpoints" / "step-8"):
        found = find_model(place)
        assert (found.folder, found.weights) == (run.path, eight / "model.safetensors")
        assert found.note == f"{eight}: weights of step 8, dev loss 2.000"
        assert settings_folder(place) == run.path
        assert load_model(place).config == run.loaded.config
    monkeypatch.chdir(eight.parent)
    assert find_model(Path("step-8")).weights == eight / "model.safetensors"
    monkeypatch.chdir(run.path)
    assert load_model(Path("checkpoints/step-8")).config == run.loaded.config


def test_a_checkpoint_that_is_not_there_is_named_with_those_that_are(run: Run) -> None:
    run.checkpoint(8)
    run.checkpoint(16)
    message = r"no checkpoint .*step-0{10}12: .* there are those of the steps 8, 16"
    with pytest.raises(InputError, match=message):
        load_model(run.path / "checkpoints" / "step-12")


def test_untrained_weights_are_taken_only_by_name(run: Run) -> None:
    start = run.checkpoint(0)
    assert (find_model(start).note or "").endswith("weights of step 0, before training")


def test_leftovers_are_no_checkpoints(run: Run) -> None:
    whole = run.checkpoint(8, scores(2.0), best=scores(2.0))
    for name in ("step-000000000016.0123456789abcdef.making", "step-000000000004.removed"):
        shutil.copytree(whole, whole.with_name(name))
    (run.path / "checkpoints" / "step-000000000012").mkdir()  # its state is gone already
    assert find_model(run.path).weights.parent == whole


def test_a_checkpoint_that_is_removed_meanwhile_is_looked_for_again(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    old = run.checkpoint(8, scores(2.0), best=scores(2.0))
    found = []

    def find_slowly(place: Path) -> ModelFiles:
        found.append(find_model(place))
        if old.exists():  # the run saves a better one and removes this
            run.checkpoint(16, scores(1.0), best=scores(1.0))
            shutil.rmtree(old)
        return found[-1]

    monkeypatch.setattr(model_folder, "find_model", find_slowly)
    loaded = load_model(run.path)
    assert [one.weights.parent.name[-2:] for one in found] == ["08", "16"]
    assert loaded.files == found[-1]
    assert [record.getMessage() for record in caplog.records] == [found[-1].note]


def test_a_run_that_vanishes_ends_in_an_error(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = ModelFiles(run.path, run.path / "gone" / "model.safetensors", "", is_choice=True)
    monkeypatch.setattr(model_folder, "find_model", lambda _place: gone)
    with pytest.raises(InputError, match=r"gone has no file model\.safetensors"):
        load_model(run.path)


def test_a_reopened_run_gives_the_better_of_its_end_and_what_came_after(run: Run) -> None:
    run.checkpoint(8, scores(2.0), best=scores(2.0))
    ended = run.path / "model.safetensors"
    ended.write_bytes(run.weights)
    assert find_model(run.path) == ModelFiles(run.path, ended)
    run.describe({"budgets": [{"step": 8, "changed": {"training.steps": [8, 20]}}]})
    found = find_model(run.path)
    assert found.weights == ended
    assert found.note == f"{run.path} is not over: weights of its end at step 8, before it resumed"
    run.checkpoint(12, scores(3.0), best=scores(2.0))
    assert find_model(run.path).weights == ended
    better = run.checkpoint(16, scores(1.0), best=scores(1.0))
    assert find_model(run.path).weights.parent == better
    (run.path / "README.md").write_text("# run")
    assert find_model(run.path) == ModelFiles(run.path, ended), "it is over again"


def test_a_run_reopened_twice_has_one_end(run: Run) -> None:
    (run.path / "model.safetensors").write_bytes(run.weights)
    run.checkpoint(20, scores(2.0), best=scores(2.0))
    later = run.checkpoint(30, scores(1.0), best=scores(1.0))
    first = {"step": 20, "changed": {"training.steps": [20, 40]}}
    second = {"step": 30, "changed": {"training.steps": [40, 60]}, "was_finished": False}
    for mark in ({"was_finished": True}, {}):  # older records have none
        run.describe({"budgets": [first | mark, second]})
        found = find_model(run.path)
        assert found.weights.parent == later
        assert "weights of step 30, its best so far" in (found.note or "")
    state = {"progress": {"best": scores(2.0)}, "scores": scores(3.0)}
    (later / "state.json").write_text(json.dumps(state))
    found = find_model(run.path)
    assert found.weights == run.path / "model.safetensors"
    assert "weights of its end at step 20, before it resumed" in (found.note or "")


def test_a_model_folder_is_what_it_was(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    (run.path / "model.safetensors").write_bytes(run.weights)
    run.checkpoint(8, scores(2.0), best=scores(2.0))
    assert find_model(run.path) == ModelFiles(run.path, run.path / "model.safetensors")
    assert load_model(run.path).config == run.loaded.config
    assert caplog.records == []
    assert to_yaml(load_model(run.path).config) == (run.path / "config.yaml").read_text()


def test_a_folder_named_like_a_checkpoint_is_a_model_if_it_is_one(tmp_path: Path) -> None:
    run = Run(tmp_path / "checkpoints" / "step-8")
    (run.path / "model.safetensors").write_bytes(run.weights)
    assert find_model(run.path) == ModelFiles(run.path, run.path / "model.safetensors")
