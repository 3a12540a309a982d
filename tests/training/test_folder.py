"""A run's folder knows its run: the same run resumes, another is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.config.load import load_config
from transduce.config.schema import Config, Tree, merge
from transduce.errors import ConfigError, InputError
from transduce.training.run.folder import RunFolder, check_data, resumed_settings

GIVEN: Tree = {
    "data": {"src": ["a.en"], "tgt": "a.de"},
    "model": {"vocab_size": 400, "d_model": 32},
    "training": {"steps": 100},
}
FOUND_OUT: Tree = {"model": {"vocab_size": 387, "p_drop": 0.3}, "training": {"patience": 10}}
DIGESTS = {"a.en": "0a", "a.de": "0b", "data/dev/dev.src": "0c", "data/tokenizer.json": "0d"}


def begun(path: Path, schedule: str) -> RunFolder:
    given = merge(GIVEN, {"training": {"schedule": schedule}})
    tokenizer = path.parent / "tokenizer.json"
    tokenizer.write_text("{}")
    folder = RunFolder(path)
    with folder.locked():
        folder.write_start(
            Config.from_tree(merge(given, FOUND_OUT)),
            given=given,
            tokenizer=tokenizer,
            digests=DIGESTS,
        )
    return folder


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return begun(tmp_path_factory.mktemp("paper") / "run", "paper")


@pytest.fixture(scope="module")
def linear(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return begun(tmp_path_factory.mktemp("linear") / "run", "linear")


def settings_of(folder: RunFolder) -> Config:
    config = folder.settings()
    assert config is not None
    return config


def taken(folder: RunFolder, given_now: Tree) -> Config:
    return resumed_settings(folder, settings_of(folder), given_now)


def content(path: Path) -> dict[str, bytes]:
    files = (file for file in path.rglob("*") if file.is_file())
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def test_where_no_run_is_none_has_begun(tmp_path: Path) -> None:
    assert RunFolder(tmp_path / "none").settings() is None
    assert RunFolder(tmp_path).settings() is None


@pytest.mark.parametrize("given_now", [{}, {"training": {}}, GIVEN, {"data": {"tgt": ["a.de"]}}])
def test_the_same_settings_are_the_same_run(
    given_now: Tree, paper: RunFolder, linear: RunFolder
) -> None:
    assert taken(paper, given_now) == settings_of(paper)
    assert taken(linear, given_now) == settings_of(linear)


def test_what_was_found_out_may_be_given(paper: RunFolder) -> None:
    assert taken(paper, {"model": {"p_drop": 0.3}}) == settings_of(paper)


CHANGES: dict[str, Any] = {
    "data.src": "b.en",
    "data.clean": False,
    "data.subwords": "unigram",
    "data.punctuation": "plain",
    "model.vocab_size": 500,
    "model.d_model": 64,
    "model.p_drop": 0.1,
    "training.batch_tokens": 77,
    "training.learning_rate": 0.5,
    "run.seed": 2,
    "run.average": 9,
    "run.ema_decay": 0.5,
    "run.checkpoint_steps": 5,
    "run.precision": "bf16",
}


def tree_of(settings: dict[str, Any]) -> Tree:
    tree: Tree = {}
    for name, value in settings.items():
        section, _, key = name.partition(".")
        tree = merge(tree, {section: {key: value}})
    return tree


@given(names=st.sets(st.sampled_from(sorted(CHANGES)), min_size=1))
def test_other_settings_are_refused_and_every_one_is_named(
    paper: RunFolder, names: set[str]
) -> None:
    given_now = merge(GIVEN, tree_of({name: CHANGES[name] for name in names}))
    with pytest.raises(ConfigError) as caught:
        taken(paper, given_now)
    message = str(caught.value)
    assert message.startswith(f"{paper.path} holds a run with other settings: ")
    for name, value in CHANGES.items():
        assert (f"{name} is " in message and f" there, not {value}" in message) == (name in names)
    assert message.endswith("choose another --out, or start over with --fresh")
    assert "\n" not in message


def test_a_setting_that_is_none_is_called_unknown(paper: RunFolder) -> None:
    with pytest.raises(ConfigError, match=r"unknown setting model\.d_modle \(did you mean"):
        taken(paper, {"model": {"d_modle": 3}})
    with pytest.raises(ConfigError, match=r"training\.steps=-1: must be"):
        taken(paper, {"training": {"steps": -1}})


BUDGETS = {"steps": 200, "epochs": 3.5, "minutes": 10, "patience": 3}


@pytest.mark.parametrize(("name", "value"), BUDGETS.items())
def test_budgets_may_change_unless_the_rate_was_planned_for_them(
    name: str, value: float, paper: RunFolder, linear: RunFolder
) -> None:
    given_now = {"training": {name: value}}
    changed = taken(paper, given_now)
    assert changed == settings_of(paper).with_changes(given_now)
    assert getattr(changed.training, name) == value
    with pytest.raises(ConfigError, match=rf"training\.{name} is .* there, not {value}"):
        taken(linear, given_now)


def test_a_budget_may_be_changed_back(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run", "paper")
    for steps in (200, 100):
        config = taken(folder, {"training": {"steps": steps}})
        assert config.training.steps == steps
        folder.reopen(config)
        assert settings_of(folder) == config
    folder.reopen(taken(folder, {"training": {"steps": 200}}))
    assert taken(folder, {}).training.steps == 200, "what is not given stays"


@pytest.mark.parametrize(
    "given_now",
    [{"device": "cpu"}, {"save_minutes": 1.0}, {"score_sentences": 0}, {"bleu_sentences": 0}],
)
def test_how_it_is_computed_may_change(
    given_now: Tree, paper: RunFolder, linear: RunFolder
) -> None:
    for folder in (paper, linear):
        changed = taken(folder, {"run": given_now})
        assert changed == settings_of(folder).with_changes({"run": given_now})


def by_metric(path: Path, given_then: Tree) -> RunFolder:
    """A run that was also given these settings."""
    folder = begun(path, "paper")
    provenance = folder.provenance()
    provenance["given"] = merge(provenance["given"], given_then)
    (path / "provenance.json").write_text(json.dumps(provenance))
    folder.reopen(settings_of(folder).with_changes(given_then))
    return folder


OLD_NAMES: Tree = {"run": {"choose_by": "bleu", "bleu_sentences": 7}}
NEW_NAMES: Tree = {"run": {"choose_by": "metric", "score_sentences": 7}}


@pytest.mark.parametrize("given_then", [OLD_NAMES, NEW_NAMES])
@pytest.mark.parametrize("given_now", [OLD_NAMES, NEW_NAMES, {}])
def test_settings_under_their_old_names_are_the_same_settings(
    tmp_path: Path, given_then: Tree, given_now: Tree
) -> None:
    folder = by_metric(tmp_path / "run", given_then)
    config = tmp_path / "run" / "config.yaml"
    if given_then is OLD_NAMES:  # as version 0.1 wrote it
        text = config.read_text(encoding="utf-8")
        text = text.replace("score_sentences: 7", "bleu_sentences: 7")
        config.write_text(text.replace("choose_by: metric", "choose_by: bleu"), encoding="utf-8")
    resumed = taken(folder, given_now)
    assert (resumed.run.choose_by, resumed.run.score_sentences) == ("metric", 7)
    other = {"run": {"choose_by": "loss"}}
    with pytest.raises(ConfigError, match=r"run\.choose_by is metric there, not loss"):
        taken(folder, other)


def test_what_a_metric_is_computed_on_stays_where_it_decides(tmp_path: Path) -> None:
    folder = by_metric(tmp_path / "run", NEW_NAMES)
    with pytest.raises(ConfigError, match=r"run\.score_sentences is 7 there, not 8"):
        taken(folder, {"run": {"bleu_sentences": 8}})


def test_the_start_says_what_the_run_is(paper: RunFolder) -> None:
    provenance = paper.provenance()
    assert provenance["data"] == DIGESTS
    assert provenance["seed"] == 1
    assert provenance["given"] == merge(GIVEN, {"training": {"schedule": "paper"}})
    assert load_config(paper.path / "config.yaml").model.vocab_size == 387
    assert (paper.path / "tokenizer.json").read_text() == "{}"


@pytest.mark.parametrize("spoilt", ["", "{", "\x00"])
def test_a_damaged_provenance_is_named_with_what_to_do(spoilt: str, tmp_path: Path) -> None:
    folder = begun(tmp_path / "run", "paper")
    (folder.path / "provenance.json").write_text(spoilt)
    with pytest.raises(InputError, match=r"provenance\.json is damaged .*--fresh"):
        taken(folder, {})


def test_data_that_changed_is_named_but_not_what_was_made_of_it(paper: RunFolder) -> None:
    check_data(paper, DIGESTS)
    check_data(paper, {f"moved/{name}": digest for name, digest in DIGESTS.items()})
    check_data(paper, {"a.en": "0a"})
    with pytest.raises(InputError) as caught:
        check_data(paper, {"a.en": "0a", "a.de": "1b", "data/other/dev.src": "1c"})
    assert "started with other data: a.de changed since; restore it" in str(caught.value)
    with pytest.raises(InputError, match=r"other data: moved/a\.en changed since"):
        check_data(paper, {"moved/a.en": "1a"})


def test_only_one_run_at_a_time_is_in_a_folder(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "a" / "run")
    with folder.locked():
        with (
            pytest.raises(InputError, match=r"another process is training in .*run: wait for it"),
            RunFolder(folder.path).locked(),
        ):
            pytest.fail("two at once")
        with RunFolder(tmp_path / "other").locked():
            pass
    with folder.locked():
        pass


def test_what_goes_wrong_in_a_run_is_not_taken_for_a_locked_folder(tmp_path: Path) -> None:
    for fault in (BlockingIOError("a pipe"), FileExistsError("a file")):
        with pytest.raises(type(fault), match=str(fault)), RunFolder(tmp_path).locked():
            raise fault


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"file is a file: --out names a folder"):
        RunFolder(tmp_path / "file").check()
    with (
        pytest.raises(InputError, match=r"cannot write in .*file/run: Not a directory"),
        RunFolder(tmp_path / "file" / "run").locked(),
    ):
        pytest.fail("no folder")


@pytest.mark.parametrize("name", ["README.md", "config.yaml", "model.safetensors", "checkpoints/x"])
def test_what_is_not_a_runs_is_never_replaced(name: str, tmp_path: Path) -> None:
    mine = tmp_path / name
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    with pytest.raises(InputError, match="is not the folder of a run but holds"):
        RunFolder(tmp_path).check()
    assert content(tmp_path) == {name: b"mine"}


def test_a_runs_folder_an_empty_one_and_one_with_text_are_taken(
    paper: RunFolder, tmp_path: Path
) -> None:
    paper.check()
    RunFolder(tmp_path / "new").check()
    (tmp_path / "a.en").touch()
    (tmp_path / "data").mkdir()
    RunFolder(tmp_path).check()


def test_a_folder_whose_clearing_was_cut_short_is_still_a_runs(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run", "paper")
    (folder.path / "provenance.json").unlink()
    folder.check()
    assert folder.settings() is None


def test_clearing_removes_the_run_but_neither_its_data_nor_the_users_files(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run", "paper")
    for name in ("model.safetensors", "journal.jsonl", "curves.png", "checkpoints/s", "data/d"):
        (folder.path / name).parent.mkdir(exist_ok=True)
        (folder.path / name).write_text("of the run")
    folder.write_card("# run")
    (folder.path / "notes.txt").write_text("of the user")
    folder.clear()
    assert set(content(folder.path)) == {"lock", "data/d", "notes.txt"}
    assert folder.settings() is None
    assert not folder.is_finished()
    folder.clear()


def test_a_run_is_finished_with_its_card_and_its_weights(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run", "paper")
    assert not folder.is_finished()
    (folder.path / "model.safetensors").write_text("weights")
    assert not folder.is_finished()
    folder.write_card("# run")
    assert folder.is_finished()
    folder.reopen(settings_of(folder))
    assert not folder.is_finished(), "it goes on"
