"""The Extended Neural GPU equals a plain loop over `F.conv2d`, one sentence at a time."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from torch import Tensor
from torch.testing import assert_close

from tests.drawing import VOCAB_SIZE, lengths_of, padded_ids, seeds
from tests.models.every_kind import neural_gpu_configs
from tests.project.shape_comments import shape_faults
from tests.project.test_shape_comments import PACKAGE
from transduce.analysis.cost import cost_of
from transduce.config.load import load_config
from transduce.models.build import build_model
from transduce.models.neural_gpu.cgru import CGRU, hard_sigmoid
from transduce.models.neural_gpu.model import NeuralGPU
from transduce.models.neural_gpu.settings import NeuralGPUConfig


def built(config: NeuralGPUConfig, seed: int) -> NeuralGPU:
    found = build_model(config, seed=seed)
    assert isinstance(found, NeuralGPU)
    return found.double().eval()


def plain_cgru(layer: CGRU, s: Tensor, p: Tensor | None) -> Tensor:
    """Kaiser and Bengio's equations for an image and a tape, each [d_model, n, w]."""
    d_model = len(s)

    def convolve(x: Tensor, kernel: Tensor, bias: Tensor | None = None) -> Tensor:
        if kernel.size(3) == 1:  # the middle of a kernel whose outer columns see only padding
            kernel = F.pad(kernel, (1, 1), value=7.0)
        return F.conv2d(x[None], kernel, bias, padding=1)[0]

    of_tape: Tensor | float = 0.0
    if p is not None:
        assert layer.tape is not None
        columns = layer.tape.weight.view(3 * d_model, -1, d_model, 3)  # of the output
        kernel = torch.zeros(3 * d_model, d_model, 3, 3, dtype=s.dtype)
        kernel[..., 1] = columns[:, 0]  # a column sees itself through the middle of the kernel
        if columns.size(1) == 2:
            kernel[..., 0] = columns[:, 1]  # and the one to its left through its left
        of_tape = convolve(p, kernel)

    def share(part: int) -> Tensor | float:
        if isinstance(of_tape, float):
            return of_tape
        return of_tape[part * d_model : (part + 1) * d_model]

    def gate(part: int) -> Tensor:
        rows = slice(part * d_model, (part + 1) * d_model)
        assert layer.gates.bias is not None
        x = convolve(s, layer.gates.weight[rows], layer.gates.bias[rows]) + share(part)
        return torch.clamp(1.2 / (1 + torch.exp(-x)) - 0.1, 0, 1)

    u, r = gate(0), gate(1)
    candidate = convolve(r * s, layer.candidate.weight, layer.candidate.bias) + share(2)
    return u * s + (1 - u) * torch.tanh(candidate)


def plain_logits(
    network: NeuralGPU, config: NeuralGPUConfig, src: list[int], tgt: list[int]
) -> Tensor:
    """Score every next token of one pair, without batches, masks or padding: [T, V]."""
    rows = config.cells_per_token * len(src) + config.spare_cells
    embedded = network.embedding.weight * config.d_model**0.5
    s = torch.zeros(config.d_model, rows, config.image_width, dtype=torch.float64)
    for row, token in enumerate(src):
        s[:, row, 0] = embedded[token]
    for _ in src:
        for layer in network.encoder:
            s = plain_cgru(layer, s, None)
    p = torch.zeros_like(s)
    logits = []
    for position, token in enumerate(tgt):
        cell = min(position, rows - 1)
        p = p.clone()
        p[:, cell, 0] = embedded[token]
        for layer in network.decoder:
            s = plain_cgru(layer, s, p)
        logits.append(network.output.weight @ s[:, cell, 0])
    return torch.stack(logits)


@given(
    config=neural_gpu_configs(),
    seed=seeds,
    src=padded_ids(sentences=3),
    tgt=padded_ids(sentences=3),
)
def test_a_batch_equals_a_plain_loop_over_sentences(
    config: NeuralGPUConfig, seed: int, src: Tensor, tgt: Tensor
) -> None:
    network = built(config, seed)
    together = network(src, tgt)
    for row, (n, m) in enumerate(zip(lengths_of(src), lengths_of(tgt), strict=True)):
        alone = plain_logits(network, config, src[row, :n].tolist(), tgt[row, :m].tolist())
        assert_close(together[row, :m], alone, rtol=0, atol=1e-11)


def test_gates_can_be_exactly_open_and_closed() -> None:
    found = hard_sigmoid(torch.tensor([-9.0, 0.0, 9.0]))
    assert found.tolist() == [0.0, 0.5, 1.0]


@pytest.mark.parametrize("length", [1, 6])
def test_operations_are_counted_for_every_step(length: int) -> None:
    config = NeuralGPUConfig(vocab_size=VOCAB_SIZE, d_model=4, image_width=3, n_layers=2)
    found = cost_of(config, length=length).parts
    [encoder] = [part for part in found if part.name == "encoder, 2 layers"]
    cells = length * 3  # a step updates all of them, and there is a step for every token
    assert encoder.operations_per_token == 2 * cells * 9 * (3 * 4 * 4) * 2


def test_the_preset_is_what_the_paper_describes() -> None:
    config = load_config("neural_gpu")
    assert config.model.summary().startswith("Extended Neural GPU, 1+1 CGRU layers")
    network = build_model(config.model)
    kernels = [name for name, weight in network.named_parameters() if weight.shape[2:] == (3, 3)]
    assert len(kernels) == 2 * 2  # encoder and decoder, gates and candidate


def test_shape_comments_are_true() -> None:
    sources = {
        path: path.read_text(encoding="utf-8")
        for path in (PACKAGE / "models/neural_gpu").glob("*.py")
    }
    config = NeuralGPUConfig(vocab_size=23, d_model=10, image_width=4, n_layers=2, spare_cells=6)

    def run() -> None:
        src, tgt = torch.full((5, 7), 8), torch.full((5, 9), 8)
        network = built(config, 1)
        network(src, tgt)
        state = network.start(network.encode(src), hypotheses=3, max_steps=11)
        network.step(tgt[:, :3], state, position=torch.tensor([0]), reach=1)

    sizes = {"B": {5, 15}, "S": {7}, "T": {9}, "k": {3}, "V": {23}, "n": {13}, "w": {4}}
    sizes |= {"d_model": {10}, "columns": {2}}
    assert shape_faults(sources, lambda _path: sizes, run) == []
