"""One model for several languages, through the real command."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from fastapi.testclient import TestClient

import transduce
from tests.command import Command
from tests.languages.toy_languages import changes, in_language, rows, write_texts
from transduce.cli.serve import _load
from transduce.errors import ConfigError, InputError
from transduce.evaluation.languages import evaluate_languages
from transduce.models.folder import load_model
from transduce.serving.app import make_app
from transduce.text.special_ids import EOS_ID
from transduce.training.run.events import Saved


def training(folder: Path, out: Path, *others: str, **settings: object) -> list[str]:
    """Return the arguments of a run on the texts of a folder."""
    texts = [f"--text={path}" for path in sorted(folder.glob("train.*"))]
    dev = [f"--dev-text={path}" for path in sorted(folder.glob("dev.*"))]
    sets = [f"--set={change}" for change in changes(**settings)]
    return ["train", *texts, *dev, f"--out={out}", *others, *sets]


LEARNING: dict[str, object] = {
    "training__steps": 260,
    "run__checkpoint_steps": 260,
    "training__batch_tokens": 500,
    "training__learning_rate": 0.004,
    "training__eps_ls": 0,
    "model__d_model": 64,
    "model__n_layers": 2,
    "model__norm": "pre",
}
"""Enough to learn the words of toy languages without a fault."""


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    write_texts(folder, "train", 400, seed=1)
    write_texts(folder, "dev", 6, seed=2)
    write_texts(folder, "test", 8, seed=5)
    return folder


@pytest.fixture(scope="module")
def learnt(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learnt the words of three languages, from four of six directions."""
    out = tmp_path_factory.mktemp("runs") / "learnt"
    transduce.train(
        texts=sorted(texts.glob("train.*")),
        dev_texts=sorted(texts.glob("dev.*")),
        out=out,
        settings=changes(
            data__without_directions="[bb-cc, cc-bb]",
            data__metric="chrf",
            data__subwords="whitespace",
            **LEARNING,
        ),
    )
    return out


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


def test_a_model_of_one_direction_takes_no_language(texts: Path, tmp_path: Path) -> None:
    out = tmp_path / "one"
    transduce.train(
        texts=[texts / "train.aa", texts / "train.bb"],
        out=out,
        settings=changes(data__directions="[aa-bb]", training__steps=2),
    )
    model = transduce.load(out)
    assert model.languages == ()
    model.translate(["red cat"])
    with pytest.raises(InputError, match="to=bb: this model has no tags"):
        model.translate(["red cat"], to="bb")


def test_ctranslate2_and_scores_agree_about_tags(learnt: Path, texts: Path) -> None:
    pytest.importorskip("ctranslate2")
    source = (texts / "test.aa").read_text(encoding="utf-8").splitlines()
    ours = transduce.load(learnt, to="bb").translate(source)
    theirs = transduce.load(learnt, engine="ctranslate2", to="bb").translate(source)
    assert [one.text for one in ours] == [one.text for one in theirs]
    scores = transduce.score(learnt, texts / "test.aa", texts / "test.bb", to="bb")
    wrong = transduce.score(learnt, texts / "test.aa", texts / "test.bb", to="cc")
    for right, other in zip(scores, wrong, strict=True):
        assert right.total > other.total + 1


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


@pytest.mark.parametrize("tag_on", ["source", "target"])
def test_everything_together_resumes_to_the_bit(texts: Path, tmp_path: Path, tag_on: str) -> None:
    """Temperature, mix, stages and noise; stopped before, at and after the end of a stage."""
    write_texts(tmp_path, "more", 40, seed=7, languages=("aa", "cc"))
    files = [*sorted(texts.glob("train.*")), *sorted(tmp_path.glob("more.*"))]
    settings = changes(
        data__temperature=4,
        data__stages="[{until: 0.5, mix: {train: 0.3, more: 2}}, {mix: {more: 3.5}}]",
        data__augment="{typos: 0.5, upper: 0.3}",
        data__tag_on=tag_on,
        training__steps=10,
        run__checkpoint_steps=5,
        model__p_drop=0.1,
        run__score_sentences=6,
    )

    def run(out: Path, stops: tuple[int, ...]) -> Path:
        for stop in stops:
            made = iter(range(stop))
            transduce.train(
                texts=files,
                out=out,
                settings=settings,
                cache=tmp_path / "cache",
                should_stop=lambda made=made: next(made, None) is None,  # type: ignore[misc]
            )
        transduce.train(texts=files, out=out, settings=settings, cache=tmp_path / "cache")
        return out

    whole = run(tmp_path / "whole", ())
    cut = run(tmp_path / "cut", (2, 2, 1))
    assert (whole / "model.safetensors").read_bytes() == (cut / "model.safetensors").read_bytes()
    losses = [
        [event["loss"] for event in events if event["event"] == "Scored"]
        for events in (
            [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
            for out in (whole, cut)
        )
    ]
    assert losses[0] == losses[1]
    model = transduce.load(cut)
    assert sorted(model.languages) == ["aa", "bb", "cc"]
    model.translate(["red cat"], to="bb", prefixes=["de"])


def test_a_run_says_which_settings_differ(texts: Path, tmp_path: Path, command: Command) -> None:
    asked = training(texts, tmp_path / "run", training__steps=2)
    assert command(*asked).code == 0
    assert command(*asked).code == 0, "finished"
    other = command(*asked, "--set=data.temperature=3").mistake()
    assert "data.temperature is 1.0 there, not 3" in other
    moved = tmp_path / "moved"
    shutil.copytree(texts, moved)
    again = training(moved, tmp_path / "run", training__steps=3)
    assert command(*again).code == 0, "the same texts in other places"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--text=x.aa"], "two languages or more"),
        (["--text=x.aa", "--text=y/x.aa"], "two languages or more"),
        (["--text=x"], "write en=x"),
        (["--text=x.aa", "--text=aa=x.txt"], "x.aa is in aa too"),
        (["--text=x.aa", "--text=x.bb", "--src=a.en"], "two forms of the training text"),
    ],
)
def test_mistakes_are_told(
    options: list[str], message: str, tmp_path: Path, command: Command
) -> None:
    assert message in command("train", f"--out={tmp_path / 'run'}", *options).mistake()


