"""`transduce evaluate` and `transduce score`, as a user runs them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import Command
from transduce.config.schema import Config
from transduce.data.corpus import Pair
from transduce.grammar import generate
from transduce.models.build import build_model
from transduce.models.folder import LoadedModel, load_model, save_model
from transduce.models.transformer.settings import TransformerConfig
from transduce.text.tokenizer import Tokenizer
from transduce.translation.load import load
from transduce.translation.options import Options
from transduce.translation.scorer import Scorer, perplexity

PAIRS = list(generate(40, seed=12))
SOURCES, REFERENCES = [pair.src for pair in PAIRS], [pair.tgt for pair in PAIRS]
HYPOTHESES = [
    " ".join(words[:2] + words[3:] if n % 2 else words)
    for n, words in enumerate(text.split() for text in REFERENCES)
]


def write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds texts and an untrained model."""
    folder = tmp_path_factory.mktemp("evaluate")
    texts = {"src": SOURCES, "ref": REFERENCES, "hyp": HYPOTHESES, "short": HYPOTHESES[:-1]}
    for name, lines in texts.items():
        write(folder / name, lines)
    tokenizer = Tokenizer.learn((text for pair in PAIRS for text in pair), vocab_size=400)
    model = TransformerConfig(
        vocab_size=len(tokenizer), n_layers=1, d_model=16, d_ff=16, h=2, max_positions=100
    )
    loaded = LoadedModel(build_model(model, seed=2).eval(), Config(model=model), tokenizer)
    save_model(folder / "model", loaded)
    return folder


@pytest.fixture(autouse=True)
def _in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def row(output: str, name: str) -> list[str]:
    """Read the cells of a table's row."""
    (line,) = (line for line in output.splitlines() if line.startswith(f"{name}  "))
    return line.removeprefix(name).split()


def test_scores_of_given_translations_are_those_of_sacrebleu(command: Command) -> None:
    result = command("evaluate", "--hyp", "hyp", "--ref", "ref", "--src", "src", "--lang", "de")
    assert (result.code, result.err) == (0, "")
    sacrebleu = [sys.executable, "-m", "sacrebleu", "ref", "-i", "hyp", "-m", "bleu", "chrf", "ter"]
    done = subprocess.run([*sacrebleu, "--confidence", "-w", "2"], capture_output=True, check=True)
    for theirs in json.loads(done.stdout):
        score, *interval = row(result.out, theirs["name"])
        assert float(score) == theirs["score"]
        assert " ".join(interval) == theirs["confidence"].removeprefix("μ = ")
        assert f"{theirs['name']} {theirs['signature']}" in result.out
    assert 50 < float(row(result.out, "BLEU as in the paper")[0]) < 100
    assert "Moses tokenisation, compounds split, cased" in result.out
    assert "words in the source" in result.out


def test_tables_fit_80_columns_and_signatures_are_whole(folder: Path, command: Command) -> None:
    files = ("--hyp", "hyp", "--ref", "ref", "--against", "short.whole")
    write(folder / "short.whole", [text[:-1] for text in REFERENCES])
    result = command("evaluate", *files, "--lang", "de")
    assert result.code == 0
    tables, signatures = result.out.rsplit("\n\n", maxsplit=1)
    assert max(len(line) for line in tables.splitlines()) <= 80
    assert all("|version:" in line for line in signatures.splitlines())
    assert len(signatures.splitlines()) == 5
    name, score, other, difference = "BLEU", *(row(result.out, "BLEU")[i] for i in (0, 4, 5))
    assert float(difference) == pytest.approx(float(score) - float(other), abs=0.011), name
    assert "p: of a paired bootstrap test" in result.out
    assert "words in the reference" in result.out


def test_a_model_is_scored_by_its_own_translations(folder: Path, command: Command) -> None:
    beam = ("--beam", "2", "--alpha", "0", "--device", "cpu")
    files = ("--src", "src", "--ref", "ref", "--out", "out", "--json", "one.json")
    by_model = command("evaluate", "model", *files, *beam)
    assert (by_model.code, by_model.err) == (0, "")
    found = load(folder / "model", "cpu").translate(SOURCES, Options(beam=2, alpha=0))
    expected = [t.text.replace("\r", " ").replace("\n", " ") for t in found]
    assert (folder / "out").read_text(encoding="utf-8").split("\n")[:-1] == expected
    by_file = command("evaluate", "--hyp", "out", *files[:4], "--json", "two.json")
    assert by_file.out == by_model.out
    one, two = (json.loads((folder / name).read_text()) for name in ("one.json", "two.json"))
    assert one == two
    assert [score["name"] for score in one["scores"]] == ["BLEU", "chrF2", "TER"]
    assert all(score["signature"] for score in one["scores"])
    assert one["sentences"] == sum(b["sentences"] for b in one["by_length"]["buckets"]) == 40


