"""A model of several languages is trained further: on more languages, or on fewer."""

from pathlib import Path

import pytest
import torch

import transduce
from tests.languages.toy_languages import LEARNING, changes, write_texts
from transduce.errors import ConfigError
from transduce.evaluation.languages import evaluate_languages
from transduce.models.folder import load_model
from transduce.training.run.events import Saved


@pytest.mark.exhaustive(after=1)
def test_fine_tuning_adds_a_language(untrained: Path, texts: Path, tmp_path: Path) -> None:
    """Old entries keep their ids and rows, and the new language has a tag of its own."""
    files = sorted(texts.glob("train.*"))
    write_texts(tmp_path, "new", 60, seed=6, languages=("aa", "dd"))
    out = tmp_path / "grown"
    first: dict[str, torch.Tensor] = {}

    def keep_first(event: object) -> None:
        if isinstance(event, Saved) and event.step == 0:
            first.update(load_model(Path(event.path)).model.state_dict())

    transduce.train(
        texts=[*files, tmp_path / "new.aa", tmp_path / "new.dd"],
        out=out,
        init=untrained,
        settings=["training.steps=2", "data.mix={train: 0.5, new: 2}", "run.score_sentences=16"],
        progress=keep_first,
    )
    before, after = load_model(untrained), load_model(out)
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
    """Replay keeps the old directions, by chrF on a test set.

    BLEU would choose the weights at random: sentences of three words have no 4-grams.
    """
    base, out = tmp_path / "base", tmp_path / "grown"
    files = sorted(texts.glob("train.*"))
    whole_words = {"model__vocab_size": 450, "training__steps": 400, "run__checkpoint_steps": 200}
    settings = changes(data__metric="chrf", **LEARNING | whole_words)
    transduce.train(texts=files, out=base, settings=settings)
    write_texts(tmp_path, "new", 300, seed=6, languages=("aa", "dd"))
    write_texts(tmp_path, "test", 20, seed=11, languages=("aa", "bb", "cc", "dd"))
    transduce.train(
        texts=[*files, tmp_path / "new.aa", tmp_path / "new.dd"],
        out=out,
        init=base,
        settings=[
            "training.steps=700",
            "training.learning_rate=0.002",
            "training.eps_ls=0",
            "data.mix={train: 0.3}",
            "data.metric=chrf",
        ],
    )
    test = {code: tmp_path / f"test.{code}" for code in ("aa", "bb", "cc")}
    old = evaluate_languages(base, test).means()["trained"][2]
    kept = evaluate_languages(out, test).means()["trained"][2]
    new = {code: tmp_path / f"test.{code}" for code in ("aa", "dd")}
    learnt = evaluate_languages(out, new).means()["trained"][2]
    assert old > 98
    assert kept > old - 3
    assert learnt > 95


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


@pytest.mark.exhaustive(after=1)
def test_fine_tuning_on_one_direction_keeps_the_tags(
    untrained: Path, texts: Path, tmp_path: Path
) -> None:
    """A model that is told the language is told it in training too, if there is only one."""
    out = tmp_path / "out"
    transduce.train(
        texts=[texts / "train.aa", texts / "train.bb"],
        out=out,
        init=untrained,
        settings=[
            "data.directions=[aa-bb]",
            "training.steps=30",
            "training.learning_rate=0.01",
            "run.score_sentences=4",
        ],
    )
    assert "transduce translate FOLDER --to bb" in (out / "README.md").read_text(encoding="utf-8")
    scores = {
        code: sum(
            one.total for one in transduce.score(out, texts / "test.aa", texts / "test.bb", to=code)
        )
        for code in ("bb", "cc")
    }
    assert scores["bb"] > scores["cc"], "this tag was seen in training, and the other was not"


@pytest.mark.exhaustive(after=1)
def test_files_that_do_not_say_their_language_need_a_model_without_tags(
    untrained: Path, texts: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"has a tag for each of .*give the texts with --text"):
        transduce.train(
            src=[texts / "train.aa"],
            tgt=[texts / "train.bb"],
            out=tmp_path / "out",
            init=untrained,
        )
