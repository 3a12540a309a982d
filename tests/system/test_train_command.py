"""`transduce train` as users run it: what it makes, what it prints, and what it refuses."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from tests.command import Command, Result, start
from tests.system.small_runs import MAX_POSITIONS, short_pairs
from transduce.analysis import curves
from transduce.config.load import load_config
from transduce.config.presets import preset_named
from transduce.data.corpus import Pair, TwoFiles, read_pairs
from transduce.models.folder import load_model
from transduce.text.special_ids import BOS_ID, EOS_ID
from transduce.training.run.checkpoint import Checkpoints
from transduce.training.run.events import Event, Scored, Started, Stepped
from transduce.training.run.folder import RunFolder
from transduce.training.run.journal import read_journal

PAIRS = [*short_pairs(300, seed=4), Pair("Nothing.", ""), *short_pairs(5, seed=4)]
STEPS = 24
SETTINGS = {
    "model.vocab_size": 300,
    "model.max_positions": MAX_POSITIONS,
    "model.n_layers": 1,
    "model.d_model": 16,
    "model.d_ff": 32,
    "model.h": 2,
    "training.batch_tokens": 300,
    "training.schedule": "paper",
    "training.warmup_steps": 20,
    "training.steps": STEPS,
    "run.checkpoint_steps": 8,
    "run.average": 2,
    "run.bleu_sentences": 4,
    "run.device": "cpu",  # where the same numbers come out every time
}


def arguments(corpus: Path, out: Path, **changes: object) -> list[str]:
    files = ["--src", str(corpus / "a.en"), "--tgt", str(corpus / "a.de"), "--out", str(out)]
    settings = [f"--set={name}={value}" for name, value in (SETTINGS | changes).items()]
    return ["train", *files, *settings]


def write_corpus(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    for name, side in (("a.en", 0), ("a.de", 1)):
        text = "".join(f"{pair[side]}\n" for pair in PAIRS)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def first(
    corpus: Path, tmp_path_factory: pytest.TempPathFactory
) -> "tuple[Path, subprocess.CompletedProcess[str]]":
    """The command in a process of its own, with its output in pipes."""
    out = tmp_path_factory.mktemp("runs") / "ende"
    command = [sys.executable, "-m", "transduce", *arguments(corpus, out)]
    return out, subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def finished(first: "tuple[Path, subprocess.CompletedProcess[str]]", tmp_path: Path) -> Path:
    """A copy of the finished run, which a test may change."""
    return shutil.copytree(first[0], tmp_path / "ende")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no curves and start no processes to encode text: `first` does both."""
    monkeypatch.setattr(curves, "available", lambda: False)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)


def content(folder: Path) -> dict[str, bytes]:
    """All that is in a folder, but for the digests that spare reading files again."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "digests.json")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def complaint(result: Result) -> str:
    """Return the line of a user's mistake, which comes after those about the work so far."""
    assert (result.code, result.out) == (2, "")
    *before, last = result.err.splitlines()
    assert last.startswith("transduce: ")
    assert not any("transduce:" in line or "Traceback" in line for line in before)
    return last


def events(out: Path) -> list[Event]:
    return read_journal(out / "journal.jsonl")


def newest_tensors(out: Path) -> dict[str, bytes]:
    newest = max((out / "checkpoints").iterdir())
    return {path.name: path.read_bytes() for path in newest.glob("*.safetensors")}


