"""A model folder is loaded bit for bit as it was saved; damaged and hostile ones are refused."""

import json
import os
import pickle
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save, save_file
from torch import Tensor

from tests.drawing import VOCAB_SIZE, model_configs, random_ids, seeds, transformer
from transduce.config.load import to_yaml
from transduce.config.schema import Config
from transduce.errors import InputError, TransduceError
from transduce.models.folder import LoadedModel, load_model, load_weights, save_model, save_weights
from transduce.models.model_files import WEIGHTS
from transduce.models.safetensors_file import DTYPES
from transduce.models.transformer.settings import TransformerConfig
from transduce.text.tokenizer import Tokenizer

WORDS = " ".join(f"w{n}" for n in range(VOCAB_SIZE - 4))
SHAPE: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "n_layers": 2,
    "d_model": 10,
    "d_ff": 12,
    "h": 4,
    "d_k": 6,
    "d_v": 8,
    "max_positions": 32,
}
# Every example writes the whole folder again, so they may share one.
in_one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def new_model(config: TransformerConfig, *, seed: int = 0) -> LoadedModel:
    tokenizer = Tokenizer.learn([WORDS], kind="whitespace", vocab_size=VOCAB_SIZE)
    model = transformer(config, seed=seed).eval()
    return LoadedModel(model, Config(model=config), tokenizer)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_model(tmp_path / "model", new_model(TransformerConfig(**SHAPE)))
    return tmp_path / "model"


def settings_of(folder: Path, **changes: Any) -> None:
    """Write other settings into a folder."""
    config = Config(model=TransformerConfig(**(SHAPE | changes)))
    (folder / "config.yaml").write_text(to_yaml(config), encoding="utf-8")


