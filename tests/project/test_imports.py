"""Imports point only upward on the map of packages in docs/ARCHITECTURE.md."""

import ast
import re
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "transduce"
ARCHITECTURE = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
KNOW_ARCHITECTURES = ("models", "export")
"""The only packages that may import a particular architecture."""


def packages(document: str) -> dict[str, int]:
    """Read the map: each package or module with the number of its line."""
    block = re.search(r"```packages\n(.*?)```", document, re.DOTALL)
    assert block
    return {name: line for line, row in enumerate(block[1].splitlines()) for name in row.split()}


def import_faults(root: Path) -> list[str]:
    """Find imports that point downward or sideways, and packages that are not on the map."""
    line_of = packages(ARCHITECTURE)
    faults = []
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        own = name.parts[0].removesuffix(".py")
        for module in imported_modules(path, root):
            imported = package_of(module, root)
            if {own, imported} - set(line_of):
                faults.append(f"{name} imports {imported}: not both are on the map")
            elif imported != own and line_of[imported] >= line_of[own]:
                faults.append(f"{name} imports {imported}, which is not above {own}")
    return faults


def map_faults(document: str, root: Path) -> list[str]:
    """Find packages and modules that are missing on the map, and names on it that do not exist."""
    found = {path.parent.name for path in root.glob("*/__init__.py")}
    found |= {path.stem for path in root.glob("*.py")}
    return sorted(found ^ set(packages(document)))


def architecture_faults(root: Path) -> list[str]:
    """Find imports of a particular architecture, which others only know as a kind of model."""
    architectures = [path.parent.name for path in (root / "models").glob("*/__init__.py")]
    assert architectures
    return [
        f"{path.relative_to(root)} imports models.{module[1]}"
        for path in sorted(root.rglob("*.py"))
        if path.relative_to(root).parts[0] not in KNOW_ARCHITECTURES
        for module in imported_modules(path, root)
        if module[:1] == ["models"] and module[1:2] and module[1] in architectures
    ]


def imported_modules(path: Path, root: Path) -> list[list[str]]:
    """Split every import of this package, wherever in the file, into its parts below the root."""
    return _imported_modules(path.read_text(encoding="utf-8"), root.name)


@cache  # copies of the package differ in one file only
def _imported_modules(text: str, package: str) -> list[list[str]]:
    return list(_stream_modules(text, package))


def _stream_modules(text: str, package: str) -> Iterator[list[str]]:
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import():
                modules = [alias.name for alias in node.names]
            case ast.ImportFrom(level=0, module=str(module)):
                modules = [f"{module}.{alias.name}" for alias in node.names]
            case ast.ImportFrom():
                yield ["a relative import"]
                continue
            case _:
                continue
        for first, *rest in (module.split(".") for module in modules):
            if first == package:
                yield rest


def package_of(module: list[str], root: Path) -> str:
    """Return the package on the map that a module belongs to."""
    if not module:
        return "__init__"
    path = root / module[0]
    is_there = path.is_dir() or path.with_suffix(".py").exists() or module == ["a relative import"]
    return module[0] if is_there else "__init__"


def test_imports_point_upward() -> None:
    assert import_faults(PACKAGE) == []


def test_the_map_has_every_package_and_no_other() -> None:
    assert map_faults(ARCHITECTURE, PACKAGE) == []


def test_only_models_and_exports_know_a_particular_architecture() -> None:
    assert architecture_faults(PACKAGE) == []


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package, to plant faults in."""
    ignore = shutil.ignore_patterns("__pycache__")
    return shutil.copytree(PACKAGE, tmp_path / "transduce", ignore=ignore)


def plant(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text((path.read_text() if path.exists() else "") + f"\n{text}\n")


@pytest.mark.parametrize(
    ("file", "planted"),
    [
        ("nn/mixers/masks.py", "from transduce.config.schema import Config"),
        ("nn/mixers/masks.py", "import transduce.text"),
        ("models/base.py", "from transduce import cli"),
        ("models/base.py", "from transduce import load_config"),
        ("models/base.py", "def late() -> None:\n    from transduce.analysis.cost import Cost"),
        ("config/load.py", "from ..nn.mixers import masks"),
        ("errors.py", "import transduce"),
        ("attic/__init__.py", "import transduce.errors"),
    ],
)
def test_a_planted_import_is_found(file: str, planted: str, copy: Path) -> None:
    before = import_faults(copy)
    plant(copy / file, planted)
    [fault] = set(import_faults(copy)) - set(before)
    assert fault.startswith(file)


@pytest.mark.parametrize(
    ("file", "planted"),
    [
        ("training/loop.py", "from transduce.models.transformer.model import Transformer"),
        ("training/loop.py", "from transduce.models.transformer import KIND"),
        ("cli/train.py", "def late() -> None:\n    from transduce.models import transformer"),
        ("search/beam.py", "import transduce.models.transformer.settings"),
    ],
)
def test_a_planted_import_of_an_architecture_is_found(file: str, planted: str, copy: Path) -> None:
    before = architecture_faults(copy)
    plant(copy / file, planted)
    [fault] = set(architecture_faults(copy)) - set(before)
    assert fault == f"{file} imports models.transformer"


def test_a_planted_fault_of_the_map_is_found(copy: Path) -> None:
    planted = ARCHITECTURE.replace("```packages\n", "```packages\nattic\n", 1)
    assert map_faults(planted, copy) == ["attic"]
    plant(copy / "cellar" / "__init__.py", "")
    assert map_faults(ARCHITECTURE, copy) == ["cellar"]


def test_imports_of_what_all_architectures_share_are_no_fault(copy: Path) -> None:
    before = architecture_faults(copy)
    plant(copy / "training/loop.py", "from transduce.models.base import Seq2Seq")
    plant(copy / "export/folder.py", "import transduce.models.transformer.model")
    assert architecture_faults(copy) == before
