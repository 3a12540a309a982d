"""Muon and schedule-free Adam: what they compute, what a skipped step and a checkpoint keep."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

import transduce
from tests.drawing import seeds, transformer
from tests.training.runs import config, setup
from transduce.config.presets import preset_named
from transduce.config.schema import Config, TrainingConfig
from transduce.errors import ConfigError
from transduce.models.build import build_model
from transduce.models.transformer.model import Transformer
from transduce.models.transformer.settings import TransformerConfig
from transduce.training.loop import fit
from transduce.training.step import muon
from transduce.training.step.muon import Muon, orthogonalise
from transduce.training.step.optimiser import Gradients, Optimiser, overwrite
from transduce.training.step.schedule import Spent, learning_rate
from transduce.training.step.train_step import make_optimiser

SMALL = TransformerConfig(vocab_size=23, n_layers=1, d_model=8, d_ff=12, h=2, p_drop=0.0)
NAMES = ["adam", "muon", "schedule_free"]
every_optimiser = pytest.mark.parametrize("name", NAMES)


class Training:
    """A model with an optimiser, and steps of random gradients."""

    def __init__(self, name: str, *, seed: int = 0) -> None:
        self.model: Transformer = transformer(SMALL, seed=seed)
        self.gradients = Gradients(self.model)
        chosen = TrainingConfig.model_validate({"optimiser": name})
        self.optimiser: Optimiser = make_optimiser(self.model, chosen, self.gradients)

    def step(self, seed: int, rate: float = 0.01, *, poison: float | None = None) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.gradients.flat.normal_(generator=generator)
        if poison is not None:
            self.gradients.flat.mul_(poison)
        self.optimiser.set_rate(rate)
        self.optimiser.step(torch.tensor(0.0 if poison is None else 1.0))

    def held(self) -> dict[str, Tensor]:
        tensors = dict(self.model.state_dict()) | self.optimiser.tensors()
        return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def equal(some: dict[str, Tensor], others: dict[str, Tensor]) -> bool:
    return some.keys() == others.keys() and all(torch.equal(some[n], others[n]) for n in some)


@given(n=st.integers(1, 3), rows=st.integers(1, 40), columns=st.integers(1, 40), seed=seeds)
def test_newton_schulz_keeps_the_singular_vectors_and_brings_the_values_near_1(
    n: int, rows: int, columns: int, seed: int
) -> None:
    torch.manual_seed(seed)
    small = min(rows, columns)
    u, _ = torch.linalg.qr(torch.randn(n, rows, small, dtype=torch.float64))
    v, _ = torch.linalg.qr(torch.randn(n, columns, small, dtype=torch.float64))
    values = torch.rand(n, small, dtype=torch.float64) * 0.95 + 0.05
    found = orthogonalise(u * values[:, None] @ v.mT)
    inner = u.mT @ found @ v
    reached = torch.diagonal(inner, dim1=-2, dim2=-1)
    assert_close(u * reached[:, None] @ v.mT, found, rtol=0, atol=1e-9)
    # The iteration starts from values divided by their norm, at most sqrt(small) times as large.
    assert (reached > 0.5).all()
    assert (reached < 1.3).all()


def test_an_orthogonalised_matrix_is_near_that_of_an_svd() -> None:
    torch.manual_seed(1)
    matrix = torch.randn(1, 64, 32)
    u, _, vh = torch.linalg.svd(matrix, full_matrices=False)
    found = orthogonalise(matrix)
    cosine = (found * (u @ vh)).sum() / found.norm() / (u @ vh).norm()
    assert cosine > 0.98


def test_steps_of_muon_are_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    def in_its_precision(matrices: Tensor) -> Tensor:
        return orthogonalise(matrices.bfloat16()).to(matrices.dtype)

    monkeypatch.setattr(muon, "orthogonalise", in_its_precision)
    ours = Training("muon")
    assert isinstance(ours.optimiser, Muon)
    matrices = [m for m in ours.model.modules() if isinstance(m, nn.Linear)]
    copies = [nn.Parameter(m.weight.detach().clone()) for m in matrices]
    starts = [copy.detach().clone() for copy in copies]
    theirs = torch.optim.Muon(
        copies, lr=0.01, weight_decay=0.0, momentum=0.95, adjust_lr_fn="match_rms_adamw"
    )
    for number in range(3):
        ours.gradients.flat.normal_(generator=torch.Generator().manual_seed(number))
        for copy, matrix in zip(copies, matrices, strict=True):
            assert matrix.weight.grad is not None
            copy.grad = matrix.weight.grad.clone()
        ours.optimiser.set_rate(0.01)
        ours.optimiser.step(torch.tensor(0.0))
        theirs.step()  # type: ignore[no-untyped-call]
    for matrix, copy, start in zip(matrices, copies, starts, strict=True):
        mine, its = (w.detach() - start for w in (matrix.weight, copy))
        assert (mine - its).norm() < 0.01 * its.norm()


def test_muon_leaves_embeddings_norms_and_biases_to_adam() -> None:
    names = Training("muon").optimiser.tensors()
    by_muon = {name.removeprefix("momentum.") for name in names if name.startswith("momentum.")}
    by_adam = {name.removeprefix("exp_avg.") for name in names if name.startswith("exp_avg.")}
    assert by_muon | by_adam == {name for name, _ in transformer(SMALL).named_parameters()}
    assert not by_muon & by_adam
    assert "embedding.weight" in by_adam
    assert "encoder.0.feed_forward.w_1.weight" in by_muon


def test_muon_leaves_the_matrix_of_the_output_to_adam() -> None:
    sizes = {"kind": "neural_gpu", "vocab_size": 23, "d_model": 8, "image_width": 2}
    model = build_model(Config.from_tree({"model": sizes}).model)
    gradients = Gradients(model)
    names = make_optimiser(model, TrainingConfig(optimiser="muon"), gradients).tensors()
    assert "exp_avg.output.weight" in names
    assert "momentum.output.weight" not in names


@pytest.mark.parametrize("kind", ["conv_s2s", "memory_network", "neural_gpu"])
def test_a_kind_without_matrices_for_muon_is_refused_before_text_is_read(
    kind: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=rf"muon .* of the kind {kind} has none .* use adam"):
        transduce.train(
            src="missing.de",
            tgt="missing.en",
            out=tmp_path / "run",
            settings={"model": {"kind": kind}, "training": {"optimiser": "muon"}},
        )


def plain_schedule_free(
    start: Tensor, gradient: Callable[[int], Tensor], rates: list[float]
) -> tuple[Tensor, Tensor]:
    """Follow the paper's algorithm 1; return x and y."""
    x, z, y, v, total = start.clone(), start.clone(), start.clone(), torch.zeros_like(start), 0.0
    for number, rate in enumerate(rates, start=1):
        g = gradient(number)
        v = 0.98 * v + 0.02 * g * g
        z = z - rate * g / (torch.sqrt(v / (1 - 0.98**number)) + 1e-9)
        total += rate**2
        c = rate**2 / total
        x = (1 - c) * x + c * z
        y = 0.1 * z + 0.9 * x
    return x, y


