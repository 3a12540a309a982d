"""Training speed of the systems that the Transformer was compared with, beside plain torch.

    python benchmarks/baseline_speed.py --kind rnn [--shape rnn_small] [--device cpu] [--threads 2]
        [--sentences 64] [--length 24] [--rounds 9] [--set model.decoder=bahdanau …]

A whole step of training, forward, label-smoothed loss, backward and Adam, on the same random batch
and in the same precision: ours by the code of `transduce train`, and the same model in plain torch
with `F.cross_entropy` and `torch.optim.Adam`. They take turns in one process, so that a noisy
machine disturbs all alike. Times are medians over the rounds.
"""

import argparse
from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from train_throughput import Step, ours, take, theirs

from transduce.config.load import load_config
from transduce.config.schema import Config, ModelConfig
from transduce.data.batch import Batch
from transduce.data.loader import StepBatches
from transduce.text.special_ids import PAD_ID

WARM_UP = 3
DEFAULT_SHAPES = {"rnn": "rnn_small", "conv_s2s": "conv_s2s_small"}
Peers = dict[str, Callable[[], nn.Module]]


def peers_of(shape: ModelConfig) -> Peers:
    """Return functions that build the same model in plain torch, by name."""
    match shape.kind:
        case "rnn":
            from plain_rnn import PlainRNN

            from transduce.models.rnn.settings import RNNConfig

            assert isinstance(shape, RNNConfig)
            return {
                "plain torch, packed": lambda: PlainRNN(shape, packed=True),
                "plain torch, padded": lambda: PlainRNN(shape, packed=False),
            }
        case "conv_s2s":
            from plain_conv_s2s import PlainConvS2S

            from transduce.models.conv_s2s.settings import ConvS2SConfig

            assert isinstance(shape, ConvS2SConfig)
            return {"plain torch": lambda: PlainConvS2S(shape)}
        case _:
            raise SystemExit(f"no peer of the kind {shape.kind}")


def random_batch(vocab_size: int, sentences: int, length: int) -> StepBatches:
    """Draw sentences of similar lengths, as batches of training have them."""
    ids = torch.randint(4, vocab_size, (3, sentences, length))
    lengths = torch.randint(max(1, length * 4 // 5), length + 1, (sentences, 1))
    lengths[0] = length
    src, tgt_in, tgt_out = torch.where(torch.arange(length) < lengths, ids, PAD_ID)
    tokens = int(lengths.sum())
    batch = Batch(src, tgt_in, tgt_out, tokens, tokens)
    return StepBatches([batch], tokens, tokens, first=0, done=1, epoch_batches=1)


def contenders(config: Config) -> dict[str, Step]:
    """Build ours and its peers, each from the same seed."""
    steps: dict[str, Step] = {}
    for name, build in peers_of(config.model).items():
        torch.manual_seed(0)
        steps[name] = theirs(build(), config.run.device)
    return {"transduce": ours(config), **steps}


def main() -> None:
    """Let all take turns on the same batch, and print their speeds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", required=True, choices=DEFAULT_SHAPES)
    parser.add_argument("--shape", help="a preset of the kind; by default its small one")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="changes to it")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sentences", type=int, default=64)
    parser.add_argument("--length", type=int, default=24, help="the longest, in tokens")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    config = load_config(options.shape or DEFAULT_SHAPES[options.kind], options.set)
    changes = {"training": {"clip_norm": None, "eps_ls": 0.1}, "run": {"device": options.device}}
    config = config.with_changes(changes)
    assert config.model.kind == options.kind, f"{options.shape} is no preset of {options.kind}"
    torch.manual_seed(0)
    batch = random_batch(config.model.vocab_size, options.sentences, options.length)
    steps = contenders(config)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in steps}
    for _ in range(WARM_UP + options.rounds):
        for name, step in steps.items():
            times[name].append(take([batch], step, on_cuda=options.device == "cuda"))
    report({name: np.array(found)[WARM_UP:] for name, found in times.items()}, batch, options)


def report(
    times: "dict[str, np.ndarray[tuple[int, int], np.dtype[np.float64]]]",
    batch: StepBatches,
    options: argparse.Namespace,
) -> None:
    """Print each one's speed, and how many times as fast ours is."""
    medians = {name: np.median(found, axis=0) for name, found in times.items()}
    tokens = batch.src_tokens + batch.tgt_tokens
    our_s, our_cpu_s = medians["transduce"]
    for name, (s, cpu_s) in medians.items():
        line = f"{1000 * s:9.1f} ms a step {tokens / s:12,.0f} tokens/s"
        line += f"  ours is {s / our_s:.3f} times as fast"
        if options.device == "cpu":
            line += f", {cpu_s / our_cpu_s:.3f} by CPU time"
        print(f"{line}  {name}")


if __name__ == "__main__":
    main()
