"""Training with hints, through the public function and the command: a model learns to follow."""

from pathlib import Path

import numpy as np
import pytest

import transduce
from tests.command import Command
from tests.system.small_runs import changes, stopped_run, write_corpus

WORDS = [first + second for first in "bd" for second in "aei"]
GLOSSARIES = [{word: form + word for word in WORDS[::2]} for form in "xy"]


def settings(**more: object) -> list[str]:
    return [one.removeprefix("--set=") for one in changes(**more)]


def test_a_run_with_hints_and_noise_resumes_to_the_same_bits(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus")
    src, tgt = corpus / "a.en", corpus / "a.de"
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    both = settings(data__terms=0.4, data__augment="true")
    transduce.train(src=src, tgt=tgt, out=whole, settings=both)
    stopped_run(corpus, parts, after=13, data__terms=0.4, data__augment="true")
    transduce.train(src=src, tgt=tgt, out=parts, settings=both)
    weights = {(folder / "model.safetensors").read_bytes() for folder in (whole, parts)}
    assert len(weights) == 1


def ambiguous_sentences(count: int, seed: int) -> list[tuple[str, str]]:
    """Generate pairs in which every word has two translations: only a hint tells which."""
    draws = np.random.default_rng(seed)
    sources = [draws.choice(WORDS, size=draws.integers(1, 3)) for _ in range(count)]
    targets = [" ".join(draws.choice(["x", "y"]) + word for word in source) for source in sources]
    return list(zip(map(" ".join, sources), targets, strict=True))


def trained(folder: Path, *, steps: int) -> Path:
    pairs = ambiguous_sentences(400, seed=1)
    for name, side in (("a.src", 0), ("a.tgt", 1)):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        (folder / name).write_text(text, encoding="utf-8")
    chosen = settings(
        model__d_model=32,
        model__d_ff=128,
        model__h=4,
        model__p_drop=0,
        training__eps_ls=0,
        training__steps=steps,
        run__checkpoint_steps=steps,
        run__score_sentences=0,
        data__terms=0.8,
        data__clean="false",
    )
    src, tgt = folder / "a.src", folder / "a.tgt"
    transduce.train(src=src, tgt=tgt, out=folder / "run", settings=chosen)
    return folder / "run"


def share_met(model: Path, *, soft: bool) -> float:
    """Return how many words have the translation that the glossary says."""
    translator = transduce.load(model, "cpu")
    texts = [source for source, _ in ambiguous_sentences(40, seed=2)]
    met = []
    for glossary in GLOSSARIES:
        given = glossary if soft else None
        results = translator.translate(texts, glossary=given, soft=soft)
        for text, found in zip(texts, results, strict=True):
            wanted = [glossary[word] for word in text.split() if word in glossary]
            met += [word in found.text.split() for word in wanted]
    return sum(met) / len(met)


def test_a_model_learns_to_follow_hints(tmp_path: Path, command: Command) -> None:
    model = trained(tmp_path, steps=150)
    free, soft = share_met(model, soft=False), share_met(model, soft=True)
    assert free < 0.6
    assert soft > free + 0.2
    glossary = tmp_path / "terms.tsv"
    glossary.write_text("".join(f"{a}\t{b}\n" for a, b in GLOSSARIES[0].items()), encoding="utf-8")
    [expected] = transduce.load(model, "cpu").translate(["ba"], glossary=glossary, soft=True)
    arguments = ("translate", str(model), "--glossary", str(glossary), "--soft", "--device", "cpu")
    assert command(*arguments, given=b"ba\n").out == f"{expected.text}\n"


@pytest.mark.exhaustive
def test_a_model_that_trains_longer_follows_nearly_all_hints(tmp_path: Path) -> None:
    model = trained(tmp_path, steps=600)
    assert share_met(model, soft=False) < 0.6
    assert share_met(model, soft=True) > 0.9
