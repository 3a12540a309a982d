"""The engine CTranslate2 gives the same translations, scores and errors as torch."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import transduce
from tests.command import Command
from tests.translation.likely import learnt_tokenizer, random_model, saved, sentences
from transduce.config.schema import Config
from transduce.data.corpus import Pair
from transduce.errors import InputError
from transduce.models.build import build_model
from transduce.models.folder import LoadedModel, load_model, save_model
from transduce.models.model_files import WEIGHTS, find_model
from transduce.models.transformer.model import Transformer
from transduce.search.hypothesis import Hypothesis
from transduce.search.sample import Sampling
from transduce.tasks.translation import TranslationTask
from transduce.translation.ctranslate2_engine import CTranslate2Engine
from transduce.translation.engine import EncodedSentence, length, log_probability
from transduce.translation.options import Options
from transduce.translation.scorer import Scorer
from transduce.translation.torch_engine import TorchEngine

pytest.importorskip("ctranslate2", reason="it is the engine under test")

from transduce.export.ctranslate2 import export_ctranslate2, library

TEXTS = list(sentences(12))
CPU = torch.device("cpu")
TASK = TranslationTask()
SHAPES: dict[str, dict[str, Any]] = {
    "the paper's": {},
    "pre-norm": {"norm": "pre"},
    "learned positions": {"positions": "learned"},
    "3+1 layers": {"n_encoder_layers": 3, "n_decoder_layers": 1},
    "every deviation": {
        "norm": "pre",
        "positions": "learned",
        "attention_bias": True,
        "output_bias": True,
        "tied_output": False,
        "activation": "swish",
        "norm_epsilon": 1e-3,
        "kv_heads": 2,
    },
    "rotary, root mean square, swiglu": {
        "norm": "pre",
        "positions": "rotary",
        "norm_kind": "rms",
        "activation": "swiglu",
        "kv_heads": 2,
    },
    "no positions, post-norm, geglu": {
        "positions": "none",
        "norm_kind": "rms",
        "activation": "geglu",
    },
    "rotary, post-norm": {"positions": "rotary", "attention_bias": True},
}


def sharp_model(seed: int = 1, **changes: Any) -> LoadedModel:
    """A model with random weights and peaked distributions, which sometimes writes EOS."""
    shape = {"n_layers": 2, "d_model": 32, "d_ff": 48, "h": 4, "vocab_size": 500}
    tree = {"model": shape | {"max_positions": 80} | changes, "data": {"lines": "texts"}}
    config = Config.from_tree(tree)
    model = build_model(config.model, seed=seed).eval()
    assert isinstance(model, Transformer)
    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
        model.embedding.weight.mul_(2)
    return LoadedModel(model, config, learnt_tokenizer())


@pytest.fixture(scope="module", params=SHAPES)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "one"
    return saved(folder, sharp_model(**SHAPES[request.param]))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("plain") / "one", sharp_model())


def engines(folder: Path) -> tuple[TorchEngine, CTranslate2Engine]:
    loaded = load_model(folder)
    longest = loaded.config.model.max_length
    theirs = CTranslate2Engine.load(folder, device=CPU, precision="float32", task=TASK)
    return TorchEngine(CPU, longest, TASK, loaded.model, loaded.tokenizer), theirs


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *(("positions", positions) for positions in ("relative", "t5", "alibi")),
        ("activation", "relu2"),
        ("qk_norm", True),
        ("attention_score", "additive"),
        ("encoder_mixers", ("window",)),
        ("d_k", 4),
    ],
)
def test_what_ctranslate2_cannot_express_is_refused(
    tmp_path: Path, setting: str, value: Any
) -> None:
    model = saved(tmp_path / "model", sharp_model(**{setting: value}))
    shown = "mixer is window" if setting == "encoder_mixers" else f"model.{setting}={value}".lower()
    with pytest.raises(InputError, match=r"cannot export .* to CTranslate2") as refused:
        export_ctranslate2(model, tmp_path / "out")
    assert shown in str(refused.value).lower()
    assert not (tmp_path / "out").exists()


def test_an_older_library_lacks_rotary_positions_alone(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before version 4.6.3 its encoders know no settings of them."""
    rotary = saved(tmp_path / "rotary", sharp_model(positions="rotary"))
    assert transduce.load(rotary, "cpu", engine="auto").engine_name == "ctranslate2"
    [expected] = transduce.load(plain, "cpu", engine="ctranslate2").translate(TEXTS[:1])
    encoder = library().specs.TransformerEncoderSpec
    newer = encoder.__init__

    def older(
        self: Any,
        num_layers: int,
        num_heads: int,
        pre_norm: bool = True,
        activation: int = 0,
        ffn_glu: bool = False,
        rms_norm: bool = False,
    ) -> None:
        known = {"pre_norm": pre_norm, "activation": activation}
        newer(self, num_layers, num_heads, ffn_glu=ffn_glu, rms_norm=rms_norm, **known)

    monkeypatch.setattr(encoder, "__init__", older)
    export_ctranslate2(plain, tmp_path / "out")
    assert transduce.load(tmp_path / "out", "cpu").translate(TEXTS[:1]) == [expected]
    assert transduce.load(rotary, "cpu", engine="auto").engine_name == "torch"
    with pytest.raises(InputError, match=r"positions=rotary, .*pip install --upgrade ctranslate2"):
        export_ctranslate2(rotary, tmp_path / "none")


