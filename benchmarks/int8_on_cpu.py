"""Is int8 faster than float32 in our own engine on the CPU? Products, then whole searches.

    python benchmarks/int8_on_cpu.py [--threads 1] [--seconds 0.3] [--d-model 256] [--vocab 32000]

Against float32 with packed weights, as the engine computes (`nn/packed_weights.py`):

- weight-only: int8 weights, float32 inputs (`torch._weight_int8pack_mm`);
- by row: inputs are quantized by a scale for each row, so that a row does not depend on the others,
  and multiplied with packed int8 weights (oneDNN's `qlinear_pointwise`);
- by tensor: torch's own dynamic quantization (`quantized::linear_dynamic`), one scale for all rows
  of a batch. A translation then depends on its batch: only measured for comparison.

Whole searches: a student (6 + 2 layers, random weights) encodes sentences of 25 tokens and writes
30 tokens each, by our beam search. The times of the ways are taken in turn, and the fastest of each
is reported, as a share of float32's: above 1 is slower. The last column says how many sentences of
a batch get the same translation as alone.
"""

import argparse
import copy
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transduce.config.presets import preset_named
from transduce.models.base import Seq2Seq
from transduce.models.build import build_model
from transduce.nn.embedding import Embedding
from transduce.nn.packed_weights import PackedLinear, pack
from transduce.search.beam import Beam, beam_search
from transduce.search.hypothesis import Hypothesis
from transduce.text.special_ids import EOS_ID

SRC_TOKENS, TGT_TOKENS = 25, 30
BATCHES = ((1, 1), (1, 4), (32, 1), (32, 4))
"""Sentences, and the beam."""
ROWS = (1, 4, 32, 128)


class Int8Linear(nn.Module):
    """The base of the ways: weights by a scale for each output."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        super().__init__()
        self.scales = weight.abs().amax(dim=1) / 127  # [out]
        self.int8 = (weight / self.scales[:, None]).round().to(torch.int8).contiguous()
        self.bias = bias
        self.prepare()

    def prepare(self) -> None:
        """Lay out the weights."""

    def forward(self, x: Tensor, *, relu: bool = False) -> Tensor:
        """Project the last dimension, as `PackedLinear` does."""
        y = self.product(x.reshape(-1, x.size(-1))).view(*x.shape[:-1], -1)
        if self.bias is not None:
            y = y + self.bias
        return F.relu(y) if relu else y

    def product(self, x: Tensor) -> Tensor:
        """Multiply rows, [N, in], with the weights."""
        raise NotImplementedError


class WeightOnly(Int8Linear):
    """int8 weights, float32 inputs."""

    def product(self, x: Tensor) -> Tensor:
        """Let the kernel convert the weights as it reads them."""
        return torch._weight_int8pack_mm(x.contiguous(), self.int8, self.scales)


class ByRow(Int8Linear):
    """int8 inputs, with a scale for each row."""

    def prepare(self) -> None:
        """Pack the weights for oneDNN."""
        self.packed = torch.ops.onednn.qlinear_prepack(self.int8, None)
        self.zeros = torch.zeros(len(self.scales), dtype=torch.int32)

    def product(self, x: Tensor) -> Tensor:
        """Quantize each row, multiply, and scale back."""
        scale = x.abs().amax(dim=1, keepdim=True).clamp_min(1e-12) / 127  # [N, 1]
        rows = (x / scale).round_().add_(128).to(torch.uint8)  # signed inputs take a slow path
        found: Tensor = torch.ops.onednn.qlinear_pointwise(
            *(rows, 1.0, 128, self.packed, self.scales, self.zeros, None),
            *(1.0, 0, torch.float32, "none", [], ""),
        )
        return found * scale


class ByTensor(Int8Linear):
    """int8 inputs, with one scale for all rows."""

    def prepare(self) -> None:
        """Pack the weights as torch's dynamic quantization does."""
        weight = torch._make_per_channel_quantized_tensor(
            self.int8, self.scales.double(), torch.zeros(len(self.scales), dtype=torch.long), 0
        )
        self.packed = torch.ops.quantized.linear_prepack(weight, None)

    def product(self, x: Tensor) -> Tensor:
        """Let torch quantize and multiply."""
        found: Tensor = torch.ops.quantized.linear_dynamic(x, self.packed, reduce_range=False)
        return found


PRODUCTS: dict[str, type[nn.Module]] = {
    "float32": PackedLinear,
    "weight-only": WeightOnly,
    "by row": ByRow,
    "by tensor": ByTensor,
}
SEARCHES: dict[str, tuple[type[nn.Module], type[nn.Module]]] = {
    "float32": (PackedLinear, PackedLinear),
    "logits by row": (PackedLinear, ByRow),
    "all by row": (ByRow, ByRow),
    "all by tensor": (ByTensor, ByTensor),
}
"""What multiplies in the layers, and what makes the logits."""


class Int8Embedding(Embedding):
    """Looks up in the original matrix, and projects with one of int8."""

    def __init__(self, embedding: Embedding, projection: nn.Module) -> None:
        nn.Module.__init__(self)
        self.weight, self.bias = embedding.weight, embedding.bias
        self.scale, self.std = embedding.scale, embedding.std
        self._projection = projection

    def logits(self, x: Tensor) -> Tensor:
        """Score every entry of the vocabulary."""
        scores: Tensor = self._projection(x)
        return scores


