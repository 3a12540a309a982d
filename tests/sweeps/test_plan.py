"""A sweep file stands for runs, and mistakes in it are named before anything starts."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.command import Command
from tests.sweeps.small_sweeps import small_plan, sweep_file, write_texts
from transduce.analysis.cost import cost_of
from transduce.errors import ConfigError, InputError
from transduce.sweeps.file import SweepFile, read_sweep_file
from transduce.sweeps.plan import SweepPlan, make_plan, read_plan, write_plan
from transduce.sweeps.running.preparation import prepare_runs
from transduce.training.run.prepare import check_settings


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("texts"))


def plan_of(**tree: Any) -> SweepPlan:
    return make_plan(SweepFile.from_tree({"base": "base"} | tree), Path("out"))


def test_variations_grid_and_seeds_become_runs_in_order() -> None:
    plan = plan_of(
        variations=[
            {"preset": "base_h1"},
            {"set": {"model.h": 4, "model.d_k": 16}},
            {"name": "long warm-up!", "set": {"training": {"warmup_steps": 8000}}, "seeds": 7},
            {"name": "base", "seeds": [1, 2, 3]},
        ],
        grid={"model.h": [2, 4], "training.warmup_steps": [10, 20]},
        seeds=[1, 2],
    )
    assert [(run.variation, run.seed) for run in plan.runs] == [
        *(("base", seed) for seed in (1, 2, 3)),
        *(("base_h1", seed) for seed in (1, 2)),
        *(("h=4 d_k=16", seed) for seed in (1, 2)),
        ("long warm-up!", 7),
        *(
            (f"h={h} training.warmup_steps={steps}", seed)
            for h in (2, 4)
            for steps in (10, 20)
            for seed in (1, 2)
        ),
    ]
    by_name = {run.name: run for run in plan.runs}
    assert by_name["base_h1, seed 2"].preset == "base_h1"
    assert by_name["h=4 d_k=16, seed 1"].preset == "base"
    assert by_name["h=4 d_k=16, seed 1"].settings["model"] == {"h": 4, "d_k": 16}
    assert by_name["long warm-up!, seed 7"].folder == Path("out/runs/long_warm-up_/seed-7")
    point = by_name["h=4 training.warmup_steps=10, seed 2"]
    assert point.grid == {"model.h": 4, "training.warmup_steps": 10}
    assert point.settings["run"]["seed"] == 2
    assert check_settings(point.request()).model.d_k == 128  # type: ignore[attr-defined]


def test_a_recipe_is_a_base_and_its_budget_gives_way(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(
        "preset: small\nmodel: {vocab_size: 500}\n"
        "training: {minutes: 3, patience: 2, batch_tokens: 700}\n"
    )
    file = tmp_path / "sweep.yaml"
    file.write_text("base: recipe.yaml\nvariations: [{preset: tiny}]\nbudget: {steps: 50}\n")
    base, tiny = make_plan(read_sweep_file(file), tmp_path / "out").runs
    assert (base.preset, tiny.preset) == ("small", "tiny")
    assert base.settings["training"] == {"batch_tokens": 700, "steps": 50}
    assert tiny.settings["model"] == {"vocab_size": 500}


def test_a_row_says_which_value_holds_where_its_preset_and_the_shared_settings_differ() -> None:
    plan = plan_of(
        settings={"model.p_drop": 0.1, "model.vocab_size": 500, "model.d_ff": 1024},
        variations=[
            {"name": "none", "preset": "base_drop0", "set": {"model.p_drop": 0.0}},
            {"name": "as all", "preset": "base_drop0", "set": {"model.p_drop": 0.1}},
            {"preset": "base_h1"},
            {"preset": "base_ff1024"},
        ],
    )
    models = {run.variation: run.request().settings()["model"] for run in plan.runs}
    assert models["none"]["p_drop"] == 0.0
    assert models["as all"]["p_drop"] == 0.1
    assert (
        models["base_h1"].items()
        >= {"h": 1, "p_drop": 0.1, "vocab_size": 500, "d_ff": 1024}.items()
    )
    assert models["base_ff1024"]["d_ff"] == 1024


def test_a_variation_may_be_the_name_of_a_preset() -> None:
    plan = plan_of(settings={"model.vocab_size": 500}, variations=["base_h1", "base_n2"])
    assert [(run.variation, run.preset) for run in plan.runs[1:]] == [
        ("base_h1", "base_h1"),
        ("base_n2", "base_n2"),
    ]


def test_a_plan_can_be_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = make_plan(
        SweepFile.from_tree(
            {"base": "base", "grid": {"model.h": [1, 2]}, "test": {"src": "t.en", "tgt": "t.de"}}
        ),
        tmp_path,
    )
    monkeypatch.chdir(tmp_path)
    write_plan(plan)
    monkeypatch.chdir("/")
    found = read_plan(tmp_path)
    assert found.runs == plan.runs
    assert found.file.test[0].src == str(tmp_path / "t.en")
    with pytest.raises(InputError, match="is not the folder of a sweep"):
        read_plan(tmp_path / "runs")


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"base": None}, "base=None: must be text"),
        ({"sedes": [1]}, r"unknown entry sedes \(did you mean seeds\?\)"),
        ({"variations": [{"nam": "a"}]}, r"unknown entry variations\.1\.nam \(did you mean name"),
        ({"variations": [{"name": "a"}]}, "nothing differs in the row of 'a'"),
        ({"budget": {"steps": 1, "tokens": 5}}, "not steps and tokens"),
        ({"budget": {"step": 1}}, r"did you mean steps"),
        ({"seeds": [3, 3]}, "seeds 3 is given twice"),
        ({"seeds": []}, "give at least one"),
        ({"test": {"src": "a"}}, r"test\.1\.tgt is missing"),
        ({"base": "bsae"}, r"no preset named 'bsae' \(did you mean base\?\)"),
        ({"base": "no.yaml"}, "cannot read no.yaml"),
        ({"compare_with": "h=3", "grid": {"model.h": [1]}}, "no such row"),
        ({"variations": [{"preset": "bsae"}]}, "row 'bsae': no preset"),
        ({"variations": [{"set": {"model.hh": 1}}]}, "row 'hh=1': unknown setting model.hh"),
        ({"grid": {"model.h": [8, 7]}}, "row 'h=7': model.h=7 does not divide"),
        ({"grid": {"model.h": 1}, "variations": [{"set": {"model.h": 1}}]}, "two rows are named"),
        (
            {"variations": [{"name": n, "set": {"model.h": 1}} for n in ("a b", "a_b")]},
            "rows 'a b' and 'a_b' would share a folder",
        ),
        (
            {"budget": {"steps": 5}, "variations": [{"set": {"training.epochs": 1}}]},
            "row 'training.epochs=1': training.epochs: the budget is the same for all",
        ),
        ({"settings": {"run.seed": 3}}, "give it under seeds"),
        (
            {"settings": {"model.p_drop": 0.1}, "variations": [{"preset": "base_drop0"}]},
            "row 'base_drop0': model.p_drop is 0.0 in preset base_drop0, but 0.1 in what all rows",
        ),
        (
            {"settings": {"training": {"eps_ls": 0.1}}, "variations": [{"preset": "base_ls02"}]},
            "row 'base_ls02': training.eps_ls is 0.2 in preset base_ls02, but 0.1",
        ),
    ],
)
def test_mistakes_are_named(tree: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        plan_of(**tree)


def test_a_wrong_row_is_refused_before_anything_starts(
    command: Command, texts: Path, tmp_path: Path
) -> None:
    file = sweep_file(tmp_path / "s.yaml", texts, variations=[{"set": {"model.h": 5}}])
    out = tmp_path / "out"
    assert command("sweep", file, "--out", out).mistake().startswith("row 'h=5': model.h=5 does")
    file = sweep_file(tmp_path / "s.yaml", texts, test={"src": "missing.en", "tgt": "missing.de"})
    assert "missing.en" in command("sweep", file, "--out", out).mistake()
    assert not out.exists()
    file = sweep_file(tmp_path / "s.yaml", texts)
    message = command("sweep", file, "--out", out, "--only", "d_ff=65").mistake()
    assert message.startswith("--only d_ff=65: the sweep has no such row (did you mean d_ff=64?)")
    assert "1 or more" in command("sweep", file, "--out", out, "--at-once", "0").mistake()
    [named] = re.findall(r"recipes/[\w/]+\.yaml", command("sweep").mistake())
    assert (Path(__file__).parents[2] / named).exists()
    assert "no sweep.json" in command("sweep", "--report", tmp_path).mistake()


def test_a_budget_in_tokens_or_operations_is_the_same_for_all(texts: Path, tmp_path: Path) -> None:
    plan = small_plan(texts, tmp_path / "out", budget={"operations": 1e9})
    base, wide = plan.runs

    class Phase:
        def __enter__(self) -> Any:
            return lambda _done, _total: None

        def __exit__(self, *_fault: object) -> None:
            pass

    def epochs(**amount: float) -> dict[str, float]:
        planned = small_plan(texts, tmp_path / "out", budget=amount)
        return prepare_runs(planned.runs, plan.cache, planned.file.budget, lambda _name: Phase())

    by_operations = epochs(operations=1e9)
    costs = {
        run.variation: cost_of(
            check_settings(run.request()).with_changes({"model": {"vocab_size": 300}}).model,
            length=20,
        ).operations_per_token
        for run in (base, wide)
    }
    assert costs["d_ff=64"] > costs["base"]
    spent = {name: by_operations[name] * costs[name] for name in costs}
    assert spent["d_ff=64"] == pytest.approx(spent["base"], rel=0.02)
    by_tokens = epochs(tokens=5000)
    assert by_tokens["base"] == by_tokens["d_ff=64"] > 0
    assert epochs(tokens=10_000)["base"] == pytest.approx(2 * by_tokens["base"])
    planned = plan.with_epochs(by_tokens)
    assert planned.runs[0].settings["training"]["epochs"] == round(by_tokens["base"], 6)


def test_minutes_end_the_runs_wherever_they_are_given() -> None:
    by_minutes = {"training": {"steps": 1000, "minutes": 5}}
    assert plan_of(settings=by_minutes).is_by_clock
    assert plan_of(budget={"minutes": 5}).is_by_clock
    assert not plan_of(budget={"steps": 5}).is_by_clock


def test_a_test_set_is_not_taken_for_the_development_set() -> None:
    with pytest.raises(ConfigError, match="'dev' is the development set in the results"):
        plan_of(test={"src": "dev.en", "tgt": "dev.de"})
    plan = plan_of(test={"name": "news", "src": "dev.en", "tgt": "dev.de"})
    assert [test.name for test in plan.file.test] == ["news"]
