"""Recurrent models equal plain loops over torch's cells with the same weights."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from tests.command import Command
from tests.drawing import lengths_of, padded_ids, seeds
from tests.models.every_kind import rnn_configs
from tests.translation.likely import learnt_tokenizer, saved
from transduce.analysis.cost import cost_of
from transduce.config.load import load_config
from transduce.config.presets import preset_named
from transduce.config.schema import Config
from transduce.errors import ConfigError
from transduce.models.build import build_model
from transduce.models.folder import LoadedModel
from transduce.models.rnn.model import RNN
from transduce.models.rnn.settings import RNNConfig
from transduce.nn.mixers.recurrence import BidirectionalRecurrence, Recurrence
from transduce.nn.mixers.score_functions import SourceAttention

States = list[tuple[Tensor, Tensor]]
"""The output and the memory cell of each layer; a GRU ignores the second."""


def rnn(config: RNNConfig, seed: int = 0) -> RNN:
    model = build_model(config, seed=seed)
    assert isinstance(model, RNN)
    return model


def torch_cell(layer: Recurrence) -> Callable[[Tensor, tuple[Tensor, Tensor]], States]:
    """Return torch's cell with the weights of a layer."""
    make = nn.LSTMCell if layer.cell_name == "lstm" else nn.GRUCell
    cell = make(layer.weight_ih.size(1), layer.d_hidden).double()
    cell.load_state_dict(layer.state_dict())

    def following(x: Tensor, state: tuple[Tensor, Tensor]) -> States:
        return [cell(x, state)] if layer.cell_name == "lstm" else [(cell(x, state[0]), state[1])]

    return following


def read(layer: Recurrence, x: list[Tensor]) -> list[Tensor]:
    """Read one sentence, a list of [1, d], from its first word to its last."""
    cell, outputs = torch_cell(layer), []
    state = (torch.zeros(1, layer.d_hidden, dtype=torch.float64),) * 2
    for word in x:
        [state] = cell(word, state)
        outputs.append(state[0])
    return outputs


def encoded(model: RNN, ids: list[int], config: RNNConfig) -> Tensor:
    """Encode one sentence: [S, d_source]."""
    x = [model.embedding.weight[None, token] * config.d_model**0.5 for token in ids]
    for index, layer in enumerate(model.encoder.layers):
        if isinstance(layer, BidirectionalRecurrence):
            back = read(layer.backward_layer, x[::-1])[::-1]
            onward = read(layer.forward_layer, x)
            outputs = [torch.cat(both, dim=-1) for both in zip(onward, back, strict=True)]
        else:
            assert isinstance(layer, Recurrence)
            outputs = read(layer, x)
        is_added = config.residual and index >= 2
        x = [new + old for new, old in zip(outputs, x, strict=True)] if is_added else outputs
    return torch.cat(x)


def attended(attention: SourceAttention, query: Tensor, memory: Tensor) -> Tensor:
    """Return the context of a query, [1, d], by the formulas of the papers."""
    if attention.score == "additive":
        mixed = torch.tanh(
            memory @ attention.w_1.weight.T + query @ attention.w_2.weight.T + attention.w_2.bias
        )
        scores = mixed @ attention.v
    elif attention.score == "general":
        scores = memory @ attention.w_1.weight.T @ query[0]
    else:
        by = query.size(1) ** 0.5 if attention.score == "scaled_dot" else 1
        scores = memory @ query[0] / by
    return scores.softmax(dim=0)[None] @ memory


def logits_by_loop(model: RNN, config: RNNConfig, src: list[int], tgt: list[int]) -> Tensor:
    """Score one sentence token by token, each decoder as its paper writes it: [T, V]."""
    memory = encoded(model, src, config)
    decoder = model.decoder
    cells = [torch_cell(layer) for layer in decoder.layers]
    first = F.linear(memory.mean(dim=0), decoder.initial.weight, decoder.initial.bias).tanh()
    parts = list(first.view(-1, 1, config.d_hidden))
    wide = decoder.n_states
    states = [(parts[i * wide], parts[i * wide + wide - 1]) for i in range(len(cells))]
    fed, logits = torch.zeros(1, config.d_model, dtype=torch.float64), []
    for token in tgt:
        y = model.embedding.weight[None, token] * config.d_model**0.5
        context = attended(decoder.attention, states[-1][0], memory)
        more = {"bahdanau": [context], "input_feeding": [fed]}.get(config.decoder, [])
        [states[0]] = cells[0](torch.cat([y, *more], dim=-1), states[0])
        x = states[0][0]
        if config.decoder == "gnmt":
            context = attended(decoder.attention, x, memory)
        for index in range(1, len(cells)):
            below = torch.cat([x, context], dim=-1) if config.decoder == "gnmt" else x
            [states[index]] = cells[index](below, states[index])
            x = states[index][0] + (x if config.residual and index >= 2 else 0)
        if config.decoder in ("luong", "input_feeding"):
            context = attended(decoder.attention, x, memory)
        joined = torch.cat([x, context, y], dim=-1)
        fed = F.linear(joined, decoder.readout.weight, decoder.readout.bias).tanh()
        logits.append(fed @ model.embedding.weight.T)
    return torch.cat(logits)


