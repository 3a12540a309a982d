"""The same run again: with another budget, from elsewhere, and after a start that failed."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import transduce
from tests.command import Command, Result
from tests.system.small_runs import stopped_run, training, write_corpus
from transduce.config.load import load_config
from transduce.errors import InputError
from transduce.tasks.metrics import Bleu
from transduce.tasks.translation import TranslationTask
from transduce.training.run.checkpoint import Checkpoint
from transduce.training.run.events import Event, Scored, Started, Stepped
from transduce.training.run.folder import RunFolder
from transduce.training.run.journal import read_journal


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def finished_once(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("finished") / "run"
    settings = [word.removeprefix("--set=") for word in training(corpus, out)[7:]]
    transduce.train(src=corpus / "a.en", tgt=corpus / "a.de", out=out, settings=settings)
    return out


@pytest.fixture
def finished(finished_once: Path, tmp_path: Path) -> Path:
    """A run by the linear schedule that has ended after its 20 steps."""
    return shutil.copytree(finished_once, tmp_path / "run")


def events(out: Path) -> list[Event]:
    return read_journal(out / "journal.jsonl")


def starts(out: Path) -> list[int]:
    return [event.step for event in events(out) if isinstance(event, Started)]


def scores(out: Path) -> list[Scored]:
    return [event for event in events(out) if isinstance(event, Scored)]


def rates(out: Path) -> dict[int, float]:
    return {event.step: event.learning_rate for event in events(out) if isinstance(event, Stepped)}


def card_of(out: Path) -> str:
    return (out / "README.md").read_text(encoding="utf-8")


def complaint(result: Result) -> str:
    assert (result.code, result.out) == (2, "")
    return result.err.splitlines()[-1]


# Budgets


def test_a_finished_run_goes_on_with_more_steps_and_the_schedule_follows(
    finished: Path, corpus: Path, tmp_path: Path, command: Command
) -> None:
    assert rates(finished)[20] < 0.1 * max(rates(finished).values())
    done = command(*training(corpus, finished, training__steps=40))
    assert done.code == 0, done.err
    assert "the budget is changed at step 20: steps 20 → 40\n" in done.err
    assert starts(finished) == [0, 20]
    assert "40 steps of 300 tokens" in card_of(finished)
    assert "It ended because 40 steps are made." in card_of(finished)
    told = "The budget was changed at step 20: steps 20 → 40; the learning rate followed."
    assert told in card_of(finished)
    provenance = json.loads((finished / "provenance.json").read_text())
    changed = {"training.steps": [20, 40]}
    assert provenance["budgets"] == [{"step": 20, "changed": changed, "was_finished": True}]
    at_once = tmp_path / "at once"
    assert command(*training(corpus, at_once, training__steps=40)).code == 0
    later = [step for step in rates(at_once) if step > 20]
    assert [rates(finished)[step] for step in later] == [rates(at_once)[step] for step in later]


def test_a_run_reopened_twice_gives_its_best_weights_since_its_end(
    finished: Path, corpus: Path, command: Command
) -> None:
    stopped_run(corpus, finished, after=18, training__steps=40)
    stopped_run(corpus, finished, after=2, training__steps=60)
    first, second = json.loads((finished / "provenance.json").read_text())["budgets"]
    assert (first["step"], first["was_finished"]) == (20, True)
    assert not second["was_finished"]
    states = {
        int(path.parent.name[5:]): json.loads(path.read_text())
        for path in finished.glob("checkpoints/step-*/state.json")
    }
    best = states[max(states)]["progress"]["best"]
    [best_step] = [step for step, state in states.items() if state["scores"] == best]
    assert 20 < best_step <= second["step"]
    said = command("describe", finished).err
    assert f"is not over: weights of step {best_step}, its best so far by " in said


def test_the_end_is_known_even_if_it_was_killed_while_it_reopened(
    finished: Path, corpus: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was killed after the card was removed and before the settings were written."""

    def killed(_folder: RunFolder, name: str, content: str | bytes, call=RunFolder._write) -> None:  # type: ignore[no-untyped-def]
        if name == "config.yaml":
            raise InputError("killed")
        call(_folder, name, content)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "_write", killed)
        complaint(command(*training(corpus, finished, training__steps=40)))
    assert not (finished / "README.md").exists()
    stopped_run(corpus, finished, after=3, training__steps=40)
    [change] = json.loads((finished / "provenance.json").read_text())["budgets"]
    assert (change["step"], change["was_finished"]) == (20, True)


