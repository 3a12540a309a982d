"""Tasks through the real commands: pronunciation, and any two files with a metric."""

import json
from pathlib import Path

import pytest
import yaml

from tests.command import Command
from tests.system.small_runs import changes
from transduce.data.public.cmudict import parse_dictionary, split_words

DICTIONARY = """\
;;; a remark
tomato T AH0 M EY1 T OW2
tomato(2) T AH0 M AA1 T OW2
tomato(3) T AH0 M EY1 T OW0 # the same without stress
'tis T IH1 Z
x-ray EH1 K S R EY2
"""


def test_a_dictionary_is_read() -> None:
    words = parse_dictionary(DICTIONARY.splitlines(), stress=False)
    assert words == {"tomato": ["T AH M EY T OW", "T AH M AA T OW"], "'tis": ["T IH Z"]}
    stressed = parse_dictionary(DICTIONARY.splitlines(), stress=True)
    assert stressed["tomato"][2] == "T AH0 M EY1 T OW0"


def test_every_word_is_in_one_part_with_all_its_pronunciations() -> None:
    words = {
        f"word{n}".translate(str.maketrans("0123456789", "abcdefghij")): ["W", "V"]
        for n in range(2000)
    }
    parts = split_words(words)
    assert {pair.src for pairs in parts.values() for pair in pairs} == words.keys()
    assert len(parts["train"]) == 2 * len({pair.src for pair in parts["train"]})
    assert {pair.tgt for pair in parts["test"]} == {"W | V"}
    assert 150 < len(parts["test"]) < 250
    assert 20 < len(parts["dev"]) < 60


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a dictionary in which every letter is a phoneme, and s may be said in two ways."""
    rows = []
    for first in "bcdfgkmnst":
        for second in "aeiou":
            for third in ("l", "s", "pa", "ri"):
                word = first + second + third
                rows.append(f"{word} {' '.join(word.upper())}")
                if "s" in word:
                    rows.append(f"{word}(2) {' '.join(word.upper().replace('S', 'Z'))}")
    path = tmp_path_factory.mktemp("words") / "small.dict"
    path.write_text("\n".join(rows) + "\n")
    return path


def test_pronunciation_from_the_dictionary_to_the_scores(
    words: Path, tmp_path: Path, command: Command
) -> None:
    text, run = tmp_path / "text", tmp_path / "run"
    written = command("data", "pronunciation", words, "--to", text)
    assert written.code == 0, written.err
    assert "|" in (text / "test.tgt").read_text() + (text / "dev.tgt").read_text()
    files = [f"--{name}={text / file}" for name, file in FILES.items()]
    settings = changes(model__vocab_size=None, training__steps=8)
    trained = command("train", "--task", "pronunciation", *files, "--out", run, *settings)
    assert trained.code == 0, trained.err
    config = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
    assert config["data"]["shared_vocabulary"] is False
    assert config["model"]["src_vocab_size"] < 30
    card = (run / "README.md").read_text(encoding="utf-8")
    assert "words wrong **" in card
    out = tmp_path / "scores.json"
    scored = command(
        "evaluate",
        run,
        "--src",
        text / "test.src",
        "--ref",
        text / "test.tgt",
        "--json",
        out,
        "--device",
        "cpu",
    )
    assert scored.code == 0, scored.err
    assert "phonemes wrong" in scored.out
    found = json.loads(out.read_text())
    assert found["metric"]["name"] == "words wrong"
    assert found["metric"]["higher_is_better"] is False
    assert found["metric_margin"] >= 0


def test_any_two_files_with_a_metric(tmp_path: Path, command: Command) -> None:
    generated = command("data", "generate", "sort", "--to", tmp_path, "--pairs", "200")
    assert generated.code == 0, generated.err
    run = tmp_path / "run"
    files = [f"--{name}={tmp_path / file}" for name, file in FILES.items()]
    settings = changes(data__subwords="whitespace", run__choose_by="metric")
    trained = command(
        "train", "--task", "generic", "--metric", "wer", *files, "--out", run, *settings
    )
    assert trained.code == 0, trained.err
    card = (run / "README.md").read_text(encoding="utf-8")
    assert "by WER" in card
    losses = [line for line in (run / "journal.jsonl").read_text().splitlines() if "WER" in line]
    assert losses
    listed = command("runs", tmp_path, "--json")
    assert listed.code == 0, listed.err
    assert '"higher_is_better": false' in listed.out
    refused = command("train", *files, "--metric", "bleurt", "--out", tmp_path / "other").mistake()
    assert "data.metric" in refused


FILES = {
    "src": "train.src",
    "tgt": "train.tgt",
    "dev-src": "dev.src",
    "dev-tgt": "dev.tgt",
}
