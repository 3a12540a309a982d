"""What a new user meets: files that stay, lines that are true, commands to copy that run."""

import csv
import fcntl
import gzip
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.command import Command
from tests.system.small_runs import changes, short_pairs, training, write_corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("text"))


def settings(**given: object) -> list[str]:
    return changes(training__steps=2, **given)


def test_generated_text_never_takes_the_place_of_other_files(
    tmp_path: Path, command: Command
) -> None:
    mine = tmp_path / "train.en"
    mine.write_text("my own text\n")
    demo = ("data", "demo", "--pairs", "20", "--to", tmp_path)
    message = (
        f"{mine} is there already and holds other text: choose another folder, or move it away"
    )
    assert command(*demo).mistake() == message
    assert [path.read_text() for path in tmp_path.iterdir()] == ["my own text\n"]
    mine.unlink()
    assert command(*demo).code == 0
    (tmp_path / "dev.de").unlink()
    assert command(*demo).code == 0, "what a stopped command left is completed"
    task = ("data", "generate", "copy", "--pairs", "20", "--to", tmp_path)
    assert command(*task).code == 0
    before = (tmp_path / "train.src").read_bytes()
    assert "holds other text" in command(*task, "--seed", "2").mistake()
    assert (tmp_path / "train.src").read_bytes() == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("evaluate", "model", "--src", "a", "--ref", "a", "--out"),
        ("evaluate", "model", "--src", "a", "--ref", "a", "--json"),
        ("attention", "model", "A text.", "--out"),
        ("complexity", "--json"),
    ],
    ids=lambda arguments: " ".join((arguments[0], arguments[-1])),
)
def test_results_never_take_the_place_of_a_users_file(
    arguments: tuple[str, ...], tmp_path: Path, command: Command
) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("my notes\n")
    message = command(*arguments, notes, folder=tmp_path).mistake()
    assert message == f"{notes} exists already: choose another {arguments[-1]}, or remove it"
    assert notes.read_text() == "my notes\n"


@pytest.mark.exhaustive(after=1)
@pytest.mark.parametrize("started_with", [[], ["--preset", "tiny"]], ids=["no preset", "tiny"])
def test_another_preset_is_another_run(
    started_with: list[str], corpus: Path, tmp_path: Path, command: Command
) -> None:
    run, few = tmp_path / "run", settings(model__d_model=None, model__d_ff=None, model__h=None)
    begun = training(corpus, run)[:7]
    assert command(*begun, *started_with, *few).code == 0
    message = command(*begun, "--preset", "base", *few).mistake()
    assert f"{run} holds a run with other settings: model." in message
    assert "model.d_model is 128 there, not 512" in message
    assert command(*begun, *started_with, *few).code == 0


@pytest.mark.exhaustive(after=2)
@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({}, "scores: at the end; 15 sentences are translated, their score decides"),
        (
            {"run__checkpoint_steps": 1},
            "scores: every step, and at the end; 15 sentences are translated, their",
        ),
        (
            {"run__checkpoint_steps": 200, "run__first_score_steps": 1},
            "scores: first after 1 step, then at doubling distances up to every 200 steps, and at "
            "the end; 15 sentences",
        ),
        (
            {"run__checkpoint_steps": 1, "training__minutes": 5, "run__scoring_share": 0.05},
            "scores: every step while scores take at most 5% of the time, and at the end; 15",
        ),
    ],
)
def test_when_a_run_is_scored_is_told_as_it_is(
    given: dict[str, object], line: str, corpus: Path, tmp_path: Path, command: Command
) -> None:
    few = settings(run__score_sentences=500, **given)
    done = command(*training(corpus, tmp_path / "run")[:7], *few)
    assert done.code == 0, done.err
    assert line in done.err
    [last] = re.findall(r"^100%  (\S+)  step 2 ", done.err, re.MULTILINE)
    assert f"step 2, {last} of training" in done.err, "one clock"
    card = (tmp_path / "run/README.md").read_text(encoding="utf-8")
    assert "15 pairs held out from these files" in card
    assert "in the held-out text" not in card


def test_a_small_task_is_counted_right_and_has_a_smaller_test(
    tmp_path: Path, command: Command
) -> None:
    one = ("data", "generate", "addition", "--lengths", "1-1", "--to", tmp_path)
    message = command(*one, "--pairs", "500").mistake()
    found = re.fullmatch(
        "there are no more than 100 different lines of addition of these lengths, (.*) for "
        "training, (.*) for development and (.*) for testing: ask for no more, or for longer ones",
        message,
    )
    assert found, message
    train, dev, test = map(int, found.groups())
    assert train + dev + test == 100
    done = command(*one, "--pairs", str(train))
    assert f"train.src and .tgt ({train}), dev.src and .tgt ({dev}), test" in done.out
    assert len((tmp_path / "test.src").read_text().splitlines()) == test


