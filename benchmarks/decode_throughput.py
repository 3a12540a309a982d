"""Speed and latency of beam search beside transformers' `generate`, a hand loop and CTranslate2.

    python benchmarks/decode_throughput.py [--shape base] [--device cpu] [--threads 2]
        [--batches 1 32] [--precision float32] [--rounds 5]
        [--contenders transduce generate "hand loop" "CTranslate2, float32" "CTranslate2, int8"]
        [--beside ../other/checkout]

All translate the same random sentences with a beam of 4 and α = 0.6, from ids in Python lists to
ids in Python lists: 30 source tokens, the last of which is EOS, to exactly 30 output tokens. The
weights are random, and EOS is made so unlikely that no search ends early: through the weights,
which takes no time, or for CTranslate2 through its settings.

- transduce: `TorchEngine` as `transduce translate` calls it, without a second search.
- generate: a MarianMT of the same shape, with its default cache and attention.
- hand loop: what a competent person writes on plain torch, with keys and values cached.
- CTranslate2 (CPU): our weights in its own format, `beam_size=4, length_penalty=0.6,
  min_decoding_length=30, max_decoding_length=30, max_batch_size=0`, one translator with
  `--threads` threads that computes in float32 or int8. Its ids are strings; looking them up counts.

Each contender runs in its own process. They take turns round by round, so that a noisy machine
disturbs all alike; a time is the median over the rounds, after one round that warms up. On a CUDA
device all are in bfloat16 unless `--precision` says otherwise, and each time is that of a second
translation of the batch: the device's memory is freed after every turn, as the next contender may
need it. The exit code is 1 if what we claim about our speed does not hold.
`benchmarks/end_to_end.py` has `transduce translate` with both engines from file to file, beside
CTranslate2 driven by hand.
"""

import argparse
import gc
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transduce.config.presets import preset_named
from transduce.export.ctranslate2 import Entries, specification
from transduce.hardware.devices import choose_device
from transduce.models.build import build_model
from transduce.models.transformer.model import Transformer
from transduce.models.transformer.settings import TransformerConfig
from transduce.nn.mixers.positions import sinusoids
from transduce.tasks.translation import TranslationTask
from transduce.text.special_ids import BOS_ID, EOS_ID, PAD_ID
from transduce.text.tokenizer import Tokenizer
from transduce.translation.engine import EncodedSentence
from transduce.translation.inference import prepare_for_inference
from transduce.translation.options import Options
from transduce.translation.torch_engine import TorchEngine

BEAM, ALPHA, TOKENS = 4, 0.6, 30
SPECIAL_TOKENS = ["<pad>", "<unk>", "<s>", "</s>"]
CONTENDERS = {
    "cpu": ["transduce", "generate", "hand loop", "CTranslate2, float32", "CTranslate2, int8"],
    "cuda": ["transduce", "generate", "hand loop"],
}
PRECISIONS = {"float32": torch.float32, "bf16": torch.bfloat16}
Ids = list[list[int]]
Translate = Callable[[Ids], Ids]
Seconds = dict[str, dict[int, float]]  # by contender and batch size; NaN: out of memory


def ours(shape: TransformerConfig, options: argparse.Namespace) -> Translate:
    """Translate as `transduce translate` does."""
    device = choose_device(options.device)
    model = never_ending(shape).to(device)
    ready = prepare_for_inference(model, precision=options.precision)
    words = " ".join(f"w{number}" for number in range(shape.vocab_size - len(SPECIAL_TOKENS)))
    tokenizer = Tokenizer.learn([words], kind="whitespace", vocab_size=shape.vocab_size)
    engine = TorchEngine(device, TOKENS, TranslationTask(), ready, tokenizer)
    asked = Options(beam=BEAM, alpha=ALPHA, max_batch_tokens=10**12, second_try=False)

    def translate(batch: Ids) -> Ids:
        sentences = [EncodedSentence(ids, number, []) for number, ids in enumerate(batch)]
        return [found.hypotheses[0].ids for found in engine.search_with_retry(sentences, asked)]

    return translate


@torch.no_grad()
def never_ending(shape: TransformerConfig) -> Transformer:
    """Build a model that gives EOS a logit of −d_model, where all others are about 0.

    A norm's outputs sum to 0 over the features, so that with this bias they sum to d_model / 10.
    """
    model = build_model(shape)
    assert isinstance(model, Transformer)
    model.decoder[-1].add_norm_3.norm.bias.fill_(0.1)
    model.embedding.weight[EOS_ID] = -10
    return model