@given(rates=st.lists(st.floats(1e-4, 0.1), min_size=1, max_size=6), seed=seeds)
def test_schedule_free_is_the_papers_algorithm(rates: list[float], seed: int) -> None:
    ours = Training("schedule_free", seed=seed)
    weight = ours.model.encoder[0].feed_forward.w_1.weight  # type: ignore[union-attr]
    assert isinstance(weight, nn.Parameter)
    seen: dict[int, Tensor] = {}
    start = weight.detach().double().clone()
    for number, rate in enumerate(rates, start=1):
        ours.step(seed + number, rate)
        assert weight.grad is not None
        seen[number] = weight.grad.double().clone()
    x, y = plain_schedule_free(start, seen.__getitem__, rates)
    assert_close(weight.detach().double(), y, rtol=0, atol=1e-4)
    with ours.optimiser.evaluating():
        assert_close(weight.detach().double(), x, rtol=0, atol=1e-4)
    assert_close(weight.detach().double(), y, rtol=0, atol=1e-4)


@every_optimiser
@pytest.mark.parametrize("poison", [1.0, math.nan, math.inf])
def test_a_skipped_step_changes_nothing(name: str, poison: float) -> None:
    ours = Training(name)
    for before in range(3):
        held = ours.held()
        ours.step(7, poison=poison)
        assert equal(ours.held(), held)
        ours.step(before)
        assert not equal(ours.held(), held)


