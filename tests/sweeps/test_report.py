"""The report of a sweep: its table, records and pictures, with whatever is done by then."""

import csv
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import pytest

from tests.command import Command
from tests.sweeps.made_up import REFERENCES, make_run, sweep, with_errors
from tests.sweeps.small_sweeps import small_plan, write_texts
from transduce.analysis import pictures
from transduce.config.presets import preset_named
from transduce.models.model_files import WEIGHTS
from transduce.models.transformer.settings import TransformerConfig
from transduce.sweeps import report
from transduce.sweeps.file import read_sweep_file
from transduce.sweeps.plan import SweepPlan, make_plan, write_plan
from transduce.sweeps.report import write_report
from transduce.sweeps.reporting.table3 import TABLE_3
from transduce.sweeps.running.translations import SweepTranslation
from transduce.sweeps.running.worker import TrainJob, train_run
from transduce.training.request import Request
from transduce.translation.options import Translation

RECIPES = sorted((Path(__file__).parents[2] / "recipes" / "sweeps").glob("*.yaml"))


@pytest.fixture
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "available", lambda: False)


def cells(text: str, table: int = 0) -> list[dict[str, str]]:
    """Return the rows of a table of a report, by heading."""
    tables = [part for part in text.split("\n\n") if part.startswith("| ")]
    lines = [line.replace("\\|", "/")[1:-1].split("|") for line in tables[table].splitlines()]
    heads, _, *rows = [[cell.strip() for cell in line] for line in lines]
    return [dict(zip(heads, row, strict=True)) for row in rows]


def table_of(plan: SweepPlan) -> str:
    [table, *_] = write_report(plan).files
    return table.read_text(encoding="utf-8")


HEADS = [
    {"name": "base", "seeds": [1, 2]},
    {"name": "base_h1", "set": {"model.h": 1}},
    {"name": "base_n2", "set": {"model.n_layers": 1}},
    {"name": "base_ls0", "set": {"training.eps_ls": 0.0}},
    {"name": "pre", "set": {"model.norm": "pre"}},
]


@pytest.fixture
def plan(tmp_path: Path) -> SweepPlan:
    """A sweep with two seeds of the base; one row has not begun."""
    plan = sweep(tmp_path / "mine", variations=HEADS)
    for run, (loss, errors) in zip(
        plan.runs, ((1.0, 2), (1.1, 3), (1.5, 7), (2.0, 9), (0.9, 8)), strict=False
    ):
        make_run(run, loss=loss, bleu=30 - 5 * loss, hypotheses=with_errors(errors))
    return plan


@pytest.mark.usefixtures("without_pictures")
def test_the_table_has_the_columns_of_table_3(plan: SweepPlan) -> None:
    text = table_of(plan)
    assert text.startswith(
        "# mine\n\n5 of 6 runs finished; 1 not begun. Base: tiny. Budget of each run: 100 steps.\n"
    )
    head = next(line for line in text.splitlines() if line.startswith("| "))
    assert head == (
        "|  | row | N | h | d_k | d_v | ε_ls | model.norm | steps | PPL | BLEU, seen | "
        "against base | BLEU, dev | params | seeds | paper PPL | paper BLEU |"
    )
    base, one_head, shallow, _, pre = text.split("\n\n")[2].splitlines()[2:]
    mean = (math.exp(1.0) + math.exp(1.1)) / 2
    assert base.startswith(
        f"|  | base | 2 | 4 | 32 | 32 | 0.1 | post | 100 | {mean:.2f} ± 0.20 | **"
    )
    assert base.endswith("| 1.00M | 2 | 4.92 | 25.8 |")
    assert one_head.startswith("| (A) | base_h1 |  | 1 | 128 | 128 |  |  | 100 | 4.48 | ")
    assert shallow.startswith("| (C) | base_n2 | 1 |  |  |  |  |  | 100 | 7.39 | ")
    assert pre == "|  | pre |  |  |  |  |  | pre |  |  |  |  |  |  | 0 of 1 |  |  |"