def marian(shape: TransformerConfig, options: argparse.Namespace) -> Translate:
    """Translate with transformers' MarianMT of the same shape."""
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=shape.vocab_size,
        d_model=shape.d_model,
        encoder_layers=shape.n_layers,
        decoder_layers=shape.n_layers,
        encoder_attention_heads=shape.h,
        decoder_attention_heads=shape.h,
        encoder_ffn_dim=shape.d_ff,
        decoder_ffn_dim=shape.d_ff,
        max_position_embeddings=shape.max_positions,
        activation_function="relu",
        scale_embedding=True,
        pad_token_id=PAD_ID,
        bos_token_id=BOS_ID,
        eos_token_id=EOS_ID,
        forced_eos_token_id=None,
        decoder_start_token_id=BOS_ID,
    )
    model = MarianMTModel(config).to(options.device, PRECISIONS[options.precision]).eval()
    # With min_new_tokens it would copy all scores at each step.
    model.final_logits_bias[0, EOS_ID] = -shape.d_model

    def translate(batch: Ids) -> Ids:
        src = torch.tensor([[*ids, EOS_ID] for ids in batch], device=options.device)  # [B, S]
        answers = model.generate(
            input_ids=src,
            attention_mask=src != PAD_ID,
            num_beams=BEAM,
            length_penalty=ALPHA,
            max_new_tokens=TOKENS,
            do_sample=False,
        )  # [B, 1+T]
        ids: Ids = answers[:, 1:].tolist()
        return ids

    return translate


class HandAttention(nn.Module):
    """Attention of the hand loop, whose queries, keys and values are one matrix product."""

    def __init__(self, d_model: int, h: int) -> None:
        super().__init__()
        self.h = h
        self.w_qkv = nn.Parameter(torch.empty(3, d_model, d_model))
        self.w_o = nn.Linear(d_model, d_model, bias=False)

    def project(self, x: Tensor, wanted: slice) -> tuple[Tensor, ...]:
        """Compute the wanted ones of queries, keys and values, each [B, h, T, d_k]."""
        weights = self.w_qkv[wanted]  # [n, d_model, d_model]
        projected = F.linear(x, weights.flatten(0, 1))
        heads = projected.view(*x.shape[:2], len(weights), self.h, -1)  # [B, T, n, h, d_k]
        return heads.transpose(1, 3).unbind(2)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None = None) -> Tensor:
        """Attend."""
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)  # [B, h, T, d_k]
        context: Tensor = self.w_o(heads.transpose(1, 2).flatten(2))  # [B, T, d_model]
        return context


QKV, ONLY_Q, ONLY_KV = slice(0, 3), slice(0, 1), slice(1, 3)
KeysValues = tuple[Tensor, ...]  # two; before the first token none
Past = list[KeysValues]  # of each layer


class HandLayer(nn.Module):
    """A layer of the hand loop's encoder, or of its decoder if it attends to the source."""

    def __init__(self, shape: TransformerConfig, *, sees_source: bool) -> None:
        super().__init__()
        self.attention = HandAttention(shape.d_model, shape.h)
        self.norm_1 = nn.LayerNorm(shape.d_model)
        if sees_source:
            self.cross_attention = HandAttention(shape.d_model, shape.h)
            self.norm_2 = nn.LayerNorm(shape.d_model)
        self.w_1 = nn.Linear(shape.d_model, shape.d_ff)
        self.w_2 = nn.Linear(shape.d_ff, shape.d_model)
        self.norm_3 = nn.LayerNorm(shape.d_model)

    def encode(self, x: Tensor, allowed: Tensor | None) -> Tensor:
        """Map [B, S, d_model] to the same shape."""
        q, k, v = self.attention.project(x, QKV)
        return self._feed_forward(self.norm_1(x + self.attention(q, k, v, allowed)))

    def step(
        self, x: Tensor, past: KeysValues, memory: KeysValues, allowed: Tensor | None
    ) -> tuple[Tensor, KeysValues]:
        """Map one position, [B*k, 1, d_model], to the same shape, and append it to the past."""
        q, k, v = self.attention.project(x, QKV)
        if past:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        x = self.norm_1(x + self.attention(q, k, v))
        (q,) = self.cross_attention.project(x, ONLY_Q)
        x = self.norm_2(x + self.cross_attention(q, *memory, allowed))
        return self._feed_forward(x), (k, v)

    def _feed_forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.norm_3(x + self.w_2(self.w_1(x).relu()))
        return output


