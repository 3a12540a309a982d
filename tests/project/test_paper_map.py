"""Every symbol and every test that docs/PAPER_MAP.md names exists."""

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAPER_MAP = (ROOT / "docs" / "PAPER_MAP.md").read_text(encoding="utf-8")


def map_faults(text: str) -> list[str]:
    faults = []
    for row in re.findall(r"^\|(?! paper|---)(.*)$", text, re.MULTILINE):
        cells = [cell.strip() for cell in row.strip(" |").split("|")]
        if len(cells) != 4:
            faults.append(f"{row}: not four cells")
            continue
        _, _, symbol, test = (cell.strip("`") for cell in cells)
        if not exists(symbol):
            faults.append(f"no symbol {symbol}")
        if not is_test(test):
            faults.append(f"no test {test}")
    return faults


def exists(symbol: str) -> bool:
    module, _, name = symbol.rpartition(".")
    try:
        getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        return False
    return True


def is_test(node_id: str) -> bool:
    file, _, name = node_id.partition("::")
    if not name.startswith("test_") or not (ROOT / file).is_file():
        return False
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return any(isinstance(node, ast.FunctionDef) and node.name == name for node in tree.body)


def test_the_map_is_true() -> None:
    assert map_faults(PAPER_MAP) == []


def test_the_map_covers_the_model_of_section_3() -> None:
    for section in ("§3.1", "§3.2.1, eq. 1", "§3.2.2", "§3.2.3", "§3.3, eq. 2", "§3.4", "§3.5"):
        assert f"| {section}" in PAPER_MAP


@pytest.mark.parametrize(
    ("true", "planted"),
    [
        ("transduce.nn.mixers.masks.causal_allowed", "transduce.nn.mixers.masks.causal_alowed"),
        ("transduce.nn.add_norm.PostNorm", "transduce.nn.sublayers.PostNorm"),
        ("::test_fused_attention_is_eq_1", "::test_fused_attention_is_eq_2"),
        ("tests/nn/test_initialise.py", "tests/nn/test_initial.py"),
    ],
)
def test_a_planted_false_name_is_found(true: str, planted: str) -> None:
    assert true in PAPER_MAP
    assert len(map_faults(PAPER_MAP.replace(true, planted))) == 1
