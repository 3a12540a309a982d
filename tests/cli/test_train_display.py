"""The display of a run: live lines on a terminal, plain lines elsewhere."""

import io
import math
import re
import subprocess
import sys
from dataclasses import replace

import pytest
from rich.console import Console

from transduce.cli.terminal.samples import Samples
from transduce.cli.terminal.train_display import Display, duration, lines, perplexity
from transduce.cli.terminal.watch import describe_data
from transduce.config.schema import DataConfig
from transduce.data.corpus import Pair
from transduce.training.data_summary import DataSummary
from transduce.training.progress import Translated
from transduce.training.run.events import (
    Compiling,
    Event,
    Finished,
    MemoryLowered,
    RolledBack,
    Saved,
    Scored,
    Skipped,
    Started,
    Stepped,
    Warned,
)

SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.5.1"
STARTED = Started(0, 4_500_000, 63_045_632, "cuda", "bfloat16", 1, 0.0)
STEPPED = Stepped(42_300, 4, 0.42, 2.3456, 1.234e-4, 1.0, 10**9, 123_456.7, 5025.0, 0.423)
SCORED = Scored(
    40_000,
    2.104,
    8.1989,
    best=True,
    seconds=5000.0,
    metric="BLEU",
    score=27.314,
    signature=SIGNATURE,
)
FINISHED = Finished(100_000, "all steps were made", "the mean of 5 checkpoints", 5025.0)
EVERYTHING: list[Event] = [
    STARTED,
    Compiling(0),
    STEPPED,
    SCORED,
    Saved(40_000, "runs/a/checkpoints/40000"),
    Skipped(41_000, 2, "epoch 4, batches 7 and 8"),
    RolledBack(41_000, 40_000, "epoch 4, batches 7 to 19"),
    MemoryLowered(41_000, 16_384),
    Warned(41_000, "run.score_sentences=0: nothing is translated"),
    FINISHED,
]


