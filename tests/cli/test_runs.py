"""`transduce runs`: what stands in the folders of runs, side by side."""

import json
import math
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest

from tests.command import Command, Result
from transduce.config.load import load_config, to_yaml
from transduce.config.sections.training import NO_LIMIT
from transduce.training.run.events import Event, Finished, Saved, Scored, Started, Stepped
from transduce.training.run.journal import Journal

OLD_RUN = Path(__file__).parents[1] / "fixtures" / "version_0_1" / "stopped"


class Runs(Protocol):
    """Calls `transduce runs`."""

    def __call__(
        self, *arguments: Path | str, columns: int = 80, cwd: Path | None = None, **environment: str
    ) -> Result: ...


@pytest.fixture
def transduce_runs(command: Command) -> Runs:
    def call(
        *arguments: Path | str, columns: int = 80, cwd: Path | None = None, **environment: str
    ) -> Result:
        env = {"COLUMNS": str(columns)} | environment
        return command("runs", *arguments, folder=cwd, env=env)

    return call


def stepped(step: int, *, speed: float = 12_000.0) -> Stepped:
    return Stepped(step, 2, 0.5, 3.0, 1e-4, 1.0, step * 100, speed, 60.0 * step, 0.5)


def scored(step: int, loss: float, bleu: float | None = None, signature: str = "sig") -> Scored:
    found = Scored(step, loss, math.exp(loss), best=True, seconds=0.0)
    return found if bleu is None else replace(found, metric="BLEU", score=bleu, signature=signature)


def by_metric(event: Scored, *, metric: str = "BLEU", higher_is_better: bool = True) -> Scored:
    """The same scores in a run whose metric decides which weights are the best."""
    return replace(event, best_by="metric", metric=metric, higher_is_better=higher_is_better)


def make_run(
    folder: Path,
    *events: Event,
    settings: list[str] | None = None,
    provenance: dict[str, object] | None = None,
) -> None:
    folder.mkdir(parents=True)
    with Journal(folder / "journal.jsonl") as journal:
        for event in events:
            journal(event)
    (folder / "config.yaml").write_text(to_yaml(load_config("tiny", settings or [])))
    if provenance is not None:
        (folder / "provenance.json").write_text(json.dumps(provenance))


STARTED = Started(0, 10, 10, "cpu", "float32", 1, 0.0)
FINISHED = Finished(90, "all steps were made", "the last", 5025.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_run(
        tmp_path / "small",
        STARTED,
        stepped(30, speed=1.0),
        stepped(60),
        scored(60, 2.5, 20.0),
        stepped(90, speed=20_000.0),
        scored(90, 3.0, 21.25),
        FINISHED,
        settings=["model.d_model=64"],
    )
    make_run(
        tmp_path / "sweep" / "wide",
        STARTED,
        stepped(1200),
        scored(1200, 2.0, 19.5),
        Saved(1200, "checkpoints/1200"),
        settings=["model.d_model=128", "model.norm=pre"],
    )
    make_run(tmp_path / "young", STARTED)
    return tmp_path


def rows(output: str) -> list[list[str]]:
    return [line.split() for line in output.splitlines()]


def test_runs_are_listed_from_the_lowest_dev_loss(folder: Path, transduce_runs: Runs) -> None:
    result = transduce_runs(folder)
    assert (result.code, result.err) == (0, "")
    lines = [" ".join(line.split()) for line in result.out.splitlines()]
    assert lines[0] == "run state steps epochs time dev loss ppl BLEU tokens/s"
    assert lines[2:5] == [
        "sweep/wide * unfinished 1,200 1.5 20:00:00 2.000 7.39 19.50 12,000",
        "small finished 90 1.5 1:23:45 2.500 12.18 21.25 12,000",
        "young unfinished 0 0:00:00",
    ]
    assert "BLEU: sig" in result.out
    assert max(map(len, result.out.splitlines())) <= 80
    assert "\x1b" not in result.out


def test_in_a_process_of_its_own_it_prints_the_same(folder: Path, transduce_runs: Runs) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "transduce", "runs", folder],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"COLUMNS": "80"},  # noqa: TID251 - passed on
    )
    assert (done.stdout, done.stderr) == (transduce_runs(folder).out, "")


def test_only_the_settings_that_differ_are_shown(folder: Path, transduce_runs: Runs) -> None:
    settings = rows(transduce_runs(folder).out)[8:]
    assert settings[:1] + settings[2:] == [
        ["run", "model.d_model", "model.norm"],  # and not d_k and d_v, which follow
        ["sweep/wide", "128", "pre"],
        ["small", "64", "post"],
        ["young", "128", "post"],
    ]


