"""A fault planted in a module that guards data makes the tests fail that are there to find it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation.faults import FAULTS, SURVIVORS, Fault

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "transduce"
TEST_FAILED, ALL_PASSED = 1, 0


def everything() -> list[Fault]:
    return [*FAULTS.values(), *(fault for fault, _ in SURVIVORS.values())]


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the package to plant a fault in."""
    ignored = shutil.ignore_patterns("__pycache__")
    return shutil.copytree(PACKAGE, tmp_path / "planted" / "transduce", ignore=ignored)


def exit_code_of(tests: str, copied: Path) -> int:
    """Run tests with the copy in the place of the package."""
    words = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", tests]
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(copied.parent)},  # noqa: TID251
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (ALL_PASSED, TEST_FAILED), done.stdout + done.stderr
    return done.returncode


def plant(fault: Fault, copied: Path) -> None:
    path = copied / fault.module
    path.write_text(path.read_text(encoding="utf-8").replace(fault.before, fault.after))


@pytest.mark.parametrize("fault", everything(), ids=[*FAULTS, *SURVIVORS])
def test_a_fault_can_be_planted(fault: Fault) -> None:
    source = (PACKAGE / fault.module).read_text(encoding="utf-8")
    assert source.count(fault.before) == 1, "the source has changed: change the fault with it"
    assert (ROOT / fault.found_by.partition("::")[0]).is_file()
    compile(source.replace(fault.before, fault.after), fault.module, "exec")


@pytest.mark.exhaustive
@pytest.mark.parametrize("tests", sorted({fault.found_by for fault in everything()}))
def test_without_a_fault_the_tests_pass(tests: str, copied: Path) -> None:
    assert exit_code_of(tests, copied) == ALL_PASSED


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name: str, copied: Path) -> None:
    plant(FAULTS[name], copied)
    assert exit_code_of(FAULTS[name].found_by, copied) == TEST_FAILED


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SURVIVORS)
def test_a_fault_that_survives_is_explained(name: str, copied: Path) -> None:
    """One that is found after all belongs to the others."""
    fault, reason = SURVIVORS[name]
    plant(fault, copied)
    assert exit_code_of(fault.found_by, copied) == ALL_PASSED, reason