class HandModel(nn.Module):
    """The hand loop's Transformer."""

    positions: Tensor

    def __init__(self, shape: TransformerConfig) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.empty(shape.vocab_size, shape.d_model))
        self.register_buffer("positions", sinusoids(shape.max_positions, shape.d_model))
        self.encoder = hand_layers(shape, sees_source=False)
        self.decoder = hand_layers(shape, sees_source=True)
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=shape.d_model**-0.5)

    def embed(self, ids: Tensor, start: int = 0) -> Tensor:
        """Embed [B, T], whose first token has this position."""
        scale = math.sqrt(self.embedding.size(1))
        positions = self.positions[start : start + ids.size(1)]
        return F.embedding(ids, self.embedding) * scale + positions

    def read(self, src: Tensor, allowed: Tensor | None) -> list[KeysValues]:
        """Encode [B, S]; return its keys and values in each decoder layer, for each hypothesis."""
        x = self.embed(src)  # [B, S, d_model]
        for layer in self.encoder:
            x = layer.encode(x, allowed)
        projected = (layer.cross_attention.project(x, ONLY_KV) for layer in self.decoder)
        return [tuple(part.repeat_interleave(BEAM, 0) for part in pair) for pair in projected]

    def step(
        self, last_ids: Tensor, past: Past, memory: list[KeysValues], allowed: Tensor | None
    ) -> tuple[Tensor, Past]:
        """Read one token of each hypothesis, [B*k, 1]; score the next: logits, [B*k, V]."""
        x = self.embed(last_ids, start=past[0][0].size(2) if past[0] else 0)  # [B*k, 1, d_model]
        longer: Past = []
        for layer, before, seen in zip(self.decoder, past, memory, strict=True):
            x, after = layer.step(x, before, seen, allowed)
            longer.append(after)
        return F.linear(x[:, 0], self.embedding), longer


def hand_layers(shape: TransformerConfig, *, sees_source: bool) -> Sequence[HandLayer]:
    """Build one side of the hand loop's Transformer."""
    layers = (HandLayer(shape, sees_source=sees_source) for _ in range(shape.n_layers))
    return cast("Sequence[HandLayer]", nn.ModuleList(layers))


