"""One model in torch, CTranslate2 and transformers: do they translate the same?

    python benchmarks/engines.py MODEL --src FILE --ref FILE [--threads 1] [--without-huggingface]

- torch and CTranslate2 in float32 translate every sentence greedily, with a beam of 4 without a
  length penalty, and with α = 0.6: the share of identical translations, and BLEU.
- forced scores: the log-probabilities of the references' tokens, in both.
- int8: CTranslate2 with the model as `transduce export --quantize int8` writes it.
- alone and together: whether a sentence gets the same translation in windows of 1, 7 and 512.
- Hugging Face: the model as `transduce export --to huggingface` writes it, loaded by transformers:
  the largest difference of any logit over the references, and greedy translations by `generate`.

The exit code is 1 if what we claim does not hold.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

import transduce
from transduce.data.corpus import Pair, read_lines
from transduce.export.ctranslate2 import export_ctranslate2
from transduce.export.huggingface import export_huggingface
from transduce.models.folder import load_model
from transduce.tasks.metrics import bleu
from transduce.tasks.translation import TranslationTask
from transduce.text.special_ids import BOS_ID, EOS_ID
from transduce.translation.ctranslate2_engine import CTranslate2Engine
from transduce.translation.options import Options, Translation
from transduce.translation.scorer import Scorer

SEARCHES = {
    "greedy": Options(beam=1, alpha=0.0),
    "beam 4": Options(beam=4, alpha=0.0),
    "beam 4, α 0.6": Options(),
}
FEWEST_SAME = {"greedy": 0.995, "beam 4": 0.98}


class Claims:
    """Prints each claim with whether it holds, and keeps whether all do."""

    all_hold = True

    def __call__(self, holds: bool, text: str) -> None:
        """Check one claim."""
        self.all_hold &= holds
        print(f"{'holds' if holds else 'FAILS'}: {text}", flush=True)


def same(one: Sequence[Translation], other: Sequence[Translation]) -> float:
    """Return the share of identical translations."""
    pairs = zip(one, other, strict=True)
    return sum(a.text == b.text for a, b in pairs) / len(one)


def score(translations: Iterable[Translation], references: list[str]) -> float:
    """Return BLEU."""
    return bleu([one.text for one in translations], references).score


def compare_searches(
    folder: Path, int8: Path, sources: list[str], references: list[str], claim: Claims
) -> None:
    """Search in both engines, and in int8."""
    engines = {
        "torch": transduce.load(folder, "cpu"),
        "CTranslate2": transduce.load(folder, "cpu", engine="ctranslate2"),
        "int8": transduce.load(int8, "cpu"),
    }
    for search, options in SEARCHES.items():
        found = {name: engine.translate(sources, options) for name, engine in engines.items()}
        scores = {name: score(its, references) for name, its in found.items()}
        share = same(found["torch"], found["CTranslate2"])
        listed = ", ".join(f"{name} {value:.2f}" for name, value in scores.items())
        print(f"{search}: {share:.1%} identical; BLEU {listed}")
        if search in FEWEST_SAME:
            claim(share >= FEWEST_SAME[search], f"{search}: {FEWEST_SAME[search]:.1%} identical")
        else:
            explain(found["torch"], found["CTranslate2"])
        near = abs(scores["torch"] - scores["CTranslate2"])
        claim(near <= 0.1, f"{search}: BLEU within 0.1 ({near:.2f})")
        near = abs(scores["torch"] - scores["int8"])
        claim(near <= 0.3, f"{search}: BLEU of int8 within 0.3 ({near:.2f})")


def explain(ours: Sequence[Translation], theirs: Sequence[Translation]) -> None:
    """Print how many translations differ, and how often torch's has the better score."""
    differing = [(a, b) for a, b in zip(ours, theirs, strict=True) if a.text != b.text]
    better = sum(a.score > b.score + 1e-4 for a, b in differing)
    print(f"  {len(differing)} differ; in {better} of them torch found the better score")