@pytest.mark.usefixtures("without_pictures")
def test_the_best_is_bold_and_every_score_has_its_signature(plan: SweepPlan) -> None:
    text = table_of(plan)
    assert text.count("| **") == 3, "the best perplexity, test and development score"
    assert "| **2.46** |" in text, "the lowest perplexity"
    assert "- BLEU on seen: `nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:" in text
    assert "- BLEU on dev by greedy search: `dev signature`" in text
    assert "beam 4, α 0.6" in text
    assert "(p = 0." in text
    assert "paired bootstrap of the means over seeds, 1,000 resamples" in text


@pytest.mark.usefixtures("without_pictures")
def test_the_order_of_rows_is_compared_with_the_papers(plan: SweepPlan) -> None:
    """Perplexities have the paper's order; BLEU has base_h1 and base_ls0 the other way round."""
    text = table_of(plan)
    assert "rank correlation of our perplexity with the paper's, over 4 rows: ρ = 1.00 (" in text
    assert "rank correlation of our BLEU with the paper's, over 4 rows: ρ = 0.80 (" in text
    assert "95 % of draws of our scores with the noise of seeds" in text
    assert "Seeds alone give BLEU on seen a standard deviation of" in text


@pytest.mark.usefixtures("without_pictures")
def test_without_several_seeds_the_noise_is_said_to_be_unknown(tmp_path: Path) -> None:
    plan = sweep(tmp_path, variations=HEADS[1:4])
    for number, run in enumerate(plan.runs):
        make_run(run, loss=1.0 + number, hypotheses=with_errors(number))
    text = table_of(plan)
    assert "± " not in text
    assert "how much of a difference is chance is not known" in text
    assert "its noise is not known without several seeds" in text


@pytest.mark.usefixtures("without_pictures")
def test_equal_scores_have_no_p_value_and_no_noise(tmp_path: Path) -> None:
    plan = sweep(tmp_path, variations=HEADS[:2])
    for run in plan.runs:
        make_run(run, hypotheses=with_errors(2))
    text = table_of(plan)
    assert "| +0.00 |" in text
    assert "paired bootstrap" not in text
    assert "Seeds alone do not change BLEU on seen by 0.01." in text
    assert "0.00 may be" not in text


@pytest.mark.usefixtures("without_pictures")
def test_runs_that_are_not_finished_are_listed_and_do_not_count(tmp_path: Path) -> None:
    plan = sweep(tmp_path, variations=[{"name": "a|b", "set": {"model.d_ff": 64}}], seeds=[1, 2])
    make_run(plan.runs[0], loss=1.0, finished=False)
    plan.runs[1].fault_file.parent.mkdir(parents=True, exist_ok=True)
    plan.runs[1].fault_file.write_text("no | memory\n")
    make_run(plan.runs[2], loss=2.0, hypotheses=REFERENCES)
    text = table_of(plan)
    assert [row["PPL"] for row in cells(text)] == ["", "7.39"]
    runs = cells(text, table=1)
    assert [(run["row"], run["state"], run["PPL"]) for run in runs] == [
        ("base", "step 50", "2.72"),
        ("base", "failed: no / memory", ""),
        ("a/b", "finished", "7.39"),
        ("a/b", "not begun", ""),
    ]
    assert [run["minutes"] for run in runs] == ["0.8", "", "1.5", ""]


@pytest.mark.usefixtures("without_pictures")
def test_a_report_of_a_sweep_that_has_not_begun(tmp_path: Path) -> None:
    plan = sweep(tmp_path / "new", variations=HEADS)
    text = table_of(plan)
    assert "0 of 6 runs finished; 6 not begun." in text
    assert [row["row"] for row in cells(text)][:2] == ["base", "base_h1"]
    assert "no pictures: pip install 'transduce[plot]'" in text


