"""Shards on a Ray cluster: the same bytes, also if a node dies."""

import importlib.util
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.command import Command
from tests.translation.likely import sentences

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None, reason="Ray is not installed: the extra 'cluster'"
    ),
    pytest.mark.exhaustive,
]
LINES = 600
OPTIONS = ("--sample", "--window", "10", "--jsonl")


def test_a_node_that_dies_has_its_shards_done_again(
    cluster: Any, model: Path, tmp_path: Path, command: Command
) -> None:
    """It is killed once some parts are written, while each of three nodes has shards."""
    text, folder = tmp_path / "a.en", tmp_path / "parts"
    text.write_text("".join(f"{line}\n" for line in sentences(LINES)), encoding="utf-8")
    nodes = [cluster.add_node(num_cpus=1) for _ in range(3)]
    cluster.wait_for_nodes()
    options = (*OPTIONS, "--out", f"{folder}/", "--shard-lines", "20", "--on", cluster.address)
    arguments = [sys.executable, "-m", "transduce", "translate", str(model), str(text), *options]
    process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and len(list(folder.glob("part-*.jsonl"))) < 4:
        time.sleep(0.02)
    cluster.remove_node(nodes[0], allow_graceful=False)
    _, told = process.communicate()
    assert process.returncode == 0, told
    assert "is lost; the shards it had" in told
    assert command("translate", model, text, *OPTIONS, "--out", tmp_path / "whole").code == 0
    parts = sorted(folder.glob("part-*.jsonl"))
    assert len(parts) == LINES // 20
    assert b"".join(p.read_bytes() for p in parts) == (tmp_path / "whole").read_bytes()
