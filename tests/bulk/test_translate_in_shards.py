"""`transduce.translate_in_shards`, and workers that answer in any order."""

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

import transduce
from tests.command import Command
from transduce.bulk.made_from import OutputSettings, TextFiles
from transduce.bulk.shards import Shard
from transduce.bulk.translate import BulkText, BulkWatcher, translate_text
from transduce.bulk.workers import LocalWorker, ModelSource, OutputRecord, ShardSettings
from transduce.errors import InputError
from transduce.hardware import ray_connection
from transduce.translation.options import Options

GREEDY = Options(beam=1)


class Counting(BulkWatcher):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.in_parts = 0

    def translated(self, line: OutputRecord) -> None:
        self.numbers.append(line.number)

    def written(self, *, lines: int) -> None:
        self.in_parts += lines


class BackwardWorkers(LocalWorker):
    """Returns the shard that was submitted last, as a cluster may."""

    max_in_flight = 2
    most = 0

    def submit(self, shard: Shard, settings: ShardSettings) -> None:
        super().submit(shard, settings)
        self.most = max(self.most, len(self._submitted))

    def next_done(self) -> tuple[Shard, Iterable[OutputRecord]]:
        self._submitted.reverse()
        return super().next_done()


def test_python_writes_what_the_command_does(model: Path, text: Path, command: Command) -> None:
    out, watcher = text.with_name("parts"), Counting()
    done = transduce.translate_in_shards(
        model, text, out, GREEDY, window=4, shard_lines=8, watcher=watcher
    )
    assert (len(done.parts), done.lines, done.lines_now) == (3, 22, 22)
    assert (watcher.numbers, watcher.in_parts) == (list(range(22)), 22)
    by_command = ("translate", model, text, "--beam", "1", "--window", "4", "--out")
    assert command(*by_command, text.with_name("whole")).code == 0
    whole = b"".join(part.read_bytes() for part in done.parts)
    assert whole == text.with_name("whole").read_bytes()
    again = command(*by_command, out)
    assert "22 lines, 0 of them now, in 3 parts" in again.err


def test_files_are_one_text(model: Path, text: Path, tmp_path: Path) -> None:
    table = tmp_path / "b.tsv"
    table.write_text("src\ttgt\nA dog.\tEin Hund.\n", encoding="utf-8")
    done = transduce.translate_in_shards(model, [text, table], tmp_path / "parts", GREEDY)
    assert done.lines == 23


def test_the_order_of_answers_changes_nothing(model: Path, text: Path) -> None:
    def translated(workers: LocalWorker, out: Path) -> bytes:
        job = BulkText(TextFiles([text]), 22, out, OutputSettings(GREEDY), shard_lines=4, window=4)
        done = translate_text(job, workers, BulkWatcher())
        return b"".join(part.read_bytes() for part in done.parts)

    translator = ModelSource((model,), "cpu").load()
    workers = BackwardWorkers(translator)
    in_order = translated(LocalWorker(translator), text.with_name("in order"))
    assert translated(workers, text.with_name("backward")) == in_order
    assert workers.most == 2, "no more shards are in memory than the workers ask for"


def test_a_shortlist_is_used_and_noted(model: Path, text: Path, command: Command) -> None:
    copy = shutil.copytree(model, text.with_name("model"))
    pairs = text.with_name("pairs.tsv")
    pairs.write_text("src\ttgt\n" + "A dog.\tEin Hund.\n" * 9, encoding="utf-8")
    transduce.make_shortlist(copy, src=[pairs], frequent=5, per_token=3)
    narrow, wide = text.with_name("narrow"), text.with_name("wide")
    done = transduce.translate_in_shards(copy, text, narrow, GREEDY, window=4, shortlist=True)
    words = ("translate", copy, text, "--beam", "1", "--window", "4", "--out")
    assert command(*words, text.with_name("whole"), "--shortlist").code == 0
    [part] = done.parts
    assert part.read_bytes() == text.with_name("whole").read_bytes()
    transduce.translate_in_shards(copy, text, wide, GREEDY, window=4)
    assert (wide / part.name).read_bytes() != part.read_bytes()
    with pytest.raises(InputError, match="shortlist false, not true"):
        transduce.translate_in_shards(copy, text, wide, GREEDY, window=4, shortlist=True)


def test_a_missing_extra_is_one_line(
    model: Path, text: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_connection, "find_spec", lambda _name: None)
    told = command("translate", model, text, "--out", text.with_name("x"), "--on", "ray")
    assert "add --out DIR/" in told.mistake()
    told = command("translate", model, text, "--out", f"{text.parent}/x/", "--on", "ray")
    assert told.mistake().startswith("--on ray: Ray is not installed: pip install 'transduce")
    assert not text.with_name("x").exists()
