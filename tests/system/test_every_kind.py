"""Every kind of model through the real command: trains, resumes, searches, is saved and served."""

from pathlib import Path

import pytest
import torch
from fastapi.testclient import TestClient

from tests.command import Command
from tests.system.small_runs import write_corpus
from transduce.config.kinds import _OWN
from transduce.models.folder import load_model
from transduce.search.beam import Beam, beam_search
from transduce.search.forced import forced_scores
from transduce.serving.app import make_app
from transduce.serving.languages import LanguagePair
from transduce.text.special_ids import BOS_ID, EOS_ID
from transduce.translation.load import load

SMALL: dict[str, list[str]] = {
    "transformer": ["model.n_layers=1", "model.d_ff=32", "model.h=2", "model.experts=3"],
    "rnn": ["model.n_layers=2", "model.d_hidden=12"],
    "conv_s2s": ["model.layers=2x12k3"],
    "bytenet": ["model.n_sets=1", "model.n_dilations=2"],
    "neural_gpu": [],
    "memory_network": [],
}
STEPS, HALF = 8, 4
every_kind = pytest.mark.parametrize("kind", SMALL)


def training(corpus: Path, out: Path, kind: str, *, steps: int = STEPS) -> list[str]:
    settings = [
        f"model.kind={kind}",
        "model.vocab_size=300",
        "model.d_model=16",
        *SMALL[kind],
        "training.batch_tokens=200",
        "training.schedule=paper",
        "training.warmup_steps=20",
        f"training.steps={steps}",
        f"run.checkpoint_steps={HALF}",
        "run.average=1",
        "run.score_sentences=2",
        "run.device=cpu",
    ]
    files = ["--src", str(corpus / "a.en"), "--tgt", str(corpus / "a.de"), "--out", str(out)]
    return ["train", *files, *(f"--set={setting}" for setting in settings)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


def trained(kind: str, corpus: Path, runs: Path, command: Command) -> Path:
    """Train a model of the kind, once for all tests."""
    out = runs / kind
    if not (out / "README.md").exists():
        result = command(*training(corpus, out, kind))
        assert result.code == 0, result.err
    return out


def test_every_kind_of_this_package_is_run() -> None:
    assert SMALL.keys() == _OWN.keys()


@pytest.mark.exhaustive(after=1)
@every_kind
def test_it_resumes_bit_for_bit_and_says_what_it_is(
    kind: str, corpus: Path, runs: Path, tmp_path: Path, command: Command
) -> None:
    whole, halves = trained(kind, corpus, runs, command), tmp_path / "halves"
    assert command(*training(corpus, halves, kind, steps=HALF)).code == 0
    assert command(*training(corpus, halves, kind)).code == 0
    last = f"checkpoints/step-{STEPS:012}"
    files = sorted(file.name for file in (whole / last).glob("*.safetensors"))
    assert len(files) >= 2  # weights and moments
    for name in files:
        assert (whole / last / name).read_bytes() == (halves / last / name).read_bytes()
    card = (whole / "README.md").read_text(encoding="utf-8")
    assert load_model(whole).config.model.summary() in card


@every_kind
def test_hypotheses_have_their_forced_scores(
    kind: str, corpus: Path, runs: Path, command: Command
) -> None:
    loaded = load_model(trained(kind, corpus, runs, command))
    beam = Beam(4, n_best=4)
    [ids] = loaded.tokenizer.encode_batch(["The old house."])
    src = torch.tensor([[*ids, EOS_ID]])
    [found] = beam_search(loaded.model, src, beam, max_tokens=torch.tensor([len(ids) + 9]))
    assert len(found) == 4
    for hypothesis in found:
        tgt = torch.tensor([[*hypothesis.ids, *[EOS_ID] * hypothesis.is_finished]])
        tgt_in = torch.tensor([[BOS_ID, *tgt[0, :-1].tolist()]])
        forced = forced_scores(loaded.model, src, tgt_in, tgt)
        expected = forced.sums / beam.penalty(forced.lengths)
        assert hypothesis.score == pytest.approx(expected.item(), abs=1e-3)


@pytest.mark.exhaustive(after=2)
@every_kind
def test_the_command_the_ensemble_and_the_server_agree(
    kind: str, corpus: Path, runs: Path, tmp_path: Path, command: Command
) -> None:
    run = trained(kind, corpus, runs, command)
    lines = (corpus / "a.en").read_text(encoding="utf-8").splitlines()[:3]
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    alone = command("translate", run, tmp_path / "text", "--device", "cpu")
    assert alone.code == 0, alone.err
    # The mean of a model and itself is the model.
    both = command("translate", run, tmp_path / "text", "--ensemble", run, "--device", "cpu")
    assert both.out == alone.out
    app = make_app({LanguagePair("en", "de"): load(run, "cpu")}, version="1")
    with TestClient(app) as client:
        answer = client.post("/v1/translate", json={"text": lines[0]})
    assert answer.json()["translations"][0]["text"] == alone.out.splitlines()[0]


@pytest.mark.exhaustive(after=2)
@every_kind
def test_it_is_described_shown_and_not_exported(
    kind: str, corpus: Path, runs: Path, tmp_path: Path, command: Command
) -> None:
    run = trained(kind, corpus, runs, command)
    loaded = load_model(run)
    described = command("describe", run)
    assert described.code == 0, described.err
    assert loaded.config.model.summary() in " ".join(described.out.split())
    page = tmp_path / "page.html"
    shown = command("attention", run, "The old house.", "--out", page, "--device", "cpu")
    if loaded.model.abilities.attention_maps:
        assert shown.code == 0, shown.err
        assert page.stat().st_size > 1000
    else:
        assert "no attention to show" in shown.mistake()
    refused = command("export", run, "--to", "ctranslate2", "--out", tmp_path / "export").mistake()
    assert kind in refused
    assert not (tmp_path / "export").exists()
