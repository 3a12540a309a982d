"""Experts and other attention scores through the real command."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.command import Command
from tests.system.small_runs import stopped_run, training, write_corpus
from transduce.export import ctranslate2

EXPERTS: dict[str, Any] = {"model__experts": 3, "model__expert_capacity": 1.0}


def test_describe_shows_parameters_held_and_used(command: Command) -> None:
    shown = command("describe", "moe").out
    held, used = (
        next(line for line in shown.splitlines() if line.lstrip().startswith(name))
        for name in ("total", "used by each token")
    )
    assert "239,519,744" in held
    assert "177.6 M" in held  # of operations: those of 2 experts, not of 8
    assert "88,340,480" in used
    assert "used by each token" not in command("describe", "tiny").out


@pytest.mark.exhaustive  # tests/system/test_every_kind.py resumes a shorter one
def test_a_run_with_experts_is_trained_resumed_and_translates(
    tmp_path: Path, command: Command
) -> None:
    """Noise and slots are those of the uninterrupted run, to the bit."""
    corpus = write_corpus(tmp_path / "corpus")
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    assert command(*training(corpus, whole, **EXPERTS)).code == 0
    stopped_run(corpus, resumed, after=10, **EXPERTS)
    assert command(*training(corpus, resumed, **EXPERTS)).code == 0
    expected, found = (load_file(out / "model.safetensors") for out in (whole, resumed))
    assert expected.keys() == found.keys()
    assert all(torch.equal(found[name], weights) for name, weights in expected.items())
    lines = (corpus / "a.en").read_text(encoding="utf-8").splitlines()[:12]
    together = command("translate", whole, given="\n".join(lines).encode()).out.splitlines()
    alone = [command("translate", whole, given=line.encode()).out for line in lines[:3]]
    assert len(together) == 12
    assert alone == [f"{line}\n" for line in together[:3]]


@pytest.mark.exhaustive(after=1)
@pytest.mark.parametrize(
    ("name", "value", "formats"),
    [
        ("experts", 3, ("ctranslate2", "huggingface")),
        ("attention_score", "additive", ("ctranslate2", "huggingface")),
        ("positions", "rotary", ("huggingface",)),
        ("activation", "swiglu", ("huggingface",)),
        ("norm_kind", "rms", ("huggingface",)),
    ],
)
def test_export_says_which_setting_it_cannot_express(
    name: str, value: object, formats: tuple[str, ...], tmp_path: Path, command: Command
) -> None:
    settings: dict[str, object] = {f"model__{name}": value, "training__steps": 1}
    run = tmp_path / "run"
    trained = command(*training(write_corpus(tmp_path / "corpus"), run, **settings))
    assert trained.code == 0, trained.err
    installed = {"huggingface", *(["ctranslate2"] if ctranslate2.is_installed() else [])}
    for to in (one for one in formats if one in installed):
        message = command("export", run, "--to", to, "--out", tmp_path / "exported").mistake()
        assert f"model.{name}={value}, but " in message
        assert not (tmp_path / "exported").exists()