def quantize(model: nn.Module, layers: type[nn.Module], logits: type[nn.Module]) -> None:
    """Replace every projection of a model: those of its layers, and that of the logits."""
    for module in list(model.modules()):
        for name, part in list(module.named_children()):
            if isinstance(part, nn.Linear):
                setattr(module, name, layers(part.weight.detach(), part.bias))
            elif isinstance(part, Embedding):
                setattr(module, name, Int8Embedding(part, logits(part.weight.detach())))


def fastest(ways: Sequence[Callable[[], Any]], *, seconds: float) -> list[float]:
    """Call the ways in turn until the time is up; return the shortest time of each."""
    # Of one thread the time that it had, whatever else the machine does; of several that of all.
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    best = [float("inf")] * len(ways)
    ends = time.perf_counter() + seconds * len(ways)
    rounds = 0
    while rounds < 5 or time.perf_counter() < ends:
        for number, call in enumerate(ways):
            began = clock()
            call()
            best[number] = min(best[number], clock() - began)
        rounds += 1
    return best


def show(what: str, names: Iterable[str], times: Sequence[float], also: str = "") -> None:
    """Print the time of float32, and the others as shares of it."""
    shares = "  ".join(
        f"{name} {took / times[0]:.2f}" for name, took in zip(names, times, strict=True)
    )
    print(f"{what:>24}: {1000 * times[0]:8.3f} ms  {shares}{also}", flush=True)


@torch.inference_mode()
def compare_products(d_model: int, d_ff: int, vocab: int, *, seconds: float) -> None:
    """Multiply as many rows as a search step has."""
    for name, shape in {
        "d × d": (d_model, d_model),
        "d × d_ff": (d_ff, d_model),
        "d_ff × d": (d_model, d_ff),
        "d × V": (vocab, d_model),
    }.items():
        weight = torch.randn(shape) / shape[1] ** 0.5
        modules = [way(weight) for way in PRODUCTS.values()]
        for rows in ROWS:
            x = torch.randn(rows, 1, shape[1])
            calls = [lambda module=module, x=x: module(x) for module in modules]
            show(f"{name}, {rows} rows", PRODUCTS, fastest(calls, seconds=seconds))


def ids_of(found: list[Hypothesis]) -> list[list[int]]:
    """Return the tokens of hypotheses."""
    return [one.ids for one in found]


def student(d_model: int, d_ff: int, vocab: int) -> Seq2Seq:
    """Build a student with random weights that never ends a sentence."""
    shape = {"d_model": d_model, "d_ff": d_ff, "h": 8, "vocab_size": vocab}
    config = preset_named("student_tiny").with_changes({"model": shape})
    model = build_model(config.model, seed=1).eval()
    with torch.no_grad():
        model.get_submodule("embedding").get_parameter("weight")[EOS_ID] = 0
    return model


def in_each_way(model: Seq2Seq) -> list[Seq2Seq]:
    """Copy a model with each kind of weights."""
    models = []
    for name, ways in SEARCHES.items():
        models.append(copy.deepcopy(model))
        if name == "float32":
            pack(models[-1])
        else:
            quantize(models[-1], *ways)
    return models


@torch.inference_mode()
def compare_searches(d_model: int, d_ff: int, vocab: int, *, seconds: float) -> None:
    """Search whole sentences, and compare the scores alone with those in the batch."""
    models = in_each_way(student(d_model, d_ff, vocab))
    for sentences, size in BATCHES:
        src = torch.randint(EOS_ID + 1, vocab, (sentences, SRC_TOKENS))
        limits = torch.full((sentences,), TGT_TOKENS)

        def search(model: Seq2Seq, src: Tensor, limits: Tensor = limits, size: int = size) -> Any:
            return beam_search(model, src, Beam(size), max_tokens=limits[: len(src)])

        calls = [lambda model=model, src=src: search(model, src) for model in models]
        times = fastest(calls, seconds=20 * seconds)
        same = [
            sum(
                ids_of(search(model, src[n : n + 1])[0]) == ids_of(whole[n])
                for n in range(sentences)
            )
            / sentences
            for model in models
            for whole in [search(model, src)]
        ]
        also = "   alone = in the batch: " + ", ".join(f"{share:.0%}" for share in same)
        show(f"{sentences} sentences, beam {size}", SEARCHES, times, also if sentences > 1 else "")


def main() -> None:
    """Compare everything and print it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--d-model", type=int, default=256)
    parser.add_argument("--d-ff", type=int, default=1536)
    parser.add_argument("--vocab", type=int, default=32_000)
    parser.add_argument("--searches", action="store_true", help="without the products")
    given = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(given.threads)
    print(f"{given.threads} threads, d_model {given.d_model}, d_ff {given.d_ff}, V {given.vocab}")
    shape = (given.d_model, given.d_ff, given.vocab)
    if not given.searches:
        compare_products(*shape, seconds=given.seconds)
    compare_searches(*shape, seconds=given.seconds)


if __name__ == "__main__":
    main()