def weights_of(folder: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    """Write other weights into a folder."""
    weights = load_weights(folder / "model.safetensors")
    change(weights)
    save_weights(folder / "model.safetensors", weights, metadata={})


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Save and load


@given(config=model_configs(), seed=seeds)
@in_one_folder
def test_a_model_is_loaded_bit_for_bit_as_it_was_saved(
    config: TransformerConfig, seed: int, tmp_path: Path
) -> None:
    saved = new_model(config, seed=seed)
    save_model(tmp_path, saved)
    torch.manual_seed(seed)
    before = torch.get_rng_state()
    loaded = load_model(tmp_path)
    assert torch.equal(torch.get_rng_state(), before)
    assert loaded.config == saved.config
    assert loaded.tokenizer.encode_batch([WORDS]) == saved.tokenizer.encode_batch([WORDS])
    found, expected = loaded.model.state_dict(), saved.model.state_dict()
    assert list(found) == list(expected)
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    for tensors in zip(loaded.model.buffers(), saved.model.buffers(), strict=True):
        assert torch.equal(*tensors)
    assert all(p.requires_grad and not p.is_meta for p in loaded.model.parameters())
    assert not any(module.training for module in loaded.model.modules())
    src, tgt = random_ids([7, 3], seed=1), random_ids([9, 2], seed=2)
    assert torch.equal(loaded.model(src, tgt), saved.model(src, tgt))


def test_values_that_are_not_finite_are_kept(tmp_path: Path) -> None:
    weights = {"x": torch.tensor([float("nan"), float("inf"), -0.0, 1e-45])}
    save_weights(tmp_path / "w", weights, metadata={})
    found = load_weights(tmp_path / "w")["x"]
    assert torch.equal(found.view(torch.int32), weights["x"].view(torch.int32))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused(folder: Path, value: float) -> None:
    name = "decoder.0.feed_forward.w_1.bias"
    weights_of(folder, lambda weights: weights[name][1:2].fill_(value))
    with pytest.raises(InputError, match=f"{name} has values that are NaN or infinite"):
        load_model(folder)


def test_faulty_settings_are_named_with_their_file(folder: Path) -> None:
    path = folder / "config.yaml"
    path.write_text(path.read_text(encoding="utf-8") + "modle: {}\n", encoding="utf-8")
    with pytest.raises(TransduceError, match=f"^{path}: .*modle"):
        load_model(folder)


def test_a_folder_holds_four_files_and_can_be_saved_over(folder: Path) -> None:
    other = new_model(TransformerConfig(**SHAPE), seed=1)
    save_model(folder, other)
    files = ["checksums.json", "config.yaml", "model.safetensors", "tokenizer.json"]
    assert names_in(folder) == files
    assert torch.equal(load_model(folder).model.projection, other.model.projection)


def test_equal_models_are_equal_files(tmp_path: Path) -> None:
    metadata = dict.fromkeys("qwertyuiop", "of many entries")
    weights = {"b": torch.ones(3), "a": torch.zeros(2)}
    for name, order in (("1", "ab"), ("2", "ba")):
        shuffled = {key: weights[key] for key in order}
        save_weights(tmp_path / name, shuffled, metadata=dict(sorted(metadata.items())))
        metadata = dict(reversed(metadata.items()))
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


tensors = st.builds(
    lambda dtype, shape, seed: torch.randint(
        0, 2, shape, generator=torch.Generator().manual_seed(seed)
    ).to(dtype),
    st.sampled_from(list(DTYPES)),
    st.lists(st.integers(0, 4), max_size=3).map(tuple),
    seeds,
)


def parts(content: bytes) -> tuple[list[tuple[str, Any]], bytes]:
    """Return the header of a file in its order, without the checksum, and the tensors."""
    end = 8 + int.from_bytes(content[:8], "little")
    assert end % 8 == 0, "tensors are aligned"
    header = json.loads(content[8:end])
    header["__metadata__"].pop("checksum", None)
    return list(header.items()), content[end:]


@given(weights=st.dictionaries(st.text(max_size=8), tensors, max_size=5))
@in_one_folder
def test_weights_are_written_as_the_library_writes_them(
    weights: dict[str, Tensor], tmp_path: Path
) -> None:
    save_weights(tmp_path / "w", weights, metadata={})
    ours, theirs = (tmp_path / "w").read_bytes(), save(weights, metadata={"format": "1"})
    assert parts(ours) == parts(theirs)
    found = load_weights(tmp_path / "w")
    assert found.keys() == weights.keys()
    assert all(torch.equal(found[name], weights[name]) for name in weights)
    assert all(found[name].dtype == weights[name].dtype for name in weights)


def test_a_view_is_written_with_its_own_shape_and_values(tmp_path: Path) -> None:
    whole = torch.arange(12.0).view(3, 4)
    weights = {"transposed": whole.T, "part": whole[1:, ::2], "repeated": whole[0].expand(2, 4)}
    save_weights(tmp_path / "w", weights, metadata={})
    found = load_weights(tmp_path / "w")
    assert all(torch.equal(found[name], weights[name]) for name in weights)


def test_loaded_weights_do_not_change_with_the_file(folder: Path) -> None:
    path = folder / "model.safetensors"
    loaded = load_model(folder).model.projection
    before = loaded.clone()
    with path.open("r+b") as stream:
        stream.seek(-4000, os.SEEK_END)
        stream.write(b"\x55" * 4000)
    assert torch.equal(loaded, before)


# Damage


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def cut_in_the_header(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def lengthened(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


def with_a_huge_header(path: Path) -> None:
    path.write_bytes((2**62).to_bytes(8, "little") + path.read_bytes()[8:])


def pickled(path: Path) -> None:
    path.write_bytes(pickle.dumps({"x": 1}))


def saved_by_torch(path: Path) -> None:
    torch.save(load_weights(path), path)


def removed(path: Path) -> None:
    path.unlink()


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGED = "is cut short, damaged or not safetensors .*: copy or save it again; pickled"
MISSING = "has no file model.safetensors: a model is a folder of config.yaml, tokenizer.json and"


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (truncated, DAMAGED),
        (cut_in_the_header, DAMAGED),
        (emptied, DAMAGED),
        (lengthened, DAMAGED),
        (with_a_huge_header, DAMAGED),
        (pickled, DAMAGED),
        (saved_by_torch, DAMAGED),
        (removed, MISSING),
        (a_folder, MISSING),
        (a_pipe, MISSING),
    ],
)
def test_damaged_weights_are_refused(
    damage: Callable[[Path], None], complaint: str, folder: Path
) -> None:
    damage(folder / "model.safetensors")
    with pytest.raises(InputError, match=complaint):
        load_model(folder)
    with pytest.raises(InputError, match=f"{DAMAGED}|is not a file"):
        load_weights(folder / "model.safetensors")


@pytest.fixture(scope="module")
def small_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("small") / "w.safetensors"
    weights = {"a": torch.ones(2, 3), "b": torch.ones(4, dtype=torch.int64)}
    save_weights(path, weights, metadata={"made": "here"})
    return path


def test_a_file_cut_anywhere_is_refused(small_file: Path, tmp_path: Path) -> None:
    whole = small_file.read_bytes()
    for length in range(len(whole)):
        (tmp_path / "w").write_bytes(whole[:length])
        with pytest.raises(InputError):
            load_weights(tmp_path / "w")


@given(data=st.data())
@settings(in_one_folder, max_examples=200)
def test_a_header_with_any_other_byte_is_refused_or_read(
    data: st.DataObject, small_file: Path, tmp_path: Path
) -> None:
    content = bytearray(small_file.read_bytes())
    header_end = 8 + int.from_bytes(content[:8], "little")
    content[data.draw(st.integers(0, header_end - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "w").write_bytes(content)
    try:
        found = load_weights(tmp_path / "w")
    except InputError:
        return
    assert sum(tensor.nbytes for tensor in found.values()) == 56


@pytest.mark.parametrize("metadata", [None, {}, {"format": "pt"}, {"format": "2"}])
def test_another_format_is_refused(metadata: dict[str, str] | None, folder: Path) -> None:
    path = folder / "model.safetensors"
    save_file(load_file(path), path, metadata=metadata)
    with pytest.raises(InputError, match=r"has format .* but this version reads '1': use the vers"):
        load_model(folder)


def test_weights_that_others_wrote_again_are_refused_with_what_to_do(folder: Path) -> None:
    path = folder / WEIGHTS
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
        tensors = {name: 2 * file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    for _ in range(8):  # the library orders metadata at random
        save_file(tensors, path, metadata=metadata)
        with pytest.raises(InputError, match="save it without 'checksum' in its metadata"):
            load_model(folder)
    del metadata["checksum"]
    save_file(tensors, path, metadata=metadata)
    load_model(folder)


@pytest.mark.parametrize("name", ["config.yaml", "tokenizer.json"])
@pytest.mark.parametrize("damage", [removed, a_folder, a_pipe])
def test_a_missing_file_is_named(name: str, damage: Callable[[Path], None], folder: Path) -> None:
    damage(folder / name)
    with pytest.raises(InputError, match=f"has no file {name}: a model is a folder of"):
        load_model(folder)


@pytest.mark.parametrize("name", ["config.yaml", "tokenizer.json"])
@pytest.mark.parametrize("content", [b"", b"\0", b"\xff\xfe", b"{", b"[]", b"!!python/none x"])
def test_damaged_settings_and_vocabularies_are_refused(
    name: str, content: bytes, folder: Path
) -> None:
    (folder / name).write_bytes(content)
    with pytest.raises(TransduceError):
        load_model(folder)


# Files of different models


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"n_layers": 3}, r"encoder\.2\.self_attention\.w_q\.weight is missing; .*; and more$"),
        ({"n_layers": 1}, r"'decoder\.1\..*' is unknown; .*; and more$"),
        ({"n_encoder_layers": 1}, r"'encoder\.1\..*' is unknown; .*; and more$"),
        ({"n_decoder_layers": 3}, r"decoder\.2\.\S+ is missing; .*; and more$"),
        ({"d_ff": 13}, r"encoder\.0\.\S+ is F32 \[12, 10\] instead of F32 \[13, 10\]; "),
        ({"positions": "learned"}, r"positions\.table is missing$"),
        ({"norm": "pre"}, r"encoder_norm\.weight is missing; .*; and more$"),
        ({"attention_bias": True}, r"w_q\.bias is missing; .*; and more$"),
        ({"vocab_size": 24}, r"embedding\.weight is F32 \[23, 10\] instead of F32 \[24, 10\]$"),
    ],
)
def test_weights_of_another_model_are_refused(
    changes: dict[str, Any], complaint: str, folder: Path
) -> None:
    settings_of(folder, **changes)
    with pytest.raises(InputError, match=f"does not fit the model in config.yaml: .*{complaint}"):
        load_model(folder)