def test_a_setting_that_follows_in_one_run_only_is_shown(
    folder: Path, transduce_runs: Runs
) -> None:
    make_run(folder / "given", STARTED, settings=["model.d_k=32", "model.d_v=32"])
    assert "model.d_k" not in transduce_runs(folder / "given").out
    assert "model.d_k" in transduce_runs(folder).out


def test_many_settings_are_said_in_words(folder: Path, transduce_runs: Runs) -> None:
    make_run(folder / "changed", STARTED, settings=["training.steps=7", "training.eps_ls=0.0"])
    table = rows(transduce_runs(folder, columns=60).out)
    settings = table[table.index(["run", "settings", "that", "differ"]) + 2 :]
    assert settings[0][:4] == ["most", "runs", "model.d_model=128", "model.norm=post"]
    [wide] = [number for number, row in enumerate(settings) if row[0] == "sweep/wide"]
    assert settings[wide : wide + 4] == [
        ["sweep/wide", "model.norm=pre"],
        ["small", "model.d_model=64"],
        ["changed", "training.eps_ls=0.0", "training.steps=7"],
        ["young", "the", "same"],
    ]


def test_most_runs_have_only_what_more_than_half_of_them_have(
    tmp_path: Path, transduce_runs: Runs
) -> None:
    for number, run in enumerate("abc", start=1):
        own = [f"training.warmup_steps={number}", f"training.eps_ls={5 if run == 'c' else 3}e-1"]
        make_run(tmp_path / run, STARTED, settings=[*own, f"training.batch_tokens={number}00"])
    output = transduce_runs(tmp_path, columns=60).out
    assert ["most", "runs", "training.eps_ls=0.3"] in rows(output)
    for number in (1, 2, 3):
        assert output.count(f"training.warmup_steps={number}") == 1
    assert "the same" not in output


def test_no_limit_is_said_in_words(tmp_path: Path, transduce_runs: Runs) -> None:
    """Beside a budget in minutes, the maximum of the steps is a number that means none."""
    make_run(tmp_path / "a", STARTED, settings=[f"training.steps={NO_LIMIT}", "training.minutes=2"])
    make_run(tmp_path / "b", STARTED, settings=["training.steps=7"])
    output = transduce_runs(tmp_path).out
    assert str(NO_LIMIT) not in output
    settings = rows(output)[-2:]
    assert sorted(settings) == [["a", "none", "2.0"], ["b", "7", "none"]]
    raw = json.loads(transduce_runs(tmp_path, "--json").out)["runs"]
    assert {run["settings"]["training"]["steps"] for run in raw} == {NO_LIMIT, 7}


def test_losses_of_a_sample_and_of_all_are_told_apart(tmp_path: Path, transduce_runs: Runs) -> None:
    make_run(tmp_path / "a", scored(1, 2.0), provenance=scored_on("d"))
    make_run(tmp_path / "b", scored(1, 2.1), provenance=scored_on("d") | {"loss_pairs": 5000})
    assert "dev losses of samples of the development set differ" in transduce_runs(tmp_path).out


def test_a_single_run_may_be_given_by_its_own_folder(folder: Path, transduce_runs: Runs) -> None:
    result = transduce_runs(folder / "small")
    assert rows(result.out)[2][:3] == ["small", "*", "finished"]
    assert "model." not in result.out


def test_a_run_that_went_on_after_its_end_is_unfinished(
    tmp_path: Path, transduce_runs: Runs
) -> None:
    make_run(tmp_path / "a", FINISHED, replace(STARTED, step=90), stepped(91))
    assert rows(transduce_runs(tmp_path).out)[2][:3] == ["a", "unfinished", "91"]


def test_what_cannot_be_compared_is_said(tmp_path: Path, transduce_runs: Runs) -> None:
    make_run(tmp_path / "a", scored(1, 2.0, 20.0, "tok:13a"), settings=["model.vocab_size=50"])
    make_run(tmp_path / "b", scored(1, 2.0, 20.0, "tok:char"))
    output = transduce_runs(tmp_path).out
    assert "BLEU: tok:13a; tok:char\nBLEU scores with different signatures cannot" in output
    assert "they cannot be compared between different vocabularies" in output


