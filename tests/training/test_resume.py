"""A command resumes the run that it describes; what may change, what stays, what is refused."""

import json
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training.folders import GIVEN, begun, settings_of, with_step
from transduce.config.schema import Config, Tree, merge
from transduce.errors import ConfigError, InputError
from transduce.training.request import Request
from transduce.training.run.folder import RunFolder
from transduce.training.run.resume import Resumption, resume, settings_to_resume


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return begun(tmp_path_factory.mktemp("paper") / "run", "paper")


@pytest.fixture(scope="module")
def linear(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return begun(tmp_path_factory.mktemp("linear") / "run", "linear")


def resumption(folder: RunFolder, given_now: Tree, preset: str | None = None) -> Resumption:
    return resume(folder, settings_of(folder), Request(folder.path, given_now, preset))


def taken(folder: RunFolder, given_now: Tree) -> Config:
    return resumption(folder, given_now).config


@pytest.mark.parametrize("given_now", [{}, {"training": {}}, GIVEN, {"data": {"tgt": ["a.de"]}}])
def test_the_same_settings_are_the_same_run(
    given_now: Tree, paper: RunFolder, linear: RunFolder
) -> None:
    assert taken(paper, given_now) == settings_of(paper)
    assert taken(linear, given_now) == settings_of(linear)
    assert resumption(linear, given_now).budgets == {}


def test_what_was_found_out_may_be_given(paper: RunFolder) -> None:
    assert taken(paper, {"model": {"p_drop": 0.3}}) == settings_of(paper)


CHANGES: dict[str, Any] = {
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
OF_ANOTHER_MODEL = {"data.subwords", "data.punctuation", "model.vocab_size", "model.d_model"}


def tree_of(settings: dict[str, Any]) -> Tree:
    tree: Tree = {}
    for name, value in settings.items():
        section, _, key = name.partition(".")
        tree = merge(tree, {section: {key: value}})
    return tree


@given(names=st.sets(st.sampled_from(sorted(CHANGES)), min_size=1))
def test_other_settings_are_refused_and_every_one_is_named_with_what_to_do(
    paper: RunFolder, names: set[str]
) -> None:
    given_now = merge(GIVEN, tree_of({name: CHANGES[name] for name in names}))
    with pytest.raises(ConfigError) as caught:
        taken(paper, given_now)
    message = str(caught.value)
    assert message.startswith(f"{paper.path} holds a run with other settings: ")
    for name, value in CHANGES.items():
        assert (f"{name} is " in message and f" there, not {value}" in message) == (name in names)
    assert "choose another --out, " in message
    assert (f"--init {paper.path} to start from this model" in message) == names.isdisjoint(
        OF_ANOTHER_MODEL
    )
    assert message.endswith(", or start over with --fresh")
    assert "\n" not in message


def test_a_setting_that_is_none_is_called_unknown(paper: RunFolder) -> None:
    with pytest.raises(ConfigError, match=r"unknown setting model\.d_modle \(did you mean"):
        taken(paper, {"model": {"d_modle": 3}})
    with pytest.raises(ConfigError, match=r"training\.steps=-1: must be"):
        taken(paper, {"training": {"steps": -1}})


BUDGETS = {"steps": 200, "epochs": 3.5, "minutes": 10, "patience": 3}


@pytest.mark.parametrize(("name", "value"), BUDGETS.items())
def test_budgets_may_change_whatever_the_schedule(
    name: str, value: float, paper: RunFolder, linear: RunFolder
) -> None:
    given_now = {"training": {name: value}}
    for folder in (paper, linear):
        found = resumption(folder, given_now)
        before = getattr(settings_of(folder).training, name)
        assert found.config == settings_of(folder).with_changes(given_now)
        assert found.budgets == {f"training.{name}": (before, value)}
        shown = "none" if before is None else before
        assert f"the budget is changed at step 0: {name} {shown} → {value}" in found.notes


def test_a_budget_may_be_changed_back_and_the_folder_keeps_every_change(tmp_path: Path) -> None:
    folder = with_step(begun(tmp_path / "run", "linear"), 50)
    for steps in (200, 100):
        found = resumption(folder, {"training": {"steps": steps}})
        assert found.config.training.steps == steps
        folder.resume(found.config, found.budgets)
        assert settings_of(folder) == found.config
    added = resumption(folder, {"training": {"minutes": 7.5}})
    for _ in range(2):  # as if it had been killed before it wrote the settings
        folder.resume(added.config, added.budgets)
    assert folder.budget_changes() == [
        "at step 50: steps 100 → 200",
        "at step 50: steps 200 → 100",
        "at step 50: minutes none → 7.5",
    ]
    assert taken(folder, {}).training.minutes == 7.5, "what is not given stays"
    assert "training.minutes stays 7.5, as the run has it" in resumption(folder, {}).notes


def extended(path: Path, *, given_then: Tree, preset: str | None = None) -> RunFolder:
    """A run whose steps an option has set to 400,000 since its start."""
    folder = with_step(begun(path, given=given_then, preset=preset), 50)
    more = resumption(folder, {"training": {"steps": 400_000}})
    folder.resume(more.config, more.budgets)
    return folder


STAYS = "training.steps stays 400000, as the run has it"


def test_a_preset_gives_no_budget_to_a_run_that_has_one(tmp_path: Path) -> None:
    preset: Tree = Request(tmp_path, {}, "big").settings()
    given_then = merge(preset, {"data": GIVEN["data"]})
    folder = extended(tmp_path / "run", given_then=given_then, preset="big")
    given_now: Tree = {"data": GIVEN["data"], "training": {"schedule": "paper"}}
    found = resumption(folder, given_now, preset="big")
    assert (found.budgets, found.config.training.steps) == ({}, 400_000)
    assert found.notes == (STAYS,)
    steps: Tree = {"training": {"steps": 300_000}}
    assert resumption(folder, merge(given_now, steps), preset="big").budgets == {
        "training.steps": (400_000, 300_000)
    }


@pytest.mark.parametrize(
    ("recipe_says", "options", "expected"),
    [
        (100, {}, 400_000),  # what it said at the start
        (200, {}, 200),
        (100, {"training": {"steps": 100}}, 100),
        (100, {"training": {"steps": 7}}, 7),
    ],
)
def test_a_recipe_gives_a_budget_only_if_it_says_another_than_at_the_start(
    recipe_says: int, options: Tree, expected: int, tmp_path: Path
) -> None:
    folder = extended(tmp_path / "run", given_then=GIVEN)
    recipe_gives = merge(GIVEN, {"training": {"steps": recipe_says, "schedule": "paper"}})
    request = Request(folder.path, merge(recipe_gives, options), options=options)
    found = resume(folder, settings_of(folder), request)
    assert found.config.training.steps == expected
    assert (STAYS in found.notes) == (expected == 400_000)


def test_what_is_left_out_is_said_to_stay(tmp_path: Path) -> None:
    given_then = merge(GIVEN, {"training": {"eps_ls": 0.2}, "run": {"average": 3}})
    folder = begun(tmp_path / "run", given=given_then)
    schedule: Tree = {"training": {"schedule": "paper"}}
    assert resumption(folder, merge(given_then, schedule)).notes == ()
    assert resumption(folder, merge(GIVEN, schedule)).notes == (
        "training.eps_ls stays 0.2, as the run was started",
        "run.average stays 3, as the run was started",
    )
    without_tgt = {"data": {"src": ["a.en"]}, "model": GIVEN["model"]}
    assert "data.tgt stays a.de, as the run was started" in resumption(folder, without_tgt).notes
    assert not [note for note in resumption(folder, {}).notes if note.startswith("data.")]


def test_a_preset_that_is_left_out_is_one_line(tmp_path: Path) -> None:
    preset: Tree = Request(tmp_path, {}, "tiny").settings()
    folder = begun(tmp_path / "run", given=merge(preset, GIVEN), preset="tiny")
    now = merge(GIVEN, {"training": {"schedule": "paper"}})
    assert resumption(folder, now).notes == ("the preset stays tiny, as the run was started",)
    assert resumption(folder, now, preset="tiny").notes == ()


def test_a_run_that_saved_no_step_begins_anew_by_a_complete_command(tmp_path: Path) -> None:
    folder = with_step(begun(tmp_path / "run"), 0)
    other = merge(GIVEN, {"training": {"learning_rate": 0.5}})
    assert settings_to_resume(folder, Request(folder.path, other)) is None
    assert settings_to_resume(folder, Request(folder.path, {})) == settings_of(folder)
    with_step(folder, 3)
    assert settings_to_resume(folder, Request(folder.path, other)) == settings_of(folder)
    assert settings_to_resume(folder, Request(folder.path, other, fresh=True)) is None


def test_a_finished_run_without_checkpoints_is_never_begun_anew(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    (folder.path / "model.safetensors").write_text("weights")
    folder.write_card("# run")
    assert settings_to_resume(folder, Request(folder.path, GIVEN)) == settings_of(folder)
    more = resumption(folder, {"training": {"steps": 200}})
    with pytest.raises(InputError, match=rf"are gone, so it cannot go on: .*--init {folder.path}"):
        folder.resume(more.config, more.budgets)
    assert folder.is_finished()


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
    folder.resume(settings_of(folder).with_changes(given_then), {})
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


# Files are compared by content


def digest_of(path: Path) -> str:
    return blake2b(path.read_bytes(), digest_size=16).hexdigest()


@pytest.fixture
def on_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run on two pairs of files, in the folder that is worked in."""
    monkeypatch.chdir(tmp_path)
    names = ("a.en", "b.en", "a.de", "b.de")
    for name in names:
        Path(name).write_text(f"text of {name}\n")
    given_then: Tree = {"data": {"src": ["a.en", "b.en"], "tgt": ["a.de", "b.de"]}}
    digests = {name: digest_of(Path(name)) for name in names}
    return begun(tmp_path / "run", given=given_then, digests=digests)


def test_the_same_text_elsewhere_is_the_same_run(on_files: RunFolder, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "a.en").rename(elsewhere / "x.en")
    src = [str(elsewhere / "x.en"), "./b.en"]
    found = resumption(on_files, {"data": {"src": src}})
    assert found.config == settings_of(on_files).with_changes({"data": {"src": src}})
    on_files.resume(found.config, found.budgets)
    assert settings_of(on_files).data.src == tuple(src), "it is read from there"
    assert taken(on_files, {"data": {"src": src}}) == found.config


@pytest.mark.parametrize("src", [["b.en", "a.en"], ["a.en"], ["a.en", "b.de"], []])
def test_other_text_is_refused_with_both_names(src: list[str], on_files: RunFolder) -> None:
    with pytest.raises(ConfigError) as caught:
        taken(on_files, {"data": {"src": src}})
    assert f"data.src is a.en, b.en there, not {', '.join(src) or 'none'};" in str(caught.value)


def test_text_that_is_missing_is_named(on_files: RunFolder) -> None:
    with pytest.raises(InputError, match=r"cannot read nope\.en: No such file"):
        taken(on_files, {"data": {"src": ["nope.en", "b.en"]}})


def test_a_vocabulary_and_a_model_to_start_from_are_compared_by_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("one", "same", "other"):
        Path(name).mkdir()
        (tmp_path / name / "model.safetensors").write_text("w" * (1 + (name == "other")))
        (tmp_path / name / "tokenizer.json").write_text("{}" + " " * (name == "other"))
    given_then = merge(GIVEN, {"run": {"init": "one"}, "data": {"tokenizer": "one/tokenizer.json"}})
    digests = {"one/tokenizer.json": digest_of(Path("one/tokenizer.json"))}
    folder = begun(tmp_path / "run", given=given_then, digests=digests)
    for name in ("one", "./one", "same", str(tmp_path / "same")):
        named: Tree = {"run": {"init": name}, "data": {"tokenizer": f"{name}/tokenizer.json"}}
        assert taken(folder, named) == settings_of(folder)
    with pytest.raises(ConfigError, match=r"run\.init is one there, not other;"):
        taken(folder, {"run": {"init": "other"}})
    with pytest.raises(ConfigError, match=r"data\.tokenizer is one/tokenizer\.json there, not oth"):
        taken(folder, {"data": {"tokenizer": "other/tokenizer.json"}})
    (tmp_path / "one" / "model.safetensors").unlink()
    assert taken(folder, {"run": {"init": "one"}}) == settings_of(folder), "it is needed no more"