@every_optimiser
@given(before=st.integers(0, 3), after=st.integers(1, 3), seed=seeds)
def test_a_checkpoint_continues_bit_for_bit(name: str, before: int, after: int, seed: int) -> None:
    ours, other = Training(name, seed=seed), Training(name, seed=seed + 1)
    for number in range(before):
        ours.step(number)
    with ours.optimiser.evaluating():
        weights = {n: t.clone() for n, t in ours.model.state_dict().items()}
        tensors = {n: t.clone() for n, t in ours.optimiser.tensors().items()}
    overwrite(other.model.state_dict(), weights)
    overwrite(other.optimiser.tensors(), tensors)
    other.optimiser.weights_restored()
    for number in range(after):
        ours.step(100 + number)
        other.step(100 + number)
    assert equal(ours.held(), other.held())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"training": {"optimiser": "schedule_free", "schedule": "linear"}},
            r"training\.schedule=linear lowers the rate",
        ),
        (
            {"training": {"optimiser": "schedule_free"}, "run": {"ema_decay": 0.9}},
            r"run\.ema_decay=0.9 averages the weights",
        ),
        ({"training": {"optimiser": "sgd"}}, r"training\.optimiser"),
    ],
)
def test_what_does_not_go_together_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        preset_named("tiny").with_changes(changes)


def test_without_a_schedule_the_rate_stays_after_the_warm_up() -> None:
    free = TrainingConfig(optimiser="schedule_free", learning_rate=0.01, warmup_steps=10)
    assert free.schedule == "constant"
    rates = [learning_rate(free, 8, step, Spent(step, 0.0, 0.0)) for step in (5, 10, 90_000)]
    assert rates == pytest.approx([0.005, 0.01, 0.01])


@pytest.mark.parametrize("name", NAMES[1:])
def test_a_run_that_is_stopped_and_resumed_is_the_same(name: str, tmp_path: Path) -> None:
    changes: dict[str, dict[str, Any]]
    changes = {"training": {"optimiser": name, "steps": 16}, "run": {"checkpoint_steps": 8}}
    whole = setup(tmp_path / "whole", config(**changes))
    ending = fit(whole)
    asked = iter(range(9))
    stopped = replace(
        setup(tmp_path / "parts", config(**changes)), stopped=lambda: next(asked, None) is None
    )
    assert fit(stopped) is None
    parts = setup(tmp_path / "parts", config(**changes))
    assert fit(parts) == ending
    for a, b in zip(whole.checkpoints.scored(), parts.checkpoints.scored(), strict=True):
        assert (a.step, a.scores) == (b.step, b.scores)
        assert equal(a.weights(), b.weights())
    newest = [run.checkpoints.newest() for run in (whole, parts)]
    assert newest[0] is not None
    assert newest[1] is not None
    assert equal(newest[0].moments(), newest[1].moments())
    losses = [found.scores.loss for found in whole.checkpoints.scored() if found.scores]
    assert losses[-1] < losses[0]
    is_average = not equal(newest[0].weights(), dict(whole.model.state_dict()))
    assert is_average == (name == "schedule_free")  # the model goes on from other weights
