"""The examples of docs/EXTENDING.md, run from the document: a model and a task."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from tests.command import Command
from tests.system.small_runs import short_pairs
from transduce.cli.app import app
from transduce.config import kinds
from transduce.models.folder import load_model
from transduce.search.beam import Beam, beam_search
from transduce.search.forced import forced_scores
from transduce.serving.app import make_app
from transduce.serving.languages import LanguagePair
from transduce.tasks import registry
from transduce.text.special_ids import BOS_ID, EOS_ID
from transduce.translation.load import load

ROOT = Path(__file__).parents[2]
EXAMPLE = re.compile(r"^```python example=(\S+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ENTRY_POINTS = """\
[transduce.models]
gru = gru_model:KIND
[transduce.tasks]
reversal = reversal_task:Reversal
"""
MAX_MODEL_LINES = 150
STEPS = 24


def examples() -> dict[str, str]:
    text = (ROOT / "docs" / "EXTENDING.md").read_text(encoding="utf-8")
    return dict(EXAMPLE.findall(text))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of installed packages with both examples and their entry points."""
    folder = tmp_path_factory.mktemp("site")
    for name, code in examples().items():
        (folder / name).write_text(code, encoding="utf-8")
    info = folder / "examples-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: examples\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    return folder


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    pairs = short_pairs(300, seed=3)
    for name, side in (("a.en", 0), ("a.de", 1)):
        (folder / name).write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    return folder


def started(site: Path, *words: str) -> "subprocess.Popen[str]":
    """Start the command in a process of its own that finds both examples installed."""
    path = os.pathsep.join([str(site), *sys.path])
    return subprocess.Popen(
        [sys.executable, "-m", "transduce", *words],
        env=os.environ | {"PYTHONPATH": path},  # noqa: TID251
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def training(corpus: Path, out: Path, *changes: str) -> list[str]:
    settings = [
        "model.kind=gru",
        "model.vocab_size=300",
        "model.d_model=32",
        "training.batch_tokens=300",
        "training.warmup_steps=20",
        f"training.steps={STEPS}",
        "run.checkpoint_steps=8",
        "run.score_sentences=4",
        "run.device=cpu",
        *changes,
    ]
    files = ["--src", str(corpus / "a.en"), "--tgt", str(corpus / "a.de"), "--out", str(out)]
    return ["train", *files, *(f"--set={setting}" for setting in settings)]


@contextmanager
def installing(site: Path) -> Iterator[None]:
    """Have both examples as if they were installed beside this process."""
    caches = (kinds.find_kind, kinds._installed, registry._installed)
    for cache in caches:
        cache.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(site))
        yield
    for cache in caches:
        cache.cache_clear()


@pytest.fixture
def installed(site: Path) -> Iterator[None]:
    with installing(site):
        yield