@pytest.mark.usefixtures("without_pictures")
def test_csv_and_json_hold_what_the_table_shows(plan: SweepPlan) -> None:
    table, as_csv, as_json = write_report(plan).files
    assert [path.name for path in (table, as_csv, as_json)] == [
        "results.md",
        "results.csv",
        "results.json",
    ]
    found = json.loads(as_json.read_text(), parse_constant=lambda name: pytest.fail(name))
    base, one_head = found["rows"][:2]
    assert base["dev_perplexity"]["n"] == 2
    assert base["dev_perplexity"]["lowest"] == pytest.approx(math.e)
    assert one_head["test_seen"]["p_value"] is not None
    assert one_head["paper"]["bleu"] == 24.9
    assert found["rank_correlation_with_paper"]["BLEU"]["rows"] == 4
    assert [run["status"] for run in found["runs"]] == ["finished"] * 5 + ["not begun"]
    assert found["runs"][0]["scores"]["seen"]["signature"].startswith("nrefs:1|")
    with as_csv.open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["row"] for line in lines] == plan.rows
    assert (lines[1]["h"], lines[1]["N"], lines[1]["parameters"]) == ("1", "", "1000000")
    assert float(lines[0]["test_seen.mean"]) == pytest.approx(base["test_seen"]["mean"])
    assert float(lines[1]["test_seen.p_value"]) == one_head["test_seen"]["p_value"]


@pytest.mark.usefixtures("without_pictures")
def test_only_the_minutes_differ_between_equal_sweeps(tmp_path: Path) -> None:
    """Apart from its last column, the table of the runs has nothing that a clock decides."""
    texts = []
    for name in ("one", "two"):
        plan = sweep(tmp_path / name / "mine", variations=HEADS[1:2])
        for run in plan.runs:
            make_run(run, hypotheses=with_errors(3))
        texts.append(table_of(plan))
    assert texts[0] == texts[1]
    assert [*cells(texts[0], table=1)[0]][-1] == "minutes"


