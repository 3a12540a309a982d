"""`transduce shortlist` makes a list from pairs; `--shortlist` obeys it, or says why it cannot."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import transduce
from tests.command import Command
from tests.translation.likely import VOCAB_SIZE, learnt_tokenizer, random_model, saved, sentences
from transduce.config.schema import Config
from transduce.errors import InputError
from transduce.grammar import generate
from transduce.models.build import build_model
from transduce.models.folder import LoadedModel, load_model
from transduce.models.shortlist import load_shortlist
from transduce.models.transformer.settings import TransformerConfig
from transduce.tasks.translation import TranslationTask
from transduce.translation import load as load_module
from transduce.translation.engine import EncodedSentence
from transduce.translation.inference import prepare_for_inference
from transduce.translation.load import EngineName
from transduce.translation.options import Options
from transduce.translation.torch_engine import TorchEngine

CPU = torch.device("cpu")
TEXTS = list(sentences(8))
OPTIONS = Options(beam=3, n_best=3, second_try=False)


def write_pairs(folder: Path) -> list[Path]:
    paths = [folder / "pairs.en", folder / "pairs.de"]
    pairs = list(generate(300, seed=3))
    for path, lines in zip(paths, zip(*pairs, strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return paths


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with a short shortlist."""
    root = tmp_path_factory.mktemp("model")
    folder = saved(root / "model", random_model(seed=5))
    src, tgt = write_pairs(root)
    transduce.make_shortlist(folder, src=[src], tgt=[tgt], frequent=5, per_token=3)
    return folder


def test_translations_consist_of_candidates(model: Path) -> None:
    loaded = load_model(model)
    tokenizer = loaded.tokenizer
    lists = load_shortlist(model, tokenizer)
    task, longest = TranslationTask(), loaded.config.model.max_length
    engine = TorchEngine(CPU, longest, task, loaded.model, tokenizer, shortlist=lists)
    rows = [ids[:20] for ids in tokenizer.encode_batch(TEXTS)]
    given = [EncodedSentence(ids, place, []) for place, ids in enumerate(rows)]
    free = replace(engine, shortlist=None).search(given, OPTIONS)
    found = engine.search(given, OPTIONS)
    assert found != free
    for ids, hypotheses in zip(rows, found, strict=True):
        [candidates] = lists.candidates([ids], [[]])
        assert candidates.sum() < VOCAB_SIZE / 3
        assert all(candidates[one.ids].all() for one in hypotheses)


def test_a_sentence_gets_the_same_translation_in_any_batch(model: Path) -> None:
    translator = transduce.load(model, "cpu", shortlist=True)
    together = translator.translate(TEXTS, OPTIONS)
    for text, expected in zip(TEXTS, together, strict=True):
        [alone] = translator.translate([text], OPTIONS)
        assert [one.text for one in alone.alternatives] == [
            one.text for one in expected.alternatives
        ]
        assert alone.score == pytest.approx(expected.score, rel=1e-4)


@pytest.mark.parametrize("tied", [True, False])
def test_candidates_are_scored_with_the_matrix_of_the_output(tied: bool, tmp_path: Path) -> None:
    """Packed weights change nothing, whether its matrix is that of the embeddings or its own."""
    shape = TransformerConfig(
        vocab_size=VOCAB_SIZE, n_layers=1, d_model=16, d_ff=16, h=2, tied_output=tied
    )
    loaded = LoadedModel(build_model(shape, seed=5).eval(), Config(model=shape), learnt_tokenizer())
    folder = saved(tmp_path / "model", loaded)
    src, tgt = write_pairs(tmp_path)
    transduce.make_shortlist(folder, src=[src], tgt=[tgt], frequent=5, per_token=3)
    greedy = Options(beam=1, second_try=False)
    lists = load_shortlist(folder, loaded.tokenizer)
    unpacked = TorchEngine(
        CPU, 28, TranslationTask(), load_model(folder).model, loaded.tokenizer, shortlist=lists
    )
    packed = replace(unpacked, model=prepare_for_inference(loaded.model, precision="float32"))
    rows = [ids[:20] for ids in loaded.tokenizer.encode_batch(TEXTS)]
    given = [EncodedSentence(ids, place, []) for place, ids in enumerate(rows)]
    for [expected], [found] in zip(
        unpacked.search(given, greedy), packed.search(given, greedy), strict=True
    ):
        assert found.ids == expected.ids
        assert found.score == pytest.approx(expected.score, rel=1e-4)