def encoded(*, prefix: int = 0) -> list[EncodedSentence]:
    rows = learnt_tokenizer().encode_batch(TEXTS)
    return [EncodedSentence(ids, place, ids[:prefix]) for place, ids in enumerate(rows)]


@pytest.mark.exhaustive(after=3)
@pytest.mark.parametrize("beam", [1, 4])
def test_without_a_length_penalty_both_engines_find_the_same(model: Path, beam: int) -> None:
    options = Options(beam=beam, alpha=0.0, second_try=False)
    ours, theirs = (engine.search(encoded(), options) for engine in engines(model))
    for [one], [other] in zip(ours, theirs, strict=True):
        assert (one.ids, one.is_finished) == (other.ids, other.is_finished)
        assert other.score == pytest.approx(one.score, abs=1e-3)


@pytest.mark.parametrize(
    ("prefix", "alpha"),
    [
        (0, 0.6),
        (3, 2.0),
        *(
            pytest.param(prefix, alpha, marks=pytest.mark.exhaustive)
            for prefix, alpha in [(0, 0.0), (0, 2.0), (3, 0.0), (3, 0.6)]
        ),
    ],
)
def test_a_score_is_the_forced_score_by_our_penalty(plain: Path, alpha: float, prefix: int) -> None:
    torch_engine, engine = engines(plain)
    given = encoded(prefix=prefix)
    options = Options(beam=4, alpha=alpha, n_best=3, second_try=False)
    translated = engine.search(given, options)
    for sentence, found in zip(given, translated, strict=True):
        assert [one.ids[:prefix] for one in found] == [sentence.prefix] * len(found)
        scores = [(one.is_finished, one.score) for one in found]
        assert scores == sorted(scores, reverse=True)
    check_forced_scores(torch_engine, given, translated, alpha)


def check_forced_scores(
    engine: TorchEngine,
    given: list[EncodedSentence],
    translated: list[list[Hypothesis]],
    alpha: float,
) -> None:
    """With a whole hypothesis as its prefix, torch's search returns the forced score."""
    ones = [
        (sentence, one) for sentence, found in zip(given, translated, strict=True) for one in found
    ]
    whole = [EncodedSentence(each.ids, place, one.ids) for place, (each, one) in enumerate(ones)]
    forced = engine.search(whole, Options(beam=1, alpha=0.0, second_try=False))
    for (_, one), [again] in zip(ones, forced, strict=True):
        if length(again) == length(one):
            assert log_probability(one, alpha) == pytest.approx(again.score, abs=1e-3)


def test_forced_scores_are_the_same(plain: Path) -> None:
    _, engine = engines(plain)
    loaded = load_model(plain)
    pairs = [Pair(one, other) for one, other in zip(TEXTS, reversed(TEXTS), strict=True)]
    ours = Scorer(loaded).score(pairs)
    names = loaded.tokenizer.tokens
    sources, targets = (
        loaded.tokenizer.encode_batch(side) for side in (TEXTS, list(reversed(TEXTS)))
    )
    theirs = engine.translator.score_batch(
        [[*names(ids), "< eos >"] for ids in sources], [names(ids) for ids in targets]
    )
    for one, other in zip(ours, theirs, strict=True):
        assert other.log_probs == pytest.approx(one.log_probs, abs=1e-3)