def run_with_test_sets(sets: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own: sacreBLEU reads where they are when it is loaded."""
    names = ("--test-set", "wmt14", "--pair", "en-de")
    return subprocess.run(
        [sys.executable, "-m", "transduce", "evaluate", "--hyp", "hyp", *names],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"COLUMNS": "80", "SACREBLEU": str(sets)} | environment,  # noqa: TID251
    )


def test_a_public_test_set_that_is_there_is_used(folder: Path, command: Command) -> None:
    public = folder / "sacrebleu" / "wmt14"
    public.mkdir(parents=True)
    fields = {"src": SOURCES, "ref": REFERENCES}
    for field in ("src", "ref", "docid", "genre", "origlang"):
        write(public / f"wmt14.en-de.{field}", fields.get(field, ["-"] * 40))
    result = run_with_test_sets(folder / "sacrebleu")
    assert (result.returncode, result.stderr) == (0, "")
    plain = command("evaluate", "--hyp", "hyp", "--ref", "ref", "--src", "src", "--lang", "de")
    labels = "|test:wmt14|lang:en-de"
    assert result.stdout.count(labels) == 3
    assert result.stdout.replace(labels, "") == plain.out


def test_a_test_set_that_cannot_be_fetched_is_one_line(folder: Path) -> None:
    nowhere = {"https_proxy": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"}
    result = run_with_test_sets(folder / "none", **nowhere)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("transduce: cannot get the test set wmt14 en-de: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("evaluate --hyp short --ref ref", "short has 39 lines but there are 40 references"),
        ("evaluate --hyp hyp --ref ref --against short", "short has 39 lines but there are 40"),
        ("evaluate model --src short --ref ref", "short has 39 lines but there are 40"),
        ("evaluate --hyp nowhere --ref ref", "cannot read nowhere: No such file"),
        ("evaluate --hyp hyp --ref nowhere", "cannot read nowhere: No such file"),
        ("evaluate nowhere --src src --ref ref", "nowhere has no file config.yaml"),
        ("evaluate --ref ref", "give either a model folder or translations with --hyp"),
        ("evaluate model --hyp hyp --ref ref", "give either a model folder or translations"),
        ("evaluate model --ref ref", "what to translate? Give --src FILE"),
        ("evaluate --hyp hyp", "what to compare with? Give --ref FILE"),
        ("evaluate --hyp hyp --ref ref --out x", "--out is for a model's translations"),
        ("evaluate --hyp hyp --ref ref --tokenize 13b", "no tokenizer named '13b'"),
        ("evaluate --hyp hyp --ref ref --lang German", "no language 'German'"),
        (
            "evaluate --hyp hyp --ref ref --json no/such",
            "cannot write no/such: there is no folder no",
        ),
        ("evaluate --hyp hyp --ref ref --json .", "cannot write .: it is a folder"),
        # Before anything is translated, which would fail on its own.
        ("evaluate nowhere --src src --ref ref --tokenize 13b", "no tokenizer named '13b'"),
        ("evaluate nowhere --src src --ref ref --lang German", "no language 'German'"),
        ("evaluate --hyp hyp --test-set wmt14", "--test-set wmt14 needs --pair"),
        ("evaluate --hyp hyp --test-set wmt14x --pair en-de", "did you mean wmt14"),
        ("evaluate --hyp hyp --test-set wmt14 --pair en-xx", "wmt14 has no pair 'en-xx'"),
        ("evaluate --hyp hyp --ref ref --test-set wmt14 --pair en-de", "give no files"),
        ("evaluate model --src src --ref ref --beam 0", "a beam of 0"),
        ("score model --src src --tgt short", "short has 39 lines but src has 40"),
        ("score model --src src --tgt nowhere", "cannot read nowhere: No such file"),
        ("score model --src src --tgt ref --device abacus", "abacus"),
        ("score model --src src", "src has no target text"),
        ("score model --src long --tgt ref", "line 3: its source has "),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    arguments: str, message: str, folder: Path, command: Command
) -> None:
    write(folder / "long", [*SOURCES[:2], "word " * 99, *SOURCES[3:]])
    assert message in command(*arguments.split()).mistake()


def test_score_prints_a_line_for_every_pair(folder: Path, command: Command) -> None:
    result = command("score", "model", "--src", "src", "--tgt", "ref", "--device", "cpu")
    expected = list(Scorer(load_model(folder / "model")).score(PAIRS))
    lines = [tuple(map(float, line.split("\t"))) for line in result.out.splitlines()]
    assert lines == [(round(score.total, 4), round(score.mean, 4)) for score in expected]
    tokens = sum(len(score.pieces) for score in expected)
    value = perplexity(sum(score.total for score in expected), tokens)
    assert result.err == (
        f"perplexity {value:,.4f} of {tokens:,} tokens in 40 translations, EOS included\n"
    )


def test_score_reports_every_token_as_json_lines(folder: Path, command: Command) -> None:
    write(folder / "both.tsv", [f"{pair.src}\t{pair.tgt}" for pair in PAIRS])
    result = command("score", "model", "--src", "both.tsv", "--jsonl", "--device", "cpu")
    rows = [json.loads(line) for line in result.out.splitlines()]
    pairs = [Pair(src, tgt) for src, tgt in PAIRS]
    for found, score in zip(rows, Scorer(load_model(folder / "model")).score(pairs), strict=True):
        assert tuple(found["pieces"]) == score.pieces
        assert tuple(found["log_probs"]) == score.log_probs
        assert (found["total"], found["mean"]) == (score.total, score.mean)
