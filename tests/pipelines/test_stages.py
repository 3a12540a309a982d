"""The folder of a pipeline: what is refused, and what is shown of its stages."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from transduce.cli.pipelines import stage_display
from transduce.errors import InputError
from transduce.pipelines.stages import DESCRIPTION, PipelineStage, pipeline_folder


def begin(folder: Path, *stages: PipelineStage) -> None:
    with pipeline_folder(folder, "test", stages):
        pass


def test_a_command_of_fewer_stages_forgets_none(tmp_path: Path) -> None:
    """Those of a second round are known after a command of one round."""
    one, two = PipelineStage("1", {"steps": 3}), PipelineStage("2", {"weight": 1})
    begin(tmp_path, one, two)
    (tmp_path / "2").mkdir()
    begin(tmp_path, one)
    with pytest.raises(
        InputError, match=f"was begun with weight 1, not 2: .*, remove {tmp_path}/2"
    ):
        begin(tmp_path, one, PipelineStage("2", {"weight": 2}))


def test_of_nested_settings_those_that_differ_are_named(tmp_path: Path) -> None:
    begin(tmp_path, PipelineStage("run", {"settings": {"training": {"steps": 3, "epochs": 2}}}))
    (tmp_path / "run").mkdir()
    now = {"settings": {"training": {"steps": 3}, "model": {"h": 2}}}
    with pytest.raises(InputError) as refused:
        begin(tmp_path, PipelineStage("run", now))
    assert str(refused.value).startswith(
        f"{tmp_path} was begun with settings.training.epochs 2, not none; settings.model.h none, "
        "not 2: "
    )


def test_what_to_do_about_a_damaged_description_can_be_done(tmp_path: Path) -> None:
    """Without it nothing says what the outcomes are made from, so it cannot be made again."""
    begin(tmp_path, PipelineStage("a", {}))
    (tmp_path / DESCRIPTION).write_text('{"pipeline": "te')
    with pytest.raises(InputError, match=r"is damaged .*: remove the folder, or choose another"):
        begin(tmp_path, PipelineStage("a", {}))


def test_a_terminal_shows_a_stage_before_its_first_line(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    terminal = Console(file=shown, force_terminal=True, width=80)
    monkeypatch.setattr(stage_display, "lasting_console", lambda: terminal)
    with stage_display.showing_stages() as display:
        display.stage("counting pairs")
    assert "counting pairs" in shown.getvalue()
