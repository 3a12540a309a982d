"""What a shortlist costs in quality, and what it saves, in torch and in CTranslate2.

    PAIRS="--train-src FILE --train-tgt FILE"
    python benchmarks/shortlists.py quality MODEL $PAIRS --src FILE --ref FILE [--threads 1]
    python benchmarks/shortlists.py speed $PAIRS --src FILE [--threads 1]

`quality`: lists of several sizes are made from the training pairs for a copy of the model. For each
the candidates of a sentence, the share of the references' tokens among them, BLEU, how many
translations are those of the whole vocabulary, and the processor's time for all of them.

`speed`: a student of the tiny shape with random weights and 32,000 subwords, learnt from the pairs,
writes 50 tokens more than each sentence has, with the lists of these pairs; sentences alone and 32
at once.
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

import transduce
from transduce.config.presets import preset_named
from transduce.data.corpus import read_lines
from transduce.export.ctranslate2 import export_ctranslate2
from transduce.models.build import build_model
from transduce.models.folder import LoadedModel, load_settings, load_tokenizer, save_model
from transduce.models.shortlist import SPECIAL, load_shortlist
from transduce.tasks.metrics import bleu
from transduce.text.special_ids import EOS_ID
from transduce.text.tokenizer import Tokenizer
from transduce.translation.options import Options
from transduce.translation.shortlist.make import FREQUENT, PER_TOKEN, make_shortlist
from transduce.translation.translator import Translator

SIZES = ((50, 50), (100, 20), (100, 100), (500, 100))
"""The most frequent tokens, and those of each source token."""
SPEED_PAIRS, VOCABULARY = 100_000, 32_000


def copied(model: Path, folder: Path) -> Path:
    """Copy what a model is."""
    folder.mkdir()
    for name in ("config.yaml", "tokenizer.json", "model.safetensors"):
        shutil.copy(model / name, folder)
    return folder


def coverage(folder: Path, sources: list[str], references: list[str]) -> tuple[float, float]:
    """Return the candidates of a sentence, and the share of reference tokens among them."""
    tokenizer = load_tokenizer(folder, load_settings(folder))
    shortlist = load_shortlist(folder, tokenizer)
    found = total = 0
    counts = []
    for src, ref in zip(
        tokenizer.encode_batch(sources), tokenizer.encode_targets(references), strict=True
    ):
        [row] = shortlist.candidates([src], [[]])
        counts.append(int(row.sum()))
        found += int(row[ref].sum())
        total += len(ref)
    return float(np.mean(counts)), found / total


def timed(translator: Translator, sources: list[str], options: Options) -> tuple[list[str], float]:
    """Translate all; return the texts and the processor's time."""
    translator.translate(sources[:8], options)
    began = time.process_time()
    found = [one.text for one in translator.translate(sources, options)]
    return found, time.process_time() - began


def quality(
    model: Path, train: tuple[Path, Path], src: Path, ref: Path, *, sizes: Sequence[tuple[int, int]]
) -> None:
    """Compare lists of several sizes."""
    sources, references = (list(read_lines(path)) for path in (src, ref))
    with tempfile.TemporaryDirectory() as work:
        folder = copied(model, Path(work) / "model")
        for beam in (1, 4):
            options = Options(beam=beam)
            ways: dict[str, Callable[..., Translator]] = {
                "torch": lambda **how: transduce.load(folder, "cpu", **how),
                "torch int8": lambda **how: transduce.load(folder, "cpu", precision="int8", **how),
                "CTranslate2": lambda **how: transduce.load(
                    folder, "cpu", engine="ctranslate2", **how
                ),
                "CTranslate2 int8": lambda **how: int8(folder, Path(work), **how),
            }
            whole = {name: timed(load(), sources, options) for name, load in ways.items()}
            show(f"beam {beam}, whole vocabulary", whole, whole, references)
            for frequent, per_token in sizes:
                make_shortlist(
                    folder, src=train[:1], tgt=train[1:], frequent=frequent, per_token=per_token
                )
                found = {
                    name: timed(load(shortlist=True), sources, options)
                    for name, load in ways.items()
                }
                width, share = coverage(folder, sources, references)
                what = f"{frequent} + {per_token} each: {width:.0f} candidates, {share:.2%} covered"
                show(f"beam {beam}, {what}", found, whole, references)