def test_files_and_a_folder_make_a_model(
    first: "tuple[Path, subprocess.CompletedProcess[str]]",
) -> None:
    out, process = first
    assert process.returncode == 0, process.stderr
    assert process.stdout == ""
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", process.stderr), "no escape codes in a pipe"
    assert f"finished: {STEPS} steps are made" in process.stderr
    decided = r"^weights by BLEU on 15 development sentences, not 4 as before: (.*)$"
    [choice] = re.findall(decided, process.stderr, re.M)
    scores = re.findall(
        r"(average of the last 2 checkpoints|\w+ checkpoint \(.*?\)) ([\d.]+)", choice
    )
    assert len(scores) > 1
    names, values = zip(*scores, strict=True)
    assert names[0] in process.stderr.partition("model folder: ")[2]
    assert sorted(values, key=float, reverse=True) == list(values)
    card = (out / "README.md").read_text(encoding="utf-8")
    assert all(f" {score} |" in card for _, score in scores)
    assert (out / "curves.png").read_bytes().startswith(b"\x89PNG")
    loaded = load_model(out)
    assert loaded.config == load_config(out / "config.yaml")
    assert loaded.config.model.d_model == 16
    assert len(loaded.tokenizer) == loaded.config.model.vocab_size
    assert not [path for path in out.rglob("*") if path.suffix in (".making", ".part", ".removed")]


def test_the_cards_numbers_are_those_of_the_run(
    first: "tuple[Path, subprocess.CompletedProcess[str]]", corpus: Path
) -> None:
    out, _ = first
    card = (out / "README.md").read_text(encoding="utf-8")
    provenance = json.loads((out / "provenance.json").read_text())
    loaded = load_model(out)
    journal = events(out)
    [started] = [event for event in journal if isinstance(event, Started)]
    last = [event for event in journal if isinstance(event, Stepped)][-1]
    assert card.startswith("# ende\n")
    assert f"`{corpus / 'a.en'}` and `{corpus / 'a.de'}`" in card
    assert f"{started.parameters:,} parameters" in card
    assert started.parameters == sum(weights.numel() for weights in loaded.model.parameters())
    assert (
        f"{STEPS} steps of 300 tokens a side, {last.epoch - 1 + last.epoch_share:.1f} epochs"
        in card
    )
    assert f"{last.tokens:,} source and target tokens" in card
    assert f"{len(PAIRS)} pairs read, {started.pairs} trained on" in card
    assert "1 empty" in card
    assert "15 pairs held out from these files" in card
    assert f"torch {torch.__version__}" in card
    assert f"started {provenance['began']}, seed 1" in card
    for name in ("a.en", "a.de"):
        digest = blake2b((corpus / name).read_bytes(), digest_size=16).hexdigest()
        assert provenance["data"][str(corpus / name)] == digest


def test_the_losses_on_the_card_are_those_of_the_weights(
    first: "tuple[Path, subprocess.CompletedProcess[str]]",
) -> None:
    """Recomputed from the text, one pair at a time, with torch's own loss."""
    out, _ = first
    card = (out / "README.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (\w+)[^|]*\| (\d+\.\d{4}) \|", card, flags=re.MULTILINE))
    assert rows.keys() >= {"average", "best"}
    loaded = load_model(out)
    [dev] = out.glob("data/dev-*")
    total, tokens = 0.0, 0
    for pair in read_pairs(TwoFiles(dev / "dev.src", dev / "dev.tgt")):
        src, tgt = loaded.tokenizer.encode_batch(pair)
        with torch.no_grad():
            logits = loaded.model(torch.tensor([[*src, EOS_ID]]), torch.tensor([[BOS_ID, *tgt]]))
        total += cross_entropy(logits[0], torch.tensor([*tgt, EOS_ID]), reduction="sum").item()
        tokens += len(tgt) + 1
    assert min(map(float, rows.values())) == pytest.approx(total / tokens, abs=1e-4)
    scored = Checkpoints(out / "checkpoints", keep_last=2, keep_best=1).scored()
    journal = {event.step: event.loss for event in events(out) if isinstance(event, Scored)}
    assert all(found.scores and found.scores.loss == journal[found.step] for found in scored)
    assert float(rows["best"]) == pytest.approx(min(journal.values()), abs=1e-4)


def test_the_same_command_again_says_so_and_changes_nothing(
    finished: Path, corpus: Path, command: Command
) -> None:
    before = content(finished)
    done = command(*arguments(corpus, finished))
    assert done.code == 0
    *_, end, hint = done.err.splitlines()
    assert end == f"The run in {finished} is finished: nothing is left to do."
    assert hint == "To train longer, give a larger --minutes, --epochs or --steps."
    assert content(finished) == before
    assert command("train", "--out", str(finished)).code == 0, "what is not given stays"
    assert content(finished) == before


