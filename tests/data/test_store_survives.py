"""Killed, concurrent and failing builds: a store is complete or absent."""

import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from transduce.data.corpus import TwoFiles
from transduce.data.store import StoreSpec, open_or_build
from transduce.grammar import generate
from transduce.text.tokenizer import Tokenizer

PAIRS = 8_000
BUILD = """
import sys
from pathlib import Path
from transduce.data.corpus import TwoFiles
from transduce.data.store import StoreSpec, open_or_build
if __name__ == "__main__":
    folder, cache = map(Path, sys.argv[1:])
    spec = StoreSpec((TwoFiles(folder / "train.en", folder / "train.de"),), folder / "t.json")
    print(len(open_or_build(spec, cache)))
"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    pairs = list(generate(PAIRS, seed=6))
    (folder / "train.en").write_text("".join(f"{pair.src}\n" for pair in pairs), encoding="utf-8")
    (folder / "train.de").write_text("".join(f"{pair.tgt}\n" for pair in pairs), encoding="utf-8")
    Tokenizer.learn((t for p in pairs[:1000] for t in p), vocab_size=600).save(folder / "t.json")
    (folder / "build.py").write_text(BUILD)
    return folder


@pytest.fixture(scope="module")
def undisturbed(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    cache = tmp_path_factory.mktemp("undisturbed")
    source = TwoFiles(corpus / "train.en", corpus / "train.de")
    open_or_build(StoreSpec((source,), corpus / "t.json"), cache)
    return content(cache)


def content(cache: Path) -> dict[str, bytes]:
    """Return all files of all stores in a cache, including incomplete ones."""
    files = (path for path in cache.rglob("*") if path.is_file() and path.name != "digests.json")
    return {str(path.relative_to(cache)): path.read_bytes() for path in files}


def start(corpus: Path, cache: Path, *, max_bytes: int | None = None) -> "subprocess.Popen[str]":
    def limit() -> None:
        if max_bytes:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (max_bytes, max_bytes))

    return subprocess.Popen(
        [sys.executable, str(corpus / "build.py"), str(corpus), str(cache)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limit,
        start_new_session=True,
    )


@pytest.mark.parametrize(
    "delay_s",
    [
        pytest.param(0.08 * n, marks=[pytest.mark.exhaustive] if n != 16 else [])
        for n in range(1, 21)
    ],
)
def test_a_killed_build_is_followed_by_the_same_store(
    delay_s: float, corpus: Path, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    process = start(corpus, tmp_path)
    try:
        process.wait(timeout=delay_s)
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    again = start(corpus, tmp_path)
    out, err = again.communicate()
    assert (out, err) == (f"{PAIRS}\n", "")
    assert content(tmp_path) == undisturbed


def test_two_at_once_do_not_disturb_each_other(
    corpus: Path, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    rivals = [start(corpus, tmp_path) for _ in range(2)]
    assert [rival.communicate() for rival in rivals] == [(f"{PAIRS}\n", "")] * 2
    assert content(tmp_path) == undisturbed


def test_a_full_disk_is_a_clear_error_and_leaves_nothing(corpus: Path, tmp_path: Path) -> None:
    process = start(corpus, tmp_path, max_bytes=50_000)
    _, err = process.communicate()
    assert process.returncode != 0
    assert re.search(r"InputError: cannot write .*: File too large", err)
    assert content(tmp_path) == {}