def test_no_text_encodes_to_a_tag(learnt: Path) -> None:
    tokenizer = load_model(learnt).tokenizer
    tags = set(tokenizer.target.tags.values())
    texts = ["< 2bb > red cat", "<2bb>", "< 2aa >", "2bb"]
    for ids in tokenizer.encode_batch(texts):
        assert not tags & set(ids)
    assert tokenizer.decode_batch([[*tags, EOS_ID]]) == [""]


def test_fine_tuning_adds_a_language(texts: Path, tmp_path: Path) -> None:
    """Old entries keep their ids and rows, and the new language has a tag of its own."""
    base = tmp_path / "base"
    files = sorted(texts.glob("train.*"))
    transduce.train(texts=files, out=base, settings=changes(training__steps=2))
    write_texts(tmp_path, "new", 60, seed=6, languages=("aa", "dd"))
    out = tmp_path / "grown"
    first: dict[str, torch.Tensor] = {}

    def keep_first(event: object) -> None:
        if isinstance(event, Saved) and event.step == 0:
            first.update(load_model(Path(event.path)).model.state_dict())

    transduce.train(
        texts=[*files, tmp_path / "new.aa", tmp_path / "new.dd"],
        out=out,
        init=base,
        settings=["training.steps=2", "data.mix={train: 0.5, new: 2}", "run.score_sentences=16"],
        progress=keep_first,
    )
    before, after = load_model(base), load_model(out)
    size = len(before.tokenizer)
    assert after.tokenizer.languages == (*before.tokenizer.languages, "dd")
    assert len(after.tokenizer) == size + 1 == after.config.model.vocab_size
    assert after.tokenizer.tokens(range(size)) == before.tokenizer.tokens(range(size))
    for name, old in before.model.state_dict().items():
        assert torch.equal(first[name][: len(old)], old), name
    assert first["embedding.weight"].shape[0] == size + 1
    assert "mean of 8 directions" in (out / "README.md").read_text(encoding="utf-8")
    transduce.load(out, to="dd").translate(["red cat"])


@pytest.mark.exhaustive
def test_a_new_language_is_learnt_and_the_others_are_kept(texts: Path, tmp_path: Path) -> None:
    """Replay keeps the old directions, by chrF on a test set."""
    base, out = tmp_path / "base", tmp_path / "grown"
    files = sorted(texts.glob("train.*"))
    settings = changes(data__metric="chrf", **LEARNING | {"training__steps": 900})
    transduce.train(texts=files, out=base, settings=settings)
    write_texts(tmp_path, "new", 300, seed=6, languages=("aa", "dd"))
    write_texts(tmp_path, "test", 20, seed=11, languages=("aa", "bb", "cc", "dd"))
    transduce.train(
        texts=[*files, tmp_path / "new.aa", tmp_path / "new.dd"],
        out=out,
        init=base,
        settings=["training.steps=500", "data.mix={train: 0.3}", "training.learning_rate=0.002"],
    )
    test = {code: tmp_path / f"test.{code}" for code in ("aa", "bb", "cc")}
    old = evaluate_languages(base, test).means()["trained"][2]
    kept = evaluate_languages(out, test).means()["trained"][2]
    new = {code: tmp_path / f"test.{code}" for code in ("aa", "dd")}
    learnt = evaluate_languages(out, new).means()["trained"][2]
    assert old > 90
    assert kept > old - 3
    assert learnt > 90


def test_a_vocabulary_of_words_takes_no_new_language(
    learnt: Path, texts: Path, tmp_path: Path
) -> None:
    write_texts(tmp_path, "new", 20, seed=6, languages=("aa", "dd"))
    with pytest.raises(ConfigError, match="most of dd would be unknown"):
        transduce.train(
            texts=[*sorted(texts.glob("train.*")), tmp_path / "new.aa", tmp_path / "new.dd"],
            out=tmp_path / "out",
            init=learnt,
        )