def test_other_settings_are_refused(finished: Path, corpus: Path, command: Command) -> None:
    before = content(finished)
    changes = {"model.d_model": 32, "run.seed": 7}
    message = complaint(command(*arguments(corpus, finished, **changes)))
    assert "model.d_model is 16 there, not 32; run.seed is 1 there, not 7;" in message
    assert "--fresh" in message
    assert content(finished) == before


def test_fresh_starts_over(finished: Path, corpus: Path, command: Command) -> None:
    weights = (finished / "model.safetensors").read_bytes()
    changes = {"training.steps": 3, "training.schedule": "linear"}
    assert command(*arguments(corpus, finished, **changes), "--fresh").code == 0
    assert (finished / "model.safetensors").read_bytes() != weights
    assert [event.step for event in events(finished) if isinstance(event, Started)] == [0]
    assert max(event.step for event in events(finished)) == 3
    assert load_config(finished / "config.yaml").training.steps == 3
    assert "3 steps of 300 tokens" in (finished / "README.md").read_text(encoding="utf-8")


def test_more_steps_continue_as_if_they_had_been_asked_for_at_first(
    finished: Path, corpus: Path, tmp_path: Path, command: Command
) -> None:
    more = {"training.steps": STEPS + 8}
    shutil.rmtree(finished / "data")
    left = finished / "checkpoints" / "step-000000000030.0123456789abcdef.making"
    left.mkdir()
    assert command(*arguments(corpus, finished, **more)).code == 0
    assert [e.step for e in events(finished) if isinstance(e, Started)] == [0, STEPS]
    assert f"{STEPS + 8} steps of" in (finished / "README.md").read_text(encoding="utf-8")
    assert not left.exists()
    assert command(*arguments(corpus, tmp_path / "at once", **more)).code == 0
    assert newest_tensors(finished) == newest_tensors(tmp_path / "at once")
    assert (finished / "model.safetensors").read_bytes() == (
        tmp_path / "at once" / "model.safetensors"
    ).read_bytes()


def test_a_recipe_with_a_preset_and_a_tsv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.tsv").write_text("".join(f"{p.src}\t{p.tgt}\n" for p in PAIRS), encoding="utf-8")
    Path("mine.yaml").write_text(
        "preset: tiny\n"
        "data: {src: a.tsv, dev_pairs: 4}\n"
        "model: {vocab_size: 300, n_layers: 1}\n"
        "training: {steps: 2, batch_tokens: 200}\n"
        "run: {device: cpu}\n"
    )
    done = command("train", "mine.yaml", "--seed", "3")
    assert done.code == 0, done.err
    config = load_model(Path("runs/mine")).config
    changes = {"model": {"vocab_size": 300, "n_layers": 1}}
    assert config.model == preset_named("tiny").with_changes(changes).model
    assert (config.run.seed, config.training.batch_tokens) == (3, 200)
    assert config.training.schedule == "linear", "a budget is given"
    assert "4 pairs held out" in Path("runs/mine/README.md").read_text(encoding="utf-8")
    assert "preset" not in complaint(command("train", "mine.yaml", "--seed", "4"))


def write_dev(folder: Path) -> list[str]:
    """Two development files a side; return the options that name them."""
    options = []
    for name, seed in (("one", 5), ("two", 6)):
        for side, option in (("src", "--dev-src"), ("tgt", "--dev-tgt")):
            path = folder / f"{name}.{side}"
            lines = (getattr(pair, side) for pair in short_pairs(4, seed=seed))
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            options += [option, str(path)]
    return options


def test_several_development_files_are_one_set(
    corpus: Path, tmp_path: Path, command: Command
) -> None:
    words = [*arguments(corpus, tmp_path / "run", **{"training.steps": 1}), *write_dev(tmp_path)]
    assert command(*words).code == 0
    card = (tmp_path / "run" / "README.md").read_text(encoding="utf-8")
    assert "On the development set (8 pairs)" in card
    assert f"Development set: `{tmp_path / 'one.src'}`, `{tmp_path / 'two.src'}`;" in card
    message = complaint(command(*words[:-2], "--fresh"))
    assert (
        "data.dev_src names 2 files but data.dev_tgt 1: give one target file for each source file"
        in message
    )