RECIPE = """
training: {steps: 6, batch_tokens: 300}
model: {vocab_size: 300, n_layers: 1, d_model: 16, d_ff: 32, h: 2}
run: {device: cpu, checkpoint_steps: 8, score_sentences: 0}
"""


def test_a_recipe_does_not_undo_an_extension_by_an_option(
    corpus: Path, tmp_path: Path, command: Command
) -> None:
    recipe, out = tmp_path / "small.yaml", tmp_path / "run"
    recipe.write_text(RECIPE)
    files = ["--src", str(corpus / "a.en"), "--tgt", str(corpus / "a.de")]
    words = ["train", str(recipe), *files, "--out", str(out)]

    def steps_after(*more: str) -> int:
        done = command(*words, *more)
        assert done.code == 0, done.err
        return load_config(out / "config.yaml").training.steps

    assert steps_after() == 6
    assert steps_after("--steps", "8") == 8
    again = command(*words)
    assert "training.steps stays 8, as the run has it\n" in again.err
    assert "is finished: nothing is left to do." in again.err
    recipe.write_text(RECIPE.replace("steps: 6", "steps: 9"))
    assert steps_after() == 9, "the recipe says something new"
    assert steps_after("--set", "training.steps=11") == 11, "an option always counts"


def test_a_preset_does_not_undo_an_extension(
    corpus: Path, tmp_path: Path, command: Command
) -> None:
    words = [*training(corpus, tmp_path / "run", training__steps=None), "--preset", "big"]
    assert command(*words, "--steps", "2").code == 0
    done = command(*words, "--set", "training.epochs=0.01")
    assert done.code == 0, done.err
    assert load_config(tmp_path / "run" / "config.yaml").training.steps == 2
    assert "training.steps stays 2, as the run has it\n" in done.err


def test_a_budget_of_another_kind_may_be_added_and_taken_away(
    corpus: Path, tmp_path: Path, command: Command
) -> None:
    out = stopped_run(corpus, tmp_path / "run", after=5, training__steps=1000)
    short = ["--set", "training.epochs=0.01", "--set", "training.patience=3"]
    done = command("train", "--out", str(out), *short)
    assert done.code == 0, done.err
    assert "step 5: epochs none → 0.01, patience none → 3\n" in done.err
    assert "It ended because 0.01 epochs are done." in card_of(out)
    assert load_config(out / "config.yaml").training.steps == 1000, "what is not given stays"
    back = ["--set", "training.epochs=null", "--steps", "7"]
    assert command("train", "--out", str(out), *back).code == 0
    assert max(event.step for event in events(out)) == 7
    assert "changed at step 5: epochs 0.01 → none, steps 1,000 → 7;" in card_of(out)


@pytest.mark.parametrize(
    ("budget", "done"),
    [
        ({"training__steps": 10}, "20 steps, and 10 are asked for"),
        ({"training__steps": 1}, "20 steps, and 1 is asked for"),
        ({"training__minutes": 5}, "20 steps, and 20 are asked for"),
        (
            {"training__steps": 30, "training__epochs": 0.01},
            r"[\d.]+ epochs?, and 0.01 are asked for",
        ),
        (
            {"training__steps": 30, "training__minutes": 1e-5},
            r"[\d.e-]+ minutes, and 1e-05 are asked for",
        ),
    ],
)
def test_a_finished_run_has_nothing_to_do_for_a_budget_that_is_spent(
    budget: dict[str, object], done: str, finished: Path, corpus: Path, command: Command
) -> None:
    """Neither its card nor its settings are written again."""
    before = {path: path.read_bytes() for path in finished.glob("*.*") if path.is_file()}
    again = command(*training(corpus, finished, **budget))
    assert again.code == 0, again.err
    assert re.search(rf"^already done: {done}$", again.err, re.M)
    assert "is finished: nothing is left to do." in again.err
    assert "the budget is changed" not in again.err
    assert {path: path.read_bytes() for path in finished.glob("*.*") if path.is_file()} == before