def test_runs_that_chose_by_a_metric_are_compared_by_it(
    tmp_path: Path, transduce_runs: Runs
) -> None:
    make_run(tmp_path / "a", by_metric(scored(1, 2.0, 20.0)), by_metric(scored(2, 1.0, 19.0)))
    make_run(tmp_path / "b", by_metric(scored(1, 3.0, 21.0)))
    output = transduce_runs(tmp_path).out
    assert [row[0] for row in rows(output)[2:4]] == ["b", "a"]
    assert rows(output)[2][:2] == ["b", "*"]
    assert rows(output)[3][3:6] == ["1.000", "2.72", "20.00"], "each the best of the run"
    assert "* best dev BLEU; scores are each run's best" in output


def test_a_lower_error_rate_is_better(tmp_path: Path, transduce_runs: Runs) -> None:
    for name, rate in (("a", 30.0), ("b", 20.0), ("c", 40.0)):
        event = by_metric(scored(1, rate, rate, ""), metric="WER", higher_is_better=False)
        worse = replace(event, step=2, loss=1.0, score=99.0)
        make_run(tmp_path / name, event, worse)
    output = transduce_runs(tmp_path).out
    assert [row[0] for row in rows(output)[2:5]] == ["b", "a", "c"]
    assert "WER" in rows(output)[0]
    assert "20.00" in rows(output)[2]
    assert "* best dev WER" in output


@pytest.mark.parametrize("other", ["WER", "BLEU"])
def test_runs_with_different_metrics_or_signatures_are_compared_by_the_loss(
    tmp_path: Path, other: str, transduce_runs: Runs
) -> None:
    make_run(tmp_path / "a", by_metric(scored(1, 2.0, 20.0, "one")))
    make_run(tmp_path / "b", by_metric(scored(1, 1.0, 10.0, "two"), metric=other))
    output = transduce_runs(tmp_path).out
    assert rows(output)[2][:2] == ["b", "*"]
    assert "* lowest dev loss" in output
    told = {
        "WER": "runs with different metrics cannot be compared by them",
        "BLEU": "BLEU scores with different signatures cannot be compared",
    }
    assert told[other] in output
    heading = rows(output)[0]
    assert [name for name in heading if name in told] == sorted({"BLEU", other})


def test_runs_of_version_0_1_are_listed_beside_new_ones(
    tmp_path: Path, transduce_runs: Runs
) -> None:
    make_run(tmp_path / "new", scored(1, 9.0, 20.0))
    shutil.copytree(OLD_RUN, tmp_path / "old")
    result = transduce_runs(tmp_path)
    assert (result.code, result.err) == (0, "")
    assert rows(result.out)[3][:5] == ["2", "old", "*", "unfinished", "16"]
    assert "0.00" in rows(result.out)[3]
    assert "group 1: development set unknown: it has no provenance.json" in result.out
    assert "group 2: development set 49bfb0f9; vocabulary eee0bc65" in result.out


def test_what_is_not_finite_is_no_best(tmp_path: Path, transduce_runs: Runs) -> None:
    make_run(tmp_path / "a", replace(stepped(1), seconds=math.nan), scored(1, math.nan))
    make_run(tmp_path / "b", stepped(1), scored(1, 9.0))
    table = rows(transduce_runs(tmp_path).out)
    assert table[2][:2] == ["b", "*"]
    assert table[3] == ["a", "unfinished", "1", "1.5", "?", "12,000"]


NONSENSE = [b"\xff\xfe\x00", b"{}\n{}\n", b"[1]\n[1]\n", b"no json\nat all\n", b"", b"\n\n\n"]


@pytest.mark.exhaustive(after=5)
@pytest.mark.parametrize("file", ["journal.jsonl", "config.yaml"])
@pytest.mark.parametrize("content", [*NONSENSE, None])
def test_nonsense_in_a_run_hides_no_other(
    folder: Path, file: str, content: bytes | None, transduce_runs: Runs
) -> None:
    path = folder / "young" / file
    path.unlink()
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    result = transduce_runs(folder)
    assert result.code == 0
    assert "small" in result.out
    assert "sweep/wide" in result.out
    if result.err:
        assert result.err.count("\n") == 1
        assert file in result.err
        assert result.err.startswith(("young is left out: ", "young is listed without its"))
    assert ("young" in result.out) == ("left out" not in result.err)


def test_a_run_whose_settings_are_of_another_version_is_listed(
    folder: Path, transduce_runs: Runs
) -> None:
    (folder / "young" / "config.yaml").write_text("model:\n  flavour: sweet\n")
    result = transduce_runs(folder)
    assert result.err.startswith("young is listed without its settings: unknown setting")
    assert rows(result.out)[4][0] == "young"
    assert rows(result.out)[-1] == ["young", "?", "?"]


