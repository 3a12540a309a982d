"""What docs/FAST.md works out on paper follows from its own formula and from what was measured."""

import re
from typing import Any

import pytest

from tests.project.documents import ROOT

TEXT = (ROOT / "docs" / "FAST.md").read_text(encoding="utf-8")
SECTION = TEXT.partition("### On paper\n")[2].partition("\n## ")[0]
FORMULA = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)[0]
BILLION = 1e9


@pytest.fixture
def formula() -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(FORMULA, names)  # noqa: S102 - it is our own document
    return names


def row(name: str) -> list[str]:
    [cells] = re.findall(rf"^\| {name}[^|]* \|(.*)\|$", SECTION, re.MULTILINE)
    return [cell.strip() for cell in cells.split("|")]


def test_the_table_follows_from_the_formula(formula: dict[str, Any]) -> None:
    hours, gpu_hours = formula["hours"], formula["gpu_hours"]
    shares = [float(cell.removeprefix("share ")) for cell in row("a billion")]
    for column, formula["share"] in enumerate(shares):
        assert row("GPU-hours in")[column] == f"{gpu_hours(BILLION):.2f}"
        for gpus in (1, 8, 64):
            assert row(f"hours on {gpus} GPU")[column] == f"{hours(BILLION, gpus):.2f}"
        assert row("GPU-hours for")[column] == f"{gpu_hours(1e6):.4f}"


def test_the_text_follows_from_the_formula(formula: dict[str, Any]) -> None:
    costs, speeds = [], []
    for formula["share"] in (1, 0.5, 0.25):
        costs.append(f"{formula['cost'](1e6):.2f}")
        speeds.append(round(BILLION / (3600 * formula["hours"](BILLION, 64)), -3))
    assert f"{formula['price']:.2f} an hour" in SECTION
    assert "cost {}, {} or {}".format(*costs) in SECTION
    assert f"{speeds[0]:,.0f} to {speeds[-1]:,.0f} sentences/s" in SECTION


def test_the_rate_was_measured(formula: dict[str, Any]) -> None:
    measured = (ROOT / "docs" / "EXPERIMENTS.md").read_text(encoding="utf-8")
    rate = f"{formula['rate']:,}"
    assert f"| 4,096 | {rate} |" in measured
    assert f"{rate} output tokens/s" in SECTION
