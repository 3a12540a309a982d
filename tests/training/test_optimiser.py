"""Adam is torch's; its moments can be restored; all gradients are views of one tensor."""

import math
from copy import deepcopy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.drawing import models, padded_ids, seeds, transformer
from transduce.config.schema import TrainingConfig
from transduce.errors import InputError
from transduce.models.transformer.model import Transformer
from transduce.models.transformer.settings import TransformerConfig
from transduce.training.step.optimiser import Gradients, adam, moments, overwrite

SMALL = TransformerConfig(vocab_size=23, n_layers=1, d_model=8, d_ff=12, h=2, p_drop=0.0)


def set_gradients(model: Transformer, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        drawn = torch.randn(parameter.shape, generator=generator)
        parameter.grad = drawn.to(parameter.dtype)


def step(optimiser: torch.optim.Adam, rate: float, *, found_inf: float = 0.0) -> None:
    """Step as training does."""
    for group in optimiser.param_groups:
        group["lr"] = rate
    optimiser.found_inf = torch.tensor(found_inf)  # type: ignore[attr-defined]
    optimiser.grad_scale = None  # type: ignore[attr-defined]
    optimiser.step()


def clones(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def equal(some: dict[str, Tensor], others: dict[str, Tensor]) -> bool:
    return some.keys() == others.keys() and all(torch.equal(some[n], others[n]) for n in some)


@given(
    model=models(),
    rates=st.lists(st.floats(0, 0.1), min_size=1, max_size=6),
    beta_1=st.floats(0, 0.99),
    beta_2=st.floats(0, 0.999),
    seed=seeds,
)
def test_it_is_torchs_adam(
    model: Transformer, rates: list[float], beta_1: float, beta_2: float, seed: int
) -> None:
    other = deepcopy(model)
    ours = adam(model, TrainingConfig(beta_1=beta_1, beta_2=beta_2, epsilon=1e-6))
    theirs = torch.optim.Adam(
        other.parameters(), lr=0.0, betas=(beta_1, beta_2), eps=1e-6, fused=False, foreach=False
    )
    for number, rate in enumerate(rates):
        set_gradients(model, seed + number)
        set_gradients(other, seed + number)
        step(ours, rate)
        theirs.param_groups[0]["lr"] = rate
        theirs.step()
    for mine, its in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-9, atol=1e-12)


@given(seed=seeds, before=st.integers(0, 3), poison=st.sampled_from([1.0, math.nan, math.inf]))
def test_a_skipped_step_changes_nothing(seed: int, before: int, poison: float) -> None:
    model = transformer(SMALL, seed=seed)
    optimiser = adam(model, TrainingConfig())
    for number in range(before):
        set_gradients(model, seed + number)
        step(optimiser, 0.01)
    weights, held = clones(model.state_dict()), clones(moments(model, optimiser))
    set_gradients(model, seed)
    for parameter in model.parameters():
        assert parameter.grad is not None
        parameter.grad *= poison
    step(optimiser, 0.01, found_inf=1.0)
    assert equal(model.state_dict(), weights)
    assert equal(moments(model, optimiser), held)
    assert {held[name].item() for name in held if name.startswith("step.")} == {before}


@given(seed=seeds, before=st.integers(0, 3), after=st.integers(1, 3))
def test_moments_restored_elsewhere_continue_bit_for_bit(
    seed: int, before: int, after: int
) -> None:
    model = transformer(SMALL, seed=seed)
    optimiser = adam(model, TrainingConfig())
    for number in range(before):
        set_gradients(model, seed + number)
        step(optimiser, 0.01)
    other = transformer(SMALL, seed=seed + 1)
    its_optimiser = adam(other, TrainingConfig())
    overwrite(other.state_dict(), clones(model.state_dict()))
    overwrite(moments(other, its_optimiser), clones(moments(model, optimiser)))
    for number in range(after):
        for each, its in ((model, optimiser), (other, its_optimiser)):
            set_gradients(each, seed + 100 + number)
            step(its, 0.01)
    assert equal(model.state_dict(), other.state_dict())
    assert equal(moments(model, optimiser), moments(other, its_optimiser))


def test_every_parameter_has_its_three_moments_by_name() -> None:
    model = transformer(SMALL)
    names = {name for name, _ in model.named_parameters()}
    kinds = ("step", "exp_avg", "exp_avg_sq")
    expected = {f"{kind}.{name}" for kind in kinds for name in names}
    assert moments(model, adam(model, TrainingConfig())).keys() == expected


@pytest.mark.parametrize("change", [{"d_ff": 13}, {"n_decoder_layers": 2}])
def test_tensors_of_another_model_are_refused_and_nothing_is_overwritten(
    change: dict[str, int],
) -> None:
    model = transformer(SMALL)
    other = transformer(SMALL.model_copy(update=change), seed=2)
    before = clones(model.state_dict())
    with pytest.raises(InputError, match="not of this model"):
        overwrite(model.state_dict(), other.state_dict())
    assert equal(model.state_dict(), before)


def loss_of(model: Transformer, src: Tensor, tgt: Tensor) -> Tensor:
    loss = model(src, tgt).logsumexp(dim=-1).mean()
    assert isinstance(loss, Tensor)
    return loss


@given(model=models(), src=padded_ids(sentences=3), tgt=padded_ids(sentences=3))
def test_what_autograd_accumulates_is_the_flat_tensor(
    model: Transformer, src: Tensor, tgt: Tensor
) -> None:
    model = model.float()
    parameters = list(model.parameters())
    # Learned positions beyond the sentences, and unused words, have a gradient of zero or none.
    parts = torch.autograd.grad(loss_of(model, src, tgt), parameters, materialize_grads=True)
    expected = torch.cat([part.flatten() for part in parts])
    gradients = Gradients(model)
    for _ in range(2):
        torch.autograd.backward(loss_of(model, src, tgt))
    torch.testing.assert_close(gradients.flat, 2 * expected, rtol=1e-4, atol=1e-5)
    assert all(
        parameter.grad is not None
        and parameter.grad.untyped_storage().data_ptr() == gradients.flat.data_ptr()
        for parameter in parameters
    )
    gradients.flat.zero_()
    assert all(p.grad is not None and not p.grad.any() for p in parameters)


@given(seed=seeds, scale=st.floats(1e-3, 1e3), max_norm=st.none() | st.floats(1e-3, 1e3))
def test_clipping_is_torchs(seed: int, scale: float, max_norm: float | None) -> None:
    model = transformer(SMALL)
    gradients = Gradients(model)
    gradients.flat.copy_(
        scale * torch.randn(gradients.flat.shape, generator=torch.Generator().manual_seed(seed))
    )
    other = transformer(SMALL)
    for mine, its in zip(model.parameters(), other.parameters(), strict=True):
        assert mine.grad is not None
        its.grad = mine.grad.clone()
    norm = gradients.clip(max_norm)
    expected = torch.nn.utils.clip_grad_norm_(other.parameters(), max_norm or math.inf)
    torch.testing.assert_close(norm, expected, rtol=1e-5, atol=0)
    for mine, its in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, its.grad, rtol=1e-4, atol=1e-9)


def test_gradients_of_norm_0_are_unchanged() -> None:
    gradients = Gradients(transformer(SMALL))
    assert gradients.clip(1.0).item() == 0
    assert not gradients.flat.any()