@pytest.fixture(scope="module")
def trained(site: Path, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "gru"
    with installing(site):
        done = CliRunner().invoke(app, training(corpus, out))
    assert done.exit_code == 0, done.output
    return out


def results(out: Path) -> dict[str, bytes]:
    last = max((out / "checkpoints").glob("step-*[0-9]"))
    files = [out / "model.safetensors", *sorted(last.glob("*.safetensors"))]
    return {str(file.relative_to(out)): file.read_bytes() for file in files}


def test_the_model_is_short() -> None:
    code = examples()["gru_model.py"]
    assert 60 < len(code.splitlines()) <= MAX_MODEL_LINES


def test_it_trains_and_says_what_it_is(trained: Path) -> None:
    card = (trained / "README.md").read_text(encoding="utf-8")
    assert "GRU with additive attention, d_model 32" in card
    assert "kind: gru" in (trained / "config.yaml").read_text(encoding="utf-8")


@pytest.mark.exhaustive
@pytest.mark.usefixtures("installed")
def test_killed_it_resumes_bit_for_bit(
    site: Path, corpus: Path, trained: Path, tmp_path: Path, command: Command
) -> None:
    out = tmp_path / "run"
    with started(site, *training(corpus, out)) as process:
        while process.poll() is None and not any(out.glob("checkpoints/step-*16")):
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert command(*training(corpus, out)).code == 0
    assert results(out) == results(trained)


@pytest.mark.usefixtures("installed")
def test_a_beam_of_four_finds_hypotheses_with_their_forced_scores(
    corpus: Path, trained: Path
) -> None:
    loaded = load_model(trained)
    texts = (corpus / "a.en").read_text(encoding="utf-8").splitlines()[:3]
    beam = Beam(4, n_best=4)
    for ids in loaded.tokenizer.encode_batch(texts):
        src = torch.tensor([[*ids, EOS_ID]])
        [found] = beam_search(loaded.model, src, beam, max_tokens=torch.tensor([len(ids) + 9]))
        assert len(found) == 4
        for hypothesis in found:
            tgt = torch.tensor([[*hypothesis.ids, *[EOS_ID] * hypothesis.is_finished]])
            tgt_in = torch.tensor([[BOS_ID, *tgt[0, :-1].tolist()]])
            forced = forced_scores(loaded.model, src, tgt_in, tgt)
            expected = forced.sums / beam.penalty(forced.lengths)
            assert hypothesis.score == pytest.approx(expected.item(), abs=1e-3)


@pytest.mark.usefixtures("installed")
def test_it_is_loaded_and_served(trained: Path, corpus: Path) -> None:
    text = (corpus / "a.en").read_text(encoding="utf-8").splitlines()[0]
    translator = load(trained, "cpu")
    [expected] = translator.translate([text])
    server = make_app({LanguagePair("en", "de"): translator}, version="1")
    with TestClient(server) as client:
        answer = client.post("/v1/translate", json={"text": text})
        shown = client.post("/v1/translate", json={"text": text, "attention": True})
    assert answer.status_code == 200
    assert answer.json()["translations"][0]["text"] == expected.text
    assert shown.status_code == 400
    assert "no attention to show" in shown.json()["error"]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("to", ["ctranslate2", "huggingface"])
def test_exports_refuse_it_in_one_line(
    trained: Path, tmp_path: Path, to: str, command: Command
) -> None:
    out = tmp_path / "out"
    assert "gru" in command("export", trained, "--to", to, "--out", out).mistake()
    assert not out.exists()


def test_a_process_of_its_own_finds_it(site: Path) -> None:
    with started(site, "presets") as process:
        listed, errors = process.communicate()
    assert process.returncode == 0, errors
    assert "gru_small" in listed


@pytest.mark.usefixtures("installed")
def test_it_is_listed_described_and_its_settings_are_checked(command: Command) -> None:
    listed = command("presets").out
    assert "model.kind=gru" in listed
    assert "gru_small" in listed
    described = command("describe", "gru_small")
    assert described.code == 0, described.err
    assert "GRU with additive attention, d_model 256" in described.out
    wrong = command("describe", "gru_small", "--set", "model.d_modle=3").mistake()
    assert "unknown setting model.d_modle (did you mean model.d_model?)" in wrong
    other = command("describe", "gru_small", "--set", "model.n_layers=3").mistake()
    assert "unknown setting model.n_layers" in other


def test_without_its_package_the_folder_is_refused(trained: Path, command: Command) -> None:
    message = command("translate", trained, "/dev/null").mistake()
    assert "no kind of model named 'gru'" in message


@pytest.mark.usefixtures("installed")
def test_the_task_scores_by_its_own_metric(tmp_path: Path, command: Command) -> None:
    lines = [pair.src for pair in short_pairs(120, seed=5)]
    for name, texts in (("a.txt", lines), ("a.rev", [line[::-1] for line in lines])):
        (tmp_path / name).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    files = ["--src", str(tmp_path / "a.txt"), "--tgt", str(tmp_path / "a.rev")]
    small = [
        "model.vocab_size=300",
        "model.max_positions=40",
        "model.n_layers=1",
        "model.d_model=16",
        "model.d_ff=32",
    ]
    settings = [*small, "model.h=2", "data.task=reversal", "training.steps=4", "run.device=cpu"]
    out = tmp_path / "run"
    done = command("train", *files, "--out", out, *(f"--set={setting}" for setting in settings))
    assert done.code == 0, done.err
    assert re.search(r"exact \d+\.\d\d", done.err)
    assert "BLEU" not in done.err
    assert "exact match, cased" in (out / "README.md").read_text(encoding="utf-8")