def test_a_run_that_names_its_one_development_file_plainly_resumes(
    corpus: Path, tmp_path: Path, command: Command
) -> None:
    out, dev = tmp_path / "run", write_dev(tmp_path)[:4]
    words = [*arguments(corpus, out, **{"training.steps": 1}), *dev]
    assert command(*words).code == 0
    config, origin = out / "config.yaml", out / "provenance.json"
    provenance = json.loads(origin.read_text(encoding="utf-8"))
    settings = config.read_text(encoding="utf-8")
    for name in (dev[1], dev[3]):
        assert f": [{name}]\n" in settings
        settings = settings.replace(f"[{name}]", name)
    config.write_text(settings, encoding="utf-8")
    provenance["given"]["data"] |= {"dev_src": dev[1], "dev_tgt": dev[3]}
    del provenance["checksum"]
    origin.write_text(json.dumps(provenance), encoding="utf-8")
    done = command(*words)
    assert done.code == 0, done.err
    assert "is finished: nothing is left to do." in done.err


MISTAKES: list[tuple[list[str], str]] = [
    (["--src", "nope.en", "--tgt", "{a.de}"], "cannot read nope.en: No such file"),
    (["--src", "{a.en}", "--tgt", "nope.de"], "cannot read nope.de: No such file"),
    (["--src", "{a.en}"], "a.en has no target text: give one"),
    ([], "no training text: give --src and --tgt"),
    (["nope.yaml"], "cannot read nope.yaml: No such file"),
    (["--src", "{a.en}", "{a.de}"], "a.de is no recipe, whose name ends in .yaml"),
    (["--preset", "tinny"], "no preset named 'tinny' (did you mean tiny?)"),
    (["--set", "model.d_modle=3"], "unknown setting model.d_modle (did you mean model.d_model?)"),
    (["--set", "d_model"], "write it as section.name=value"),
    (["--set", "training="], "training must be a mapping of names to values"),
    (["--steps", "0"], "--steps 0: must be 1 or more"),
    (["--steps", "many"], "--steps many: must be a whole number"),
    (["--minutes", "nan"], "--minutes nan: must be"),
    (["--device", "tpu"], "--device tpu: use auto, cpu"),
    (["--src", "{a.en}", "--tgt", "{a.de}", "--set", "model.h=3"], "does not divide"),
    (["--src", "{a.en}", "--tgt", "{a.de}", "--held-out", "nope"], "cannot read nope"),
]


@pytest.mark.parametrize(("words", "message"), MISTAKES)
def test_a_mistake_is_one_line_and_leaves_nothing(
    words: list[str], message: str, corpus: Path, tmp_path: Path, command: Command
) -> None:
    out = tmp_path / "run"
    named = [word.replace("{", f"{corpus}/").replace("}", "") for word in words]
    assert message in complaint(command("train", *named, "--out", str(out)))
    assert not out.exists()


def test_a_folder_without_a_run_cannot_be_resumed(tmp_path: Path, command: Command) -> None:
    out = tmp_path / "run"
    message = complaint(command("train", "--out", out, "--minutes", "5"))
    assert message.startswith("transduce: no training text: give --src and --tgt")
    assert message.endswith(f"; {out} holds no run to resume")
    assert not out.exists()


