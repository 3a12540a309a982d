"""`transduce train` on a terminal and in a pipe: what a user sees while it works, and after."""

import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.command import Command
from tests.system.small_runs import MAX_POSITIONS, short_pairs
from transduce.analysis import curves
from transduce.data.corpus import Pair

PAIRS = [*short_pairs(300, seed=4), Pair("Nothing.", ""), *short_pairs(5, seed=4)]
HELD_OUT = 15
COLUMNS = 200
SETTINGS = {
    "model.vocab_size": 100_000,
    "model.max_positions": MAX_POSITIONS,
    "model.n_layers": 1,
    "model.d_model": 16,
    "model.d_ff": 32,
    "model.h": 2,
    "training.batch_tokens": 300,
    "training.steps": 9,
    "run.checkpoint_steps": 3,
    "run.choose_by": "metric",  # so that each set of weights is translated with
    "run.device": "cpu",
}

NOISY = """
import logging, os, sys, warnings
from transduce.cli.app import main
from transduce.training.dev import DevScorer
logger = logging.getLogger("old")
logger.addHandler(logging.StreamHandler())  # holds the stream of now
def score(self, *arguments, call=DevScorer.__call__, **options):
    warnings.warn("a warning while scoring")
    logger.warning("a logged note while scoring")
    os.write(2, b"a note from outside of Python\\n")
    os.system("echo a note of another process >&2")
    return call(self, *arguments, **options)
DevScorer.__call__ = score
main()
"""


def write_corpus(folder: Path) -> Path:
    for name, side in (("a.en", 0), ("a.de", 1)):
        text = "".join(f"{pair[side]}\n" for pair in PAIRS)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def arguments(corpus: Path, out: Path, **changes: object) -> list[str]:
    files = ["--src", str(corpus / "a.en"), "--tgt", str(corpus / "a.de"), "--out", str(out)]
    settings = [f"--set={name}={value}" for name, value in (SETTINGS | changes).items()]
    return ["train", *files, *settings]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "available", lambda: False)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)


def screen(written: str) -> list[str]:
    """Return the lines that a tall terminal shows in the end."""
    rows, row, column = [""], 0, 0
    for code, text in re.findall(r"(\x1b\[[0-9;?]*[a-zA-Z]|\r|\n)|([^\x1b\r\n]+)", written):
        count = int(re.sub(r"\D", "", code) or 1)
        if text:
            rows[row] = rows[row][:column].ljust(column) + text + rows[row][column + len(text) :]
            column += len(text)
        elif code == "\n":
            row += 1
            rows += [""] * (row + 1 - len(rows))
        elif code == "\r":
            column = 0
        elif code.endswith("A"):
            row -= count
        elif code.endswith("K"):
            rows[row] = ""
    return [line.rstrip() for line in rows]


@dataclass(frozen=True)
class OnTerminal:
    """A run of the command on a terminal."""

    out: Path
    written: str

    @property
    def lines(self) -> list[str]:
        return screen(self.written)

    @property
    def live(self) -> str:
        """All that was ever shown, without codes."""
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.written)


@pytest.fixture(scope="module")
def noisy(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> OnTerminal:
    """A run on a terminal during which others write to it too, in four ways."""
    out = tmp_path_factory.mktemp("runs") / "my run"
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 1000, COLUMNS, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}  # noqa: TID251
    with subprocess.Popen(
        [sys.executable, "-c", NOISY, *arguments(corpus, out)],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env=environment | {"TERM": "xterm"},
    ) as process:
        os.close(theirs)
        written = b""
        try:
            while block := os.read(ours, 1 << 16):
                written += block
        except OSError:  # Linux says so that the other side is closed
            pass
    os.close(ours)
    assert process.returncode == 0, written.decode()
    return OnTerminal(out, written.decode().replace("\r\n", "\n").replace("\n", "\r\n"))


@pytest.mark.exhaustive(after=1)
@pytest.mark.parametrize(
    "note",
    [
        "a logged note while scoring",
        "a note from outside of Python",
        "a note of another process",
    ],
)
def test_notes_of_others_have_lines_of_their_own(noisy: OnTerminal, note: str) -> None:
    """Three scores and two sets of weights to choose from, in any order of the four notes."""
    containing = [line for line in noisy.lines if note in line]
    assert len(containing) >= 3
    assert set(containing) == {note}


def test_warnings_have_lines_of_their_own(noisy: OnTerminal) -> None:
    found = [line for line in noisy.lines if "a warning while scoring" in line]
    pattern = r"<string>:\d+: UserWarning: a warning while scoring"
    assert found
    assert all(re.fullmatch(pattern, line) for line in found)