def compare_windows(folder: Path, int8: Path, sources: list[str]) -> None:
    """Translate sentences one by one, in windows of 7, and all together."""
    engines = {
        "torch": transduce.load(folder, "cpu"),
        "CTranslate2": transduce.load(folder, "cpu", engine="ctranslate2"),
        "int8": transduce.load(int8, "cpu"),
    }
    for name, engine in engines.items():
        together = engine.translate(sources)
        for window in (1, 7):
            apart = list(engine.stream(sources, window=window))
            print(f"{name}: {same(together, apart):.1%} the same in windows of {window}")


def compare_forced(folder: Path, pairs: list[Pair], claim: Claims) -> None:
    """Score the references in both engines."""
    loaded = load_model(folder)
    device = torch.device("cpu")
    task = TranslationTask()
    engine = CTranslate2Engine.load(folder, device=device, precision="float32", task=task)
    tokenizer = loaded.tokenizer
    sources = [
        tokenizer.source.tokens([*ids, EOS_ID])
        for ids in tokenizer.encode_batch([" ".join(pair.src.split()) for pair in pairs])
    ]
    targets = [tokenizer.tokens(ids) for ids in tokenizer.encode_targets([p.tgt for p in pairs])]
    theirs = engine.translator.score_batch(sources, targets, max_batch_size=32, max_input_length=0)
    ours = Scorer(loaded).score(pairs)
    worst = max(abs(a.total - sum(b.log_probs)) for a, b in zip(ours, theirs, strict=True))
    claim(worst <= 1e-3, f"forced scores of whole sentences within 1e-3 (at most {worst:.1e})")


@torch.inference_mode()
def compare_huggingface(folder: Path, exported: Path, pairs: list[Pair], claim: Claims) -> None:
    """Compare logits, and translations by `generate`."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    loaded = load_model(folder)
    model: Any = AutoModelForSeq2SeqLM.from_pretrained(exported).eval()
    tokenizer: Any = AutoTokenizer.from_pretrained(exported)
    worst = 0.0
    for pair in pairs:
        [src], [tgt] = (
            loaded.tokenizer.encode_batch([" ".join(pair.src.split())]),
            loaded.tokenizer.encode_targets([pair.tgt]),
        )
        src_ids, tgt_in = torch.tensor([[*src, EOS_ID]]), torch.tensor([[BOS_ID, *tgt]])
        theirs = model(input_ids=src_ids, decoder_input_ids=tgt_in).logits
        worst = max(worst, float((loaded.model(src_ids, tgt_in) - theirs).abs().max()))
    claim(worst <= 1e-4, f"Hugging Face: logits within 1e-4 (at most {worst:.1e})")
    asked = Options(beam=1, alpha=0.0, second_try=False)
    ours = transduce.load(folder, "cpu").translate([pair.src for pair in pairs], asked)
    equal = 0
    for pair, one in zip(pairs, ours, strict=True):
        read = tokenizer([" ".join(pair.src.split())], return_tensors="pt")
        most = read["input_ids"].size(1) + 50
        written = model.generate(
            input_ids=read["input_ids"],
            attention_mask=read["attention_mask"],
            num_beams=1,
            max_new_tokens=most,
            max_length=None,
        )
        equal += tokenizer.decode(written[0], skip_special_tokens=True) == one.text
    share = equal / len(pairs)
    claim(share >= 0.995, f"Hugging Face: 99.5 % of greedy translations identical ({share:.1%})")


def main() -> None:
    """Compare everything and print it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("--src", type=Path, required=True)
    parser.add_argument("--ref", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--without-huggingface", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    sources, references = (list(read_lines(path)) for path in (options.src, options.ref))
    pairs = [Pair(*pair) for pair in zip(sources, references, strict=True)]
    claim = Claims()
    with tempfile.TemporaryDirectory() as work:
        int8, exported = Path(work) / "int8", Path(work) / "huggingface"
        export_ctranslate2(options.model, int8, quantize="int8")
        compare_searches(options.model, int8, sources, references, claim)
        compare_forced(options.model, pairs, claim)
        if not options.without_huggingface:
            export_huggingface(options.model, exported)
            compare_huggingface(options.model, exported, pairs, claim)
        compare_windows(options.model, int8, sources)
    sys.exit(0 if claim.all_hold else 1)


if __name__ == "__main__":
    main()
