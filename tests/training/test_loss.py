import math
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from tests.drawing import seeds
from transduce.text.special_ids import PAD_ID
from transduce.training.step.loss import smoothed_loss

Problem = tuple[Tensor, Tensor, Tensor]
smoothings = st.sampled_from([0.0, 0.1, 0.5])


def problem(
    shape: tuple[int, ...], vocab_size: int, d_model: int, *, seed: int, padding: float = 0.3
) -> Problem:
    """Draw states, a projection and targets, of which some are padding, in float64."""
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(*shape, d_model, generator=generator, dtype=torch.float64)
    projection = torch.randn(vocab_size, d_model, generator=generator, dtype=torch.float64)
    targets = torch.randint(1, vocab_size, shape, generator=generator)
    targets[torch.rand(shape, generator=generator) < padding] = PAD_ID
    return states.requires_grad_(), projection.requires_grad_(), targets


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    b, t, d_model = (draw(st.integers(1, 6)) for _ in range(3))
    return problem(
        (b, t),
        draw(st.integers(2, 30)),
        d_model,
        seed=draw(seeds),
        padding=draw(st.sampled_from([0.0, 0.3, 1.0])),
    )


def torch_loss(states: Tensor, projection: Tensor, targets: Tensor, eps_ls: float) -> Tensor:
    logits = F.linear(states, projection).flatten(0, -2)
    return F.cross_entropy(
        logits,
        targets.flatten(),
        ignore_index=PAD_ID,
        reduction="sum",
        label_smoothing=eps_ls,
    )


