"""Generated tasks through the real command: written, trained on, and scored by exact answers."""

import json
from pathlib import Path

import yaml

from tests.command import Command


def generate(command: Command, task: str, to: Path, *options: str) -> Path:
    result = command("data", "generate", task, "--to", to, *options)
    assert result.code == 0, result.err
    return to


def test_a_task_is_written_as_parallel_files(tmp_path: Path, command: Command) -> None:
    options = ("--pairs", "40", "--lengths", "3-4")
    result = command("data", "generate", "addition", "--to", tmp_path, *options)
    assert result.code == 0, result.err
    assert "addition, lengths 3 to 4, such as" in result.out
    for name, count in (("train", 40), ("dev", 200), ("test", 500)):
        src, tgt = (
            (tmp_path / f"{name}.{side}").read_text().splitlines() for side in ("src", "tgt")
        )
        assert len(src) == len(tgt) == count
        for terms, total in zip(src, tgt, strict=True):
            numbers = [int(term.replace(" ", "")[::-1]) for term in terms.split("+")]
            assert 3 <= max(len(str(number)) for number in numbers) <= 4
            assert int(total.replace(" ", "")[::-1]) == sum(numbers)


def test_the_same_command_writes_the_same_lines(tmp_path: Path, command: Command) -> None:
    one, two = (generate(command, "stories", tmp_path / n, "--pairs", "20") for n in "ab")
    other = generate(command, "stories", tmp_path / "c", "--pairs", "20", "--seed", "2")
    assert (one / "train.src").read_bytes() == (two / "train.src").read_bytes()
    assert (one / "train.src").read_bytes() != (other / "train.src").read_bytes()


def test_mistakes_are_one_line(tmp_path: Path, command: Command) -> None:
    def mistake(*options: str) -> str:
        return command("data", "generate", *options, "--to", tmp_path).mistake()

    assert "write two numbers, such as 1-8" in mistake("copy", "--lengths", "1,8")
    assert "starts at 2 or more" in mistake("stories", "--lengths", "1-4")
    assert "there are no more than" in mistake("reverse", "--lengths", "1-2", "--pairs", "500")
    assert "as long as they come" in mistake("questions", "--lengths", "1-4")
    expected = (
        "TASK shuffle: must be copy, reverse, sort, recall, addition, stories, questions or trees"
    )
    assert mistake("shuffle") == expected


def test_a_memory_network_is_trained_on_stories_and_scored_by_exact_answers(
    tmp_path: Path, command: Command
) -> None:
    text = generate(command, "stories", tmp_path / "text", "--pairs", "300", "--facts", "1")
    files = [f"--{part}={text / name}" for part, name in FILES.items()]
    run = tmp_path / "run"
    short = ["--set=training.steps=4", "--set=run.device=cpu", "--set=run.score_sentences=20"]
    trained = command("train", "--preset=memory_network", *files, "--out", run, *short)
    assert trained.code == 0, trained.err

    settings = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
    vocabulary = json.loads((run / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    assert settings["model"]["sentence_end_ids"] == [vocabulary["."]]
    # The answers of the development set are answers of the training text too, which stays.
    assert "300 pairs read, 300 trained on" in trained.out + trained.err
    scored = command("evaluate", run, "--src", text / "test.src", "--ref", text / "test.tgt")
    assert scored.code == 0, scored.err
    assert "exact" in scored.out
    assert "BLEU" not in (run / "README.md").read_text(encoding="utf-8")


FILES = {"src": "train.src", "tgt": "train.tgt", "dev-src": "dev.src", "dev-tgt": "dev.tgt"}


def test_pairs_whose_target_is_in_the_development_set_are_dropped_unless_asked_otherwise(
    tmp_path: Path, command: Command
) -> None:
    text = generate(command, "stories", tmp_path / "text", "--pairs", "60", "--facts", "1")
    files = [f"--{part}={text / name}" for part, name in FILES.items()]
    settings = ["--set=data.subwords=whitespace", "--set=data.held_out_by=sentence", "--no-clean"]
    message = command("train", *files, "--out", tmp_path / "run", *settings)
    assert message.code == 2
    assert "all 60 were dropped (60 in the held-out text)" in message.err