class Clock:
    """A clock that the test moves on."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    """A file that says it is a terminal."""

    def isatty(self) -> bool:
        return True

    def text(self) -> str:
        """What was written, line by line, without the codes that move the cursor and colour."""
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.getvalue()).replace("\r", "\n")


def on_terminal(clock: Clock | None = None) -> tuple[Display, Terminal]:
    file = Terminal()
    console = Console(file=file, force_terminal=True, width=80, _environ={"TERM": "xterm"})
    return Display(console, clock=clock or Clock()), file


def in_file(clock: Clock | None = None, every_s: float = 30) -> tuple[Display, io.StringIO]:
    file = io.StringIO()
    console = Console(file=file, width=80, _environ={"FORCE_COLOR": "1", "TERM": "xterm"})
    return Display(console, every_s=every_s, clock=clock or Clock()), file


def test_a_whole_run_in_a_file() -> None:
    display, file = in_file()
    with display:
        for event in EVERYTHING:
            display(event)
    assert file.getvalue() == (
        "4,500,000 pairs, 63,045,632 parameters, cuda, bfloat16\n"
        "compiling the first step: this takes up to half a minute\n"
        f"BLEU: {SIGNATURE}\n"
        "step 40,000  dev loss 2.104  perplexity 8.20  BLEU 27.31  * best\n"
        "step 40,000  saved\n"
        "step 41,000  skipped 2 steps: the loss spiked or was not finite (epoch 4, batches 7 and 8)"
        "\n"
        "step 41,000  rolled back to the weights of step 40,000 (epoch 4, batches 7 to 19)\n"
        "step 41,000  out of memory: now at most 16,384 padded tokens at a time\n"
        "run.score_sentences=0: nothing is translated\n"
        " 42%  1:23:45  step 42,300  epoch 3.42  loss 2.346  lr 1.23e-04  123,457 tok/s\n"
        "finished: all steps were made\n"
        "step 100,000, 1:23:45 of training; model folder: the mean of 5 checkpoints\n"
    )


@pytest.mark.parametrize(
    ("every_s", "seconds"),
    [(30, [1, 5, 15, 30, 60, 90, 120]), (10, [1, 5, *range(10, 121, 10)]), (100, [1, 5, 15, 100])],
)
def test_plain_lines_come_soon_at_first_and_then_evenly(every_s: float, seconds: list[int]) -> None:
    clock = Clock()
    display, file = in_file(clock, every_s)
    display(STARTED)
    began = clock.now
    for _ in range(1205):
        clock.now += 0.1001
        display(replace(STEPPED, seconds=clock.now - began))
    shown = re.findall(r"^ 42%  0:0(\d):(\d\d)  step", file.getvalue(), re.MULTILINE)
    assert [int(minute) * 60 + int(second) for minute, second in shown] == seconds


def test_after_a_pause_there_is_one_line_not_all_that_were_due() -> None:
    clock = Clock()
    display, file = in_file(clock)
    display(STARTED)
    clock.now += 3600
    display(STEPPED)
    display(STEPPED)
    assert file.getvalue().count("tok/s") == 1


@pytest.mark.parametrize("make", [on_terminal, in_file])
def test_the_last_step_is_left_when_a_run_breaks_off(make: object) -> None:
    clock = Clock()
    display, file = on_terminal(clock) if make is on_terminal else in_file(clock)

    def break_off() -> None:
        with display:
            display(STARTED)
            clock.now += 0.5
            display(STEPPED)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        break_off()
    last = file.text() if isinstance(file, Terminal) else file.getvalue()
    assert last.endswith("step 42,300  epoch 3.42  loss 2.346  lr 1.23e-04  123,457 tok/s\n")


def test_a_terminal_has_two_lines_below_that_fit_80_columns() -> None:
    clock = Clock()
    display, file = on_terminal(clock)
    with display:
        display(replace(STARTED, step=42_000, seconds=5000.0))
        display(replace(STEPPED, step=1_042_200, share_done=0.4, tokens_per_s=1234567.0))
        display(SCORED)
        clock.now += 20
        display(replace(STEPPED, step=1_042_300, share_done=0.5, tokens_per_s=1234567.0))
        display(Saved(1_042_300, "runs/a"))
    found = [line for line in file.text().splitlines() if "left" in line or "tokens/s" in line]
    bar, numbers = found[-2:]
    assert bar.endswith("50.0%  1:23:40  0:01:40 left  dev 2.104  BLEU 27.31")
    assert bar.startswith("━━━━━━━━")
    assert numbers.rstrip() == (
        "step 1,042,300  epoch 3.42  loss 2.346  lr 1.23e-04  1,234,567 tokens/s  saved"
    )
    assert max(len(line) for line in found) <= 80


def test_saved_is_shown_only_briefly_on_a_terminal() -> None:
    clock = Clock()
    display, file = on_terminal(clock)
    display(STARTED)
    display(STEPPED)
    display(Saved(1_042_300, "runs/a"))
    clock.now += 6
    with display:
        pass
    assert "saved" not in file.text()


def test_a_terminal_keeps_the_lines_above() -> None:
    display, file = on_terminal()
    with display:
        for event in EVERYTHING:
            display(event)
    text = " ".join(file.text().split())
    for event in EVERYTHING:
        if not isinstance(event, Stepped | Saved):
            assert all(" ".join(line.split()) in text for line in lines(event))


def test_the_time_left_is_estimated_from_this_session_alone() -> None:
    clock = Clock()
    display, file = on_terminal(clock)
    with display:
        display(replace(STARTED, step=1, seconds=100_000.0))
        display(replace(STEPPED, share_done=0.5))
        clock.now += 10
        display(replace(STEPPED, share_done=0.6))
    assert "0:00:40 left" in file.text()


@pytest.mark.parametrize("shares", [(0.0, 0.0), (0.5, 0.4), (0.5, 0.5)])
def test_no_time_left_is_shown_where_none_can_be_estimated(shares: tuple[float, float]) -> None:
    clock = Clock()
    display, file = on_terminal(clock)
    with display:
        display(STARTED)
        for share in shares:
            display(replace(STEPPED, share_done=share))
            clock.now += 10
    assert "left" not in file.text()
    assert ("%" in file.text()) == (shares[1] > 0)


def test_before_the_first_step_there_is_something_to_look_at() -> None:
    display, file = on_terminal()
    with display:
        display(STARTED)
    assert "waiting for the first steps" in file.text()


def test_what_is_not_finite_is_shown() -> None:
    display, file = in_file()
    with display:
        display(replace(STEPPED, loss=float("nan"), share_done=0.0, tokens_per_s=float("inf")))
        display(replace(SCORED, perplexity=float("inf"), metric=None, score=None, best=False))
    assert file.getvalue() == (
        "step 40,000  dev loss 2.104  perplexity inf\n"
        "1:23:45  step 42,300  epoch 3.42  loss nan  lr 1.23e-04  inf tok/s\n"
    )


def test_the_scores_that_chose_the_weights_are_said() -> None:
    event = replace(FINISHED, choice="by BLEU on 9 development sentences: the mean 2.00, last 1.00")
    assert lines(event)[1] == "weights by BLEU on 9 development sentences: the mean 2.00, last 1.00"


def test_resuming_says_from_where() -> None:
    assert lines(replace(STARTED, step=42_300, seconds=5025.0, processes=8)) == [
        "4,500,000 pairs, 63,045,632 parameters, cuda, bfloat16, 8 processes",
        "resuming after step 42,300, 1:23:45 of training",
    ]


def test_the_signature_is_said_when_it_changes() -> None:
    display, file = in_file()
    for signature in ("a", "a", "b"):
        display(replace(SCORED, signature=signature))
    assert re.findall(r"BLEU: (\w)", file.getvalue()) == ["a", "b"]


def test_the_metric_has_its_own_name() -> None:
    rate = replace(SCORED, metric="WER", score=12.5, higher_is_better=False, best_by="metric")
    display, file = in_file()
    display(rate)
    assert file.getvalue() == (
        f"WER: {SIGNATURE}\nstep 40,000  dev loss 2.104  perplexity 8.20  WER 12.50  * best\n"
    )


def test_phases_in_a_file() -> None:
    clock = Clock()
    display, file = in_file(clock)
    with display:
        with display.phase("counting") as progress:
            for done in range(0, 29_001, 1000):
                progress(done, 29_000)
                clock.now += 0.5
        with display.phase("reading") as progress:
            clock.now += 2
            progress(1234, 0)
        with display.phase("learning the vocabulary"):
            clock.now += 83
    assert file.getvalue() == (
        "counting\n"
        "counting: 7% of 29,000\n"
        "counting: 34% of 29,000\n"
        "counting: 29,000 in 0:00:15\n"
        "reading\n"
        "reading: 1,234\n"
        "reading: 1,234 in 0:00:02\n"
        "learning the vocabulary\n"
        "learning the vocabulary: done in 0:01:23\n"
    )


def test_phases_on_a_terminal() -> None:
    display, file = on_terminal()
    with display:
        with display.phase("encoding") as progress:
            progress(1500, 3000)
            display._live.refresh()
            display.say("something [bold]else[/bold] :smile:")
        with display.phase("learning the vocabulary"):
            display.say("and on")
    text = file.text()
    assert "something [bold]else[/bold] :smile:\n" in text
    assert re.search(r"^encoding  ━+[╸╺]?━* +50% of 3,000  0:00:00$", text, re.MULTILINE)
    assert re.search(r"^learning the vocabulary  ━+ +0:00:00$", text, re.MULTILINE)
    assert "encoding: 1,500 in 0:00:00\n" in text


def test_a_phase_that_fails_is_not_said_to_be_done() -> None:
    display, file = in_file()
    with pytest.raises(ValueError, match="broken"), display, display.phase("encoding"):
        raise ValueError("broken")
    assert file.getvalue() == "encoding\n"


@pytest.mark.parametrize("make", [on_terminal, in_file])
def test_control_codes_in_a_text_do_not_reach_the_terminal(make: object) -> None:
    display, file = on_terminal() if make is on_terminal else in_file()
    display.say("runs/\x1b[31mred\r\x07/é")
    assert file.getvalue() == "runs/\\x1b[31mred\\r\\x07/é\n"


def test_times_and_perplexities() -> None:
    times = [duration(seconds) for seconds in (-1, 59.9, 60, 5025, 1e6, math.nan)]
    assert times == ["0:00:00", "0:00:59", "0:01:00", "1:23:45", "277:46:40", "?"]
    assert [perplexity(p) for p in (8.199, 37000.0, 1e30)] == ["8.20", "37,000.00", "1.00e+30"]


def test_showing_needs_no_torch_and_importing_no_rich() -> None:
    program = """
