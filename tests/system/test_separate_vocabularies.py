"""A vocabulary for each side, through the real commands: letters in, spaced words out."""

import json
from pathlib import Path
from shutil import copytree

import pytest

from tests.command import Command
from tests.system.small_runs import changes
from transduce.errors import InputError
from transduce.models.attention import attention_between
from transduce.models.folder import load_model
from transduce.translation.load import load

WORDS = ["kin", "sol", "ema", "tul", "ora", "vid", "pesk", "lum", "nor", "ash"]
SEPARATE = {
    "data__shared_vocabulary": "false",
    "data__subwords": "characters",
    "data__tgt_subwords": "whitespace",
    "model__max_positions": 64,
    "data__clean": "false",
}
STEPS, HALF = 8, 4


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write two words a line; the target names every letter of the source."""
    folder = tmp_path_factory.mktemp("corpus")
    lines = [f"{a} {b}" for a in WORDS for b in WORDS]
    spelt = [" ".join(f"<{letter}>" for letter in line if letter != " ") for line in lines]
    (folder / "a.en").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (folder / "a.de").write_text("".join(f"{line}\n" for line in spelt), encoding="utf-8")
    return folder


def training(corpus: Path, out: Path, *, steps: int = STEPS, **settings: object) -> list[str]:
    files = ["--src", str(corpus / "a.en"), "--tgt", str(corpus / "a.de"), "--out", str(out)]
    given = (
        SEPARATE
        | {"training__steps": steps, "run__checkpoint_steps": HALF, "training__schedule": "paper"}
        | settings
    )
    return ["train", *files, *changes(**given)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs") / "separate"


@pytest.fixture
def run(folder: Path, corpus: Path, command: Command) -> Path:
    """Train once for all tests."""
    if not (folder / "README.md").exists():
        result = command(*training(corpus, folder))
        assert result.code == 0, result.err
    return folder


def test_each_side_has_its_own_entries(run: Path) -> None:
    loaded = load_model(run)
    letters = sorted({letter for word in WORDS for letter in word})
    source, target = loaded.tokenizer.source, loaded.tokenizer.target
    assert sorted(source.decode([[entry] for entry in range(4, len(source))])) == [" ", *letters]
    names = target.decode([[entry] for entry in range(4, len(target))])
    assert sorted(names) == [f"<{letter}>" for letter in letters]
    assert loaded.config.model.src_vocab_size == len(letters) + 1 + 4
    assert loaded.config.model.vocab_size == len(letters) + 4
    card = (run / "README.md").read_text(encoding="utf-8")
    assert f"{len(letters) + 5} → {len(letters) + 4} subwords (characters → whitespace)" in card
    [ids] = loaded.tokenizer.encode_batch(["sol µ"])
    assert source.decode([ids]) == ["sol < unk >"]


def test_it_resumes_bit_for_bit(run: Path, corpus: Path, tmp_path: Path, command: Command) -> None:
    halves = tmp_path / "halves"
    assert command(*training(corpus, halves, steps=HALF)).code == 0
    assert command(*training(corpus, halves)).code == 0
    last = f"checkpoints/step-{STEPS:012}"
    files = sorted(file.name for file in (run / last).glob("*.safetensors"))
    assert len(files) >= 2  # weights and moments
    for name in files:
        assert (run / last / name).read_bytes() == (halves / last / name).read_bytes()


def test_translations_have_the_scores_that_the_scorer_gives(
    run: Path, tmp_path: Path, command: Command
) -> None:
    lines = ["kin sol", "ema", "pesk ash"]
    found = load(run, "cpu").translate(lines)
    (tmp_path / "src").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "tgt").write_text("".join(f"{one.text}\n" for one in found))
    scored = command("score", run, "--src", tmp_path / "src", "--tgt", tmp_path / "tgt", "--jsonl")
    assert scored.code == 0, scored.err
    for line, one in zip(scored.out.splitlines(), found, strict=True):
        row = json.loads(line)
        pieces = row["pieces"]
        assert "".join(pieces[:-1]).strip() == one.text
        length = len(pieces) - (not one.is_finished)
        total = sum(row["log_probs"][:length])
        assert one.score == pytest.approx(total / ((5 + length) / 6) ** 0.6, abs=1e-3)


def test_prefixes_are_target_text(run: Path, command: Command) -> None:
    given = command(
        "translate", run, "--prefix-text", "<e> <", "--device", "cpu", given=b"ema kin\n"
    )
    assert given.code == 0, given.err
    assert given.out.startswith("<e> <")


def test_attention_shows_letters_and_words(run: Path) -> None:
    shown = attention_between(load_model(run), "kin", "<k> <i> <n>")
    assert shown.source == ("k", "i", "n", "< eos >")
    assert shown.target == ("<k>", "<i>", "<n>", "< eos >")
    assert shown.source_are_bytes
    assert not shown.target_are_bytes


def test_an_ensemble_and_a_fine_tuned_model_keep_the_vocabularies(
    run: Path, corpus: Path, tmp_path: Path, command: Command
) -> None:
    tuned = tmp_path / "tuned"
    files = ["--src", str(corpus / "a.en"), "--tgt", str(corpus / "a.de"), "--out", str(tuned)]
    settings = ["training.steps=2", "run.score_sentences=2", "run.device=cpu", "data.clean=false"]
    result = command("train", *files, "--init", run, *(f"--set={one}" for one in settings))
    assert result.code == 0, result.err
    assert load_model(tuned).tokenizer.to_json() == load_model(run).tokenizer.to_json()
    both = command("translate", run, "--ensemble", tuned, "--device", "cpu", given=b"ema\n")
    assert both.code == 0, both.err


def test_the_vocabulary_cannot_become_shared_when_a_run_resumes(
    run: Path, corpus: Path, command: Command
) -> None:
    shared = training(corpus, run, data__shared_vocabulary=None, data__tgt_subwords=None)
    refused = command(*shared, "--set=data.shared_vocabulary=true").mistake()
    assert "data.shared_vocabulary" in refused


def test_ctranslate2_has_both_vocabularies_and_marian_refuses(
    run: Path, tmp_path: Path, command: Command
) -> None:
    pytest.importorskip("ctranslate2")
    exported = command("export", run, "--to", "ctranslate2", "--out", tmp_path / "ct2")
    assert exported.code == 0, exported.err
    assert (tmp_path / "ct2" / "source_vocabulary.json").exists()
    lines = ["kin sol", "ema", "nor lum"]
    ours, theirs = (load(path, "cpu").translate(lines) for path in (run, tmp_path / "ct2"))
    for our, their in zip(ours, theirs, strict=True):
        assert our.text == their.text
        assert our.score == pytest.approx(their.score, abs=1e-3)
    (tmp_path / "ct2" / "shared_vocabulary.json").write_text("[]")
    stray = command("translate", tmp_path / "ct2", given=b"kin\n").mistake()
    assert "shared_vocabulary.json is no file of an export" in stray
    refused = command("export", run, "--to", "huggingface", "--out", tmp_path / "hf").mistake()
    assert "model.src_vocab_size=" in refused


def test_a_tokenizer_of_another_model_is_refused(run: Path, tmp_path: Path) -> None:
    other = copytree(run, tmp_path / "other")
    loaded = load_model(run)
    tree = json.loads(loaded.tokenizer.to_json())
    tree["source"] = tree["target"]
    (other / "tokenizer.json").write_text(json.dumps(tree))
    with pytest.raises(InputError, match=r"model\.src_vocab_size=\d+: they are of different"):
        load_model(other)