def test_no_hypothesis_exceeds_its_own_limit_in_any_batch(tmp_path: Path) -> None:
    endless = random_model(seed=3, max_positions=90)  # hardly ever writes EOS
    assert isinstance(endless.model, Transformer)
    with torch.no_grad():
        endless.model.embedding.weight.mul_(3)
    _, engine = engines(saved(tmp_path / "model", endless))
    given = [
        EncodedSentence(sentence.ids[: 1 + 2 * place], place, [])
        for place, sentence in enumerate(encoded())
    ]
    options = Options(beam=2, second_try=False)
    together = engine.search(given, options)
    for sentence, found in zip(given, together, strict=True):
        [alone] = engine.search([sentence], options)
        assert [one.ids for one in found] == [one.ids for one in alone]
        limit = min(TASK.max_tgt_tokens(len(sentence.ids) + 1), 90)
        assert all(length(one) <= limit for one in found)
        assert all(one.is_finished or length(one) == limit for one in found)


def test_the_translator_behaves_the_same_with_both_engines(plain: Path) -> None:
    texts = ["", TEXTS[0], " ".join(TEXTS * 3), "  "]
    options = Options(beam=3, alpha=0.0)
    ours, theirs = (
        transduce.load(plain, "cpu", engine=engine).translate(texts, options)
        for engine in ("torch", "ctranslate2")
    )
    for one, other in zip(ours, theirs, strict=True):
        assert (one.source, one.text, one.note) == (other.source, other.text, other.note)
        assert other.score == pytest.approx(one.score, abs=1e-2)


PREFIXES = ["D", "Die Sch", "Die ", "Der Gärtner", "Ich ha", "x", "", "Wir sehen ", "Mei", "Ei"]
"""How translations must start: some end within a word, some after one."""


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_every_translation_starts_with_its_prefix(
    plain: Path, engine: str, tmp_path: Path, command: Command
) -> None:
    source, given = tmp_path / "a", tmp_path / "b"
    source.write_text("".join(f"{text}\n" for text in TEXTS[: len(PREFIXES)]), encoding="utf-8")
    given.write_text("".join(f"{prefix}\n" for prefix in PREFIXES), encoding="utf-8")
    options = ("--beam", "2", "--n-best", "2", "--device", "cpu", "--engine", engine)
    result = command("translate", plain, source, "--prefix", given, *options)
    assert result.code == 0
    listed = [line.split(" ||| ") for line in result.out.splitlines()]
    assert {int(number) for number, _, _ in listed} == set(range(len(PREFIXES)))
    for number, text, _ in listed:
        assert text.startswith(PREFIXES[int(number)])


def test_greedy_search_completes_a_word_alike_in_both_engines(plain: Path) -> None:
    options = Options(beam=1, alpha=0.0, second_try=False)
    texts = TEXTS[: len(PREFIXES)]
    ours, theirs = (
        transduce.load(plain, "cpu", engine=engine).translate(texts, options, prefixes=PREFIXES)
        for engine in ("torch", "ctranslate2")
    )
    for one, other in zip(ours, theirs, strict=True):
        assert other.text == one.text
        assert other.score == pytest.approx(one.score, abs=1e-2)


def test_a_prefix_that_just_fits_into_the_model_is_spelt_whole(tmp_path: Path) -> None:
    model = saved(tmp_path / "model", sharp_model(max_positions=6, positions="learned"))
    for engine in ("torch", "ctranslate2"):
        translator = transduce.load(model, "cpu", engine=engine)
        [found] = translator.translate(["A b"], Options(beam=2), prefixes=["Schwxq"])
        assert found.text.startswith("Schwxq")


def test_a_score_after_an_unfinished_word_is_the_forced_score(plain: Path) -> None:
    torch_engine, engine = engines(plain)
    given = [
        replace(sentence, prefix_text=prefix)
        for sentence, prefix in zip(encoded(), PREFIXES, strict=False)
    ]
    translated = engine.search(given, Options(beam=4, n_best=4))
    check_forced_scores(torch_engine, given, translated, alpha=0.6)


def test_attention_is_that_of_the_translation_in_both_engines(plain: Path) -> None:
    options = Options(beam=1, alpha=0.0, attention=True)
    ours, theirs = (
        transduce.load(plain, "cpu", engine=engine).translate(TEXTS[:2], options)
        for engine in ("torch", "ctranslate2")
    )
    for one, other in zip(ours, theirs, strict=True):
        assert one.attention[0].target == other.attention[0].target
        assert abs(one.attention[0].cross - other.attention[0].cross).max() < 1e-4