@given(config=rnn_configs(), src=padded_ids(sentences=2), tgt=padded_ids(sentences=2), seed=seeds)
def test_the_model_is_a_loop_over_torchs_cells(
    config: RNNConfig, src: Tensor, tgt: Tensor, seed: int
) -> None:
    model = rnn(config, seed).double().eval()
    found = model(src, tgt)
    for row, (s, t) in enumerate(zip(lengths_of(src), lengths_of(tgt), strict=True)):
        expected = logits_by_loop(model, config, src[row, :s].tolist(), tgt[row, :t].tolist())
        assert_close(found[row, :t], expected, rtol=0, atol=1e-11)


@given(config=rnn_configs(), src=padded_ids(sentences=2), tgt=padded_ids(sentences=2), seed=seeds)
def test_the_weights_shown_are_those_that_made_the_output(
    config: RNNConfig, src: Tensor, tgt: Tensor, seed: int
) -> None:
    model = rnn(config, seed).double().eval()
    contexts: list[Tensor] = []
    hook = model.decoder.attention.register_forward_hook(lambda *call: contexts.append(call[2][0]))
    maps = model.attention_maps(src, tgt)
    hook.remove()
    assert maps.encoder is None
    assert maps.decoder is None
    rebuilt = maps.cross[0, :, 0] @ model.encode(src).states
    assert_close(rebuilt, torch.cat(contexts, dim=1), rtol=0, atol=1e-12)


@given(data=st.data(), seed=seeds)
def test_every_weight_is_trained(data: st.DataObject, seed: int) -> None:
    model = rnn(data.draw(rnn_configs()), seed).double()
    src, tgt = (data.draw(padded_ids(sentences=2)) for _ in range(2))
    torch.autograd.backward(model(src, tgt).square().sum())
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name


def test_dropout_is_ours_and_follows_the_seed() -> None:
    config = RNNConfig(vocab_size=23, d_model=8, n_layers=3, p_drop=0.5)
    model = rnn(config).train()
    ids = torch.randint(4, 23, (2, 5))

    def states(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return model.training_states(ids, ids).states

    assert torch.equal(states(1), states(1))
    assert not torch.equal(states(1), states(2))
    dropped = (states(1) == 0).double().mean()
    assert 0.2 < dropped < 0.8


# Settings


def test_presets_have_the_published_sizes() -> None:
    bahdanau, gnmt = preset_named("rnn_bahdanau").model, preset_named("gnmt").model
    assert isinstance(bahdanau, RNNConfig)
    assert isinstance(gnmt, RNNConfig)
    assert (bahdanau.cell, bahdanau.d_model, bahdanau.d_hidden) == ("gru", 620, 1_000)
    assert (bahdanau.d_source, bahdanau.decoder) == (2_000, "bahdanau")
    assert (gnmt.n_encoder_layers, gnmt.n_decoder_layers, gnmt.d_hidden) == (8, 8, 1_024)
    assert (gnmt.bidirectional, gnmt.d_source) == ("first", 1_024)


def test_dot_products_of_unequal_widths_are_refused_in_one_line(command: Command) -> None:
    with pytest.raises(ConfigError, match="source states of width 256 by decoder states of width"):
        load_config("rnn_tiny", ["model.attention=dot"])
    mistake = command("describe", "rnn_tiny", "--set", "model.attention=dot").mistake()
    assert "use model.attention=general" in mistake
    assert load_config("gnmt", ["model.attention=dot"]).model.model_dump()["attention"] == "dot"


def test_more_than_eight_layers_are_refused(command: Command) -> None:
    mistake = command("describe", "gnmt", "--set", "model.n_layers=9").mistake()
    assert mistake.startswith("model.n_layers=9: must be ")


# Costs


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("decoder", ["bahdanau", "luong"])
def test_operations_of_all_products_are_counted(cell: str, decoder: str) -> None:
    config = RNNConfig.model_validate(
        {"vocab_size": 50, "d_model": 6, "d_hidden": 10, "n_layers": 1, "cell": cell}
        | {"decoder": decoder}
    )
    n, gates = 7, {"lstm": 4, "gru": 3}[cell]
    cost = cost_of(config, length=n)
    parts = {part.name: part.operations_per_token for part in cost.parts}
    assert parts["encoder"] == 2 * 2 * (6 + 10) * gates * 10  # both directions
    recurrent = 2 * (6 + 10 + (20 if decoder == "bahdanau" else 0)) * gates * 10
    # W₁h, W₂s, v·tanh, the context, and the mean and projection of the first state.
    attention = 2 * (20 * 10 + 10 * 10 + n * 10 + n * 20)
    initial = 2 * (20 * n + 20 * 10 * (2 if cell == "lstm" else 1)) / n
    readout = 2 * (10 + 20 + 6) * 6
    assert parts["decoder"] == pytest.approx(recurrent + attention + initial + readout)
    assert parts["output and the rest"] == pytest.approx(2 * 6 * 50)


def test_it_is_described(command: Command) -> None:
    described = command("describe", "gnmt")
    assert described.code == 0, described.err
    assert described.out.startswith("gnmt: LSTM, 8+8 layers, d_model 1024, d_hidden 1024, first")
    assert "231,107,584" in described.out


def test_an_export_is_refused_in_one_line(tmp_path: Path, command: Command) -> None:
    config = Config(model=RNNConfig(vocab_size=500, d_model=8))
    loaded = LoadedModel(build_model(config.model), config, learnt_tokenizer())
    folder, out = saved(tmp_path / "model", loaded), tmp_path / "out"
    mistake = command("export", folder, "--to", "huggingface", "--out", out).mistake()
    assert "model.kind=rnn, but " in mistake
    assert not out.exists()