@torch.inference_mode()
def hand_search(model: HandModel, src: Tensor) -> Ids:
    """Translate [B, S] by the usual loop: finished hypotheses continue with padding, at no cost."""
    sentences, vocab_size, device = src.size(0), model.embedding.size(0), src.device
    allowed = (src != PAD_ID)[:, None, None] if bool((src == PAD_ID).any()) else None
    memory = model.read(src, allowed)
    if allowed is not None:
        allowed = allowed.repeat_interleave(BEAM, 0)  # [B*k, 1, 1, S]
    past: Past = [()] * len(memory)
    firsts = torch.arange(0, sentences * BEAM, BEAM, device=device)[:, None]  # [B, 1]
    tokens = torch.full((sentences * BEAM, 1), BOS_ID, device=device)  # [B*k, 1+T]
    scores = torch.full((sentences, BEAM), -torch.inf, device=device)  # [B, k]
    scores[:, 0] = 0  # at first all hypotheses are the same
    only_padding = torch.full((vocab_size,), -torch.inf, device=device)
    only_padding[PAD_ID] = 0
    is_ended = torch.zeros(sentences * BEAM, dtype=torch.bool, device=device)
    ended = 0
    while tokens.size(1) <= TOKENS and ended < is_ended.numel():
        logits, past = model.step(tokens[:, -1:], past, memory, allowed)
        log_p = logits.float().log_softmax(dim=-1)  # [B*k, V]
        if ended:
            log_p[is_ended] = only_padding
        total = log_p.add_(scores.view(-1, 1)).view(sentences, -1)  # [B, k*V]
        scores, places = total.topk(BEAM, dim=1)  # [B, k]
        rows = (firsts + places // vocab_size).flatten()  # [B*k]
        ids = (places % vocab_size).flatten()  # [B*k]
        tokens = torch.cat([tokens[rows], ids[:, None]], dim=1)
        past = [tuple(part.index_select(0, rows) for part in pair) for pair in past]
        is_ended = is_ended[rows] | (ids == EOS_ID)
        ended = int(is_ended.sum())
    lengths = (tokens[:, 1:] != PAD_ID).sum(dim=1).view_as(scores)
    best = (scores / ((5 + lengths) / 6) ** ALPHA).argmax(dim=1, keepdim=True)  # [B, 1]
    answers: Ids = tokens[(firsts + best).flatten(), 1:].tolist()
    return answers


def by_hand(shape: TransformerConfig, options: argparse.Namespace) -> Translate:
    """Translate by the hand loop."""
    model = HandModel(shape).eval()
    with torch.no_grad():
        model.decoder[-1].norm_3.bias.fill_(0.1)
        model.embedding[EOS_ID] = -10
    model.to(options.device, PRECISIONS[options.precision])
    return lambda batch: hand_search(
        model, torch.tensor([[*ids, EOS_ID] for ids in batch], device=options.device)
    )


def by_ctranslate2(
    shape: TransformerConfig, options: argparse.Namespace, compute_type: str
) -> Translate:
    """Translate with CTranslate2."""
    import ctranslate2  # type: ignore[import,unused-ignore]

    vocabulary = [*SPECIAL_TOKENS, *map(str, range(len(SPECIAL_TOKENS), shape.vocab_size))]
    with tempfile.TemporaryDirectory() as folder:
        spec = specification(never_ending(shape), shape, Entries(vocabulary, vocabulary))
        spec.save(folder)
        translator = ctranslate2.Translator(
            folder, inter_threads=1, intra_threads=options.threads, compute_type=compute_type
        )
    numbers = {token: number for number, token in enumerate(vocabulary)}

    def translate(batch: Ids) -> Ids:
        results = translator.translate_batch(
            [[vocabulary[number] for number in (*ids, EOS_ID)] for ids in batch],
            beam_size=BEAM,
            length_penalty=ALPHA,
            min_decoding_length=TOKENS,
            max_decoding_length=TOKENS,
            max_batch_size=0,
        )
        return [[numbers[token] for token in result.hypotheses[0]] for result in results]

    return translate


def contender(options: argparse.Namespace) -> Translate:
    """Build the contender of this name."""
    shape = preset_named(options.shape).model
    assert isinstance(shape, TransformerConfig)
    torch.manual_seed(0)
    match options.contender:
        case "transduce":
            return ours(shape, options)
        case "generate":
            return marian(shape, options)
        case "hand loop":
            return by_hand(shape, options)
        case name:
            return by_ctranslate2(shape, options, compute_type=name.split(", ")[1])


def serve(options: argparse.Namespace) -> None:
    """Run as one contender: each line of standard input is a number of sentences to translate."""
    torch.set_num_threads(options.threads)
    translate = contender(options)
    gc.collect()
    gc.freeze()  # or now and then Python would look through all that the libraries have loaded
    for line in sys.stdin:
        batch = sentences(int(line), preset_named(options.shape).model.vocab_size)
        print(timed(translate, batch, is_cuda=options.device == "cuda"), flush=True)


def sentences(count: int, vocab_size: int) -> Ids:
    """Draw random sentences, the same ones in every process."""
    drawn = np.random.default_rng(0).integers(
        len(SPECIAL_TOKENS), vocab_size, size=(count, TOKENS - 1)
    )
    ids: Ids = drawn.tolist()
    return ids


def timed(translate: Translate, batch: Ids, *, is_cuda: bool) -> float:
    """Translate; return the seconds, or NaN if memory runs out."""
    seconds = math.nan
    try:
        if is_cuda:
            translate(batch)
        start = time.perf_counter()
        answers = translate(batch)
        seconds = time.perf_counter() - start
        assert len(answers) == len(batch), f"{len(answers)} translations of {len(batch)} sentences"
        assert {len(ids) for ids in answers} == {TOKENS}, "a translation of another length"
    except torch.OutOfMemoryError:
        pass
    if is_cuda:
        gc.collect()
        torch.cuda.empty_cache()
    return seconds


def measure(options: argparse.Namespace) -> Seconds:
    """Let the contenders take turns, batch size by batch size."""
    given = {name: getattr(options, name) for name in ("shape", "device", "threads", "precision")}
    arguments = [f"--{name}={value}" for name, value in given.items()]
    running = {
        name: start(Path(__file__), [*arguments, f"--contender={name}"])
        for name in options.contenders
    }
    if options.beside:
        other = options.beside / "benchmarks" / Path(__file__).name
        running[f"transduce in {options.beside}"] = start(
            other, [*arguments, "--contender=transduce"], package=options.beside / "src"
        )
    seconds: Seconds = {name: {} for name in running}
    for size in options.batches:
        times: dict[str, list[float]] = {name: [] for name in running}
        for _ in range(1 + options.rounds):
            for name, process in running.items():
                times[name].append(ask(process, size))
        for name in running:
            seconds[name][size] = float(np.median(times[name][1:]))  # the first round warms up
    for process in running.values():
        process.communicate()
    return seconds


def start(
    script: Path, arguments: list[str], *, package: Path | None = None
) -> "subprocess.Popen[str]":
    """Start a contender; with `package`, on that source tree instead of the installed one."""
    path = os.pathsep.join([str(package), *sys.path[1:]])
    environment = [f"PYTHONPATH={path}"] if package else []
    return subprocess.Popen(
        ["/usr/bin/env", *environment, sys.executable, str(script), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def ask(process: "subprocess.Popen[str]", size: int) -> float:
    """Have a contender translate this many sentences; return the seconds."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{size}\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    assert answer, f"{process.args!r} ended"
    return float(answer)


def report(seconds: Seconds) -> None:
    """Print each contender's speed and its ratio to ours."""
    for size in next(iter(seconds.values())):
        print(f"{size} sentences at a time")
        for name, by_size in seconds.items():
            if math.isnan(by_size[size]):
                print(f"  out of memory  {name}")
                continue
            ratio = seconds.get("transduce", {}).get(size, math.nan) / by_size[size]
            print(
                f"  {size * TOKENS / by_size[size]:12,.1f} tokens/s  "
                f"{1000 * by_size[size]:10,.1f} ms  {ratio:6.3f} of ours  {name}"
            )


class Claim(NamedTuple):
    """What we claim about our speed."""

    text: str
    holds: bool


def cuda_claims(seconds: Seconds) -> Iterator[Claim]:
    """At its best batch size 8 times the speed of generate, at batch 1 an eighth of its latency."""
    if not seconds.keys() >= {"transduce", "generate"}:
        return
    ours, theirs = seconds["transduce"], seconds["generate"]
    speed, other = best_speed(ours), best_speed(theirs)
    yield Claim(
        f"each at its best, {speed:,.0f} tokens/s to generate's {other:,.0f}: "
        f"{speed / other:.2f} times, claimed 8",
        speed >= 8 * other,
    )
    if 1 in ours:
        ratio = ours[1] / theirs[1]
        yield Claim(f"latency, {ratio:.3f} of generate's, claimed 0.125", ratio <= 1 / 8)


def cpu_claims(seconds: Seconds) -> Iterator[Claim]:
    """At every batch size 1.25 times the speed of generate and of the hand loop."""
    if not seconds.keys() >= {"transduce", "generate", "hand loop"}:
        return
    for size, time_s in seconds["transduce"].items():
        ratio = np.nanmin([seconds["generate"][size], seconds["hand loop"][size]]) / time_s
        text = f"batch {size}, {ratio:.2f} times the better of generate and hand loop, claimed 1.25"
        yield Claim(text, bool(ratio >= 1.25))


def best_speed(by_size: dict[int, float]) -> float:
    """Return the most tokens a second at any batch size."""
    speeds = [size * TOKENS / time_s for size, time_s in by_size.items()]
    return float(np.nanmax(speeds))


def main() -> None:
    """Compare all contenders, or run as one of them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--shape", default="base", choices=["small", "base", "big"])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 32], help="their sizes")
    parser.add_argument(
        "--precision", choices=list(PRECISIONS), help="float32 on the CPU, else bf16"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--contenders", nargs="+", metavar="NAME", help="instead of all")
    parser.add_argument("--beside", type=Path, help="another checkout, to compare versions")
    inner = parser.add_argument_group("used by the program when it starts itself")
    inner.add_argument("--contender")
    options = parser.parse_args()
    options.precision = options.precision or ("float32" if options.device == "cpu" else "bf16")
    options.contenders = options.contenders or CONTENDERS[options.device]
    if unknown := set(options.contenders) - set(CONTENDERS[options.device]):
        parser.error(f"--contenders: no {unknown}; use any of {CONTENDERS[options.device]}")
    if options.contender:
        serve(options)
        return
    seconds = measure(options)
    report(seconds)
    claims = list((cuda_claims if options.device == "cuda" else cpu_claims)(seconds))
    for claim in claims:
        print(f"{'holds' if claim.holds else 'FAILS'}: {claim.text}")
    sys.exit(0 if all(claim.holds for claim in claims) else 1)


if __name__ == "__main__":
    main()
