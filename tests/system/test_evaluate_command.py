"""`transduce evaluate` and `transduce score`, as a user runs them."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import sacrebleu

import transduce
from tests.command import Command
from transduce.config.schema import Config
from transduce.data.corpus import Pair
from transduce.grammar import generate
from transduce.models.build import build_model
from transduce.models.folder import LoadedModel, load_model, save_model
from transduce.models.transformer.settings import TransformerConfig
from transduce.tasks.metrics import ChrF
from transduce.tasks.translation import TranslationTask
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
        vocab_size=len(tokenizer), n_layers=1, d_model=16, d_ff=16, h=2, max_positions=56
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
    assert (one.pop("system"), two.pop("system")) == ("model", "out")
    [of_model], [of_file] = one.pop("systems"), two.pop("systems")
    assert (of_model.pop("system"), of_file.pop("system")) == ("model", "out")
    assert one == two
    assert of_model == of_file
    assert of_model == {key: one[key] for key in of_model}
    assert [score["name"] for score in one["scores"]] == ["BLEU", "chrF2", "TER"]
    assert all(score["signature"] for score in one["scores"])
    assert one["sentences"] == sum(b["sentences"] for b in one["by_length"]["buckets"]) == 40


def test_several_references_are_all_used(folder: Path, command: Command) -> None:
    second = [text if n % 3 else f"Nun, {text}" for n, text in enumerate(HYPOTHESES)]
    write(folder / "second", second)
    result = command("evaluate", "--hyp", "hyp", "--ref", "ref", "--ref", "second", "--lang", "de")
    assert (result.code, result.err) == (0, "")
    sacrebleu = [sys.executable, "-m", "sacrebleu", "ref", "second", "-i", "hyp", "-w", "2"]
    options = ["-m", "bleu", "chrf", "ter", "--confidence"]
    done = subprocess.run([*sacrebleu, *options], capture_output=True, check=True)
    for theirs in json.loads(done.stdout):
        score, *interval = row(result.out, theirs["name"])
        assert float(score) == theirs["score"]
        assert " ".join(interval) == theirs["confidence"].removeprefix("μ = ")
        assert f"{theirs['name']} {theirs['signature']}" in result.out
    assert result.out.count("nrefs:2|") == 5  # by length and as in the paper too
    assert "40 sentences, 2 references" in result.out
    assert "words in the first reference" in result.out
    alone = command("evaluate", "--hyp", "hyp", "--ref", "ref")
    assert float(row(alone.out, "BLEU")[0]) < float(row(result.out, "BLEU")[0])


def test_several_systems_are_in_one_table_against_the_first(folder: Path, command: Command) -> None:
    write(folder / "worse", [text[: len(text) // 2] for text in REFERENCES])
    files = ("--hyp", "hyp", "--hyp", "worse", "--hyp", "ref", "--ref", "ref", "--src", "src")
    result = command("evaluate", *files, "--lang", "de", "--json", "several.json")
    assert (result.code, result.err) == (0, "")
    tables, signatures = result.out.rsplit("\n\n", maxsplit=1)
    assert max(len(line) for line in tables.splitlines()) <= 80
    assert len(signatures.splitlines()) == 5
    written = json.loads((folder / "several.json").read_text())
    assert [system["system"] for system in written["systems"]] == ["hyp", "worse", "ref"]
    assert (written["baseline"], written["baseline_report"]) == ("hyp", None)
    for system in written["systems"]:
        one = ("--hyp", system["system"], "--ref", "ref", "--src", "src", "--lang", "de")
        command("evaluate", *one, "--against", "hyp", "--json", "one.json")
        alone = json.loads((folder / "one.json").read_text())
        assert system["by_length"] == alone["by_length"]
        assert system["paper"] == alone["paper"]
        assert [s["score"] for s in system["scores"]] == [s["score"] for s in alone["scores"]]
        if system["system"] != "hyp":
            assert system["comparisons"] == alone["comparisons"]
            for score, comparison in zip(system["scores"], system["comparisons"], strict=True):
                difference = re.escape(f"{comparison['difference']:+.2f}")
                shown = rf"{score['score']:.2f} .*{difference} +[0-9.]+"
                assert re.search(rf"^  {system['system']} +{shown} *$", tables, re.MULTILINE)
    assert len(re.findall(r"^  hyp .* baseline *$", tables, re.MULTILINE)) == 3


def write_few(folder: Path) -> None:
    """Write files of five lines, which are translated quickly."""
    for name, lines in {"src": SOURCES, "ref": REFERENCES, "hyp": HYPOTHESES}.items():
        write(folder / f"few.{name}", lines[:5])


def test_a_model_and_translations_are_compared_with_the_baseline(
    folder: Path, command: Command
) -> None:
    write_few(folder)
    files = ("--src", "few.src", "--ref", "few.ref", "--device", "cpu", "--json", "x.json")
    systems = ("model", "--hyp", "few.hyp")
    result = command("evaluate", *systems, "--against", "few.ref", *files)
    assert (result.code, result.err) == (0, "")
    written = json.loads((folder / "x.json").read_text())
    assert [system["system"] for system in written["systems"]] == ["model", "few.hyp"]
    assert written["baseline"] == "few.ref"
    assert written["baseline_report"]["scores"][0]["score"] == pytest.approx(100)
    assert all(len(system["comparisons"]) == 3 for system in written["systems"])
    command("evaluate", *systems, *files)
    written = json.loads((folder / "x.json").read_text())
    assert written["baseline"] == "model"
    assert [len(system["comparisons"]) for system in written["systems"]] == [0, 3]


def test_a_model_is_scored_with_noise_too(folder: Path, command: Command) -> None:
    write_few(folder)
    files = ("--src", "few.src", "--ref", "few.ref", "--device", "cpu", "--json", "robust.json")
    result = command("evaluate", "model", *files, "--beam", "1", "--robust")
    assert (result.code, result.err) == (0, "")
    written = json.loads((folder / "robust.json").read_text())
    rows = {found["noise"]: found for found in written["robustness"]}
    kinds = ["clean", "UPPER CASE", "Title Case", "no final punctuation", "typos"]
    assert list(rows) == kinds
    assert all(f"\n{kind} " in result.out for kind in kinds)
    assert [s["name"] for s in rows["typos"]["scores"]] == ["BLEU", "BLEU, case ignored", "chrF2"]
    clean, upper = rows["clean"], rows["UPPER CASE"]
    chrf = next(score for score in written["scores"] if score["name"] == "chrF2")
    assert clean["scores"][2]["score"] == pytest.approx(chrf["score"])
    assert clean["losses"] == [0, 0, 0]
    translated = load(folder / "model", "cpu").translate(
        [text.upper() for text in SOURCES[:5]], Options(beam=1)
    )
    expected = ChrF().score(
        [re.sub(r"[\r\n]", " ", one.text) for one in translated],
        [text.upper() for text in REFERENCES[:5]],
    )
    assert upper["scores"][2]["score"] == pytest.approx(expected.score)
    assert upper["losses"][2] == pytest.approx(chrf["score"] - expected.score)


def test_noise_needs_a_model(command: Command) -> None:
    result = command("evaluate", "--hyp", "hyp", "--ref", "ref", "--robust")
    assert result.code == 2
    assert "--robust translates the test set with noise: give a model folder" in result.err


def test_translations_come_from_standard_input(folder: Path, command: Command) -> None:
    files = ("--hyp", "ref", "--ref", "ref", "--json", "piped.json")
    result = command("evaluate", "--hyp", "-", *files, given=Path("hyp").read_bytes())
    assert (result.code, result.err) == (0, "")
    written = json.loads((folder / "piped.json").read_text())
    assert [system["system"] for system in written["systems"]] == ["-", "ref"]
    by_file = command("evaluate", "--hyp", "hyp", *files)
    assert by_file.out.replace("  hyp", "  -  ") == result.out


def test_python_takes_several_files_too() -> None:
    result = transduce.evaluate(hyp=["hyp", Path("ref")], ref=["ref", "hyp"])
    assert [system.system for system in result.systems] == ["hyp", "ref"]
    assert result.references == 2
    assert [system.report.scores[0].score for system in result.systems] == [pytest.approx(100)] * 2
    assert result.report.comparisons == ()
    assert len(result.others[0].report.comparisons) == 3


@pytest.mark.exhaustive(after=1)
@pytest.mark.parametrize("name", ["few.tsv", "few.jsonl", "few.csv"])
def test_one_file_has_source_and_reference(name: str, folder: Path, command: Command) -> None:
    write_few(folder)
    lines = {
        "few.tsv": [f"{pair.src}\t{pair.tgt}" for pair in PAIRS],
        "few.jsonl": [json.dumps({"en": pair.src, "de": pair.tgt}) for pair in PAIRS],
        "few.csv": [f'"{pair.src}","{pair.tgt}"' for pair in PAIRS],
    }
    header = ["en,de"] if name == "few.csv" else []
    write(folder / name, [*header, *lines[name][:5]])
    fields = () if name == "few.tsv" else ("--fields", "en,de")
    by_one = command("evaluate", "model", "--src", name, *fields, "--device", "cpu")
    assert (by_one.code, by_one.err) == (0, "")
    plain = ("--src", "few.src", "--ref", "few.ref", "--device", "cpu")
    assert by_one.out == command("evaluate", "model", *plain).out
    given = command("evaluate", "--hyp", name, "--ref", name, "--src", name, *fields)
    assert float(row(given.out, "BLEU")[0]) == 100


JAPANESE = [
    "彼は昨日図書館で面白い本を読んだ。",
    "私は日本の大学の学生です。",
    "今日は雨が降っている。",
]
JAPANESE_HYPOTHESES = [
    "彼は昨日図書館で本を読んだ。",
    "私は日本の学生です。",
    "今日はずっと雨が降っている。",
]


def test_japanese_is_scored_in_characters(folder: Path, command: Command) -> None:
    write(folder / "ref.ja", JAPANESE)
    write(folder / "hyp.ja", JAPANESE_HYPOTHESES)
    files = ("--hyp", "hyp.ja", "--ref", "ref.ja")
    result = command("evaluate", *files)
    assert (result.code, result.err) == (0, "")
    sacrebleu = [sys.executable, "-m", "sacrebleu", "ref.ja", "-i", "hyp.ja", "-w", "2"]
    options = ["-m", "bleu", "chrf", "ter", "--confidence", "-tok", "char"]
    done = subprocess.run(
        [*sacrebleu, *options, "--ter-normalized", "--ter-asian-support"],
        capture_output=True,
        check=True,
    )
    for theirs in json.loads(done.stdout):
        assert float(row(result.out, theirs["name"])[0]) == theirs["score"]
        assert f"{theirs['name']} {theirs['signature']}" in result.out
    assert float(row(result.out, "BLEU")[0]) > 30
    assert float(row(result.out, "TER")[0]) < 50
    assert "characters in the reference" in result.out
    training = TranslationTask().metric(JAPANESE).score(JAPANESE_HYPOTHESES, JAPANESE)
    assert f"{training.score:.2f}" == row(result.out, "BLEU")[0]
    assert f"BLEU by length {training.signature}" in result.out


@pytest.mark.exhaustive(after=1)
@pytest.mark.skipif(find_spec("MeCab") is not None, reason="MeCab is installed")
@pytest.mark.parametrize(
    "data",
    [
        {"src": ("a.en",), "tgt": ("a.de",)},
        {"src": ("a.jsonl",), "fields": "translation.en,translation.de"},
        {"src": ("a.tmx",), "fields": "en,de"},
    ],
)
def test_the_model_folder_tells_the_language_of_bleu_as_in_the_paper(
    data: dict[str, Any], folder: Path, tmp_path: Path, command: Command
) -> None:
    loaded = load_model(folder / "model")
    config = loaded.config.with_changes({"data": data})
    save_model(tmp_path / "german", replace(loaded, config=config))
    files = ("--src", "src", "--ref", "ref", "--beam", "1")
    found = command("evaluate", tmp_path / "german", *files)
    assert found.code == 0, found.err
    assert "BLEU as in the paper moses:de|" in found.out
    unnamed = command("evaluate", "model", *files)
    assert "BLEU as in the paper: not computed: name the target language with" in unnamed.out


def test_a_missing_package_is_named_once(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    result = command("evaluate", "--hyp", "hyp", "--ref", "ref", "--lang", "de")
    install = "pip install 'transduce[paper]' (in a clone: pip install '.[paper]')"
    line = f"BLEU as in the paper: not computed: it needs the package sacremoses: {install}"
    assert line in " ".join(result.out.split())
    unnamed = command("evaluate", "--hyp", "hyp", "--ref", "ref")
    both = f"{line}; then name the target language with --lang, such as --lang de"
    assert both in " ".join(unnamed.out.split())


def test_sources_in_a_script_that_the_model_does_not_know_are_noted(
    tmp_path: Path, command: Command
) -> None:
    write(tmp_path / "src", ["Это другой алфавит.", *SOURCES[1:]])
    result = command("evaluate", "model", "--src", tmp_path / "src", "--ref", "ref", "--beam", "1")
    note = "note: line 1 is in Cyrillic, which the model was not trained on"
    assert note in result.err.splitlines()


@pytest.mark.parametrize("named_by", ["--lang", "the model folder"])
def test_japanese_without_mecab_is_scored_with_a_note(
    named_by: str, folder: Path, command: Command
) -> None:
    write(folder / "ref.ja", JAPANESE)
    write(folder / "hyp.ja", JAPANESE_HYPOTHESES)
    if named_by == "--lang":
        result = command("evaluate", "--hyp", "hyp.ja", "--ref", "ref.ja", "--lang", "ja")
        assert "BLEU as in the paper: not computed: Moses' tokenizer needs spaces" in result.out
    else:
        loaded = load_model(folder / "model")
        data = loaded.config.data.model_copy(update={"src": ("a.en",), "tgt": ("a.ja",)})
        config = loaded.config.model_copy(update={"data": data})
        save_model(folder / "japanese", LoadedModel(loaded.model, config, loaded.tokenizer))
        files = ("--src", "hyp.ja", "--ref", "ref.ja", "--device", "cpu")
        result = command("evaluate", "japanese", *files)
    assert result.code == 0
    assert result.err.startswith(
        "note: BLEU counts characters, because ja-mecab is not installed: "
        "pip install 'sacrebleu[ja]' to count words as MeCab finds them\n"
    )
    assert "|tok:char|" in result.out


def test_words_that_are_not_there_are_warned_of(folder: Path, command: Command) -> None:
    write(folder / "ref.ja", JAPANESE)
    files = ("--hyp", "ref.ja", "--ref", "ref.ja", "--json", "notes.json")
    result = command("evaluate", *files, "--tokenize", "13a")
    assert result.code == 0
    assert result.err.startswith("note: BLEU with the tokenizer 13a says nothing here")
    assert "|tok:13a|" in result.out
    [note] = json.loads((folder / "notes.json").read_text())["notes"]
    assert result.err == f"note: {note}\n"


def test_japanese_that_was_cut_into_words_is_no_worse(folder: Path, command: Command) -> None:
    write(folder / "cut.ja", ["彼 は 本 を 読ん だ 。", "私 は 学生 です 。"])
    write(folder / "whole.ja", ["彼は本を読んだ。", "私は学生です。"])
    result = command("evaluate", "--hyp", "whole.ja", "--hyp", "cut.ja", "--ref", "cut.ja")
    assert result.code == 0
    assert result.err.startswith("note: the references are cut into words")
    assert re.findall(r"^  (?:whole|cut).ja +([0-9.]+)  ", result.out, re.M)[:2] == ["100.00"] * 2
    assert "TER: not computed" in result.out
    by_words = command("evaluate", "--hyp", "cut.ja", "--ref", "cut.ja", "--tokenize", "none")
    assert (by_words.err, float(row(by_words.out, "TER")[0])) == ("", 0)


def test_thai_has_no_ter_and_says_so(folder: Path, command: Command) -> None:
    write(folder / "ref.th", ["เมื่อวานนี้เขาอ่านหนังสือในห้องสมุด"])
    write(folder / "hyp.th", ["เมื่อวานเขาอ่านหนังสือในห้องสมุด"])
    result = command("evaluate", "--hyp", "hyp.th", "--ref", "ref.th", "--lang", "th")
    assert (result.code, result.err) == (0, "")
    assert float(row(result.out, "BLEU")[0]) > 50
    assert "TER: not computed: it counts words" in result.out
    assert "TER nrefs" not in result.out


PUBLIC = ("evaluate", "--hyp", "hyp", "--test-set", "wmt14", "--pair", "en-de")


def test_a_public_test_set_that_is_there_is_used(folder: Path, command: Command) -> None:
    public = folder / "sacrebleu" / "wmt14"
    public.mkdir(parents=True)
    fields = {"src": SOURCES, "ref": REFERENCES}
    for field in ("src", "ref", "docid", "genre", "origlang"):
        write(public / f"wmt14.en-de.{field}", fields.get(field, ["-"] * 40))
    # In a process of its own: sacreBLEU reads where they are when it is loaded.
    where = {"COLUMNS": "80", "SACREBLEU": str(folder / "sacrebleu")}
    result = subprocess.run(
        [sys.executable, "-m", "transduce", *PUBLIC],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | where,  # noqa: TID251
    )
    assert (result.returncode, result.stderr) == (0, "")
    plain = command("evaluate", "--hyp", "hyp", "--ref", "ref", "--src", "src", "--lang", "de")
    labels = "|test:wmt14|lang:en-de"
    assert result.stdout.count(labels) == 3
    assert result.stdout.replace(labels, "") == plain.out


def test_a_test_set_that_cannot_be_fetched_is_one_line(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sacrebleu.DATASETS["wmt14"], "_outdir", str(folder / "none"))
    nowhere = dict.fromkeys(["https_proxy", "http_proxy"], "http://127.0.0.1:9")
    message = command(*PUBLIC, env=nowhere).mistake()
    assert message.startswith("cannot get the test set wmt14 en-de: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("evaluate --hyp short --ref ref", "short has 39 lines but there are 40 references"),
        ("evaluate --hyp hyp --ref ref --against short", "short has 39 lines but there are 40"),
        ("evaluate model --src short --ref ref", "short has 39 lines but there are 40"),
        ("evaluate --hyp nowhere --ref ref", "cannot read nowhere: No such file"),
        ("evaluate --hyp hyp --ref nowhere", "cannot read nowhere: No such file"),
        ("evaluate nowhere --src src --ref ref", "nowhere does not exist: give a model folder"),
        ("evaluate --ref ref", "what to score? Give a model folder or translations with --hyp"),
        ("evaluate model --hyp hyp --ref ref", "what to translate? Give --src FILE"),
        ("evaluate model --ref ref", "what to translate? Give --src FILE"),
        ("evaluate --hyp hyp --hyp short --ref ref", "short has 39 lines but there are 40"),
        ("evaluate --hyp hyp --ref ref --ref short", "short has 39 lines but there are 40"),
        ("evaluate --hyp hyp --ref ref --against hyp --against hyp", "--against is given twice"),
        ("evaluate --hyp hyp --hyp hyp --ref ref", "--hyp hyp is given twice"),
        (
            "evaluate --hyp hyp --ref ref --lang ja --lang de --lang ja",
            "--lang or --to is given 3 times",
        ),
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
        assert tuple(found["pieces"]) == score.texts
        assert tuple(found["log_probs"]) == score.log_probs
        assert (found["total"], found["mean"]) == (score.total, score.mean)
