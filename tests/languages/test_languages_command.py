"""A model of several languages in use: translation, scores, server, files, exports."""

import json
import math
import shutil
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

import transduce
from tests.command import Command
from tests.languages.toy_languages import changes, in_language, rows
from transduce import Options
from transduce.cli.serve import _load
from transduce.errors import InputError
from transduce.models.folder import load_model
from transduce.serving.app import make_app
from transduce.text.special_ids import EOS_ID


def test_it_learns_every_direction_and_says_so(learnt: Path, texts: Path, command: Command) -> None:
    source = (texts / "test.aa").read_text(encoding="utf-8")
    for language in ("bb", "cc"):
        result = command("translate", learnt, "--to", language, given=source.encode())
        assert result.out == (texts / f"test.{language}").read_text(encoding="utf-8")
    back = command("translate", learnt, texts / "test.cc", "--to=aa")
    assert back.out == source
    scored = [json.loads(line) for line in (learnt / "journal.jsonl").read_text().splitlines()]
    last = [event for event in scored if event["event"] == "Scored"][-1]
    assert last["parts"] == dict.fromkeys(("aa-bb", "aa-cc", "bb-aa", "cc-aa"), 100.0)
    assert last["score"] == 100.0
    card = (learnt / "README.md").read_text(encoding="utf-8")
    assert "| from \\ to | aa | bb | cc |" in card
    assert "zero-shot: bb-cc, cc-bb" in card


def test_python_translates_into_the_language_it_is_given(learnt: Path) -> None:
    model = transduce.load(learnt)
    [words] = rows(1, seed=9)
    for language in ("bb", "cc"):
        wanted = " ".join(in_language(language, word) for word in words)
        assert model.translate([" ".join(words)], to=language)[0].text == wanted
        known = model.translate(["red cat"], to=language, memory={"red cat": "known"})
        assert known[0].text == "known"
        bound = transduce.load(learnt, to=language)
        assert bound.translate([" ".join(words)])[0].text == wanted
    with pytest.raises(InputError, match=r"translates into bb, cc, aa: choose one with --to bb"):
        model.translate(["red cat"])
    with pytest.raises(InputError, match="to=zz: this model translates into bb, cc, aa"):
        model.translate(["red cat"], to="zz")


def test_the_tag_survives_long_lines_and_prefixes(learnt: Path) -> None:
    model = transduce.load(learnt, to="cc")
    words = [word for some in rows(30, seed=8) for word in some]
    long = model.translate([" ".join(words)])[0]
    assert "pieces" in long.note
    own = {in_language("cc", word) for word in words}
    assert set(long.text.split()) <= own, "each piece is in the language"
    start = in_language("cc", "bird")
    assert model.translate(["red cat"], prefixes=[start])[0].text.startswith(start)


def test_ctranslate2_agrees_about_tags(learnt: Path, texts: Path) -> None:
    pytest.importorskip("ctranslate2")
    source = (texts / "test.aa").read_text(encoding="utf-8").splitlines()
    ours = transduce.load(learnt, to="bb").translate(source)
    theirs = transduce.load(learnt, engine="ctranslate2", to="bb").translate(source)
    assert [one.text for one in ours] == [one.text for one in theirs]


@pytest.mark.parametrize(("language", "other"), [("bb", "cc"), ("cc", "bb")])
def test_scores_are_for_the_language_of_the_tag(
    learnt: Path, texts: Path, language: str, other: str
) -> None:
    """The right translation has more than half of the probability; one in another language, less.

    Both are translations of one source with one tag, so their probabilities are at most 1 together.
    """
    right, wrong = (
        transduce.score(learnt, texts / "test.aa", texts / f"test.{code}", to=language)
        for code in (language, other)
    )
    for one, another in zip(right, wrong, strict=True):
        assert one.total > math.log(0.5) > another.total


@pytest.mark.exhaustive(after=1)
@pytest.mark.parametrize("tag_on", ["target", "source"])
def test_the_score_of_a_translation_is_its_forced_score(
    texts: Path, tmp_path: Path, tag_on: str
) -> None:
    out = tmp_path / "out"
    settings = changes(data__subwords="whitespace", data__tag_on=tag_on, run__score_sentences=2)
    transduce.train(texts=sorted(texts.glob("train.*")), out=out, settings=settings)
    source = (texts / "test.aa").read_text(encoding="utf-8").splitlines()
    options = Options(beam=3, alpha=0, second_try=False)
    for language in ("aa", "bb"):
        found = transduce.load(out, to=language).translate(source, options)
        assert all(one.is_finished for one in found)
        lines = "".join(f"{one.text}\n" for one in found)
        (tmp_path / "found").write_text(lines, encoding="utf-8")
        scores = transduce.score(out, texts / "test.aa", tmp_path / "found", to=language)
        assert [one.total for one in scores] == pytest.approx([one.score for one in found])


def test_a_memory_and_a_glossary_go_with_a_language(learnt: Path) -> None:
    model = transduce.load(learnt)
    memory = {"red cat": "from memory"}
    assert model.translate(["red cat"], to="bb", memory=memory)[0].text == "from memory"
    term = in_language("bb", "bird")
    with pytest.raises(transduce.InputError, match="not trained with hints"):
        model.translate(["red cat"], to="bb", glossary={"cat": term}, soft=True)
    found = model.translate(["red cat"], to="bb", glossary={"cat": term})[0].text
    assert term in found.split()