def test_a_run_needs_a_folder(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    files = ["--src", str(corpus / "a.en"), "--tgt", str(corpus / "a.de")]
    message = complaint(command("train", *files))
    assert message == (
        "transduce: where to? Name a folder for the run with --out, such as runs/mine"
    )
    for words in ([], ["--steps", "2"]):
        assert complaint(command("train", *words)).startswith("transduce: no training text: ")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_trained_is_no_run(corpus: Path, tmp_path: Path, command: Command) -> None:
    out = tmp_path / "run"
    short = {"model.max_positions": 3}
    message = complaint(command(*arguments(corpus, out, **short)))
    assert "model.max_positions=3: every pair of the text is longer" in message
    assert {path.name for path in out.iterdir()} == {"data"}
    assert command(*arguments(corpus, out, **{"training.steps": 1})).code == 0


def test_a_folder_that_is_no_run_is_left_alone(
    corpus: Path, tmp_path: Path, command: Command
) -> None:
    (tmp_path / "README.md").write_text("my project")
    message = complaint(command(*arguments(corpus, tmp_path), "--fresh"))
    assert "is not the folder of a run but holds README.md" in message
    assert content(tmp_path) == {"README.md": b"my project"}
    (tmp_path / "README.md").rename(tmp_path / "thesis.tex")
    message = complaint(command(*arguments(corpus, tmp_path)))
    assert f"{tmp_path} is not the folder of a run but holds thesis.tex: choose a new" in message
    assert content(tmp_path) == {"thesis.tex": b"my project"}


def test_a_folder_in_which_another_process_trains_is_left_alone(
    finished: Path, corpus: Path, command: Command
) -> None:
    before = content(finished)
    with RunFolder(finished).locked():
        message = complaint(command(*arguments(corpus, finished), "--fresh"))
    assert "another process is training in" in message
    assert content(finished) == before


def test_text_that_changed_since_the_start_is_named(tmp_path: Path, command: Command) -> None:
    corpus, out = write_corpus(tmp_path / "corpus"), tmp_path / "run"
    one_step = arguments(corpus, out, **{"training.steps": 1})
    assert command(*one_step).code == 0
    for name in ("a.en", "a.de"):
        with (corpus / name).open("a") as text:
            text.write("One more.\n")
    message = complaint(command(*one_step))
    names = f"{corpus / 'a.en'}, {corpus / 'a.de'}"
    assert f"{out} started with other data: {names} changed since; restore it" in message


def test_settings_changed_by_hand_are_noticed(finished: Path, command: Command) -> None:
    config = finished / "config.yaml"
    config.write_text(config.read_text().replace("  d_ff: 32", "  d_ff: 64"))
    (finished / "README.md").unlink()
    message = complaint(command("train", "--out", str(finished)))
    assert "the checkpoint is not of this model" in message
    assert "if config.yaml was changed, change it back" in message


def test_stopped_while_text_is_prepared_it_says_that_it_resumes(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    def interrupted(*_given: object, **_named: object) -> None:
        raise KeyboardInterrupt

    words = arguments(corpus, tmp_path / "run", **{"training.steps": 1})
    with monkeypatch.context() as patch:
        patch.setattr("transduce.data.prepare.learn_subwords", interrupted)
        stopped = command(*words)
    assert stopped.code == 130
    assert stopped.err.endswith("\nStopped. The same command resumes from here.\n")
    assert command(*words).code == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_stopped_by_the_user_it_keeps_the_step_it_is_at(
    number: signal.Signals, corpus: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    never: dict[str, Any] = {"training.steps": 10**6, "run.checkpoint_steps": 10**6}
    log = tmp_path / "log"
    os.mkfifo(log)
    process = start(*arguments(corpus, out, **never), log=log)
    assert process.pid is not None
    printed = []
    with log.open(encoding="utf-8") as lines:
        for line in lines:
            printed.append(line)
            if line.startswith("step 0 "):  # the first checkpoint: from here on it trains
                os.kill(process.pid, number)
    process.join()
    assert process.exitcode == 128 + number, "".join(printed)
    assert printed[-1] == "Stopped. The same command resumes from here.\n"
    has_answered = any(line.startswith("Stopping after this step") for line in printed)
    assert has_answered == (number == signal.SIGINT)
    newest = Checkpoints(out / "checkpoints", keep_last=1, keep_best=1).newest()
    assert newest is not None
    assert newest.step == events(out)[-1].step > 0
    assert not (out / "README.md").exists()
    assert not (out / "model.safetensors").exists()
