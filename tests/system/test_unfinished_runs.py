"""A run that is not over, and each of its checkpoints, is a model for every command."""

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import transduce
from tests.command import Command
from tests.system.small_runs import stopped_run, training, write_corpus
from transduce.models.folder import load_weights
from transduce.serving import server
from transduce.training.run.events import Scored

FIXTURES = Path(__file__).parents[1] / "fixtures" / "version_0_1"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def stopped(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped at step 18, scored at steps 8 and 16."""
    scored: list[Scored] = []

    def note(event: object) -> None:
        scored.extend([event] if isinstance(event, Scored) else [])

    out = tmp_path_factory.mktemp("runs") / "ende"
    settings = {"run__score_sentences": 0, "training__steps": 100}
    stopped_run(corpus, out, after=20, progress=note, **settings)
    assert [event.step for event in scored] == [8, 16]
    assert not (out / "model.safetensors").exists()
    return out


def best_step(run: Path) -> int:
    """The step of the lowest loss, by the files of the checkpoints."""
    states = {
        int(path.parent.name[5:]): json.loads(path.read_text())["scores"]
        for path in run.glob("checkpoints/step-*/state.json")
    }
    return min((step for step in states if states[step]), key=lambda step: states[step]["loss"])


def note_of(run: Path) -> str:
    return f"{run} is not over: weights of step {best_step(run)}, its best so far by dev loss ("


LINE = b"The old woman sees the dog.\n"
Arguments = Callable[[Path, Path], list[str]]
COMMANDS: dict[str, Arguments] = {
    "translate": lambda _corpus, _tmp: [],
    "score": lambda corpus, _tmp: ["--src", str(corpus / "a.en"), "--tgt", str(corpus / "a.de")],
    "evaluate": lambda _corpus, tmp: ["--src", str(tmp / "in"), "--ref", str(tmp / "in")],
    "attention": lambda _corpus, tmp: ["The dog.", "--out", str(tmp / "page.html")],
    "export": lambda _corpus, tmp: ["--to", "huggingface", "--out", str(tmp / "exported")],
    "describe": lambda _corpus, _tmp: [],
}


@pytest.mark.exhaustive(after=3)
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_it_and_says_which_weights(
    name: str, stopped: Path, corpus: Path, tmp_path: Path, command: Command
) -> None:
    (tmp_path / "in").write_bytes(LINE)
    done = command(name, str(stopped), *COMMANDS[name](corpus, tmp_path), given=LINE)
    assert done.code == 0, done.err
    assert done.err.count(note_of(stopped)) == 1
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "in").write_bytes(LINE)
    best = stopped / "checkpoints" / f"step-{best_step(stopped):012}"
    named = command(name, str(best), *COMMANDS[name](corpus, tmp_path / "one"), given=LINE)
    assert named.code == 0, named.err
    assert named.err.count(f"{best}: weights of step {best_step(stopped)}, dev loss ") == 1
    if name in ("translate", "score"):
        assert done.out == named.out != ""


def test_the_server_takes_it(
    stopped: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "serve", lambda *_args, **_options: None)
    done = command("serve", str(stopped), "--port", "0")
    assert done.code == 0, done.err
    assert note_of(stopped) in done.err
    newest = max((stopped / "checkpoints").iterdir())
    done = command("serve", str(newest), "--port", "0")
    assert done.code == 0, done.err
    assert f"{newest}: weights of step 18, not scored\n" in done.err


def test_another_run_starts_from_it(
    stopped: Path, corpus: Path, tmp_path: Path, command: Command
) -> None:
    files = ["--src", str(corpus / "a.en"), "--tgt", str(corpus / "a.de")]
    words = ["train", *files, "--out", str(tmp_path / "run"), "--steps", "1", "--device", "cpu"]
    done = command(*words, "--init", str(stopped))
    assert done.code == 0, done.err
    best = stopped / "checkpoints" / f"step-{best_step(stopped):012}"
    taken = f"{best}: weights of step {best_step(stopped)}, dev loss "
    assert f"{stopped} is not over; starting from {taken}" in done.err
    again = command(*words, "--init", str(stopped))
    assert "is finished: nothing is left to do." in again.err
    zero = tmp_path / "zero"
    words[words.index("--out") + 1] = str(zero)
    assert command(*words, "--init", str(best)).code == 0
    first, second = (path / "model.safetensors" for path in (tmp_path / "run", zero))
    assert first.read_bytes() == second.read_bytes()


def test_python_takes_it_and_logs_which_weights(
    stopped: Path, caplog: pytest.LogCaptureFixture
) -> None:
    [one] = transduce.load(stopped, "cpu").translate([LINE.decode()])
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert note_of(stopped) in caplog.text
    best = stopped / "checkpoints" / f"step-{best_step(stopped)}"  # without its zeros
    [other] = transduce.load([best, best], "cpu").translate([LINE.decode()])
    assert one.text == other.text
    assert one.score == pytest.approx(other.score, abs=1e-4)


def test_a_run_gives_its_best_weights_while_it_goes_on(corpus: Path, tmp_path: Path) -> None:
    out, taken = tmp_path / "run", []

    def translate_at_scores(event: object) -> None:
        if isinstance(event, Scored):
            transduce.load(out, "cpu").translate(["A dog."])
            taken.append(event.step)

    stopped_run(corpus, out, after=40, progress=translate_at_scores, training__steps=100)
    assert taken == [8, 16, 24], "it is also asked to stop while it scores"


def test_before_its_first_steps_it_is_refused(
    stopped: Path, tmp_path: Path, command: Command
) -> None:
    early = shutil.copytree(stopped, tmp_path / "early")
    for checkpoint in (early / "checkpoints").iterdir():
        shutil.rmtree(checkpoint)
    mistake = command("translate", str(early), given=LINE).mistake()
    assert "is not over and has no checkpoint with trained weights yet: wait for its" in mistake


def test_a_stopped_run_of_version_0_1_gives_a_model(command: Command) -> None:
    done = command("translate", str(FIXTURES / "stopped"), given=LINE)
    assert done.code == 0, done.err
    assert "weights of step 8, its best so far by dev loss (5.555)" in done.err


def test_a_reopened_run_gives_its_end_until_something_is_better(
    stopped: Path, corpus: Path, tmp_path: Path, command: Command
) -> None:
    out = shutil.copytree(stopped, tmp_path / "run")
    done = command(*training(corpus, out, run__score_sentences=0, training__steps=18))
    assert done.code == 0, done.err
    ended = load_weights(out / "model.safetensors")
    more: dict[str, Any] = {"run__score_sentences": 0, "training__steps": 40}
    stopped_run(corpus, out, after=2, **more)
    assert not (out / "README.md").exists()
    done = command("translate", str(out), given=LINE)
    assert f"{out} is not over: weights of its end at step 18, before it resumed" in done.err
    assert load_weights(out / "model.safetensors").keys() == ended.keys()
    assert command(*training(corpus, out, **more)).code == 0
    assert "is not over" not in command("translate", str(out), given=LINE).err
