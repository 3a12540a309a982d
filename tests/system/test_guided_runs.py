"""Training with guided alignment, through the public function and the command."""

from pathlib import Path

import numpy as np
import pytest
import torch

import transduce
from tests.system.small_runs import changes, short_pairs, stopped_run, write_corpus
from transduce.models.attention import attention_between, attention_of
from transduce.models.folder import load_model
from transduce.text.special_ids import EOS_ID
from transduce.translation.alignment.word_links import align
from transduce.translation.load import EngineName

ENGINES: tuple[EngineName, ...] = ("torch", "ctranslate2")
GUIDED = {"model__guided_alignment": "0.5", "model__n_layers": "2"}


def settings(**more: object) -> list[str]:
    return [one.removeprefix("--set=") for one in changes(**GUIDED, **more)]


def test_a_guided_run_resumes_to_the_same_bits(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus")
    src, tgt = corpus / "a.en", corpus / "a.de"
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    transduce.train(src=src, tgt=tgt, out=whole, settings=settings())
    stopped_run(corpus, parts, after=13, model__guided_alignment="0.5", model__n_layers="2")
    transduce.train(src=src, tgt=tgt, out=parts, settings=settings())
    weights = {(folder / "model.safetensors").read_bytes() for folder in (whole, parts)}
    assert len(weights) == 1


@pytest.fixture(scope="module")
def guided(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("guided")
    corpus = write_corpus(folder / "corpus")
    transduce.train(
        src=corpus / "a.en",
        tgt=corpus / "a.de",
        out=folder / "run",
        settings=settings(run__score_sentences=0),
    )
    return folder / "run"


def test_the_folder_names_the_head_and_alignment_uses_it(guided: Path) -> None:
    loaded = load_model(guided, device=torch.device("cpu"))
    assert loaded.model.abilities.alignment_head == (0, 0)
    for pair in short_pairs(20, seed=9):
        shown = attention_between(loaded, pair.src, pair.tgt)
        assert shown.alignment_head == (0, 0)
        by_default = align([shown], source=pair.src, translation=pair.tgt)
        by_head = align([shown], source=pair.src, translation=pair.tgt, layer=0, head=0)
        assert by_default == by_head


def test_both_engines_return_the_guided_head(guided: Path) -> None:
    texts = [pair.src for pair in short_pairs(5, seed=10)]
    loaded = load_model(guided, device=torch.device("cpu"))
    pairs = [(one, one[::-1]) for one in loaded.tokenizer.encode_batch(texts)]
    found = {}
    for engine in ENGINES:
        translator = transduce.load(guided, "cpu", engine=engine)
        weights = translator._engine.cross_attention(pairs)
        assert weights is not None
        found[engine] = weights
    for place, (src, tgt) in enumerate(pairs):
        expected = attention_of(loaded.model, loaded.tokenizer, src, [*tgt, EOS_ID]).cross[0, 0]
        for engine in ENGINES:
            assert found[engine][place].shape == (1, len(tgt), len(src) + 1)
            np.testing.assert_allclose(found[engine][place][0], expected[: len(tgt)], atol=1e-5)
