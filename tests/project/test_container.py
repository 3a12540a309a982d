"""The Containerfile makes a server: its steps run here one by one, and by a container engine.

Without an engine, a folder stands for the image's root, and small programs for those that need the
network or change the machine: `uv` installs only the package itself, into an environment that sees
the packages of this one; `useradd` adds nobody.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.project.documents import ROOT
from tests.serving.test_server import Server, started
from tests.translation.likely import random_model, saved

TEXT = (ROOT / "Containerfile").read_text(encoding="utf-8")
ENVIRONMENT = "/opt/transduce"
# What the image's root holds by our own doing; everything else belongs to the base image.
OURS = re.compile(r"(?<![\w./])/(?=opt/transduce|source|model)")
UV = """
import subprocess, sys, tempfile
from pathlib import Path
arguments = sys.argv[1:]
assert arguments[:2] == ["pip", "install"]
environment = arguments[arguments.index("--python") + 1]
for option in ("--constraints", "--build-constraints"):
    assert Path(arguments[arguments.index(option) + 1]).is_file()
source, _, extras = arguments[-1].partition("[")
pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
alone = ["--no-deps", "--no-index", "--no-cache-dir"]
with tempfile.TemporaryDirectory() as wheels:
    built = [*pip, "wheel", *alone, "--no-build-isolation", "--wheel-dir", wheels, source]
    subprocess.run(built, check=True)
    [wheel] = Path(wheels).glob("*.whl")
    pip += ["--python", environment]
    subprocess.run([*pip, "install", *alone, f"{wheel}[{extras}"], check=True)
"""


@dataclass(frozen=True)
class Instruction:
    """A line of a Containerfile."""

    word: str
    value: str

    @property
    def words(self) -> list[str]:
        """Its value as a command: in JSON, or as the shell splits it."""
        value = self.value
        return json.loads(value) if value.startswith("[") else shlex.split(value)


def instructions(text: str) -> list[Instruction]:
    lines = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
    pairs = (line.split(maxsplit=1) for line in lines if line.strip())
    return [Instruction(word, value.strip()) for word, value in pairs]


def last(word: str) -> Instruction:
    return [one for one in instructions(TEXT) if one.word == word][-1]


def health_command() -> list[str]:
    return Instruction("CMD", last("HEALTHCHECK").value.partition("CMD ")[2]).words


@dataclass(frozen=True)
class Image:
    """A folder that stands for the root of an image."""

    root: Path
    programs: Path
    arguments: dict[str, str]

    def inside(self, text: str) -> str:
        return OURS.sub(f"{self.root}/", text)

    @property
    def path(self) -> str:
        return f"{self.inside(ENVIRONMENT)}/bin:{self.programs}:/usr/bin:/bin"

    def copy(self, words: list[str]) -> None:
        if words[0].startswith("--from="):
            stage, (origin, target) = words[0].partition("=")[2], words[1:]
            # An environment has its own path in it; another image's files are stand-ins here.
            assert origin == target == ENVIRONMENT or "/" in stage
            return
        *sources, target = words
        for source in sources:
            place = Path(self.inside(target))
            if (ROOT / source).is_dir():
                without = shutil.ignore_patterns("__pycache__")
                shutil.copytree(ROOT / source, place, ignore=without)
            else:
                assert target.endswith("/")
                place.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / source, place)

    def run(self, command: str) -> None:
        subprocess.run(
            ["/bin/sh", "-ec", self.inside(command)],
            env={"PATH": self.path, "HOME": str(self.root), **self.arguments},
            check=True,
        )

    def see_packages_of_this_environment(self) -> None:
        """Name the folder of its packages; the editable package in it is not seen that way."""
        [packages] = Path(self.inside(ENVIRONMENT)).glob("lib/python*/site-packages")
        (packages / "those_of_the_tests.pth").write_text(sysconfig.get_path("purelib") + "\n")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """What the Containerfile's steps make."""
    place = tmp_path_factory.mktemp("container")
    arguments = dict(one.value.split("=") for one in instructions(TEXT) if one.word == "ARG")
    made = Image(place / "root", place / "programs", arguments)
    made.programs.mkdir()
    (made.programs / "python").symlink_to(sys.executable)
    for name, body in (("uv", f"#!{sys.executable}\n{UV}"), ("useradd", "#!/bin/sh\n")):
        (made.programs / name).write_text(body)
        (made.programs / name).chmod(0o755)
    for one in instructions(TEXT):
        if one.word == "COPY":
            made.copy(one.words)
        elif one.word == "RUN":
            made.run(one.value)
    made.see_packages_of_this_environment()
    shutil.rmtree(made.root / "source")  # which the last stage does not have
    return made


