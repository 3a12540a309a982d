"""Imports point only upward on the map of rooms in docs/ARCHITECTURE.md."""

import ast
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "transduce"


def rooms() -> dict[str, int]:
    """Read the map: each room with the number of its line."""
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    block = re.search(r"```rooms\n(.*?)```", text, re.DOTALL)
    assert block
    return {room: line for line, row in enumerate(block[1].splitlines()) for room in row.split()}


def import_faults(package: Path) -> list[str]:
    """Find imports that point downward or sideways, and rooms that are not on the map."""
    line_of = rooms()
    faults = []
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package)
        room = name.parts[0].removesuffix(".py")
        for imported in imported_rooms(path, package):
            if {room, imported} - set(line_of):
                faults.append(f"{name} imports {imported}: not both are on the map")
            elif imported != room and line_of[imported] >= line_of[room]:
                faults.append(f"{name} imports {imported}, which is not above {room}")
    return faults


def imported_rooms(path: Path, package: Path) -> Iterator[str]:
    """Name the room of every import of the package, wherever in the file it stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import():
                modules = [alias.name for alias in node.names]
            case ast.ImportFrom(level=0, module=package.name):
                modules = [f"{package.name}.{alias.name}" for alias in node.names]
            case ast.ImportFrom(level=0, module=str(module)):
                modules = [module]
            case ast.ImportFrom():
                yield "something by a relative import"
                continue
            case _:
                continue
        for first, *rest in (module.split(".") for module in modules):
            if first == package.name:
                yield rest[0] if rest and is_room(package / rest[0]) else "__init__"


def is_room(path: Path) -> bool:
    return path.is_dir() or path.with_suffix(".py").exists()


def test_imports_point_upward() -> None:
    assert import_faults(PACKAGE) == []


def test_every_folder_is_a_room() -> None:
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert folders <= set(rooms())


@pytest.mark.parametrize(
    ("file", "planted"),
    [
        ("nn/masks.py", "from transduce.config.schema import Config"),
        ("nn/masks.py", "import transduce.text"),
        ("models/base.py", "from transduce import cli"),
        ("models/base.py", "from transduce import load_config"),
        ("models/base.py", "def late() -> None:\n    from transduce.analysis.cost import Cost"),
        ("config/load.py", "from ..nn import masks"),
        ("errors.py", "import transduce"),
        ("attic/__init__.py", "import transduce.errors"),
    ],
)
def test_a_planted_import_is_found(file: str, planted: str, tmp_path: Path) -> None:
    package = tmp_path / "transduce"
    shutil.copytree(PACKAGE, package)
    path = package / file
    path.parent.mkdir(exist_ok=True)
    path.write_text((path.read_text() if path.exists() else "") + f"\n{planted}\n")
    faults = import_faults(package)
    assert len(faults) == 1
    assert faults[0].startswith(file)