import sys
from transduce.cli.terminal.train_display import Display
assert "rich" not in sys.modules
with Display() as display:
    display.say("here")
assert "torch" not in sys.modules
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert (result.stdout, result.stderr) == ("", "here\n")


def test_work_between_steps_takes_the_second_line_of_a_terminal() -> None:
    clock = Clock()
    display, file = on_terminal(clock)
    with display:
        display(STARTED)
        display(STEPPED)
        display.show_work("scoring", 0, 0, is_over=False)
        clock.now += 7
        display.show_work("scoring", 128, 500, is_over=False)
        before = len(file.text())
        display.show_work("scoring", 128, 500, is_over=True)
    assert re.search(r"^scoring  ━+ +0:00:00$", file.text(), re.MULTILINE)
    assert re.search(
        r"^scoring  ━+[╸╺]?━*  128 of 500 sentences  0:00:07$", file.text(), re.MULTILINE
    )
    assert "tokens/s" in file.text()[before:], "the numbers of the last step come back"


def test_in_a_file_only_long_work_between_steps_has_lines() -> None:
    clock = Clock()
    display, file = in_file(clock)
    with display:
        for seconds in (3, 40):
            for done in range(0, 500, 50):
                display.show_work("scoring", done, 500, is_over=False)
                clock.now += seconds / 10
            display.show_work("scoring", 0, 0, is_over=True)
    assert file.getvalue() == (
        "scoring: 100 of 500 sentences\nscoring: 200 of 500 sentences\n"
        "scoring: 400 of 500 sentences\nscoring: done in 0:00:40\n"
    )