def test_names_are_shown_as_they_are_but_for_control_codes(
    tmp_path: Path, transduce_runs: Runs
) -> None:
    make_run(tmp_path / "[red]a", STARTED)
    make_run(tmp_path / "b\x1b[31m", STARTED)
    output = transduce_runs(tmp_path).out
    assert "[red]a" in output
    assert "b\\x1b[31m" in output
    assert "\x1b" not in output


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none", "none does not exist; give a folder with runs"),
        ("file", "file is a file; give a folder with runs"),
        ("empty", "a run is a folder with a journal.jsonl: 'transduce train' makes one"),
        ("broken", "none of the runs in"),
    ],
)
def test_where_there_are_no_runs_one_line_says_what_to_do(
    tmp_path: Path, name: str, message: str, transduce_runs: Runs
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty" / "folder").mkdir(parents=True)
    (tmp_path / "broken" / "journal.jsonl").mkdir(parents=True)
    result = transduce_runs(tmp_path / name)
    assert (result.code, result.out) == (2, "")
    assert message in result.err.splitlines()[-1]
    assert result.err.splitlines()[-1].startswith("transduce: ")
    assert result.err.count("\n") == (2 if name == "broken" else 1)


def test_comparing_needs_no_torch(folder: Path) -> None:
    program = """
import sys
from pathlib import Path
from transduce.cli.runs import list_runs
assert "rich" not in sys.modules
list_runs([Path(sys.argv[1])])
assert not {"torch", "numpy", "matplotlib"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program, folder], capture_output=True, check=True)


def scored_on(dev_set: str, vocabulary: str = "v1") -> dict[str, object]:
    return {"dev_set": dev_set, "tokenizer": vocabulary}


def test_runs_with_other_development_sets_are_not_ranked_with_each_other(
    tmp_path: Path, transduce_runs: Runs
) -> None:
    make_run(tmp_path / "a", scored(1, 3.0, 20.0), provenance=scored_on("d1"))
    make_run(tmp_path / "b", scored(1, 2.0, 30.0), provenance=scored_on("d2"))
    make_run(tmp_path / "c", scored(1, 2.5, 25.0), provenance=scored_on("d1"))
    output = transduce_runs(tmp_path).out
    assert [row[:3] for row in rows(output)[2:5]] == [
        ["1", "c", "*"],
        ["1", "a", "unfinished"],
        ["2", "b", "*"],
    ]
    assert "* lowest dev loss of its group;" in output
    assert "of different groups cannot be compared: they have other development sets\n" in output
    assert "group 1: development set d1; vocabulary v1\ngroup 2: development set d2;" in output


def test_runs_with_other_vocabularies_are_compared_by_a_metric_only(
    tmp_path: Path, transduce_runs: Runs
) -> None:
    """Also if the vocabularies have one size, so that no setting differs."""
    folder = tmp_path / "by loss"
    make_run(folder / "a", scored(1, 2.0, 20.0), provenance=scored_on("d", "v1"))
    make_run(folder / "b", scored(1, 3.0, 20.0), provenance=scored_on("d", "v2"))
    output = transduce_runs(folder).out
    assert [row[:3] for row in rows(output)[2:4]] == [["1", "a", "*"], ["2", "b", "*"]]
    assert "cannot be compared: they have other vocabularies" in output
    folder = tmp_path / "by metric"
    make_run(folder / "a", by_metric(scored(1, 2.0, 20.0)), provenance=scored_on("d", "v1"))
    make_run(folder / "b", by_metric(scored(1, 3.0, 21.0)), provenance=scored_on("d", "v2"))
    output = transduce_runs(folder).out
    assert [row[:2] for row in rows(output)[2:4]] == [["b", "*"], ["a", "unfinished"]]
    assert "group" not in output
    assert "dev losses are per token: they cannot be compared between different" in output


def test_a_metric_of_other_numbers_of_sentences_ranks_no_runs(
    tmp_path: Path, transduce_runs: Runs
) -> None:
    for name, loss, bleu, sentences in (("a", 2.0, 10.0, 100), ("b", 3.0, 20.0, 500)):
        make_run(
            tmp_path / name,
            by_metric(scored(1, loss, bleu)),
            settings=[f"run.score_sentences={sentences}"],
            provenance=scored_on("d"),
        )
    output = transduce_runs(tmp_path).out
    assert rows(output)[2][:2] == ["a", "*"]
    assert "* lowest dev loss" in output
    assert "BLEU scores of these runs are of different numbers of sentences" in output


def test_runs_without_a_recorded_development_set_are_known_by_its_files(
    tmp_path: Path, transduce_runs: Runs
) -> None:
    cached = "data/dev-0/dev."
    for name, digest in (("a", "1111"), ("b", "1111"), ("c", "2222")):
        data = {"x.en": name, f"{name}/{cached}src": digest, f"{name}/{cached}tgt": digest}
        data[f"{name}/data/subwords-0/tokenizer.json"] = "v1"
        make_run(tmp_path / name, scored(1, 2.0), provenance={"data": data})
    table = rows(transduce_runs(tmp_path).out)
    assert [row[:2] for row in table[2:5]] == [["1", "a"], ["1", "b"], ["2", "c"]]


def test_json_holds_what_the_table_shows_and_every_score(
    folder: Path, transduce_runs: Runs
) -> None:
    result = transduce_runs(folder, "--json")
    assert result.code == 0, result.err
    found = json.loads(result.out, parse_constant=lambda name: pytest.fail(name))
    [group] = found["groups"]
    assert (group["best"], group["ranked_by"]) == ("sweep/wide", "dev loss")
    assert (
        [run["run"] for run in found["runs"]] == group["runs"] == ["sweep/wide", "small", "young"]
    )
    small = found["runs"][1]
    assert (small["steps"], small["finished"], small["seconds"]) == (90, True, 5025.0)
    assert [(score["step"], score["loss"], score["score"]) for score in small["scores"]] == [
        (60, 2.5, 20.0),
        (90, 3.0, 21.25),
    ]
    assert small["best_by_loss"]["step"] == 60
    assert [score["score"] for score in small["best_by_metric"]] == [21.25]
    assert small["settings"]["model"]["d_model"] == 64


def test_json_of_what_is_not_finite(tmp_path: Path, transduce_runs: Runs) -> None:
    make_run(tmp_path / "a", replace(stepped(1), seconds=math.nan), scored(1, math.nan))
    [run] = json.loads(transduce_runs(tmp_path, "--json").out)["runs"]
    assert (run["seconds"], run["scores"][0]["loss"], run["best_by_loss"]) == (None, None, None)


def test_several_folders_are_compared_by_their_paths(folder: Path, transduce_runs: Runs) -> None:
    result = transduce_runs("small", "sweep", "./small", cwd=folder)
    names = [row[0] for row in rows(result.out)[2:4]]
    assert names == ["sweep/wide", "small"], "each once"


def test_overlaid_curves_are_drawn(folder: Path, tmp_path: Path, transduce_runs: Runs) -> None:
    make_run(folder / "other", scored(10, 2.0, 9.0), provenance=scored_on("d2"))
    drawn = transduce_runs(folder, "--png", tmp_path / "all.svg")
    assert (drawn.code, drawn.err) == (0, f"curves: {tmp_path / 'all.svg'}\n")
    assert (tmp_path / "all.svg").read_text(encoding="utf-8").startswith("<?xml")
    refused = transduce_runs(folder, "--png", tmp_path / "all.jpeg")
    assert (refused.code, refused.out) == (2, "")
    assert "its name must end in .png" in refused.err


def test_what_matplotlib_says_of_fonts_is_not_shown(
    folder: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It says so for every text it draws where one of several fonts is not found."""
    fonts = ["No Such Font", "DejaVu Sans"], ""
    monkeypatch.setattr("transduce.analysis.overlaid_curves.fonts_for", lambda _texts: fonts)
    picture = folder / "all.png"
    done = command("runs", folder, "--png", picture)
    assert (done.code, done.err) == (0, f"curves: {picture}\n")
    assert caplog.records == []


def test_two_runs_are_not_compared_with_most_runs(tmp_path: Path, command: Command) -> None:
    names = ("training.warmup_steps", "training.learning_rate", "training.batch_tokens")
    for run, number in (("one", 1), ("two", 2)):
        make_run(tmp_path / run, STARTED, settings=[f"{name}={number}" for name in names])
    two = command("runs", tmp_path, env={"COLUMNS": "60"}).out
    assert "most runs" not in two
    assert "the same" not in two
    assert [two.count(f"training.warmup_steps={number}") for number in (1, 2)] == [1, 1]
    make_run(tmp_path / "three", STARTED)
    (tmp_path / "three/config.yaml").write_text(to_yaml(load_config("rnn_small")))
    three = command("runs", tmp_path).out
    assert "most runs" in three
    assert "=  " not in three, "no empty values"
    assert "model.kind=rnn" in three
