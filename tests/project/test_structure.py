"""Folders stay small, functions short, and public classes have names of their own."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "transduce"
MAX_MODULES = 12
MAX_FUNCTION_LINES = 50


def sources(root: Path) -> dict[Path, str]:
    return {
        path.relative_to(root): path.read_text(encoding="utf-8")
        for path in sorted(root.rglob("*.py"))
    }


def crowded_folders(paths: list[Path]) -> list[str]:
    """Find folders with too many modules beside `__init__`."""
    modules: dict[Path, int] = defaultdict(int)
    for path in paths:
        modules[path.parent] += path.name != "__init__.py"
    return [f"{folder}: {n} modules" for folder, n in modules.items() if n > MAX_MODULES]


def long_functions(texts: dict[Path, str]) -> list[str]:
    """Find functions that are too long below their signature, except kernels.

    The signature of a command declares its options with their help, so it does not count.
    """
    return [
        f"{path}:{function.lineno} {function.name}: {lines} lines"
        for path, text in texts.items()
        if not has_kernels(path)
        for function in functions(text)
        if (lines := (function.end_lineno or 0) - function.body[0].lineno + 1) > MAX_FUNCTION_LINES
    ]


def has_kernels(path: Path) -> bool:
    return "kernels" in path.parts or path.stem.endswith("kernels")


def functions(text: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def shared_names(texts: dict[Path, str]) -> list[str]:
    """Find public classes that have one name."""
    places: dict[str, list[str]] = defaultdict(list)
    for path, text in texts.items():
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path))
    return [f"{name}: {', '.join(found)}" for name, found in places.items() if len(found) > 1]


def test_no_folder_is_crowded() -> None:
    assert crowded_folders(list(sources(PACKAGE))) == []


def test_no_function_is_long() -> None:
    assert long_functions(sources(PACKAGE)) == []


def test_no_two_public_classes_have_one_name() -> None:
    assert shared_names(sources(PACKAGE)) == []


def test_a_crowded_folder_is_found() -> None:
    paths = [Path("data", "__init__.py"), *(Path("data", f"m{n}.py") for n in range(12))]
    assert crowded_folders(paths) == []
    assert crowded_folders([*paths, Path("data", "more.py")]) == ["data: 13 modules"]
    assert crowded_folders([*paths, Path("data", "public", "more.py")]) == []


@pytest.mark.parametrize("header", ["def long():", "async def long():", "class A:\n  def long(_):"])
def test_a_long_function_is_found(header: str) -> None:
    def with_lines(lines: int) -> str:
        return f"\n{header}\n" + "    x = 1\n" * lines

    place = Path("nn/linear.py")
    assert long_functions({place: with_lines(50)}) == []
    [fault] = long_functions({place: with_lines(51)})
    assert fault.endswith(" long: 51 lines")
    for kernels in ("nn/kernels/linear.py", "training/step/loss_kernels.py"):
        assert long_functions({Path(kernels): with_lines(51)}) == []


def test_a_name_that_two_public_classes_share_is_found() -> None:
    one, two = Path("a.py"), Path("b/c.py")
    text = "class Guard:\n    class Inner: ...\nclass _Own: ...\n"
    assert shared_names({one: text, two: "class Inner: ...\nclass _Own: ...\n"}) == []
    assert shared_names({one: text, two: "class Guard(int): ...\n"}) == ["Guard: a.py, b/c.py"]
