"""A run's folder is locked, cleared, resumed and reopened, and knows the data of its run."""

import json
from pathlib import Path

import pytest

from tests.training.folders import DIGESTS, GIVEN, begun, settings_of
from transduce.config.load import load_config
from transduce.config.schema import merge
from transduce.data.corpus import Pair
from transduce.errors import InputError
from transduce.training.run.folder import RunFolder, check_data


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return begun(tmp_path_factory.mktemp("paper") / "run", "paper")


def content(path: Path) -> dict[str, bytes]:
    files = (file for file in path.rglob("*") if file.is_file())
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def test_where_no_run_is_none_has_begun(tmp_path: Path) -> None:
    assert RunFolder(tmp_path / "none").settings() is None
    assert RunFolder(tmp_path).settings() is None


def test_the_start_says_what_the_run_is(paper: RunFolder) -> None:
    provenance = paper.provenance()
    assert provenance["data"] == DIGESTS
    assert provenance["seed"] == 1
    assert provenance["given"] == merge(GIVEN, {"training": {"schedule": "paper"}})
    assert load_config(paper.path / "config.yaml").model.vocab_size == 387
    assert (paper.path / "tokenizer.json").read_text() == "{}"
    assert provenance["split_seed"] == 1
    assert provenance["preset"] is None
    assert provenance["init"] is None


def test_the_start_has_digests_of_the_development_set_and_the_vocabulary(tmp_path: Path) -> None:
    dev = [[Pair("a", "b")], [Pair("a", "b"), Pair("c", "d")], [Pair("c", "d"), Pair("a", "b")]]
    found = []
    for number, pairs in enumerate([*dev, dev[0]]):
        folder = begun(tmp_path / str(number))
        config, tokenizer = settings_of(folder), tmp_path / "tokenizer.json"
        tokenizer.write_text("{}" if number else "[]")
        folder.write_start(
            config, given=GIVEN, tokenizer=tokenizer, digests=DIGESTS, dev_pairs=pairs
        )
        found.append(folder.provenance())
    assert len({one["dev_set"] for one in found}) == 3
    assert found[0]["dev_set"] == found[3]["dev_set"]
    assert [one["tokenizer"] == found[1]["tokenizer"] for one in found] == [False, True, True, True]


def test_runs_of_the_version_before_keep_their_own_split(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    config = settings_of(folder).with_changes({"run": {"seed": 7}})
    assert folder.split_seed(None) == folder.split_seed(config) == 1
    origin = folder.provenance()
    del origin["split_seed"]
    (folder.path / "provenance.json").write_text(json.dumps(origin))
    assert folder.split_seed(config) == 7


@pytest.mark.parametrize("spoilt", ["", "{", "\x00"])
def test_a_damaged_provenance_is_named_with_what_to_do(spoilt: str, tmp_path: Path) -> None:
    folder = begun(tmp_path / "run", "paper")
    (folder.path / "provenance.json").write_text(spoilt)
    with pytest.raises(InputError, match=r"provenance\.json is damaged .*--fresh"):
        folder.given()


def test_data_that_changed_is_named_but_not_what_was_made_of_it(paper: RunFolder) -> None:
    check_data(paper, DIGESTS)
    check_data(paper, {f"moved/{name}": digest for name, digest in DIGESTS.items()})
    check_data(paper, {"a.en": "0a"})
    with pytest.raises(InputError) as caught:
        check_data(paper, {"a.en": "0a", "a.de": "1b", "data/other/dev.src": "1c"})
    assert "started with other data: a.de changed since; restore it" in str(caught.value)
    with pytest.raises(InputError, match=r"other data: moved/a\.en changed since"):
        check_data(paper, {"moved/a.en": "1a"})
    swapped = dict(zip(DIGESTS, [DIGESTS["a.de"], DIGESTS["a.en"], "0c", "0d"], strict=True))
    with pytest.raises(InputError, match=r"other data: a\.en, a\.de changed since"):
        check_data(paper, swapped)


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


def test_a_runs_folder_a_new_one_and_an_empty_one_are_taken(
    paper: RunFolder, tmp_path: Path
) -> None:
    paper.check()
    RunFolder(tmp_path / "new").check()
    (tmp_path / "empty").mkdir()
    RunFolder(tmp_path / "empty").check()


def test_beside_a_log_a_recipe_and_prepared_data_a_run_may_begin(tmp_path: Path) -> None:
    for name in (".gitkeep", "train.log", "slurm-7.out", "small.yaml"):
        (tmp_path / name).touch()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "lock").touch()
    RunFolder(tmp_path).check()


@pytest.mark.parametrize("names", [["a.en"], ["data/a.en"], ["b", "c", "d", "e", "f"]])
def test_a_folder_with_other_things_in_it_is_refused(names: list[str], tmp_path: Path) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    shown = "b, c, d and 2 more" if len(names) > 1 else names[0].partition("/")[0]
    with pytest.raises(InputError, match=f"holds {shown}: choose a new folder with --out"):
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
    config = settings_of(folder)
    folder.resume(config.with_changes({"run": {"device": "cpu"}}), {})
    assert folder.is_finished(), "nothing is left to do"
    assert settings_of(folder).run.device == "cpu"
    (folder.path / "checkpoints" / "step-000000000100").mkdir(parents=True)
    folder.resume(config.with_changes({"training": {"steps": 200}}), {"training.steps": (100, 200)})
    assert not folder.is_finished(), "it goes on"
    assert folder.budget_changes() == ["at step 100: steps 100 → 200"]