@pytest.mark.parametrize("prefix", ["Quite another", "zzz"])
def test_a_prefix_need_not_be_in_the_list(model: Path, prefix: str) -> None:
    translator = transduce.load(model, "cpu", shortlist=True)
    for one in translator.translate(TEXTS[:3], OPTIONS, prefixes=[prefix] * 3):
        assert one.text.startswith(prefix)


def test_terms_need_not_be_in_the_list(model: Path) -> None:
    translator = transduce.load(model, "cpu", shortlist=True)
    word = TEXTS[0].split()[1]
    [found] = translator.translate(TEXTS[:1], glossary={word: "Xy"})
    assert "Xy" in found.text


def test_the_command_makes_one_and_uses_it(model: Path, command: Command, tmp_path: Path) -> None:
    folder = saved(tmp_path / "model", random_model(seed=5))
    src, tgt = write_pairs(tmp_path)
    sizes = ("--frequent", "5", "--per-token", "3")
    made = command("shortlist", folder, "--src", src, "--tgt", tgt, *sizes)
    assert made.code == 0, made.err
    assert "from 300 pairs" in made.out
    path = folder / "shortlist.safetensors"
    assert path.read_bytes() == (model / path.name).read_bytes()
    text = tmp_path / "text"
    text.write_text("".join(f"{line}\n" for line in TEXTS), encoding="utf-8")
    found = command("translate", folder, text, "--shortlist", "--device", "cpu")
    expected = transduce.load(model, "cpu", shortlist=True).translate(TEXTS)
    assert found.out.splitlines() == [one.text for one in expected]


def test_its_file_counts_as_a_file_of_the_model(model: Path) -> None:
    translator = transduce.load(model, "cpu", shortlist=True)
    assert [path.name for path in translator.read_from[0]][-1] == "shortlist.safetensors"
    assert len(transduce.load(model, "cpu").read_from[0]) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--draft", "ngrams", "--beam", "1"), "a draft verifies with the whole vocabulary"),
        (("--sample",), "a shortlist is for search, not for sampling"),
        (("--ensemble", "model"), "a shortlist is for one model, not for an ensemble"),
    ],
)
def test_the_command_refuses_what_cannot_be_narrowed(
    model: Path, command: Command, arguments: tuple[str, ...], message: str
) -> None:
    named = [model if one == "model" else one for one in arguments]
    given = ("translate", model, "--device", "cpu", "--shortlist", *named)
    assert command(*given).mistake().startswith(message)


def test_models_without_a_list_or_of_other_kinds_are_refused(tmp_path: Path) -> None:
    bare = saved(tmp_path / "bare", random_model(seed=5))
    with pytest.raises(InputError, match=r"has no shortlist\.safetensors: make one with"):
        transduce.load(bare, "cpu", shortlist=True)
    config = Config.model_validate(
        {"model": {"kind": "rnn", "vocab_size": VOCAB_SIZE, "d_model": 8, "d_hidden": 8}}
    )
    other = LoadedModel(build_model(config.model, seed=1).eval(), config, learnt_tokenizer())
    rnn = saved(tmp_path / "rnn", other)
    with pytest.raises(InputError, match="a model of the kind rnn scores its whole vocabulary"):
        transduce.load(rnn, "cpu", shortlist=True)
    src, tgt = write_pairs(tmp_path)
    with pytest.raises(InputError, match="a model of the kind rnn scores its whole vocabulary"):
        transduce.make_shortlist(rnn, src=[src], tgt=[tgt])


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_on_gpus_it_is_refused(
    model: Path, engine: EngineName, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_module, "choose_device", torch.device)
    with pytest.raises(InputError, match="a shortlist is for the CPU: on cuda the whole"):
        transduce.load(model, "cuda", engine=engine, shortlist=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "from which pairs"),
        ({"tgt": ["a"]}, "--tgt has the translations of which texts"),
        ({"src": ["a"], "tgt": ["a", "b"]}, "--src names 1 files but --tgt 2"),
        ({"src": ["a"], "frequent": 0}, "frequent=0: use 1 to 10,000"),
        ({"src": ["a"], "per_token": 10**6}, "per_token=1000000: use 1 to 10,000"),
    ],
)
def test_what_makes_no_list_is_refused(model: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        transduce.make_shortlist(model, **given)