def test_fewer_steps_than_were_made_end_a_run_that_is_not_over(
    corpus: Path, tmp_path: Path, command: Command
) -> None:
    out = stopped_run(corpus, tmp_path / "run", after=5, training__steps=1000)
    assert command("train", "--out", out, "--steps", "3").code == 0
    assert "It ended because 3 steps are made." in card_of(out)
    assert max(event.step for event in events(out)) == 5


def test_a_run_that_resumes_says_what_is_left(
    corpus: Path, tmp_path: Path, command: Command
) -> None:
    out = stopped_run(corpus, tmp_path / "run", after=12)
    left = 20 - RunFolder(out).last_step()
    said = command(*training(corpus, out)).err
    told = rf"^left: about {left} steps of 20, [\d.]+ \w+ at the speed so far$"
    assert re.search(told, said, re.M)


@pytest.mark.exhaustive(after=1)
@pytest.mark.parametrize(
    ("after", "line"),
    [
        (3, "scores: at doubling distances up to every 8 steps, and at the end;"),
        (26, "scores: every 8 steps, and at the end;"),
    ],
)
def test_a_run_that_resumes_speaks_of_no_score_that_is_past(
    after: int, line: str, corpus: Path, tmp_path: Path, command: Command
) -> None:
    early: dict[str, Any] = {"run__first_score_steps": 1, "training__steps": 40}
    out = stopped_run(corpus, tmp_path / "run", after=after, **early)
    assert line in command(*training(corpus, out, **early)).err