@given(size=st.integers(1, 9))
def test_chunks_have_as_many_rows_as_suit_the_device(size: int) -> None:
    drawn = problem((5, 5), 11, 4, seed=1)
    whole = smoothed_loss(*drawn, eps_ls=0.1)[0]
    with patch("transduce.training.step.loss.rows_in_whole_waves", return_value=size) as rounded:
        cut = smoothed_loss(*drawn, eps_ls=0.1, chunk_elements=70)[0]
    rounded.assert_called_once_with(70 // 11, 4, torch.device("cpu"))
    assert_close(cut, whole)
    sides = drawn[:2]
    assert_close(torch.autograd.grad(cut, sides), torch.autograd.grad(whole, sides))


@given(drawn=problems(), eps_ls=smoothings, chunk_elements=st.integers(1, 200))
def test_loss_and_gradients_are_those_of_torch(
    drawn: Problem, eps_ls: float, chunk_elements: int
) -> None:
    states, projection, targets = drawn
    loss, nll = smoothed_loss(
        states, projection, targets, eps_ls=eps_ls, chunk_elements=chunk_elements
    )
    expected = torch_loss(states, projection, targets, eps_ls)
    assert_close(loss, expected, rtol=1e-12, atol=1e-12)
    assert_close(nll, torch_loss(states, projection, targets, 0.0).detach(), rtol=1e-12, atol=1e-12)
    upstream = torch.tensor(-0.7, dtype=torch.float64)
    inputs = (states, projection)
    for ours, theirs in zip(
        torch.autograd.grad(loss, inputs, upstream),
        torch.autograd.grad(expected, inputs, upstream),
        strict=True,
    ):
        assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_it_is_the_cross_entropy_with_the_smoothed_distribution() -> None:
    states, projection, _ = problem((1,), 5, 3, seed=1)
    eps_ls, target = 0.2, 3
    log_p = F.log_softmax(projection @ states[0], dim=0)
    q = [eps_ls / 5 + (1 - eps_ls) * (entry == target) for entry in range(5)]
    expected = -sum(q[entry] * log_p[entry].item() for entry in range(5))
    loss, nll = smoothed_loss(states, projection, torch.tensor([target]), eps_ls=eps_ls)
    assert math.isclose(loss.item(), expected, rel_tol=1e-12)
    assert math.isclose(nll.item(), -log_p[target].item(), rel_tol=1e-12)


@pytest.mark.parametrize("eps_ls", [0.0, 0.1])
def test_gradients_are_those_of_finite_differences(eps_ls: float) -> None:
    states, projection, targets = problem((2, 4), 7, 3, seed=2)

    def loss(states: Tensor, projection: Tensor) -> Tensor:
        return smoothed_loss(states, projection, targets, eps_ls=eps_ls, chunk_elements=20)[0]

    assert torch.autograd.gradcheck(loss, (states, projection))


@given(seed=seeds)
def test_padding_changes_nothing_and_has_no_gradient(seed: int) -> None:
    states, projection, targets = problem((3, 5), 11, 4, seed=seed)
    padding = targets == PAD_ID
    other = torch.where(padding[..., None], torch.full_like(states, 9.0), states)
    results = []
    for some in (states.detach().requires_grad_(), other.detach().requires_grad_()):
        loss, nll = smoothed_loss(some, projection, targets, eps_ls=0.1)
        d_states, d_projection = torch.autograd.grad(loss, (some, projection))
        assert (d_states[padding] == 0).all()
        results.append((loss, nll, d_states, d_projection))
    for first, second in zip(*results, strict=True):
        assert torch.equal(first, second)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_batch_of_padding_has_no_loss_and_no_gradient(dtype: torch.dtype) -> None:
    states, projection, _ = problem((2, 3), 7, 4, seed=3)
    targets = torch.full((2, 3), PAD_ID)
    states, projection = (t.detach().to(dtype).requires_grad_() for t in (states, projection))
    loss, nll = smoothed_loss(states, projection, targets, eps_ls=0.1)
    torch.autograd.backward(loss)
    assert (loss.item(), nll.item()) == (0.0, 0.0)
    for tensor in (states, projection):
        assert tensor.grad is not None
        assert (tensor.grad == 0).all()


def test_without_gradients_none_are_computed() -> None:
    states, projection, targets = problem((2, 3), 7, 4, seed=4)
    expected = smoothed_loss(states, projection, targets, eps_ls=0.1)
    with torch.no_grad():
        results = smoothed_loss(states, projection, targets, eps_ls=0.1)
    assert not any(result.requires_grad for result in results)
    assert all(map(torch.equal, results, expected))


def test_only_the_smoothed_loss_can_be_differentiated() -> None:
    states, projection, targets = problem((2, 3), 7, 4, seed=5)
    loss, nll = smoothed_loss(states, projection, targets, eps_ls=0.1)
    assert loss.requires_grad
    assert not nll.requires_grad


def test_the_same_gradients_come_back_twice() -> None:
    states, projection, targets = problem((2, 3), 7, 4, seed=6)
    loss, _ = smoothed_loss(states, projection, targets, eps_ls=0.1)
    first = torch.autograd.grad(loss, (states, projection), retain_graph=True)
    second = torch.autograd.grad(loss, (states, projection))
    assert all(map(torch.equal, first, second))


def test_a_model_that_is_certain_or_very_wrong_stays_finite() -> None:
    projection = torch.tensor([[0.0], [1.0], [-1.0]], requires_grad=True)
    states = torch.tensor([[1e4], [-1e4]], requires_grad=True)
    loss, nll = smoothed_loss(states, projection, torch.tensor([1, 1]), eps_ls=0.0)
    assert_close(nll, torch.tensor(2e4))
    for gradient in torch.autograd.grad(loss, (states, projection)):
        assert gradient.isfinite().all()


@pytest.mark.parametrize(
    ("states_dtype", "autocast"),
    [(torch.bfloat16, False), (torch.bfloat16, True), (torch.float32, True)],
)
def test_in_bfloat16_only_products_are_rounded(states_dtype: torch.dtype, autocast: bool) -> None:
    states, projection, targets = problem((8, 16), 97, 32, seed=7)
    states = states.detach().to(states_dtype).requires_grad_()
    projection = (projection.detach() / 32**0.5).float().requires_grad_()
    with torch.autocast("cpu", enabled=autocast):
        loss, nll = smoothed_loss(states, projection, targets, eps_ls=0.1, chunk_elements=1000)
    exact_states, exact_projection = (t.detach().double() for t in (states, projection))
    expected = torch_loss(
        exact_states.requires_grad_(), exact_projection.requires_grad_(), targets, 0.1
    )
    assert loss.dtype == nll.dtype == torch.float32
    assert_close(loss.double(), expected, rtol=2**-8, atol=0)
    ours = torch.autograd.grad(loss, (states, projection))
    theirs = torch.autograd.grad(expected, (exact_states, exact_projection))
    assert [gradient.dtype for gradient in ours] == [states_dtype, torch.float32]
    for our, their in zip(ours, theirs, strict=True):
        assert (our - their).norm() < 2**-7 * their.norm()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS")
def test_on_a_gpu_padding_is_weighted_instead_of_left_out() -> None:
    on_cpu = problem((5, 7), 29, 8, seed=8)
    on_gpu = tuple(tensor.detach().cuda() for tensor in on_cpu)
    results = []
    for states, projection, targets in (on_cpu, on_gpu):
        inputs = (states.requires_grad_(), projection.requires_grad_())
        loss, nll = smoothed_loss(*inputs, targets, eps_ls=0.1, chunk_elements=100)
        results.append([loss, nll, *torch.autograd.grad(loss, inputs)])
    for cpu, gpu in zip(*results, strict=True):
        assert_close(gpu.cpu(), cpu, rtol=1e-12, atol=1e-12)
    assert (results[1][2][on_gpu[2] == PAD_ID] == 0).all()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS")
@pytest.mark.parametrize("entries", [29, 4096, 9731])
@pytest.mark.parametrize("scale", [1.0, 40.0])  # the latter: some targets are very unlikely
def test_on_a_gpu_the_kernel_computes_what_torch_does(entries: int, scale: float) -> None:
    states, projection, targets = (t.detach().cuda() for t in problem((9, 7), entries, 16, seed=8))
    exact = ((scale * states).requires_grad_(), projection.requires_grad_())
    inputs = (
        exact[0].detach().float().requires_grad_(),
        projection.detach().float().requires_grad_(),
    )
    loss, nll = smoothed_loss(*inputs, targets, eps_ls=0.1, chunk_elements=10 * entries)
    expected = torch_loss(*exact, targets, 0.1)
    ours = (loss, nll, *torch.autograd.grad(loss, inputs))
    theirs = (expected, torch_loss(*exact, targets, 0.0), *torch.autograd.grad(expected, exact))
    for our, their in zip(ours, theirs, strict=True):
        assert (our - their).norm() < 1e-4 * their.norm()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS")
@pytest.mark.parametrize("chunks", [1, 5])
def test_on_a_gpu_chunks_in_bfloat16_add_up(chunks: int) -> None:
    states, projection, targets = (t.detach().cuda() for t in problem((9, 7), 1000, 64, seed=8))
    # Logits of about 1, as in a model: around 30, bfloat16 values are an eighth apart.
    rounded = [tensor.bfloat16() for tensor in (states, projection / 64**0.5)]
    exact = [tensor.double().requires_grad_() for tensor in rounded]
    inputs = (rounded[0].clone().requires_grad_(), rounded[1].float().requires_grad_())
    with torch.autocast("cuda", torch.bfloat16):
        loss, _ = smoothed_loss(*inputs, targets, eps_ls=0.1, chunk_elements=63_000 // chunks)
    expected = torch_loss(exact[0], exact[1], targets, 0.1)
    ours = (loss, *torch.autograd.grad(loss, inputs))
    theirs = (expected, *torch.autograd.grad(expected, exact))
    for our, their in zip(ours, theirs, strict=True):
        assert (our - their).norm() < 2**-7 * their.norm()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
def test_on_a_gpu_the_host_does_not_wait() -> None:
    states, projection, targets = (t.detach().cuda() for t in problem((5, 7), 29, 8, seed=9))
    inputs = (states.float().requires_grad_(), projection.float().requires_grad_())
    torch.cuda.set_sync_debug_mode("error")
    try:
        with torch.autocast("cuda", torch.bfloat16):
            loss, _ = smoothed_loss(*inputs, targets, eps_ls=0.1)
        torch.autograd.backward(loss)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert loss.dtype == torch.float32