@pytest.fixture(scope="module")
def model(image: Image) -> Path:
    """A model where the container's reader mounts one."""
    [mounted] = last("CMD").words
    return saved(Path(image.inside(mounted)), random_model(seed=5, max_positions=12))


@contextmanager
def served(image: Image, model: Path) -> Iterator[tuple[Server, str]]:
    """Start what the container starts; on a free port, and only for this machine."""
    program, *options = last("ENTRYPOINT").words
    options[options.index("--host") + 1] = "127.0.0.1"
    options[options.index("--port") + 1] = "0"
    settings = dict(pair.split("=", 1) for pair in last("ENV").words)
    assert settings.pop("PATH") == f"{ENVIRONMENT}/bin:$PATH"
    command = ["env", "-i", f"PATH={image.path}", *(f"{k}={v}" for k, v in settings.items())]
    threads = f"OMP_NUM_THREADS={os.environ['OMP_NUM_THREADS']}"  # noqa: TID251
    where = f"{image.inside(ENVIRONMENT)}/bin/{program}"
    with started([*command, threads, where, *options, f"en-de={model}"]) as (process, port):
        yield process, str(port)


def is_healthy(image: Image, port: str) -> bool:
    command = [word.replace("8000", port) for word in health_command()]
    done = subprocess.run(command, env={"PATH": image.path}, capture_output=True, check=False)
    return done.returncode == 0


def test_the_steps_make_a_server_that_answers(image: Image, model: Path) -> None:
    def files() -> list[tuple[Path, int]]:
        return sorted((path, path.stat().st_mtime_ns) for path in model.rglob("*"))

    before = files()
    with served(image, model) as (process, port):
        assert is_healthy(image, port)
        process.terminate()
        assert process.wait() == 0
        assert not is_healthy(image, port)
    assert files() == before  # the model may be mounted read-only


def test_it_runs_the_installed_package_and_its_page(image: Image) -> None:
    code = "import transduce.serving.app as app; print(app.__file__)"
    python = f"{image.inside(ENVIRONMENT)}/bin/python"
    found = Path(subprocess.check_output([python, "-I", "-c", code], text=True).strip())
    assert found.is_relative_to(image.root)
    assert {path.name for path in (found.parent / "web").iterdir()} >= {"index.html", "page.js"}


def test_it_is_small_pinned_and_not_root() -> None:
    bases = [one.words[0] for one in instructions(TEXT) if one.word == "FROM"]
    assert all(re.search(r"/python:\d+\.\d+\.\d+-slim-\w+$", base) for base in bases)
    assert len(set(bases)) == 1  # an environment runs with the Python that made it
    assert int(last("USER").value) > 0
    installs = [one.value for one in instructions(TEXT) if " install " in one.value]
    assert all("--no-cache" in step and "--torch-backend cpu" in step for step in installs)
    host, port = ("--host", "0.0.0.0"), ("--port", last("EXPOSE").value)  # noqa: S104
    options = last("ENTRYPOINT").words[2:]
    assert list(zip(options[::2], options[1::2], strict=True)) == [host, port]


def test_the_engine_is_sent_what_is_copied_and_nothing_else() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    copied = {
        source
        for one in instructions(TEXT)
        if one.word == "COPY" and not one.value.startswith("--from")
        for source in one.words[:-1]
    }
    assert ignored[0] == "*"
    assert {line[1:] for line in ignored if line.startswith("!")} == copied


def engine() -> str | None:
    """Return a container engine that works here."""
    for name in ("podman", "docker"):
        program = shutil.which(name)
        if program and not subprocess.run([program, "info"], capture_output=True).returncode:
            return program
    return None


@pytest.mark.exhaustive
def test_an_engine_builds_and_runs_it(tmp_path: Path) -> None:
    program = engine()
    if program is None:
        pytest.skip("neither podman nor docker works here")
    tag = "transduce-test"
    subprocess.run(
        [program, "build", "--tag", tag, "--file", "Containerfile", "."], cwd=ROOT, check=True
    )
    model = saved(tmp_path / "model", random_model(seed=5, max_positions=12))
    options = ["--detach", "--rm", "--read-only", "--volume", f"{model}:/model:ro"]
    started = [program, "run", *options, tag, "en-de=/model"]
    container = subprocess.check_output(started, text=True).strip()
    try:
        command = [program, "exec", container, *health_command()]
        while subprocess.run(command, capture_output=True, check=False).returncode:
            running = [program, "inspect", "--format", "{{.State.Running}}", container]
            assert subprocess.check_output(running, text=True).strip() == "true"
    finally:
        subprocess.run([program, "stop", container], capture_output=True, check=False)