def test_a_run_resumed_after_the_metric_changed_is_scored_by_one(
    corpus: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BLEU by characters is higher: the best so far would never be beaten by BLEU of words."""
    settings: dict[str, Any] = {"run__choose_by": "metric", "training__steps": 40}
    with monkeypatch.context() as patch:
        patch.setattr(TranslationTask, "metric", lambda _task, _references: Bleu("char"))
        out = stopped_run(corpus, tmp_path / "run", after=26, **settings)
    assert {event.signature.split("|")[3] for event in scores(out)} == {"tok:char"}
    done = command(*training(corpus, out, **settings))
    assert done.code == 0, done.err
    assert "its signature changed): the checkpoints that are kept are scored again\n" in done.err
    by_step = {event.step: event.signature.split("|")[3] for event in scores(out)}
    assert {step for step, signature in by_step.items() if signature == "tok:13a"} >= {24, 32, 40}
    newest = Checkpoint.read(max((out / "checkpoints").iterdir()))
    assert newest.progress.best is not None
    assert newest.progress.best.metric is not None
    assert "tok:13a" in newest.progress.best.metric.signature
    for path in (out / "checkpoints").iterdir():
        found = Checkpoint.read(path).scores
        assert found is not None
        assert found.metric is not None
        assert "tok:13a" in found.metric.signature


@pytest.mark.exhaustive
def test_of_a_huge_development_set_a_sample_has_its_loss_computed_until_the_end(
    corpus: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resumed, it is the same sample; at the end, the weights are scored on the whole set."""
    whole, sampled, parts = (tmp_path / name for name in ("whole", "sampled", "parts"))
    assert command(*training(corpus, whole)).code == 0
    with monkeypatch.context() as patch:
        patch.setattr("transduce.training.run.setup.MAX_LOSS_PAIRS", 5)
        assert command(*training(corpus, sampled)).code == 0
        stopped_run(corpus, parts, after=10)
    assert command(*training(corpus, parts)).code == 0

    def losses(out: Path) -> list[float]:
        return [event.loss for event in scores(out)]

    assert losses(parts) == losses(sampled)
    assert all(one != other for one, other in zip(losses(whole), losses(sampled), strict=True))

    def last_weights(out: Path) -> str:
        [row] = [line for line in card_of(out).splitlines() if line.startswith("| average of")]
        return row

    assert last_weights(whole) == last_weights(sampled) == last_weights(parts)


def test_what_is_not_a_budget_is_refused_with_both_values_and_what_to_do(
    finished: Path, corpus: Path, command: Command
) -> None:
    card = card_of(finished)
    message = complaint(command(*training(corpus, finished, training__eps_ls=0.3, run__seed=2)))
    assert "training.eps_ls is 0.1 there, not 0.3; run.seed is 1 there, not 2; " in message
    assert f"--init {finished} to start from this model" in message
    assert "--fresh" in message
    assert card_of(finished) == card


def test_a_run_whose_checkpoints_are_gone_is_not_trained_anew(
    finished: Path, corpus: Path, command: Command
) -> None:
    weights = (finished / "model.safetensors").read_bytes()
    shutil.rmtree(finished / "checkpoints")
    message = complaint(command(*training(corpus, finished, training__steps=40)))
    assert "are gone, so it cannot go on: start another run from its model with --init" in message
    assert (finished / "model.safetensors").read_bytes() == weights
    assert command(*training(corpus, finished)).code == 0, "it is still finished"


# Files, wherever they are


def test_the_same_files_by_other_names_are_the_same_run(
    finished: Path, corpus: Path, tmp_path: Path, command: Command
) -> None:
    moved = shutil.copytree(corpus, tmp_path / "moved")
    copied = shutil.copytree(finished, tmp_path / "copied" / "run")
    for words in (
        ["--src", "./a.en", "--tgt", str(moved / "a.de")],
        ["--src", "../moved/a.en", "--tgt", "../moved/a.de"],
    ):
        done = command("train", *words, "--out", str(copied), folder=moved)
        assert done.code == 0, done.err
        assert "is finished: nothing is left to do." in done.err
    assert load_config(copied / "config.yaml").data.src == ("../moved/a.en",)


def test_a_moved_run_goes_on_bit_for_bit(
    finished: Path, corpus: Path, tmp_path: Path, command: Command
) -> None:
    out = stopped_run(corpus, tmp_path / "stopped", after=10)
    moved, run = tmp_path / "text", tmp_path / "elsewhere" / "run"
    shutil.copytree(corpus, moved)
    run.parent.mkdir()
    out.rename(run)
    done = command(*training(Path("text"), Path("elsewhere/run")), folder=tmp_path)
    assert done.code == 0, done.err
    assert starts(run) == [0, 8], "it was stopped while it scored"
    weights = (run / "model.safetensors").read_bytes()
    assert weights == (finished / "model.safetensors").read_bytes()
    assert rates(run)[20] == rates(finished)[20]
    assert "budget was changed" not in card_of(run)


def test_other_files_are_refused_with_both_names(
    finished: Path, corpus: Path, tmp_path: Path, command: Command
) -> None:
    other = tmp_path / "b.en"
    other.write_text("One.\n" * 300)
    words = ["train", "--src", str(other), "--tgt", str(corpus / "a.de"), "--out", str(finished)]
    message = complaint(command(*words))
    assert f"data.src is {corpus / 'a.en'} there, not {other};" in message


# Starts


def test_a_start_that_failed_does_not_claim_the_folder(
    corpus: Path, tmp_path: Path, command: Command
) -> None:
    out = tmp_path / "run"
    message = complaint(command(*training(corpus, out, data__weights=1e-9)))
    assert "an epoch has no sentence pair to train on" in message
    assert RunFolder(out).settings() is not None, "it had begun"
    done = command(*training(corpus, out, training__steps=2))
    assert done.code == 0, done.err
    assert load_config(out / "config.yaml").data.weights == ()
    assert "stays" not in done.err
    assert starts(out) == [0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"model__vocab_size": 5},
        {"run__init": "nope"},
    ],
)
def test_a_corrected_command_works(
    wrong: dict[str, object], corpus: Path, tmp_path: Path, command: Command
) -> None:
    out = tmp_path / "run"
    complaint(command(*training(corpus, out, **wrong)))
    done = command(*training(corpus, out, training__steps=1))
    assert done.code == 0, done.err


