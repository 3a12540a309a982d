"""`transduce distill`: a student from a teacher's translations, stopped at any moment."""

import json
import re
import shutil
import signal
from pathlib import Path

import pytest

from tests.command import Command, KillAt, start
from tests.pipelines.small_models import STUDENT, write_lines
from transduce.data.corpus import Pair, read_lines
from transduce.errors import InputError
from transduce.pipelines.distillation import distill
from transduce.pipelines.translated_pairs import (
    UNUSUAL,
    WORST,
    LineTranslations,
    by_agreement,
    judge_translations,
    kept_pairs,
)
from transduce.text.tokenizer import Tokenizer
from transduce.translation.load import default_options, load
from transduce.translation.options import Options


def arguments(corpus: Path, model: Path, out: Path, *options: str) -> list[str | Path]:
    test: list[str | Path] = ["--test-src", corpus / "t.de", "--test-ref", corpus / "t.en"]
    shards = ["--shard-lines", "50", "--window", "50", "--beam", "2", "--device", "cpu"]
    source: list[str | Path] = ["--src", corpus / "d.de", "--out", out, "--preset", "tiny"]
    return ["distill", model, *source, *test, *shards, *STUDENT, *options]


@pytest.fixture(scope="module")
def finished(corpus: Path, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a distillation that nothing has stopped."""
    out = tmp_path_factory.mktemp("distilled") / "out"
    done = start(*arguments(corpus, model, out), log=out.with_name("log"))
    done.join()
    assert done.exitcode == 0, out.with_name("log").read_text()
    return out


def outcomes(out: Path) -> dict[str, bytes]:
    """All that the stages have made, except what depends on the clock."""
    patterns = (
        "translations/part-*",
        "pairs/*",
        "student/model.safetensors",
        "student/tokenizer.json",
        "int8/model.bin",  # its settings name the folder
        "measured/test-*",
    )
    paths = [path for pattern in patterns for path in sorted(out.glob(pattern))]
    return {str(path.relative_to(out)): path.read_bytes() for path in paths}


def test_each_stage_leaves_its_outcome(corpus: Path, model: Path, finished: Path) -> None:
    made = outcomes(finished)
    assert [name for name in made if name.startswith("pairs/")] == [
        "pairs/outcome.json",
        "pairs/train.de",
        "pairs/train.en",
    ]
    report = json.loads((finished / "report.json").read_text(encoding="utf-8"))
    systems = ["teacher", "student", "student int8", "teacher (CTranslate2)"]
    assert list(report["speeds"]) == systems
    assert all(speed["sentences_per_s"] > 0 for speed in report["speeds"].values())
    assert report["speeds"]["student"]["beam"] == default_options(finished / "student").beam
    assert report["speeds"]["student int8"]["disk_bytes"] > 0
    [quality] = report["qualities"]
    assert list(quality["reports"]) == systems[:3]
    hypotheses = [one.text for one in load(model, "cpu").translate(
        list(read_lines(corpus / "t.de")), Options(beam=2)
    )]  # fmt: skip
    assert list(read_lines(finished / "measured" / "test-1-teacher.txt")) == hypotheses
    text = (finished / "report.md").read_text(encoding="utf-8")
    assert "int8 against the student: BLEU" in text
    assert (finished / "quality_over_speed.png").read_bytes().startswith(b"\x89PNG")


def test_pairs_are_the_teachers_own(corpus: Path, model: Path, finished: Path) -> None:
    known = json.loads((finished / "pairs" / "outcome.json").read_text(encoding="utf-8"))
    sources = list(read_lines(finished / "pairs" / "train.de"))
    targets = list(read_lines(finished / "pairs" / "train.en"))
    assert known["lines"] == 100
    assert len(sources) == len(targets) == known["kept"] <= 90
    assert known["kept"] + sum(known["dropped"].values()) == 100
    options = Options(beam=2)
    found = load(model, "cpu").stream(read_lines(corpus / "d.de"), options, window=50)
    translated = {one.source: one.text for one in found}
    assert [translated[source] for source in sources] == targets


MOMENTS = [
    KillAt("os.rename", r"measured/test-1-student\.txt\.[0-9a-f]+\.making"),
    KillAt("open", r"translations/part-00000001\.jsonl\.[0-9a-f]+\.making"),
    KillAt("os.rename", r"pairs\.[0-9a-f]+\.making"),
    KillAt("open", r"pipeline\.json\.[0-9a-f]+\.making"),
    KillAt("os.rename", r"student/checkpoints/step-000000000006.*\.making"),
    KillAt("open", r"int8\.[0-9a-f]+\.making/model\.bin"),
    KillAt("open", r"report\.json\.[0-9a-f]+\.making"),
]


@pytest.mark.exhaustive(after=1)
@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment.pattern.split("\\")[0])
def test_killed_it_goes_on_to_the_same_bytes(
    moment: KillAt, corpus: Path, model: Path, finished: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    if "measured" in moment.pattern:  # what comes before it is compared by other moments
        shutil.copytree(finished, out)
        shutil.rmtree(out / "measured")
    killed = start(*arguments(corpus, model, out), log=tmp_path / "log", kill_at=moment)
    killed.join()
    assert killed.exitcode == -signal.SIGKILL, (tmp_path / "log").read_text()
    assert not (out / "report.md").exists()  # it would be the report of another student
    again = start(*arguments(corpus, model, out), log=tmp_path / "log")
    again.join()
    assert again.exitcode == 0, (tmp_path / "log").read_text()
    assert outcomes(out) == outcomes(finished)
    assert not list(out.glob("*.making"))


def test_the_same_command_again_has_nothing_to_do(
    corpus: Path, model: Path, finished: Path, command: Command
) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*.safetensors")}
    again = command(*arguments(corpus, model, finished))
    assert again.code == 0, again.err
    assert "training the student: done before" in again.err
    assert "translating with the teacher" not in again.err
    assert re.search(r"student int8: BLEU \S+, chrF2 \S+ on t.de, ", again.out)
    assert before == {path: path.stat().st_mtime_ns for path in finished.rglob("*.safetensors")}


@pytest.mark.parametrize(
    ("change", "difference", "later"),
    [
        (["--keep", "0.5"], "keep 0.9, not 0.5", ["pairs", "student", "int8", "measured"]),
        (["--alpha", "1"], "alpha 0.6, not 1.0", ["translations", "pairs", "student"]),
        (
            ["--set=training.steps=99"],
            "settings.training.steps 12, not 99: ",
            ["student", "int8", "measured"],
        ),
        (
            ["--set=training.eps_ls=0.2"],
            "settings.training.eps_ls none, not 0.2: ",
            ["student", "int8", "measured"],
        ),
        (
            ["--precision", "bf16"],
            'precision "float32", not "bf16": ',
            ["translations", "pairs", "student"],
        ),
    ],
)
def test_other_settings_are_refused(
    change: list[str],
    difference: str,
    later: list[str],
    corpus: Path,
    model: Path,
    finished: Path,
    command: Command,
) -> None:
    before = outcomes(finished)
    told = command(*arguments(corpus, model, finished, *change)).mistake()
    assert told.startswith(f"{finished} was begun with {difference}")
    assert (
        f"to start over from there, remove {finished / later[0]} and {finished / later[1]}" in told
    )
    assert outcomes(finished) == before


@pytest.mark.exhaustive
def test_removing_the_later_outcomes_lets_settings_change(
    corpus: Path, model: Path, finished: Path, tmp_path: Path, command: Command
) -> None:
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    for name in ("student", "int8", "measured"):
        shutil.rmtree(out / name)
    again = command(*arguments(corpus, model, out, "--set=training.steps=6"))
    assert again.code == 0, again.err
    assert "translating with the teacher" not in again.err
    found, before = outcomes(out), outcomes(finished)
    assert found["student/model.safetensors"] != before["student/model.safetensors"]
    assert found["pairs/train.de"] == before["pairs/train.de"]


def test_a_shortlist_is_made_of_the_pairs_and_measured(
    corpus: Path, model: Path, finished: Path, tmp_path: Path, command: Command
) -> None:
    told = command(*arguments(corpus, model, finished, "--shortlist")).mistake()
    assert "shortlist none, not true" in told
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    for name in ("int8", "measured"):
        shutil.rmtree(out / name)
    again = command(*arguments(corpus, model, out, "--shortlist"))
    assert again.code == 0, again.err
    assert (out / "student" / "shortlist.safetensors").is_file()
    assert (out / "int8" / "vmap.txt").is_file()
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert {"student shortlist", "student int8 shortlist"} <= set(report["speeds"])
    assert "a shortlist against the student: BLEU" in (out / "report.md").read_text("utf-8")
    assert (
        outcomes(out)["student/model.safetensors"]
        == (outcomes(finished)["student/model.safetensors"])
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--by", "agreement"], "--by agreement compares with references: give them with --tgt"),
        (["--n-best", "2"], "the best of 2 translations is chosen by agreement: give references"),
        (["--keep", "0"], "--keep 0: use more than 0, up to 1"),
        (["--preset", "student_tny"], "no preset named 'student_tny'"),
        (
            ["--preset", "rnn_tiny", "--shortlist"],
            "the student: a model of the kind rnn scores its",
        ),
    ],
)
def test_mistakes_are_one_line_before_any_work(
    options: list[str], message: str, corpus: Path, model: Path, tmp_path: Path, command: Command
) -> None:
    given: list[str | Path] = [
        "distill",
        model,
        "--src",
        corpus / "d.de",
        "--out",
        tmp_path / "out",
        *options,
    ]
    assert command(*given).mistake().startswith(message)
    assert not (tmp_path / "out").exists()


def test_a_teacher_of_several_languages_is_refused_before_any_work(
    corpus: Path, model: Path, tmp_path: Path, command: Command
) -> None:
    teacher = tmp_path / "teacher"
    shutil.copytree(model, teacher)
    Tokenizer.load(model / "tokenizer.json").with_tags(["de", "fr"]).save(
        teacher / "tokenizer.json"
    )
    told = command(*arguments(corpus, teacher, tmp_path / "out")).mistake()
    assert told.startswith(f"{teacher} translates into several languages, and a student learns one")
    assert not (tmp_path / "out").exists()


def test_references_must_match(corpus: Path, model: Path, tmp_path: Path) -> None:
    short = write_lines(tmp_path / "short.en", ["Ja."] * 7)
    with pytest.raises(InputError, match=r"short.en has 7 lines but .*t.de has 12"):
        distill(model, src=corpus / "t.de", tgt=short, out=tmp_path / "out", device="cpu")


def line(source: str, *alternatives: str, note: str = "") -> LineTranslations:
    return LineTranslations(source, tuple((text, -1.0) for text in alternatives), note)


def test_the_worst_by_agreement_are_dropped_and_the_best_of_several_taken() -> None:
    lines = [
        line("one two", "eins drei", "eins zwei"),
        line("three four", "ganz anders", "voll daneben"),
        line("five six", "fünf sechs"),
        line("seven eight", "sieben acht", note="the translation did not end"),
    ]
    references = ["eins zwei", "drei vier", "fünf sechs", "sieben acht"]
    found = judge_translations(lines, by_agreement(iter(references)), keep=0.5)
    assert list(kept_pairs(lines, found)) == [
        Pair("one two", "eins zwei"),
        Pair("five six", "fünf sechs"),
    ]
    assert found.dropped == {UNUSUAL: 1, WORST: 1}
    assert found.least == 100.0


def test_of_equal_pairs_the_first_are_kept() -> None:
    lines = [line(f"number {n}", f"Nummer {n}") for n in range(10)]
    found = judge_translations(lines, lambda _line: (0, 1.0), keep=0.3)
    assert [pair.src for pair in kept_pairs(lines, found)] == ["number 0", "number 1", "number 2"]
