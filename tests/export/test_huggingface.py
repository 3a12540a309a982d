"""An exported model computes the same in transformers, and comes back with the same weights."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import transduce
from tests.translation.likely import learnt_tokenizer, random_model, saved, sentences
from transduce.config.schema import Config
from transduce.errors import InputError
from transduce.models.build import build_model
from transduce.models.folder import LoadedModel, load_model, save_model
from transduce.text.special_ids import BOS_ID, EOS_ID
from transduce.translation.options import Options

transformers = pytest.importorskip("transformers", reason="it loads the export")

from transduce.export.huggingface import export_huggingface  # noqa: E402 - after the skip
from transduce.export.marian_import import import_marian  # noqa: E402

TEXTS = list(sentences(12))
SHAPES: dict[str, dict[str, Any]] = {
    "the paper's": {"n_layers": 2},
    "every bias": {"n_layers": 1, "attention_bias": True, "output_bias": True},
    "3+1 layers": {"n_encoder_layers": 3, "n_decoder_layers": 1},
}


def model_folder(folder: Path, shape: dict[str, Any]) -> Path:
    """Save a model with random weights that are nowhere 0 or 1."""
    tokenizer = learnt_tokenizer()
    sizes = {"vocab_size": len(tokenizer), "d_model": 16, "d_ff": 48, "h": 2, "max_positions": 90}
    config = Config.from_tree({"model": sizes | shape})
    built = build_model(config.model, seed=5)
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in built.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
    save_model(folder, LoadedModel(built, config, tokenizer))
    return folder


@pytest.fixture(scope="module", params=SHAPES)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_folder(tmp_path_factory.mktemp("model") / "one", SHAPES[request.param])


@pytest.fixture(scope="module")
def exported(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("exported") / "huggingface"
    export_huggingface(model, out)
    return out


@pytest.fixture(scope="module")
def theirs(exported: Path) -> Any:
    return transformers.AutoModelForSeq2SeqLM.from_pretrained(exported).eval()


def test_logits_are_the_same(model: Path, theirs: Any) -> None:
    loaded = load_model(model)
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(4, loaded.config.model.vocab_size, (3, 40), generator=generator)
    src, tgt_in = ids, torch.cat([torch.full((3, 1), BOS_ID), ids[:, :20]], dim=1)
    with torch.inference_mode():
        expected = theirs(input_ids=src, decoder_input_ids=tgt_in).logits
        torch.testing.assert_close(loaded.model(src, tgt_in), expected, atol=1e-4, rtol=0)


def test_shared_heads_are_written_out(tmp_path: Path) -> None:
    shape = {"n_layers": 1, "h": 4, "kv_heads": 2, "attention_bias": True}
    folder = model_folder(tmp_path / "model", shape)
    export_huggingface(folder, tmp_path / "out")
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").eval()
    test_logits_are_the_same(folder, theirs)


def test_the_tokenizer_gives_the_same_ids_and_texts(model: Path, exported: Path) -> None:
    ours = load_model(model).tokenizer
    tokenizer = transformers.AutoTokenizer.from_pretrained(exported)
    texts = [*TEXTS, "Ünïcode ☃ 1,5", "a < eos > b< pad >", ""]
    ids = tokenizer(texts)["input_ids"]
    assert ids == [[*row, EOS_ID] for row in ours.encode_batch(texts)]
    assert [tokenizer.decode(row[:-1]) for row in ids] == texts
    assert [tokenizer.decode(row, skip_special_tokens=True) for row in ids[:12]] == TEXTS


@pytest.mark.exhaustive(after=1)
def test_generate_translates_as_we_do(model: Path, exported: Path, theirs: Any) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(exported)
    expected = []
    for text in TEXTS:
        read = tokenizer([text], return_tensors="pt")
        most = min(read["input_ids"].size(1) + 50, 89)
        written = theirs.generate(
            input_ids=read["input_ids"],
            attention_mask=read["attention_mask"],
            num_beams=1,
            max_new_tokens=most,
            max_length=None,
        )
        expected.append(written[0, 1:].tolist())
    asked = Options(beam=1, alpha=0.0, second_try=False, whole_lines=True)
    found = transduce.load(model, "cpu").translate(TEXTS, asked)
    ours = load_model(model).tokenizer
    assert [one.text for one in found] == ours.decode_batch(expected)


def test_every_weight_comes_back_bit_for_bit(model: Path, exported: Path, tmp_path: Path) -> None:
    import_marian(exported, tmp_path / "back")
    before, after = (load_model(folder) for folder in (model, tmp_path / "back"))
    weights, others = before.model.state_dict(), after.model.state_dict()
    assert weights.keys() == others.keys()
    assert all(torch.equal(weights[name], others[name]) for name in weights)
    assert before.config.model == after.config.model
    assert before.tokenizer.encode_batch(TEXTS) == after.tokenizer.encode_batch(TEXTS)


def test_zero_biases_come_back_too(tmp_path: Path) -> None:
    loaded = random_model(seed=3, max_positions=20)
    changes = {"attention_bias": True, "output_bias": True}
    config = Config().with_changes({"model": loaded.config.model.model_dump() | changes})
    built = LoadedModel(build_model(config.model), config, loaded.tokenizer)
    save_model(tmp_path / "model", built)
    export_huggingface(tmp_path / "model", tmp_path / "out")
    import_marian(tmp_path / "out", tmp_path / "back")
    assert load_model(tmp_path / "back").config.model == config.model


@pytest.mark.parametrize(
    ("setting", "value", "why"),
    [
        ("norm", "pre", "model.norm=pre, but Marian normalises after"),
        (
            "positions",
            "learned",
            "model.positions=learned, but the export to Marian has only sinusoidal",
        ),
        (
            "tied_output",
            False,
            "model.tied_output=false, but an exported Marian model has one matrix",
        ),
        ("d_k", 4, "Marian splits d_model=16 evenly among its 2 heads"),
        ("d_v", 4, "Marian splits d_model=16 evenly among its 2 heads"),
    ],
)
def test_what_marian_cannot_express_is_refused(
    tmp_path: Path, setting: str, value: Any, why: str
) -> None:
    loaded = random_model(seed=3, max_positions=20)
    tree = loaded.config.model.model_dump() | {setting: value}
    config = Config().with_changes({"model": tree})
    built = LoadedModel(build_model(config.model), config, loaded.tokenizer)
    save_model(tmp_path / "model", built)
    with pytest.raises(InputError, match=why):
        export_huggingface(tmp_path / "model", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_exists_is_not_replaced(tmp_path: Path) -> None:
    model = saved(tmp_path / "model", random_model(seed=3, max_positions=20))
    (tmp_path / "out").mkdir()
    with pytest.raises(InputError, match="exists already"):
        export_huggingface(model, tmp_path / "out")
    assert json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))
