"""Parsing through the real command: trees in, trees out, scored as EVALB does."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from fastapi.testclient import TestClient

import transduce
from tests.command import Command
from tests.system.small_runs import changes
from transduce.grammar.generated.corpus import GeneratedTask, split_task
from transduce.serving.app import make_app
from transduce.serving.languages import LanguagePair
from transduce.trees.brackets import parse_brackets

SENTENCES = "the old dog watches Anna in the garden .\nshe saw f(x) .\n"


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of generated treebanks."""
    folder = tmp_path_factory.mktemp("trees")
    task = GeneratedTask("trees", 3, 12)
    for name, pairs in split_task(task, train=300, dev=30, test=30, seed=1).items():
        (folder / f"{name}.mrg").write_text("".join(f"{pair.tgt}\n" for pair in pairs))
    return folder


@pytest.fixture(scope="module")
def parser(trees: Path) -> Path:
    """A model folder, in order, with tags; hardly trained."""
    out = trees / "parser"
    given = [
        one.removeprefix("--set=") for one in changes(training__steps=8, model__max_positions=64)
    ]
    transduce.train(
        out=out,
        tgt=trees / "train.mrg",
        dev_tgt=trees / "dev.mrg",
        settings=["data.task=parsing", "data.tree_order=in-order", *given],
    )
    return out


def test_sentences_become_trees_over_their_words(
    parser: Path, command: Command, tmp_path: Path
) -> None:
    picture = tmp_path / "tree.svg"
    for options in ([], ["--beam", "1"], ["--sample", "--seed", "3"], ["--n-best", "2"]):
        done = command("translate", parser, *options, given=SENTENCES.encode())
        assert done.code == 0
        texts = [
            line.split(" ||| ")[1] if " ||| " in line else line for line in done.out.split("\n")
        ]
        found = [" ".join(parse_brackets(text).words()) for text in texts if text]
        assert set(found) == {SENTENCES.split("\n")[0], "she saw f-LRB-x-RRB- ."}
    done = command("translate", parser, "--draw", picture, given=SENTENCES.encode())
    assert done.code == 0
    title = ElementTree.parse(picture).getroot()[0].text  # noqa: S314
    assert title == SENTENCES.split("\n")[0]


def test_weights_are_chosen_by_the_f1_of_all_and_the_commands_to_copy_name_trees(
    trees: Path, command: Command, tmp_path: Path
) -> None:
    files = ("--task", "parsing", "--src", trees / "train.mrg", "--dev-src", trees / "dev.mrg")
    done = command(
        "train",
        *files,
        "--out",
        tmp_path / "run",
        *changes(training__steps=2, model__max_positions=64),
    )
    assert done.code == 0, done.err
    assert "weights by F1 of all on " in done.err
    *_, evaluate, serve = done.err.splitlines()
    assert evaluate.endswith("--src test.mrg")
    assert " serve en-ptb=" in serve


def test_the_paper_s_beam_and_alpha_are_the_default(parser: Path) -> None:
    translator = transduce.load(parser, "cpu")
    options = translator.default_options
    assert (options.beam, options.alpha) == (21, 0.3)
    [plain] = translator.translate(["she saw Anna ."])
    [given] = translator.translate(["she saw Anna ."], options)
    assert plain == given


def test_a_model_is_scored_by_brackets(
    parser: Path, trees: Path, command: Command, tmp_path: Path
) -> None:
    numbers, written = tmp_path / "scores.json", tmp_path / "parsed.mrg"
    test = trees / "test.mrg"
    done = command(
        "evaluate", parser, "--src", test, "--beam", "4", "--json", numbers, "--out", written
    )
    assert done.code == 0
    assert "EVALB|prm:COLLINS" in done.out
    assert "BLEU" not in done.out
    found = json.loads(numbers.read_text())
    scores = {score["name"]: score["score"] for score in found["scores"]}
    assert list(scores)[:3] == ["F1", "precision", "recall"]
    again = command("evaluate", "--hyp", written, "--ref", test, "--against", test)
    assert again.code == 0
    assert f"{scores['F1']:.2f}" in again.out
    perfect = command("evaluate", "--hyp", test, "--ref", test, "--json", numbers)
    assert "100.00" in perfect.out
    lengths = [len(parse_brackets(line).words()) for line in test.read_text().splitlines()]
    found = json.loads(numbers.read_text())
    assert found["by_length"]["buckets"][0]["sentences"] == sum(length <= 10 for length in lengths)


def test_trees_have_forced_scores(parser: Path, trees: Path, command: Command) -> None:
    done = command("score", parser, "--src", trees / "test.mrg")
    assert done.code == 0
    assert len(done.out.splitlines()) == 30


def test_a_forced_score_is_the_score_of_the_tree(parser: Path, tmp_path: Path) -> None:
    options = transduce.Options(beam=4, alpha=0.0)
    [found] = transduce.load(parser, "cpu").translate(["she saw Anna ."], options)
    path = tmp_path / "one.mrg"
    path.write_text(f"{found.text}\n")
    [scored] = transduce.score(parser, path, device="cpu")
    assert scored.total == pytest.approx(found.score, abs=1e-4)