def translated(*pairs: Pair, hypothesis: str = "Hallo.") -> Translated:
    return Translated(pairs, [hypothesis] * len(pairs))


def test_samples_are_short_sentences_but_not_the_shortest() -> None:
    long, short = Pair("very " * 20, "sehr " * 20), Pair("Yes.", "Ja.")
    middle = [Pair(f"This is sentence number {n}.", f"Das ist Satz {n}.") for n in range(3)]
    shown = Samples().lines(translated(long, short, *middle, hypothesis=" ist" * 50))
    assert shown[:3] == [
        "  source       This is sentence number 0.",
        "  reference    Das ist Satz 0.",
        f"  translation  {('ist ' * 16)[:-1]}…",
    ]
    assert shown[3:5] == [
        "  source       This is sentence number 1.",
        "  reference    Das ist Satz 1.",
    ]
    assert Samples().lines(translated(long, short))[0] == "  source       Yes."


def test_samples_are_shown_at_most_once_in_a_while() -> None:
    clock = Clock()
    samples = Samples(every_s=60, clock=clock)
    shown = []
    for _ in range(10):
        shown.append(bool(samples.lines(translated(Pair("One.", "Eins.")))))
        clock.now += 20
    assert shown == [True, False, False] * 3 + [True]


DATA = DataSummary(1000, {"empty": 60, "duplicate": 50}, 40, 40, 850, 4000)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            DATA,
            [
                "data: 1,000 pairs read, 850 trained on, 40 held out for development",
                "dropped 110 pairs: 60 empty, 50 duplicate",
                "'transduce data check' shows examples; --no-clean keeps what only looks odd",
            ],
        ),
        (
            DataSummary(1000, {}, 0, 20, 1000, 4000, requested_vocab_size=4000),
            ["data: 1,000 pairs read, 1,000 trained on, 20 pairs given for development"],
        ),
        (
            DataSummary(9, {}, 0, 2, 9, 400, requested_vocab_size=500, tokenizer="a.json"),
            [
                "data: 9 pairs read, 9 trained on, 2 pairs given for development",
                "vocabulary: 400 entries, not the 500 requested: a.json has no more",
            ],
        ),
    ],
)
def test_what_became_of_the_text_in_words(data: DataSummary, expected: list[str]) -> None:
    assert list(describe_data(data, DataConfig())) == expected