def test_learned_positions_that_a_sinusoidal_model_lacks_are_refused(tmp_path: Path) -> None:
    save_model(tmp_path, new_model(TransformerConfig(**SHAPE, positions="learned")))
    settings_of(tmp_path)
    with pytest.raises(InputError, match=r"config.yaml: 'positions.table' is unknown$"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("dtype", "code"), [(torch.float64, "F64"), (torch.bfloat16, "BF16"), (torch.int32, "I32")]
)
def test_weights_of_another_type_are_refused(dtype: torch.dtype, code: str, folder: Path) -> None:
    name = "decoder_norm.weight"
    save_model(folder, new_model(TransformerConfig(**SHAPE, norm="pre")))
    weights_of(folder, lambda weights: weights.update({name: weights[name].to(dtype)}))
    with pytest.raises(InputError, match=rf"{name} is {code} \[10\] instead of F32 \[10\]$"):
        load_model(folder)


def test_a_name_is_shown_short_and_on_one_line(folder: Path) -> None:
    weights_of(folder, lambda weights: weights.update({"\n" * 999: torch.ones(1)}))
    with pytest.raises(InputError) as refused:
        load_model(folder)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300


def test_a_vocabulary_of_another_size_is_refused(folder: Path) -> None:
    other = Tokenizer.learn([WORDS + " more"], kind="whitespace", vocab_size=99)
    other.save(folder / "tokenizer.json")
    with pytest.raises(
        InputError, match=r"has 24 entries but config.yaml says model.vocab_size=23"
    ):
        load_model(folder)