def int8(folder: Path, work: Path, *, shortlist: bool = False) -> Translator:
    """Export a model and load it."""
    out = Path(tempfile.mkdtemp(dir=work)) / "int8"
    export_ctranslate2(folder, out, quantize="int8", shortlist=shortlist)
    return transduce.load(out, "cpu", shortlist=shortlist)


def show(
    what: str,
    found: dict[str, tuple[list[str], float]],
    whole: dict[str, tuple[list[str], float]],
    references: list[str],
) -> None:
    """Print a line for each engine."""
    print(what, flush=True)
    for name, (texts, seconds) in found.items():
        same = np.mean([a == b for a, b in zip(texts, whole[name][0], strict=True)])
        score = bleu(texts, references).score
        print(
            f"  {name:>16}: BLEU {score:.2f}, {same:.1%} the same, {seconds:.2f} s "
            f"({seconds / whole[name][1]:.2f} of the whole vocabulary's)",
            flush=True,
        )


def speed(train: tuple[Path, Path], src: Path) -> None:
    """Time a student with random weights."""
    sources = [line for line in islice(read_lines(src), 400) if 15 <= len(line.split()) <= 30]
    sources = sources[:64]
    with tempfile.TemporaryDirectory() as work:
        pairs = [shortened(path, Path(work)) for path in train]
        folder = random_student(Path(work) / "model", pairs)
        made = make_shortlist(folder, src=pairs[:1], tgt=pairs[1:])
        print(f"{made.tokens:,} tokens with {made.entries / made.tokens:.1f} each")
        print(f"{coverage(folder, sources, sources)[0]:.0f} candidates a sentence")
        for engine in ("torch", "ctranslate2"):
            for beam in (1, 4):
                for at_once in (1, 32):
                    times = [
                        fastest(folder, engine, sources, beam, at_once, shortlist=shortlist)
                        for shortlist in (False, True)
                    ]
                    print(
                        f"{engine}, beam {beam}, {at_once} at once: {len(sources) / times[0]:.1f} "
                        f"sentences/s, with the list {len(sources) / times[1]:.1f} "
                        f"({times[0] / times[1]:.2f} times)",
                        flush=True,
                    )


def fastest(
    folder: Path, engine: Any, sources: list[str], beam: int, at_once: int, *, shortlist: bool
) -> float:
    """Return the least processor's time of three translations of all."""
    translator = transduce.load(folder, "cpu", engine=engine, shortlist=shortlist)
    options = Options(beam=beam, second_try=False)
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        list(translator.stream(sources, options, window=at_once))
        best = min(best, time.process_time() - began)
    return best


def shortened(path: Path, folder: Path) -> Path:
    """Write the first lines of a text."""
    out = folder / f"{path.name}.txt"
    lines = islice(read_lines(path), SPEED_PAIRS)
    out.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return out


def random_student(folder: Path, pairs: Sequence[Path]) -> Path:
    """Save a student that never ends a sentence before its last position."""
    texts: Iterable[str] = (line for path in pairs for line in read_lines(path))
    tokenizer = Tokenizer.learn(texts, vocab_size=VOCABULARY)
    config = preset_named("student_tiny").with_changes(
        {"model": {"vocab_size": len(tokenizer)}, "data": {"lines": "texts"}}
    )
    model = build_model(config.model, seed=1).eval()
    with torch.no_grad():
        model.get_submodule("embedding").get_parameter("weight")[:SPECIAL] = 0
    assert EOS_ID < SPECIAL
    save_model(folder, LoadedModel(model, config, tokenizer))
    return folder


def main() -> None:
    """Measure one of both."""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("quality")
    one.add_argument("model", type=Path)
    one.add_argument("--ref", type=Path, required=True)
    one.add_argument("--default-size", action="store_true", help="the default lists alone")
    for command in (one, commands.add_parser("speed")):
        command.add_argument("--train-src", type=Path, required=True)
        command.add_argument("--train-tgt", type=Path, required=True)
        command.add_argument("--src", type=Path, required=True)
        command.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    train = (given.train_src, given.train_tgt)
    if given.command == "quality":
        sizes = [(FREQUENT, PER_TOKEN)] if given.default_size else SIZES
        quality(given.model, train, given.src, given.ref, sizes=sizes)
    else:
        speed(train, given.src)


if __name__ == "__main__":
    main()
