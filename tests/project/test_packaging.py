"""What is published: a wheel and an sdist, whole, of one version, that other tools accept."""

import email
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from email.message import Message
from pathlib import Path

import pytest

import transduce
from tests.project.documents import ROOT

PACKAGE = ROOT / "src" / "transduce"
README = (ROOT / "README.md").read_text(encoding="utf-8")
FOR_MAKE = {"dev"}  # what the README need not explain: make installs it


@dataclass(frozen=True)
class Built:
    """The wheel, and the sdist that it was built from."""

    wheel: Path
    sdist: Path

    def metadata(self) -> Message:
        with zipfile.ZipFile(self.wheel) as wheel:
            [name] = [one for one in wheel.namelist() if one.endswith(".dist-info/METADATA")]
            return email.message_from_string(wheel.read(name).decode())

    def in_wheel(self) -> set[str]:
        with zipfile.ZipFile(self.wheel) as wheel:
            return {name for name in wheel.namelist() if ".dist-info/" not in name}

    def in_sdist(self) -> set[str]:
        with tarfile.open(self.sdist) as sdist:
            return {name.partition("/")[2] for name in sdist.getnames()}


def run(*command: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Build as CONTRIBUTING.md says, but elsewhere."""
    place = tmp_path_factory.mktemp("dist")
    run("-m", "build", "--no-isolation", "--outdir", place)
    [wheel], [sdist] = place.glob("*.whl"), place.glob("*.tar.gz")
    return Built(wheel, sdist)


def test_twine_finds_nothing(built: Built) -> None:
    said = run("-m", "twine", "check", "--strict", built.wheel, built.sdist)
    assert said.count("PASSED") == 2


def test_there_is_one_version(built: Built) -> None:
    assert "version" in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dynamic"]
    assert built.metadata()["Version"] == transduce.__version__
    assert built.wheel.name.startswith(f"transduce-{transduce.__version__}-py3-")
    assert built.sdist.name == f"transduce-{transduce.__version__}.tar.gz"
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (\d[\w.]*)", changes, re.MULTILINE)
    assert transduce.__version__ == versions[0]


def test_the_wheel_has_every_file_of_the_package_and_no_other(built: Built) -> None:
    expected = {
        str(path.relative_to(PACKAGE.parent))
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert built.in_wheel() == expected
    assert expected >= {"transduce/py.typed", "transduce/serving/web/index.html"}


def test_the_sdist_has_what_tests_documents_and_image_need(built: Built) -> None:
    held = built.in_sdist()
    folders = ("src", "tests", "docs", "recipes", "benchmarks")
    expected = {
        str(path.relative_to(ROOT))
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert expected <= held
    assert {"Makefile", "constraints.txt", "Containerfile", "LICENSE", "CHANGELOG.md"} <= held
    assert all(name.startswith(folders) for name in held if "/" in name)


def test_the_metadata_is_whole(built: Built) -> None:
    about = built.metadata()
    assert about["License-Expression"] == "Apache-2.0"
    assert about["License-File"] == "LICENSE"
    assert about["Requires-Python"] == ">=3.11"
    assert about["Description-Content-Type"] == "text/markdown"
    assert about.get_payload() == README
    for name in ("Summary", "Author", "Keywords", "Classifier"):
        assert about[name]
    assert "Typing :: Typed" in (about.get_all("Classifier") or [])


def test_the_readme_explains_every_extra(built: Built) -> None:
    extras = set(built.metadata().get_all("Provides-Extra") or []) - FOR_MAKE
    explained = re.findall(r"^\| `(\w+)` \|", README, re.MULTILINE)
    assert sorted(explained) == sorted(extras)


def test_every_tool_of_set_up_is_pinned() -> None:
    """Or set-up would install something else tomorrow."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(one for extra in extras.values() for one in extra)]
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {pin.partition("==")[0] for pin in pins if not pin.startswith("#")}
    assert {re.split(r"[<>=!\[; ]", one)[0].lower() for one in wanted} - pinned == set()


def test_an_installed_wheel_runs_as_a_command(built: Built, tmp_path: Path) -> None:
    alone = ["--quiet", "--no-deps", "--no-index", "--no-compile"]
    run("-m", "pip", "install", *alone, "--target", tmp_path, built.wheel)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.argv = ['transduce', '--version']"
    )
    start = (
        "from transduce.cli.app import main; import transduce; print(transduce.__file__); main()"
    )
    said = run("-c", f"{code}; {start}")
    assert said.split("\n")[:2] == [
        str(tmp_path / "transduce" / "__init__.py"),
        f"transduce {transduce.__version__}",
    ]