def test_a_folder_that_is_training_is_refused_at_once_and_listed_as_such(
    corpus: Path, tmp_path: Path, command: Command
) -> None:
    run, arguments = tmp_path / "run", training(corpus, tmp_path / "run", training__steps=2)
    assert command(*arguments).code == 0
    with (run / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert re.search(r"^run \* +training ", command("runs", run).out, re.MULTILINE)
        message = command(*arguments, "--fresh").mistake()  # one line: nothing was prepared
    assert message == f"another process is training in {run}: wait for it, or choose another --out"
    assert re.search(r"^run \* +finished ", command("runs", run).out, re.MULTILINE)


def in_csv(folder: Path, pairs: list[tuple[str, str]]) -> list[str]:
    with (folder / "a.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("English", "French"), *pairs])
    return ["--src", "a.csv", "--fields", "English,French"]


def in_json(folder: Path, pairs: list[tuple[str, str]]) -> list[str]:
    rows = (json.dumps({"en": src, "fr": tgt}) for src, tgt in pairs)
    (folder / "a.jsonl").write_text("\n".join(rows), encoding="utf-8")
    return ["--src", "a.jsonl", "--fields", "en,fr"]


def in_packed_files(folder: Path, pairs: list[tuple[str, str]]) -> list[str]:
    for side, name in enumerate(("a.en", "a.fr.gz")):
        text = "".join(f"{pair[side]}\n" for pair in pairs).encode()
        (folder / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    return ["--src", "a.en", "--tgt", "a.fr.gz"]


Written = Callable[[Path, list[tuple[str, str]]], list[str]]


@pytest.mark.exhaustive(after=1)
@pytest.mark.parametrize("written", [in_csv, in_json, in_packed_files])
def test_the_commands_to_copy_name_the_languages(
    written: Written, tmp_path: Path, command: Command
) -> None:
    files = written(tmp_path, [(pair.src, pair.tgt) for pair in short_pairs(200, seed=4)])
    done = command("train", *files, "--out", "run", *settings(), folder=tmp_path)
    assert done.code == 0, done.err
    _, evaluate, serve = done.err.rstrip().splitlines()[-3:]
    assert evaluate.endswith("evaluate run --src test.en --ref test.fr")
    assert serve.endswith("serve run")


def test_where_nothing_tells_the_languages_the_command_to_serve_asks_for_them(
    corpus: Path, tmp_path: Path, command: Command
) -> None:
    for name, other in (("a.en", "x.one"), ("a.de", "x.two")):
        (tmp_path / other).write_bytes((corpus / name).read_bytes())
    files = ("--src", "x.one", "--tgt", "x.two")
    done = command("train", *files, "--out", "run", *settings(), folder=tmp_path)
    assert done.code == 0, done.err
    *_, evaluate, serve = done.err.rstrip().splitlines()
    assert evaluate.endswith("evaluate run --src test.one --ref test.two")
    assert shlex.split(serve, comments=True)[-2:] == ["serve", "en-de=run"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("data generate revers --to x", "TASK revers: must be copy, reverse, sort, recall, "),
        ("data generate revers --to x", "(did you mean reverse?)"),
        (
            "export model --to ctranslate --out x",
            "--to ctranslate: must be ctranslate2 or huggingface (did you mean ctranslate2?)",
        ),
        ("data generate copy --lengths a-b --to x", "--lengths a-b: write two numbers, such as"),
        ("data generate copy --lengths 5-2 --to x", "lengths from 5 to 2: the first is the short"),
        ("data generate copy --to a.jsonl", "a.jsonl is a file: name a folder"),
        ("data generate copy --base 3 --to x", "--base is for addition: leave it out"),
        ("data generate copy --facts 1 --to x", "--facts is for stories: leave it out"),
        ("serve model --port 99999", "--port 99999: must be at most 65,535"),
        ("data check a.jsonl", "a.jsonl line 2: not JSON: Expecting value at column 8: "),
        ("train --src a --tgt b --out c --minutes -3", "--minutes -3: must be more than 0"),
        ("data check . a.jsonl", ". is a folder: name a file in it"),
        ("train --src a --tgt b --out c --device gpu", "--device gpu: use auto, cpu, cuda, cuda"),
        ("translate model --device gpu", "--device gpu: use auto, cpu, cuda, cuda:N or mps"),
        ("train --src a --tgt b --out c --minuts 3", "; see 'transduce train --help'"),
        ("train --src a --tgt b --out c --epochs 0", "--epochs 0: must be more than 0"),
        ("train --src a --tgt b --out c --steps 0", "--steps 0: must be 1 or more"),
        ("data check b.csv", "if this is a header, choose two of these names; if it is text, ch"),
    ],
)
def test_a_mistake_is_named_as_it_was_typed(
    arguments: str, message: str, tmp_path: Path, command: Command
) -> None:
    (tmp_path / "a.jsonl").write_text('{"src": "a", "tgt": "b"}\n{"src":}\n')
    (tmp_path / "b.csv").write_text("id,English,French\n1,a,b\n")
    assert message in command(*shlex.split(arguments), folder=tmp_path).mistake()


def test_help_is_whole_and_in_the_users_words(command: Command) -> None:
    listed = command("--help").out
    assert "..." not in listed.partition("Commands:")[2]
    for name in ("demo", "runs", "serve", "translate", "evaluate"):
        shown = command(name, "--help").out
        assert "[[" not in shown
        assert "...}" not in shown
        assert "list[" not in shown
