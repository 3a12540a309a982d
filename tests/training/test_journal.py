"""The journal of a run: written line by line, read back whole, whatever was killed."""

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.errors import InputError
from transduce.training.run.events import Event, Finished, MemoryLowered, Saved, Scored, Stepped
from transduce.training.run.journal import Journal, read_journal

OLD = Path(__file__).parents[1] / "fixtures" / "version_0_1" / "finished.jsonl"

EVENTS = st.lists(
    st.one_of(*(st.builds(kind, step=st.integers(0, 9)) for kind in get_args(Event))), max_size=8
)
HISTORY: list[Event] = [
    Stepped(1, 1, 0.5, 9.5, 1e-7, 2.0, 900, 450.0, 2.0, 0.01),
    Scored(1, 8.25, 3827.5, best=True, seconds=3.0),
    Saved(1, "runs/é/step-1"),
    Stepped(2, 1, 1.0, 9.25, 2e-7, 2.5, 1800, 450.0, 4.0, 0.02),
    MemoryLowered(2, 2048),
    Stepped(3, 2, 0.5, 9.0, 3e-7, 2.25, 2700, 450.0, 6.0, 0.03),
    Finished(3, "all steps made", "of step 3", 6.0),
]


def write(path: Path, events: list[Event]) -> bytes:
    path.unlink(missing_ok=True)
    with Journal(path) as journal:
        for event in events:
            journal(event)
    return path.read_bytes()


def as_read(events: list[Event]) -> list[Event]:
    """What reading gives: nan, or no score, for what is not finite; of a step's scores the last."""
    last = {event.step: place for place, event in enumerate(events) if isinstance(event, Scored)}
    return [
        without_odd(event)
        for place, event in enumerate(events)
        if not isinstance(event, Scored) or last[event.step] == place
    ]


def without_odd(event: Event) -> Event:
    values: dict[str, Any] = asdict(event)
    values |= {name: math.nan for name, value in values.items() if odd(value)}
    if odd(values.get("score")):
        values["score"] = None
    return type(event)(**values)


