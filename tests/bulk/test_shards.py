"""Parts are the whole text, however it is divided."""

from functools import partial
from pathlib import Path

import pytest

from tests.command import Command
from transduce.bulk import shards
from transduce.bulk.shards import shards_of


def divided(count: int, *, window: int, shard_lines: int) -> list[tuple[int, int, int]]:
    lines = [f"line {n}" for n in range(count)]
    found = list(shards_of(lines, None, window=window, shard_lines=shard_lines))
    assert [text for shard in found for text in shard.texts] == lines
    return [(shard.number, shard.first, len(shard.texts)) for shard in found]


def test_a_shard_is_of_whole_windows() -> None:
    assert divided(22, window=4, shard_lines=8) == [(0, 0, 8), (1, 8, 8), (2, 16, 6)]
    assert divided(22, window=5, shard_lines=8) == [(0, 0, 10), (1, 10, 10), (2, 20, 2)]
    assert divided(8, window=4, shard_lines=8) == [(0, 0, 8)]


def test_a_text_without_lines_has_one_shard() -> None:
    assert divided(0, window=4, shard_lines=8) == [(0, 0, 0)]


def test_long_lines_end_a_shard_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARD_CHARS", 30)
    assert divided(12, window=2, shard_lines=8) == [(0, 0, 6), (1, 6, 6)]


def _of_pair(counts: dict[tuple[int, int], int], number: int, first: int) -> int | None:
    return counts.get((number, first))


def test_shards_that_are_done_are_skipped() -> None:
    """Where one ends is as if none were done; lines and prefixes of the others are the same."""
    lines, starts = [f"line {n}" for n in range(22)], [f"start {n}" for n in range(22)]
    everything = list(shards_of(lines, starts, window=4, shard_lines=8))
    for done in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)):
        counts = {(n, everything[n].first): len(everything[n].texts) for n in done}
        there = partial(_of_pair, counts)
        found = shards_of(lines, starts, window=4, shard_lines=8, lines_done=there)
        assert list(found) == [shard for shard in everything if shard.number not in done]


def test_prefixes_go_with_their_lines() -> None:
    found = list(shards_of("abcde", iter("vwxyz"), window=2, shard_lines=2))
    assert [shard.prefixes for shard in found] == [["v", "w"], ["x", "y"], ["z"]]


@pytest.mark.parametrize(
    "form",
    [
        ("--beam", "2", "--jsonl"),
        ("--beam", "2", "--n-best", "2"),
        ("--sample", "--seed", "4"),
    ],
)
def test_sharded_is_unsharded(
    form: tuple[str, ...], model: Path, text: Path, command: Command
) -> None:
    """Samples too: their noise follows the number of a line in the whole text."""
    arguments: list[str | Path] = ["translate", model, text, *form, "--window", "4", "--out"]
    assert command(*arguments, text.with_name("whole")).code == 0
    whole = text.with_name("whole").read_bytes()
    for shard_lines, count in ((1, 6), (8, 3)):
        folder = text.with_name(f"by-{shard_lines}")
        done = command(*arguments, folder, "--shard-lines", str(shard_lines))
        assert done.code == 0, done.err
        ending = "jsonl" if "--jsonl" in form else "txt"
        parts = sorted(folder.glob("part-*"))
        assert [part.name for part in parts] == [f"part-{n:08}.{ending}" for n in range(count)]
        assert b"".join(part.read_bytes() for part in parts) == whole
        assert f"wrote {folder}: 22 lines in {count} parts in " in done.err
        assert done.err.endswith(f"; all of it: cat {folder}/part-*.{ending}\n")


def test_windows_are_those_of_one_file(model: Path, text: Path, command: Command) -> None:
    """Without --window, a JSON line has the same score to the last digit."""
    text.write_text("a\nb c\n" * 77, encoding="utf-8")
    arguments: list[str | Path] = ["translate", model, text, "--beam", "1", "--jsonl", "--out"]
    assert command(*arguments, text.with_name("whole")).code == 0
    folder = text.with_name("parts")
    assert command(*arguments, folder, "--shard-lines", "50").code == 0
    parts = sorted(folder.glob("part-*"))
    assert [part.read_bytes().count(b"\n") for part in parts] == [128, 26]
    assert b"".join(p.read_bytes() for p in parts) == text.with_name("whole").read_bytes()