def test_pictures_are_drawn_of_what_there_is(tmp_path: Path) -> None:
    if not pictures.available():
        pytest.skip("matplotlib is not installed")
    grid = {"model.h": [1, 4], "training.eps_ls": [0.0, 0.1, 0.2]}
    plan = sweep(tmp_path, grid=grid)
    for number, run in enumerate(plan.runs[:5]):
        make_run(run, hypotheses=with_errors(number))
    written = write_report(plan).files
    assert [path.name for path in written[3:]] == ["curves.png", "heat_map.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written[3:])
    text = written[0].read_text()
    assert "of the first seed of each row](curves.png)" in text
    assert "](heat_map.png)" in text


def test_a_report_of_a_real_sweep_by_the_command(command: Command, tmp_path: Path) -> None:
    """With one row trained and one not begun; the scores are those of the model's card."""
    plan = small_plan(write_texts(tmp_path), tmp_path / "mine", beam=1)
    write_plan(plan)
    job = TrainJob(plan.runs[0], plan.cache, SweepTranslation.of(plan.file, plan.cache), 1)
    train_run(job, lambda _message: None, lambda: False)
    done = command("sweep", "--report", plan.folder)
    assert done.code == 0, done.err
    assert f"results: {plan.folder / 'results.md'}, " in done.err
    text = (plan.folder / "results.md").read_text()
    base, wide = cells(text)
    card = (plan.runs[0].folder / "README.md").read_text()
    assert f" | {base['PPL']} |" in card
    assert f"BLEU **{base['BLEU, dev']}**" in card
    assert (base["d_ff"], wide["d_ff"], wide["PPL"], wide["seeds"]) == ("32", "64", "", "0 of 1")
    found = json.loads((plan.folder / "results.json").read_text())
    assert found["runs"][0]["steps"] == 12
    assert found["runs"][0]["scores"]["test"]["metric"] == "BLEU"


def test_line_ends_in_translations_shift_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model of bytes writes any of them."""
    plan = sweep(tmp_path)
    [run] = plan.runs
    make_run(run)
    (run.folder / WEIGHTS).touch()
    written = with_errors(3)
    found = [Translation(line, line.replace(" ", "\n", 1), 0.0, ()) for line in written]
    translator = SimpleNamespace(languages=(), translate=lambda *_, **__: found)
    monkeypatch.setattr("transduce.sweeps.running.translations.load", lambda *_: translator)
    SweepTranslation.of(plan.file, plan.cache).translate_missing(run, device="cpu")
    [test] = plan.file.test
    assert run.hypotheses_file(test).read_text() == "".join(f"{line}\n" for line in written)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_sweep_recipe_expands_to_rows_that_differ_from_base(path: Path, tmp_path: Path) -> None:
    plan = make_plan(read_sweep_file(path), tmp_path)
    seeds = [run.seed for run in plan.runs if run.variation == "base"]
    assert len(seeds) > 1, "the base has the noise of seeds"
    shown = {}
    for run in plan.runs:
        config = Request(run.folder, run.settings, run.preset).settings()
        shown[run.variation] = repr({**config, "run": None})
        assert config["training"].get("learning_rate"), "fitted to no machine"
        assert "p_drop" in config["model"], "fitted to no corpus"
    assert len(set(shown.values())) == len(plan.rows), "all rows are different"


@pytest.mark.parametrize(
    "path", [path for path in RECIPES if "table3" in path.stem], ids=lambda path: path.stem
)
def test_a_sweep_of_table_3_has_rows_of_all_its_groups(path: Path, tmp_path: Path) -> None:
    plan = make_plan(read_sweep_file(path), tmp_path)
    assert set(plan.rows) <= set(TABLE_3)
    assert {TABLE_3[row].group for row in plan.rows} == {"", *"ABCDE"}


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("after_blocks", ["positions", "activation", "norm", "norm_kind", "kv_heads"]),
        ("after_mixers", ["encoder_mixers"]),
        ("long_range", ["encoder_mixers", "decoder_mixers", "cross_mixer"]),
    ],
)
def test_what_came_after_the_paper_has_a_row_for_each_choice(
    name: str, settings: list[str], tmp_path: Path
) -> None:
    [path] = [path for path in RECIPES if path.stem == name]
    models = [
        TransformerConfig(**run.request().settings()["model"])
        for run in make_plan(read_sweep_file(path), tmp_path).runs
    ]
    for setting in settings:
        chosen = {str(getattr(model, setting)) for model in models}
        choices = get_args(TransformerConfig.model_fields[setting].annotation)
        assert len(chosen) > 1, setting
        if choices and all(isinstance(choice, str) for choice in choices):
            assert chosen >= {*choices} - {"swish"}, "Marian's, which did not come after"


def test_the_rows_of_the_recipe_for_table_3_are_the_papers(tmp_path: Path) -> None:
    [path] = [path for path in RECIPES if path.stem == "table3"]
    plan = make_plan(read_sweep_file(path), tmp_path)
    assert set(plan.rows) == TABLE_3.keys() - {"big"}
    for run in plan.runs:
        config, paper = run.request().settings(), preset_named(run.variation)
        model = TransformerConfig(**config["model"])
        assert model.columns() == paper.model.columns(), run.variation
        assert config["training"].get("eps_ls", 0.1) == paper.training.eps_ls
        assert config["training"]["batch_tokens"] == 25_000
        assert config["run"]["average"] == 1
    assert plan.file.budget is not None
    assert plan.file.budget.tokens == 250_000_000


def test_the_rows_of_the_small_recipe_are_half_the_papers(tmp_path: Path) -> None:
    [path] = [path for path in RECIPES if path.stem == "table3_small"]
    plan = make_plan(read_sweep_file(path), tmp_path)
    assert set(plan.rows) == TABLE_3.keys() - {"big"}
    for run in plan.runs:
        config, paper = run.request().settings(), preset_named(run.variation)
        half, whole = TransformerConfig(**config["model"]), paper.model
        assert isinstance(whole, TransformerConfig)
        for name in ("n_layers", "d_model", "d_ff", "d_k", "d_v"):
            assert 2 * getattr(half, name) == getattr(whole, name), (run.variation, name)
        assert (half.h, half.p_drop, half.positions) == (whole.h, whole.p_drop, whole.positions)
        assert config["training"].get("eps_ls", 0.1) == paper.training.eps_ls