# Strangers


def test_a_pickle_never_runs(folder: Path) -> None:
    class Payload:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(folder / "it ran"),)

    for name in ("model.safetensors", "tokenizer.json", "config.yaml"):
        (folder / name).write_bytes(pickle.dumps(Payload(), protocol=0))
        with pytest.raises(TransduceError):
            load_model(folder)
    assert not (folder / "it ran").exists()


LOAD = """
import resource, sys
from pathlib import Path
from transduce.errors import InputError
from transduce.models.folder import load_model
in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (in_use + 2**28, in_use + 2**28))
for folder in sys.argv[1:]:
    try:
        load_model(Path(folder))
    except InputError as refused:
        print(refused)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_huge_settings_take_no_memory(tmp_path: Path) -> None:
    huge: dict[str, dict[str, Any]] = {
        "vocabulary": {"vocab_size": 10_000_000},
        "width": {"d_model": 1_000_000},
        "positions": {"max_positions": 1_000_000, "positions": "learned"},
        "everything": dict.fromkeys(("d_model", "d_ff", "h", "d_k", "d_v"), 1_000_000)
        | {
            "n_layers": 1_000,  # the most that settings allow
            "vocab_size": 10_000_000,
            "max_positions": 1_000_000,
            "positions": "learned",
        },
    }
    for name, changes in huge.items():
        save_model(tmp_path / name, new_model(TransformerConfig(**SHAPE)))
        settings_of(tmp_path / name, **changes)
        (tmp_path / name / "checksums.json").unlink()
    folders = [str(tmp_path / name) for name in huge]
    command = [sys.executable, "-c", LOAD, *folders]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    refusals = done.stdout.splitlines()
    assert len(refusals) == len(huge)
    assert all("does not fit the model in config.yaml" in refusal for refusal in refusals)


def test_huge_tables_of_sinusoids_are_refused(tmp_path: Path) -> None:
    wide = SHAPE | {"n_layers": 1, "d_model": 1000}
    save_model(tmp_path, new_model(TransformerConfig(**wide)))
    settings_of(tmp_path, **(wide | {"max_positions": 1_000_000}))
    with pytest.raises(
        InputError, match=r"1,000,000,000 computed numbers, .* positions.table, .*max_positions"
    ):
        load_model(tmp_path)


THIN: dict[str, Any] = {
    "n_layers": 1,
    "d_model": 2,
    "h": 1,
    "d_v": 2,
    "encoder_mixers": "performer",
}


def test_one_direction_in_a_huge_space_is_drawn_at_the_cost_of_one(tmp_path: Path) -> None:
    wide = SHAPE | THIN | {"d_k": 100_000, "random_features": 1}
    save_model(tmp_path, new_model(TransformerConfig(**wide)))
    loaded = load_model(tmp_path).model
    directions = loaded.get_buffer("encoder.0.self_attention.directions")
    assert directions.shape == (1, 1, 100_000)


def test_huge_numbers_of_directions_are_refused(tmp_path: Path) -> None:
    wide = SHAPE | THIN | {"d_k": 10_000, "random_features": 1}
    save_model(tmp_path, new_model(TransformerConfig(**wide)))
    settings_of(tmp_path, **(wide | {"random_features": 65_536}))
    with pytest.raises(
        InputError, match=r"computed numbers, .*self_attention.directions, .*random_features"
    ):
        load_model(tmp_path)


# Writing


SAVE = """
import sys
from pathlib import Path
import torch
from transduce.models.folder import save_weights
save_weights(Path(sys.argv[1]), {"x": torch.ones(100_000)}, metadata={})
"""


def test_a_full_disk_leaves_the_weights_before(tmp_path: Path) -> None:
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

    path = tmp_path / "w"
    save_weights(path, {"x": torch.zeros(9)}, metadata={})
    done = subprocess.run(
        [sys.executable, "-c", SAVE, str(path)],
        capture_output=True,
        text=True,
        preexec_fn=limit,
        check=False,
    )
    assert done.stderr.endswith(f"InputError: cannot write {path}: File too large\n")
    assert names_in(tmp_path) == ["w"]
    assert torch.equal(load_weights(path)["x"], torch.zeros(9))


@pytest.mark.parametrize("place", ["no folder", "file"])
def test_a_place_where_nothing_can_be_written_is_named(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"^cannot write .*/w: (No such file|Not a directory)"):
        save_weights(tmp_path / place / "w", {}, metadata={})


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"^cannot write .*/file/model: Not a directory"):
        save_model(tmp_path / "file" / "model", new_model(TransformerConfig(**SHAPE)))


def test_what_a_killed_process_left_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "w.making").write_bytes(b"half" * 1000)
    save_weights(tmp_path / "w", {"x": torch.ones(2)}, metadata={})
    assert names_in(tmp_path) == ["w"]
    assert torch.equal(load_weights(tmp_path / "w")["x"], torch.ones(2))


def test_metadata_is_kept_beside_the_format(tmp_path: Path) -> None:
    save_weights(tmp_path / "w", {}, metadata={"step": "7"})
    content = (tmp_path / "w").read_bytes()
    found = json.loads(content[8:])["__metadata__"]
    assert re.fullmatch("[0-9a-f]{8}", found.pop("checksum"))
    assert found == {"format": "1", "step": "7"}
