"""What a recipe's time makes of its text in the loop that most people write, beside `transduce`.

    python benchmarks/same_time.py recipes/europarl_ende.yaml --cache FOLDER --minutes 6
        --src test.en --ref test.de --out test.hyp [--device cuda]

The peer is transformers' MarianMT of the recipe's shape: torch's autocast to bfloat16, its Adam and
its `cross_entropy`, padded batches of like lengths, kernel by kernel. Everything else is the
recipe's: pairs, subwords, tokens a step, learning rates by the same schedule, dropout and label
smoothing. At the end `generate` translates with a beam of 4 and its own length penalty, 0.6. Time
runs from the first step, as in `transduce train`; then the file that --out names is scored.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import sacrebleu
import torch
import torch.nn.functional as F
from torch import Tensor
from train_throughput import Marian

from transduce.config.load import load_config
from transduce.config.schema import Config
from transduce.data.corpus import read_lines
from transduce.data.loader import Loader, Share
from transduce.text.special_ids import BOS_ID, EOS_ID, PAD_ID
from transduce.text.tokenizer import Tokenizer
from transduce.training.prepare import Prepared, gather, prepare
from transduce.training.schedule import Spent, learning_rate, share_spent

LOOK_STEPS = 200
WINDOW = 256
"""Sentences that are translated at a time, longest first."""


def prepared_text(config: Config, cache: Path) -> Prepared:
    """Turn the text into numbers as `transduce train` does, or find them in the cache."""

    @contextmanager
    def phase(name: str) -> Iterator[Callable[[int, int], None]]:
        print(name, flush=True)
        yield lambda _done, _total: None

    corpora = gather(config.data, cache, seed=config.run.seed, phase=phase)
    size = config.model.vocab_size
    return prepare(config.data, corpora, cache, vocab_size=size, processes=8, phase=phase)


def learn(model: Marian, config: Config, loader: Loader, device: str) -> None:
    """Train until the time is over."""
    model.to(device).train()
    t = config.training
    adam = torch.optim.Adam(model.parameters(), betas=(t.beta_1, t.beta_2), eps=t.epsilon)
    began, tokens = time.monotonic(), 0
    shares = (share for epoch in count() for share in loader.steps(epoch))
    for number, share in enumerate(shares, start=1):
        spent = Spent(number - 1, 0.0, time.monotonic() - began)
        if share_spent(t, spent) >= 1:
            print(f"{number - 1:,} steps, {tokens:,} source and target tokens")
            return
        for group in adam.param_groups:
            group["lr"] = learning_rate(t, config.model.d_model, number, spent)
        loss = step(model, adam, share, config, device)
        tokens += share.src_tokens + share.tgt_tokens
        if number % LOOK_STEPS == 0:
            speed = tokens / (time.monotonic() - began)
            print(f"step {number:,}  loss {loss.item():.3f}  {speed:,.0f} tokens/s", flush=True)


def step(
    model: Marian, adam: torch.optim.Adam, share: Share, config: Config, device: str
) -> Tensor:
    """Learn from one batch."""
    (batch,) = share.batches
    sides = (batch.src, batch.tgt_in, batch.tgt_out)
    src, tgt_in, tgt_out = (ids.to(device, non_blocking=True) for ids in sides)
    adam.zero_grad()
    with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
        loss = F.cross_entropy(
            model(src, tgt_in).flatten(0, 1),
            tgt_out.flatten(),
            ignore_index=PAD_ID,
            label_smoothing=config.training.eps_ls,
        )
    torch.autograd.backward(loss)
    adam.step()
    return loss.detach()


@torch.no_grad()
def translate(
    model: Marian, tokenizer: Tokenizer, lines: Sequence[str], config: Config, device: str
) -> list[str]:
    """Translate with a beam of 4, longest sentences first."""
    model.eval()
    ids = [[*line, EOS_ID] for line in tokenizer.encode_batch(lines)]
    order = sorted(range(len(ids)), key=lambda index: -len(ids[index]))
    found: dict[int, str] = {}
    for start in range(0, len(order), WINDOW):
        window = order[start : start + WINDOW]
        src = torch.nn.utils.rnn.pad_sequence(
            [torch.tensor(ids[index]) for index in window], batch_first=True, padding_value=PAD_ID
        ).to(device)
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            made = model.model.generate(
                input_ids=src,
                attention_mask=src != PAD_ID,
                num_beams=4,
                length_penalty=0.6,
                max_length=min(src.size(1) + 50, config.model.max_positions),
            )
        special = (PAD_ID, BOS_ID, EOS_ID)
        answers = [[token for token in row if token not in special] for row in made.tolist()]
        found.update(zip(window, tokenizer.decode_batch(answers), strict=True))
    return [found[index] for index in range(len(lines))]


def main() -> None:
    """Train the peer, translate, score."""
    parser = argparse.ArgumentParser()
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--src", type=Path, required=True)
    parser.add_argument("--ref", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    options = parser.parse_args()
    config = load_config(options.recipe)
    config = config.with_changes({"training": {"minutes": options.minutes}})
    torch.backends.cuda.enable_cudnn_sdp(False)  # it plans anew for each of the many shapes
    prepared = prepared_text(config, options.cache)
    torch.manual_seed(config.run.seed)
    model = Marian(config.model.model_copy(update={"vocab_size": len(prepared.tokenizer)}))
    loader = Loader(
        prepared.train,
        max_tokens=config.training.batch_tokens,
        seed=config.run.seed,
        pin=options.device == "cuda",
        max_length=config.model.max_positions,
    )
    learn(model, config, loader, options.device)
    lines, references = (list(read_lines(path)) for path in (options.src, options.ref))
    answers = translate(model, prepared.tokenizer, lines, config, options.device)
    options.out.write_text("".join(f"{answer}\n" for answer in answers), encoding="utf-8")
    print(sacrebleu.corpus_bleu(answers, [references]))


if __name__ == "__main__":
    main()
