"""Settings by the names that they had in version 0.1."""

from pathlib import Path

import pytest

from transduce.config.load import load_config, parse_override, read_recipe, to_yaml
from transduce.config.schema import Config
from transduce.errors import ConfigError

OLD = "run:\n  bleu_sentences: 7\n  choose_by: bleu\n"


def test_a_file_with_old_names_is_read_and_written_with_new_ones(tmp_path: Path) -> None:
    path = tmp_path / "old.yaml"
    path.write_text(OLD)
    config = load_config(path)
    assert (config.run.score_sentences, config.run.choose_by) == (7, "metric")
    assert read_recipe(path) == (None, {"run": {"score_sentences": 7, "choose_by": "metric"}})
    text = to_yaml(config)
    assert "  score_sentences: 7\n" in text
    assert "  choose_by: metric\n" in text
    assert "bleu_sentences" not in text


@pytest.mark.parametrize("name", ["bleu_sentences", "score_sentences"])
def test_a_change_wins_over_a_file_whatever_names_they_use(tmp_path: Path, name: str) -> None:
    for other in ("bleu_sentences", "score_sentences"):
        path = tmp_path / f"{other}.yaml"
        path.write_text(f"run:\n  {other}: 7\n")
        assert load_config(path, [f"run.{name}=8"]).run.score_sentences == 8
        assert load_config(path).with_changes({"run": {name: 9}}).run.score_sentences == 9


def test_changes_and_trees_may_have_old_names() -> None:
    assert parse_override("run.bleu_sentences=3") == {"run": {"score_sentences": 3}}
    assert parse_override("run.choose_by=bleu") == {"run": {"choose_by": "metric"}}
    assert Config.from_tree({"run": {"bleu_sentences": 3}}).run.score_sentences == 3


def test_both_names_at_once_are_refused() -> None:
    message = "run.bleu_sentences is the old name of run.score_sentences: give only the latter"
    with pytest.raises(ConfigError, match=message):
        Config.from_tree({"run": {"bleu_sentences": 3, "score_sentences": 4}})


@pytest.mark.parametrize("tree", [None, 3, {"run": None}, {"run": [1]}, {3: {4: 5}}])
def test_what_is_no_tree_of_settings_is_reported_as_before(tree: object) -> None:
    with pytest.raises(ConfigError):
        Config.from_tree(tree)


def test_a_wrong_value_is_reported_under_the_new_name() -> None:
    with pytest.raises(ConfigError, match=r"run\.score_sentences=-1: must be"):
        Config.from_tree({"run": {"bleu_sentences": -1}})