def test_no_live_line_is_left_over(noisy: OnTerminal) -> None:
    assert "━" in noisy.live
    assert not [line for line in noisy.lines if "━" in line or "tokens/s" in line]


def test_scoring_and_the_end_have_a_status(noisy: OnTerminal) -> None:
    works = ("scoring", "choosing the weights, 1 of ", "choosing the weights, 2 of ")
    for work in works:
        assert re.search(rf"^{work}\S* +━.*  0 of {HELD_OUT} sentences  0:0", noisy.live, re.M), (
            work
        )
    assert re.search(r"^averaging checkpoints +━", noisy.live, re.M)
    assert re.search(r"^writing the model +━", noisy.live, re.M)


def test_in_a_pipe_the_data_is_described_first_and_samples_come_now_and_then(
    corpus: Path, tmp_path: Path, command: Command
) -> None:
    done = command(*arguments(corpus, tmp_path / "run"))
    before, _, _ = done.err.partition("step 0")
    trained = len(PAIRS) - HELD_OUT - 6
    assert (
        f"data: {len(PAIRS)} pairs read, {trained} trained on, {HELD_OUT} held out for "
        "development\ndropped 6 pairs: 1 empty, 5 duplicate\n"
    ) in before
    entries = re.search(r"^vocabulary: ([\d,]+) entries, not the 100,000 requested: ", before, re.M)
    assert entries
    assert f" {entries[1]} subwords (bpe)" in before
    assert done.err.count("dev loss") == 3
    assert done.err.count("  source       ") == 2, "of one score: the others followed at once"


def test_a_given_development_set_and_a_cut_corpus(tmp_path: Path, command: Command) -> None:
    """Pairs that are too long for the model are dropped too: from each batch."""
    dev, other = tmp_path / "dev.tsv", tmp_path / "b.tsv"
    dev.write_text("A dog.\tEin Hund.\nA cat.\tEine Katze.\n", encoding="utf-8")
    long = "Der Hund sieht die Katze. " * 30
    rows = [f"{pair.src} Again.\t{pair.tgt} Wieder." for pair in short_pairs(50, seed=8)]
    other.write_text("\n".join([*rows, f"{long}\t{long}!"]), encoding="utf-8")
    changes: dict[str, object] = {"model.positions": "learned", "model.max_positions": 100}
    changes |= {"training.steps": 1, "model.vocab_size": 300}
    settings = [f"--set={name}={value}" for name, value in (SETTINGS | changes).items()]
    done = command("train", "--src", other, "--dev-src", dev, "--out", tmp_path / "run", *settings)
    assert done.code == 0, done.err
    assert "data: 51 pairs read, 50 trained on, 2 pairs given for development" in done.err
    assert "ends after 1 step\n" in done.err
    assert "scores: at the end; 2 sentences are translated, their score decides" in done.err
    assert "finished: 1 step is made\n" in done.err
    assert "dropped 1 pair: 1 longer than model.max_positions=100\n" in done.err
    assert "vocabulary: " not in done.err, "there are as many entries as requested"


def test_held_out_sentences_are_shown_at_each_score(noisy: OnTerminal) -> None:
    pairs = {pair.src: pair.tgt for pair in PAIRS}
    shown = "\n".join(line for line in noisy.lines if "note" not in line and "arn" not in line)
    samples = re.findall(
        r"  source       (.+)\n  reference    (.+)\n  translation(?:  (.+))?\n", shown
    )
    sources = [source for source, *_ in samples]
    assert len(set(sources)) == 2
    assert sources == sources[:2] * 3, "the same ones at each of the three scores"
    assert all(pairs[source] == reference for source, reference, _ in samples)
    assert max(len(line) for _, _, line in samples) <= 64


def test_the_next_commands_run_as_they_are_shown(noisy: OnTerminal, command: Command) -> None:
    start = noisy.lines.index("Next: translate, score it on a test set of your own, serve it") + 1
    translate, evaluate, serve = noisy.lines[start : start + 3]
    echo, sentence, bar, *called = shlex.split(translate)
    rest = called[called.index("translate") :]
    assert (echo, bar, rest) == ("echo", "|", ["translate", str(noisy.out)])
    assert sentence in {pair.src for pair in PAIRS}
    done = command(*rest, given=f"{sentence}\n".encode())
    assert (done.code, done.out.count("\n")) == (0, 1)
    options = ["--src", "test.en", "--ref", "test.de"]
    assert shlex.split(evaluate)[-6:] == ["evaluate", str(noisy.out), *options]
    assert shlex.split(serve)[-2:] == ["serve", str(noisy.out)]