def test_attention_is_that_of_the_weights_that_were_loaded(plain: Path, tmp_path: Path) -> None:
    """Also if the run goes on meanwhile, and has better weights."""
    run = shutil.copytree(plain, tmp_path / "run")
    options = Options(beam=1, alpha=0.0, attention=True)
    [expected] = transduce.load(run, "cpu", engine="ctranslate2").translate(TEXTS[:1], options)
    translator = transduce.load(run, "cpu", engine="ctranslate2")
    other = saved(tmp_path / "other", sharp_model(seed=2))
    checkpoint = run / "checkpoints" / "step-000000000008"
    checkpoint.mkdir(parents=True)
    shutil.copy(other / WEIGHTS, checkpoint)
    (checkpoint / "state.json").write_text('{"progress": {"best_loss": 1}, "scores": {"loss": 1}}')
    reopened = {"budgets": [{"step": 4, "changed": {}, "was_finished": True}]}
    (run / "provenance.json").write_text(json.dumps(reopened))
    assert find_model(run).weights == checkpoint / WEIGHTS
    [found] = translator.translate(TEXTS[:1], options)
    assert (found.attention[0].cross == expected.attention[0].cross).all()


@pytest.mark.parametrize("quantize", [None, "int8", "bfloat16"])
def test_an_exported_folder_is_a_model(plain: Path, tmp_path: Path, quantize: Any) -> None:
    export_ctranslate2(plain, tmp_path / "out", quantize=quantize)
    translator = transduce.load(tmp_path / "out", "cpu")
    found = translator.translate(TEXTS, Options(beam=1, alpha=0.0))
    if quantize is None:
        expected = transduce.load(plain, "cpu").translate(TEXTS, Options(beam=1, alpha=0.0))
        assert [one.text for one in found] == [one.text for one in expected]
    with pytest.raises(InputError, match="cannot show attention"):
        translator.translate(TEXTS, Options(attention=True))
    with pytest.raises(InputError, match="no weights for torch"):
        transduce.load(tmp_path / "out", "cpu", engine="torch")


def test_auto_chooses_it_if_it_can_express_the_model(plain: Path, tmp_path: Path) -> None:
    odd = saved(tmp_path / "odd", sharp_model(d_k=4, d_v=4))
    for folder, expected in ((plain, CTranslate2Engine), (odd, TorchEngine)):
        translator = transduce.load(folder, "cpu", engine="auto")
        assert isinstance(translator._engine, expected)
    assert isinstance(transduce.load([plain, plain], "cpu", engine="auto")._engine, TorchEngine)


def test_without_the_library_auto_is_torch_and_its_engine_says_what_to_install(
    plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    assert isinstance(transduce.load(plain, "cpu", engine="auto")._engine, TorchEngine)
    with pytest.raises(InputError, match="pip install"):
        transduce.load(plain, "cpu", engine="ctranslate2")


def test_what_it_cannot_do_is_refused_with_a_reason(plain: Path, tmp_path: Path) -> None:
    odd = saved(tmp_path / "odd", sharp_model(d_k=4))
    with pytest.raises(InputError, match="splits d_model=32 evenly among its 4 heads"):
        export_ctranslate2(odd, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match="one model"):
        transduce.load([plain, plain], "cpu", engine="ctranslate2")
    translator = transduce.load(plain, "cpu", engine="ctranslate2")
    with pytest.raises(InputError, match="does not sample"):
        translator.translate(TEXTS, Options(sampling=Sampling()))
    with pytest.raises(InputError, match="use one of auto, torch, ctranslate2"):
        transduce.load(plain, "cpu", engine="onnx")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="use one of float32, bf16, int8"):
        transduce.load(plain, "cpu", precision="int4")  # type: ignore[arg-type]


def test_a_damaged_folder_is_refused(plain: Path, tmp_path: Path) -> None:
    export_ctranslate2(plain, tmp_path / "out")
    (tmp_path / "out" / "checksums.json").unlink()  # as in folders of earlier versions
    weights = tmp_path / "out" / "model.bin"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="CTranslate2 cannot load"):
        transduce.load(tmp_path / "out", "cpu")
    weights.write_bytes(whole)
    entries = tmp_path / "out" / "shared_vocabulary.json"
    names = json.loads(entries.read_text(encoding="utf-8"))
    entries.write_text(json.dumps([*names[:-2], names[-1], names[-2]]), encoding="utf-8")
    with pytest.raises(InputError, match="does not match the tokenizer"):
        transduce.load(tmp_path / "out", "cpu")


def test_the_model_in_memory_is_saved_unchanged_by_a_quantized_export(
    plain: Path, tmp_path: Path
) -> None:
    before = (plain / "model.safetensors").read_bytes()
    export_ctranslate2(plain, tmp_path / "out", quantize="int8")
    assert (plain / "model.safetensors").read_bytes() == before
    save_model(tmp_path / "again", load_model(plain))
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == before