def test_attention_to_a_sentence_is_shown(parser: Path, command: Command, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = command("attention", parser, "she saw Anna .", "--out", page)
    assert done.code == 0
    assert "(TOP" in page.read_text()


def test_confident_trees_are_kept(parser: Path, command: Command, tmp_path: Path) -> None:
    text, parsed, kept = (tmp_path / name for name in ("a.txt", "parsed.jsonl", "kept.mrg"))
    text.write_text(f"{SENTENCES}\nshe saw Anna .\nhe walked .\n")
    assert command("translate", parser, text, "--beam", "2", "--jsonl", "--out", parsed).code == 0
    done = command("data", "confident", parsed, "--keep", "0.5", "--to", kept)
    assert done.code == 0
    assert "kept 2 of 4" in done.err
    rows = [json.loads(line) for line in parsed.read_text().splitlines()]
    best = sorted((row["score"] for row in rows if row["text"]), reverse=True)[:2]
    expected = [row["text"] for row in rows if row["text"] and row["score"] in best]
    assert kept.read_text().splitlines() == expected
    lines = parsed.read_text().splitlines(keepends=True)
    parts = [tmp_path / "first.jsonl", tmp_path / "second.jsonl"]
    parts[0].write_text("".join(lines[:3]))
    parts[1].write_text("".join(lines[3:]))
    again = tmp_path / "again.mrg"
    done = command("data", "confident", *parts, "--keep", "0.5", "--to", again)
    assert done.code == 0
    assert "kept 2 of 4" in done.err
    assert again.read_text() == kept.read_text()


def test_outputs_with_line_ends_stay_beside_their_sources(command: Command, tmp_path: Path) -> None:
    rows = [{"source": f"s{n}", "text": f"a\nb\r{n}", "score": -n} for n in range(3)]
    outputs, kept, sources = (tmp_path / name for name in ("o.jsonl", "kept", "sources"))
    outputs.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    options = ("--keep", "1", "--to", kept, "--sources", sources)
    assert command("data", "confident", outputs, *options).code == 0
    assert kept.read_text().splitlines() == ["a b 0", "a b 1", "a b 2"]
    assert sources.read_text().splitlines() == ["s0", "s1", "s2"]


@pytest.mark.parametrize("score", ['"x"', "NaN", "[1]", "1" * 400, "[" * 100_000])
def test_scores_of_outputs_must_be_numbers(score: str, command: Command, tmp_path: Path) -> None:
    outputs = tmp_path / "o.jsonl"
    outputs.write_text(f'{{"source": "a", "text": "b", "score": {score}}}\n')
    said = command("data", "confident", outputs, "--to", tmp_path / "kept").mistake()
    assert f"{outputs} line 1: no output of translate --jsonl: " in said


def test_mistakes_are_named(parser: Path, trees: Path, command: Command, tmp_path: Path) -> None:
    plain = tmp_path / "plain.mrg"
    plain.write_text("no tree\nat all\n")
    done = command("train", "--task", "parsing", "--src", plain, "--out", tmp_path / "a")
    assert done.code == 2
    assert f"{plain} line 1" in done.err
    said = command(
        "translate", parser, "--draw", tmp_path / "a.png", given=b"she saw .\n"
    ).mistake()
    assert ".svg" in said
    short = tmp_path / "short.mrg"
    short.write_text((trees / "test.mrg").read_text().split("\n")[0] + "\n")
    said = command("evaluate", "--hyp", short, "--ref", trees / "test.mrg").mistake()
    assert "must match" in said


def test_files_that_are_no_treebank_are_named(
    trees: Path, command: Command, tmp_path: Path
) -> None:
    blank, other = tmp_path / "blank.mrg", tmp_path / "trees.penn"
    blank.write_text("\n\n")
    other.write_text((trees / "test.mrg").read_text())
    for path, message in (
        (blank, f"{blank} has no trees"),
        (other, f"{other} has no target text: give one, or a file with both sides (.tsv, .csv, "),
    ):
        done = command("train", "--task", "parsing", "--src", path, "--out", tmp_path / "a")
        assert done.code == 2
        assert message in done.err
    assert "trees in .mrg or .ptb)" in done.err


def test_trees_are_not_taken_for_text_to_translate(
    trees: Path, command: Command, tmp_path: Path
) -> None:
    said = command("train", "--src", trees / "train.mrg", "--out", tmp_path / "a").mistake()
    assert f"{trees / 'train.mrg'} has trees, but data.task=translation: give --task" in said
    assert not (tmp_path / "a").exists()


def test_scores_are_numbers_where_every_sentence_is_left_out(
    command: Command, tmp_path: Path
) -> None:
    gold, parsed, numbers = (tmp_path / name for name in ("a.mrg", "b.mrg", "a.json"))
    gold.write_text("(TOP (S (NP (NN dog)) (VP (VBZ barks)) (. .)))\n")
    parsed.write_text("(TOP (S (NP (NN dog)) (VP (VBZ barks)) (NN .)))\n")
    done = command("evaluate", "--hyp", parsed, "--ref", gold, "--json", numbers)
    assert done.code == 0
    assert "nan" not in done.out
    found = {one["name"]: one["score"] for one in json.loads(numbers.read_text())["scores"]}
    nothing = ("F1", "precision", "recall", "complete", "tagging")
    assert found == dict.fromkeys(nothing, 0.0) | {"left out": 1.0, "F1 of all": 100.0}


def test_the_server_returns_trees_and_draws_them(parser: Path) -> None:
    translator = transduce.load(parser, "cpu")
    served = {LanguagePair("en", "ptb"): translator}
    with TestClient(make_app(served, version="1")) as client:
        answer = client.post("/v1/translate", json={"text": "she saw Anna ."}).json()
        [plain] = translator.translate(["she saw Anna ."])
        assert plain.text in json.dumps(answer)
        picture = client.post("/tree", data={"text": plain.text})
        assert picture.headers["Content-Type"].startswith("image/svg+xml")
        assert "Anna" in picture.text
        refused = client.post("/tree", data={"text": "(S <b>"})
        assert refused.status_code == 400
        assert "<b>" not in refused.text
