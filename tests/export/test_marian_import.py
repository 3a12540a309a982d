"""An imported Marian model computes the same, and its export gives back the same files."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import transduce
from transduce.errors import InputError
from transduce.models.folder import load_model
from transduce.models.transformer.settings import TransformerConfig
from transduce.text.special_ids import BOS_ID, EOS_ID, PAD_ID
from transduce.translation.options import Options

pytest.importorskip("sentencepiece", reason="Marian's vocabularies are SentencePiece's")
transformers = pytest.importorskip("transformers", reason="it makes the models to import")

from tests.export.marian import SOURCES, marian_folder  # noqa: E402 - after the skips
from transduce.export.huggingface import export_huggingface  # noqa: E402
from transduce.export.marian_import import import_marian  # noqa: E402

GREEDY = Options(beam=1, alpha=0.0, second_try=False)


@pytest.fixture(scope="module", params=["2+2", "3+1"])
def original(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Any]:
    """A Marian folder with that many layers in encoder and decoder, and its model."""
    folder = tmp_path_factory.mktemp("marian") / "opus"
    encoder, decoder = map(int, request.param.split("+"))
    return folder, marian_folder(folder, encoder_layers=encoder, decoder_layers=decoder)


@pytest.fixture(scope="module")
def imported(original: tuple[Path, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("imported") / "model"
    import_marian(original[0], out)
    return out


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("marian") / "sound"
    marian_folder(folder)
    return folder


@pytest.fixture
def copy(sound: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "copy"
    shutil.copytree(sound, folder)
    return folder


def test_every_weight_comes_back_bit_for_bit(
    original: tuple[Path, Any], imported: Path, tmp_path: Path
) -> None:
    export_huggingface(imported, tmp_path / "back")
    before, after = (
        load_file(folder / "model.safetensors") for folder in (original[0], tmp_path / "back")
    )
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    for name in ("vocab.json", "source.spm", "target.spm", "config.json"):
        assert (tmp_path / "back" / name).read_bytes() == (original[0] / name).read_bytes()


def test_the_settings_have_the_depths(original: tuple[Path, Any], imported: Path) -> None:
    theirs, ours = original[1].config, load_model(imported).config.model
    assert isinstance(ours, TransformerConfig)
    found = (ours.n_encoder_layers, ours.n_decoder_layers)
    assert found == (theirs.encoder_layers, theirs.decoder_layers)
    are_equal = theirs.encoder_layers == theirs.decoder_layers  # then n_layers sets both
    assert ({"n_encoder_layers", "n_decoder_layers"} <= ours.model_fields_set) is not are_equal


def test_logits_are_those_of_transformers(original: tuple[Path, Any], imported: Path) -> None:
    folder, model = original
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    loaded = load_model(imported)
    entries = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    names = sorted(entries, key=lambda name: entries[name])
    rest = [number for number in range(len(names)) if number not in (0, 1, len(names) - 1)]
    for text in SOURCES[:5]:
        read = theirs([text], return_tensors="pt")
        [ids] = loaded.tokenizer.encode_batch([text])
        spelled = [names[number] for number in read["input_ids"][0][:-1]]
        assert loaded.tokenizer.tokens(ids) == spelled
        with torch.inference_mode():
            start = torch.tensor([[len(names) - 1, 5, 6]])
            expected = model(**read, decoder_input_ids=start).logits
            ours = loaded.model(
                torch.tensor([[*ids, EOS_ID]]),
                torch.tensor([[BOS_ID, 4 + rest.index(5), 4 + rest.index(6)]]),
            )
        torch.testing.assert_close(ours[..., 4:], expected[..., rest], atol=1e-4, rtol=0)
        torch.testing.assert_close(ours[..., EOS_ID], expected[..., 0], atol=1e-4, rtol=0)
        assert (ours[..., [PAD_ID, BOS_ID]] < ours[..., 4:].min() - 100).all()


@pytest.mark.exhaustive(after=1)
@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_it_translates_as_generate_does(
    original: tuple[Path, Any], imported: Path, engine: Any
) -> None:
    if engine == "ctranslate2":
        pytest.importorskip("ctranslate2", reason="it is the engine")
    folder, model = original
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    expected = []
    for text in SOURCES:
        read = tokenizer([text], return_tensors="pt")
        most = read["input_ids"].size(1) + 50
        written = model.generate(**read, num_beams=1, max_new_tokens=most)
        expected += tokenizer.batch_decode(written, skip_special_tokens=True)
    found = transduce.load(imported, "cpu", engine=engine).translate(SOURCES, GREEDY)
    assert [one.text for one in found] == expected


def test_source_and_target_have_their_own_segmentation(
    original: tuple[Path, Any], imported: Path
) -> None:
    theirs = transformers.AutoTokenizer.from_pretrained(original[0])
    ours = load_model(imported).tokenizer
    texts = ["Der kleine Hund schläft.", "Where is the house?", "Tür"]
    for encode, asked in ((ours.encode_batch, "text"), (ours.encode_targets, "text_target")):
        for text, ids in zip(texts, encode(texts), strict=True):
            pieces = theirs.convert_ids_to_tokens(theirs(**{asked: text})["input_ids"][:-1])
            named = [name.replace("< unk >", "<unk>") for name in ours.tokens(ids)]
            assert named == pieces
    [ids] = ours.encode_targets(["Wo ist das kleine Haus?"])
    assert ours.decode_batch([ids]) == ["Wo ist das kleine Haus?"]


def changed(name: str, value: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "config.json"
        settings = json.loads(path.read_text(encoding="utf-8")) | {name: value}
        path.write_text(json.dumps(settings), encoding="utf-8")

    return change


def a_million_layers(folder: Path) -> None:
    for stack in ("encoder", "decoder"):
        changed(f"{stack}_layers", 1_000_000)(folder)


def pickle_only(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def without_a_tensor(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights["model.decoder.layers.1.fc1.weight"]
    save_file(weights, folder / "model.safetensors")


def with_a_wrong_shape(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["model.decoder.layers.1.fc1.weight"] = torch.zeros(3, 5)
    save_file(weights, folder / "model.safetensors")


def cut_short(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])


def no_sentencepiece(folder: Path) -> None:
    (folder / "source.spm").write_bytes(b"\xff" * 99)


def odd_vocabulary(folder: Path) -> None:
    (folder / "vocab.json").write_text('{"<unk>": [1], "</s>": "x"}', encoding="utf-8")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (pickle_only, "which can run code"),
        (without_a_tensor, "lacks the tensor model.decoder.layers.1.fc1.weight"),
        (with_a_wrong_shape, "is not of the model in config"),
        (cut_short, "damaged or not safetensors"),
        (no_sentencepiece, "is not a SentencePiece model"),
        (odd_vocabulary, "cannot read .* as Marian's vocabulary"),
        (changed("model_type", "bart"), "not marian"),
        (a_million_layers, "lacks the tensor model.encoder.layers.2"),
        (changed("d_model", "wide"), "d_model='wide' is not a positive number"),
        (changed("d_model", 64), "is not of the model"),
        (changed("decoder_layers", 3), "lacks the tensor model.decoder.layers.2"),
        (changed("decoder_layers", 1), "has the tensor model.decoder.layers.1"),
        (changed("decoder_attention_heads", 2), "our models have the same in both"),
        (changed("decoder_ffn_dim", 12), "encoder_ffn_dim=48 but decoder_ffn_dim=12"),
        (changed("activation_function", "gelu"), "we have relu and swish"),
        (changed("tie_word_embeddings", False), "one embedding for source, target and output"),
        (changed("scale_embedding", False), "scaled by sqrt"),
        (changed("decoder_start_token_id", 0), "is not the padding"),
        (changed("eos_token_id", [0, 1]), "cannot read .* as Marian's vocabulary"),
        (changed("transduce", {"norm_epsilon": "small"}), "is not between 0 and 1"),
    ],
)
def test_what_cannot_be_imported_is_refused_and_nothing_is_written(
    copy: Path, tmp_path: Path, spoil: Callable[[Path], None], why: str
) -> None:
    spoil(copy)
    with pytest.raises(InputError, match=why):
        import_marian(copy, tmp_path / "out")
    assert not [path for path in tmp_path.iterdir() if path != copy]