def test_a_model_to_start_from_that_is_damaged_does_not_claim_the_folder(
    finished: Path, corpus: Path, tmp_path: Path, command: Command
) -> None:
    model = shutil.copytree(finished, tmp_path / "model")
    whole = (model / "model.safetensors").read_bytes()
    (model / "model.safetensors").write_bytes(whole[:-1])
    files = ["--src", str(corpus / "a.en"), "--tgt", str(corpus / "a.de")]
    words = ["train", *files, "--out", str(tmp_path / "tuned"), "--init", str(model)]
    complaint(command(*words, "--steps", "1", "--device", "cpu"))
    (model / "model.safetensors").write_bytes(whole)
    done = command(*words, "--steps", "2", "--device", "cpu")
    assert done.code == 0, done.err


def test_what_is_left_out_at_the_next_start_is_said_to_stay(
    corpus: Path, tmp_path: Path, command: Command
) -> None:
    out = stopped_run(corpus, tmp_path / "run", after=3, training__eps_ls=0.2)
    done = command(*training(corpus, out, run__average=None))
    assert done.code == 0, done.err
    assert "training.eps_ls stays 0.2, as the run was started\n" in done.err
    assert "run.average stays 2, as the run was started\n" in done.err
    assert done.err.count(" stays ") == 2
    again = command(*training(corpus, out))
    assert "training.eps_ls stays 0.2, as the run was started\n" in again.err
    assert "is finished: nothing is left to do." in again.err


# Seeds


def test_runs_by_other_seeds_have_one_dev_set_and_one_vocabulary_and_are_an_ensemble(
    corpus: Path, tmp_path: Path, command: Command
) -> None:
    runs = [tmp_path / f"seed-{seed}" for seed in (1, 2, 3)]
    for seed, out in enumerate(runs, start=1):
        done = command(*training(corpus, out, training__steps=2), "--seed", str(seed))
        assert done.code == 0, done.err
    for name in ("data/dev-*/dev.src", "data/dev-*/dev.tgt", "tokenizer.json"):
        files = [path for out in runs for path in out.glob(name)]
        assert len(files) == 3
        assert len({path.read_bytes() for path in files}) == 1, name
    origins = [json.loads((out / "provenance.json").read_text()) for out in runs]
    assert len({(one["dev_set"], one["tokenizer"]) for one in origins}) == 1
    assert len({(out / "model.safetensors").read_bytes() for out in runs}) == 3
    others = [word for out in runs[1:] for word in ("--ensemble", str(out))]
    done = command("translate", str(runs[0]), *others, given=b"The dog sleeps.\n")
    assert done.code == 0, done.err
    assert done.out.count("\n") == 1


def test_a_run_of_the_version_before_keeps_the_dev_set_of_its_seed(
    corpus: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.setattr(RunFolder, "split_seed", lambda _folder, _settled: 5)
        out = stopped_run(corpus, tmp_path / "run", after=3, run__seed=5)
    origin = json.loads((out / "provenance.json").read_text())
    for name in ("split_seed", "dev_set", "tokenizer", "init", "preset"):
        del origin[name]
    del origin["checksum"]
    (out / "provenance.json").write_text(json.dumps(origin))
    shutil.rmtree(out / "data")
    done = command(*training(corpus, out, run__seed=5))
    assert done.code == 0, done.err
    assert starts(out) == [0, 3]
    new = tmp_path / "new"
    assert command(*training(corpus, new, run__seed=5, training__steps=1)).code == 0
    [old_dev], [new_dev] = out.glob("data/dev-*/dev.src"), new.glob("data/dev-*/dev.src")
    assert old_dev.read_bytes() != new_dev.read_bytes()