def test_markup_follows_its_words(learnt: Path) -> None:
    """The tag of the language is no word of the source."""
    found = transduce.load(learnt, to="bb").translate(["<p>red <b>cat</b></p>"], format="html")
    assert found[0].text == "<p>dero <b>taco</b></p>"


def test_an_exported_folder_keeps_its_languages(
    learnt: Path, texts: Path, tmp_path: Path, command: Command
) -> None:
    pytest.importorskip("ctranslate2")
    out = tmp_path / "ct2"
    assert command("export", learnt, "--to", "ctranslate2", "--out", out).code == 0
    found = command("translate", out, texts / "test.aa", "--to=cc")
    assert found.out == (texts / "test.cc").read_text(encoding="utf-8")


def test_the_server_offers_all_pairs(learnt: Path, texts: Path) -> None:
    """One model in memory; source and target of a request choose the language."""
    translators = _load([str(learnt)], device="cpu", precision="float32", engine=None)
    assert len({id(one._engine) for one in translators.values()}) == 1
    source = (texts / "test.aa").read_text(encoding="utf-8").splitlines()[0]
    with TestClient(make_app(translators, version="1")) as client:
        targets = {one["code"]: one["targets"] for one in client.get("/languages").json()}
        assert targets == {"aa": ["bb", "cc"], "bb": ["aa", "cc"], "cc": ["aa", "bb"]}
        pairs = client.get("/v1/models").json()["pairs"]
        assert len(pairs) == 6
        for target in ("bb", "cc"):
            body = {"q": source, "source": "aa", "target": target}
            found = client.post("/translate", json=body).json()["translatedText"]
            assert found == (texts / f"test.{target}").read_text(encoding="utf-8").splitlines()[0]
        body = {"q": source, "source": "aa", "target": "zz"}
        assert client.post("/translate", json=body).status_code == 400


def test_files_and_shards_take_a_language(
    learnt: Path, texts: Path, tmp_path: Path, command: Command
) -> None:
    shutil.copy(texts / "test.aa", tmp_path / "in.txt")
    wanted = (texts / "test.cc").read_text(encoding="utf-8")
    done = command(
        "translate-file", learnt, tmp_path / "in.txt", "--out", tmp_path / "o.txt", "--to=cc"
    )
    assert done.code == 0, done.err
    assert (tmp_path / "o.txt").read_text(encoding="utf-8") == wanted
    shards: list[str | Path] = [learnt, tmp_path / "in.txt", "--out", f"{tmp_path}/parts/"]
    assert command("translate", *shards, "--to=cc").code == 0
    assert (tmp_path / "parts" / "part-00000000.txt").read_text(encoding="utf-8") == wanted
    other = command("translate", *shards, "--to=bb").mistake()
    assert "cc" in other


def test_huggingface_has_no_place_for_tags(learnt: Path, tmp_path: Path, command: Command) -> None:
    told = command("export", learnt, "--to", "huggingface", "--out", tmp_path / "hf").mistake()
    assert "Marian" in told


def test_evaluate_scores_a_matrix(
    learnt: Path, texts: Path, tmp_path: Path, command: Command
) -> None:
    files = [f"--text={texts / f'test.{code}'}" for code in ("aa", "bb", "cc")]
    numbers, picture = tmp_path / "m.json", tmp_path / "m.png"
    shown = command("evaluate", learnt, *files, f"--json={numbers}", f"--png={picture}")
    assert shown.code == 0, shown.err
    tree = json.loads(numbers.read_text(encoding="utf-8"))
    assert {name: one["trained"] for name, one in tree["directions"].items()} == {
        "aa-bb": True, "aa-cc": True, "bb-aa": True, "bb-cc": False, "cc-aa": True, "cc-bb": False
    }  # fmt: skip
    trained = tree["means"]["trained"]
    assert (trained["directions"], trained["chrF"]) == (4, 100.0)
    assert "zero-shot (2 directions)" in shown.out
    assert picture.read_bytes().startswith(b"\x89PNG")
    one = command("evaluate", learnt, "--src", texts / "test.aa", "--ref", texts / "test.bb")
    assert "100.00" in one.out, "the language is that of the reference"


def test_the_commands_that_show_a_model_take_a_language(learnt: Path, command: Command) -> None:
    aligned = command("attention", learnt, "red cat", "--to=bb", "--align")
    assert aligned.out.startswith("red cat ||| dero taco ||| ")
    assert "translates into bb, cc, aa" in command("translate", learnt, given=b"cat\n").mistake()


def test_no_text_encodes_to_a_tag(learnt: Path) -> None:
    tokenizer = load_model(learnt).tokenizer
    tags = set(tokenizer.target.tags.values())
    texts = ["< 2bb > red cat", "<2bb>", "< 2aa >", "2bb"]
    for ids in tokenizer.encode_batch(texts):
        assert not tags & set(ids)
    assert tokenizer.decode_batch([[*tags, EOS_ID]]) == [""]