def odd(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def text(events: list[Event]) -> str:
    """Compare in writing: nan is not equal to itself."""
    return repr(events)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run") / "journal.jsonl"


@given(events=EVENTS)
def test_what_was_told_is_read_back(path: Path, events: list[Event]) -> None:
    write(path, events)
    assert text(read_journal(path)) == text(as_read(events))


@given(events=EVENTS)
def test_every_line_is_json_that_any_reader_takes(path: Path, events: list[Event]) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    lines = write(path, events).decode("ascii").splitlines()
    found = [json.loads(line, parse_constant=refuse) for line in lines]
    assert [line["event"] for line in found] == [type(event).__name__ for event in events]


def test_each_event_is_in_the_file_when_the_call_returns(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        for count, event in enumerate(HISTORY, start=1):
            journal(event)
            assert read_journal(path) == HISTORY[:count]


@pytest.mark.exhaustive(after=2)
@pytest.mark.parametrize("step", [0, 1, 2, 3])
def test_killed_at_any_byte_it_goes_on(tmp_path: Path, step: int) -> None:
    path = tmp_path / "journal.jsonl"
    whole = write(path, HISTORY)
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        written = HISTORY[: whole[:length].count(b"\n")]
        assert read_journal(path) == written
        with Journal.open(path, step) as journal:
            kept = [event for event in written if event.step <= step]
            assert read_journal(path) == kept
            journal(HISTORY[-1])
        assert read_journal(path) == [*kept, HISTORY[-1]]
    assert list(tmp_path.iterdir()) == [path]


@given(events=EVENTS, step=st.integers(0, 9))
def test_going_on_drops_what_will_be_made_again(path: Path, events: list[Event], step: int) -> None:
    write(path, events)
    Journal.open(path, step).close()
    before = [event for event in events if event.step <= step]
    assert path.read_bytes() == write(path, before)


def test_going_on_keeps_the_score_of_the_step_until_it_is_told_again(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    first = Scored(
        1, 8.25, 3827.5, best=True, seconds=3.0, metric="BLEU", score=1.0, signature="sig"
    )
    again = replace(first, seconds=4.0)
    write(path, [first])
    with Journal.open(path, 1) as journal:
        assert read_journal(path) == [first]
        journal(again)
    assert read_journal(path) == [again]


def test_a_run_may_begin_by_going_on(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "journal.jsonl", 0) as journal:
        journal(HISTORY[0])
    assert read_journal(tmp_path / "journal.jsonl") == HISTORY[:1]


def test_what_a_newer_version_writes_is_passed_over_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    saved = {"event": "Saved", "step": 1, "path": "a", "colour": [1]}
    lines = [json.dumps(saved), '{"event": "Danced", "step": 1}', '{"remark": 7}', '{"event": [1]}']
    path.write_text("".join(f"{line}\n" for line in lines))
    Journal.open(path, 1).close()
    assert path.read_text().splitlines() == lines
    assert read_journal(path) == [Saved(1, "a")]


OLD_SCORED = (
    '{"event": "Scored", "step": 8, "loss": 2.5, "perplexity": 12.2, "bleu": %s, '
    '"signature": "%s", "best": true, "seconds": 3.0}'
)


def test_scores_of_version_0_1_are_read_as_bleu(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    lines = [OLD_SCORED % ("31.25", "tok:13a"), (OLD_SCORED % ("null", "")).replace("8", "9")]
    path.write_text("".join(f"{line}\n" for line in lines))
    with_bleu = Scored(8, 2.5, 12.2, True, 3.0, "loss", "BLEU", 31.25, "tok:13a", True)
    assert read_journal(path) == [with_bleu, Scored(9, 2.5, 12.2, best=True, seconds=3.0)]
    Journal.open(path, 9).close()
    assert path.read_text().splitlines() == lines, "resumed, its lines stay as they are"


def test_a_whole_journal_of_version_0_1_is_read() -> None:
    events = read_journal(OLD)
    lines = [json.loads(line) for line in OLD.read_text(encoding="utf-8").splitlines()]
    assert [(type(e).__name__, e.step) for e in events] == [(x["event"], x["step"]) for x in lines]
    scored = [event for event in events if isinstance(event, Scored)]
    assert {(event.metric, event.best_by) for event in scored} == {("BLEU", "loss")}
    assert [event.score for event in scored] == [x["bleu"] for x in lines if "bleu" in x]


DAMAGED = [
    b"no json",
    b"[1]",
    b"\xff\xfe",
    b"\0\0\0\0",
    b"[" * 100_000,
    b"9" * 5_000,
    b"",
]


@pytest.mark.parametrize("damaged", DAMAGED)
@pytest.mark.parametrize("after", [b"", b'{"event": "Danced"}\n'], ids=["last", "not last"])
def test_a_damaged_line_is_named(tmp_path: Path, damaged: bytes, after: bytes) -> None:
    path = tmp_path / "journal.jsonl"
    whole = write(path, HISTORY[:2]) + damaged + b"\n" + after
    path.write_bytes(whole)
    with pytest.raises(InputError, match=r"journal.jsonl line 3 is damaged \(.*; delete that line"):
        read_journal(path)
    with pytest.raises(InputError, match=r"journal.jsonl line 3 is damaged"):
        Journal.open(path, 5)
    assert path.read_bytes() == whole
    assert list(tmp_path.iterdir()) == [path]


def test_a_changed_byte_is_told_or_changes_nothing(tmp_path: Path) -> None:
    """Reading and resuming name the line; in the word "checksum" a change does no harm."""
    path = tmp_path / "journal.jsonl"
    whole = write(path, HISTORY)
    for place in range(len(whole) - 1):
        changed = bytearray(whole)
        changed[place] ^= 1  # digits stay digits, and letters letters
        path.write_bytes(changed)
        if b"checksum" in whole[max(0, place - 7) : place + 8]:
            assert read_journal(path) == HISTORY
            continue
        number = whole.count(b"\n", 0, place) + 1
        for read in (read_journal, lambda path: Journal.open(path, 5)):
            with pytest.raises(InputError, match=rf"line {number} is damaged \(.*; delete that"):
                read(path)


def test_lines_without_checksums_are_read(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    lines = [json.loads(line) for line in write(path, HISTORY).splitlines()]
    for line in lines:
        del line["checksum"]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert read_journal(path) == HISTORY
    Journal.open(path, 3).close()
    assert read_journal(path) == HISTORY


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('{"event": "Saved", "step": 1}', "Saved without path"),
        ('{"event": "Saved", "step": "1", "path": "a"}', "step is '1'"),
        ('{"event": "Saved", "step": true, "path": "a"}', "step is True"),
        ('{"event": "Saved", "step": 1.5, "path": "a"}', "step is 1.5"),
        ('{"event": "Saved", "step": null, "path": "a"}', "step is None"),
        (OLD_SCORED % ('"high"', ""), "score is 'high'"),
    ],
)
def test_an_event_that_is_none_is_named(tmp_path: Path, line: str, fault: str) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text(f"{line}\n{line}\n")
    with pytest.raises(InputError) as raised:
        read_journal(path)
    assert f"line 1 is damaged ({fault})" in str(raised.value)


def test_whole_numbers_are_floats_too(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text('{"event": "Finished", "step": 1, "reason": "", "weights": "", "seconds": 2}\n')
    assert read_journal(path) == [Finished(1, "", "", 2.0)]


def test_numbers_too_large_for_a_float_are_none(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    line = '{"event": "Finished", "step": 1, "reason": "", "weights": "", "seconds": '
    path.write_text(f"{line}{10**400}" + "}\n")
    assert text(read_journal(path)) == text([Finished(1, "", "", math.nan)])


def test_a_full_disk_is_one_line() -> None:
    with (
        Journal(Path("/dev/full")) as journal,
        pytest.raises(InputError, match=r"^cannot write /dev/full: No space left on device; free"),
    ):
        journal(HISTORY[0])


def test_files_that_cannot_be_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*: No such file or directory"):
        read_journal(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match=r"cannot write .*: Is a directory"):
        Journal.open(tmp_path, 3)
    with pytest.raises(InputError, match=r"cannot write .*: No such file or directory"):
        Journal(tmp_path / "no" / "journal.jsonl")
