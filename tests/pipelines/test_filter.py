"""`transduce data filter`: which pairs are dropped, and why; stopped at any moment."""

import json
import math
import shutil
import signal
from collections import Counter
from itertools import islice
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.command import Command, KillAt, start
from tests.pipelines.small_models import write_lines
from transduce.data.cleaning import DUPLICATE, EMPTY, IDENTICAL
from transduce.data.corpus import Pair, read_lines
from transduce.errors import InputError
from transduce.grammar import generate
from transduce.pipelines.filtering.filter_corpus import filter_corpus
from transduce.pipelines.filtering.judging import NEAR_DUPLICATE, OTHER_LANGUAGE, judged_pairs
from transduce.pipelines.filtering.lengths import LengthModel
from transduce.pipelines.filtering.planting import PLANTED, plant
from transduce.pipelines.filtering.scores import Selection
from transduce.pipelines.watcher import PipelineWatcher
from transduce.translation.scorer import score

FRENCH = "Les enfants jouent dans le jardin de leur grand-mère depuis ce matin."


@pytest.fixture(scope="session")
def noisy(corpus: Path) -> Path:
    """A corpus b.en and b.de of which some pairs have faults."""
    sides = (read_lines(corpus / "a.en"), read_lines(corpus / "a.de"))
    pairs = [Pair(*texts) for texts in zip(*sides, strict=True)][:60]
    pairs[5] = Pair(pairs[5].src, pairs[5].src)
    pairs[9] = Pair(pairs[9].src, "")
    pairs[20] = pairs[2]
    pairs[21] = Pair(pairs[3].src.upper(), pairs[3].tgt)
    pairs[30] = Pair("The children have been playing in the garden.", FRENCH)
    write_lines(corpus / "b.en", (pair.src for pair in pairs))
    write_lines(corpus / "b.de", (pair.tgt for pair in pairs))
    return corpus


FAULTS = {6: IDENTICAL, 10: EMPTY, 21: DUPLICATE, 22: NEAR_DUPLICATE, 31: OTHER_LANGUAGE}


def arguments(noisy: Path, model: Path, to: Path, *options: str) -> list[str | Path]:
    corpus: list[str | Path] = ["--src", noisy / "b.en", "--tgt", noisy / "b.de", "--to", to]
    models: list[str | Path] = [
        "--models",
        model,
        model,
        "--device",
        "cpu",
        "--shard-pairs",
        "20",
    ]
    return ["data", "filter", *corpus, *models, *options, "--keep", "0.75"]


def records(to: Path) -> list[dict[str, object]]:
    parts = sorted((to / "scores").glob("part-*.jsonl"))
    return [json.loads(line) for part in parts for line in read_lines(part)]


def test_faults_are_named_and_the_worst_of_the_rest_dropped(
    noisy: Path, model: Path, tmp_path: Path, command: Command
) -> None:
    before = {path: path.read_bytes() for path in (noisy / "b.en", noisy / "b.de")}
    done = command(*arguments(noisy, model, tmp_path / "out"))
    assert done.code == 0, done.err
    found = records(tmp_path / "out")
    assert {row["pair"]: row["reason"] for row in found if row["reason"]} == FAULTS
    scored = [row for row in found if not row["reason"]]
    best = sorted(scored, key=lambda row: -float(str(row["score"])))[:45]
    kept = sorted(int(str(row["pair"])) for row in best)
    for ending in ("en", "de"):
        lines = list(read_lines(noisy / f"b.{ending}"))
        written = list(read_lines(tmp_path / "out" / "kept" / f"kept.{ending}"))
        assert written == [lines[number - 1] for number in kept]
    assert "dropped: among the worst" in done.out
    assert "other language, pair 31:" in done.out
    assert before == {path: path.read_bytes() for path in before}


def test_scores_are_the_dual_cross_entropy_and_the_lengths(
    noisy: Path, model: Path, tmp_path: Path
) -> None:
    """Entropies are those of forced scores; lengths are compared with those of all pairs."""
    files = noisy / "t.en", noisy / "t.de"
    filter_corpus(*files, to=tmp_path, models=(model, model), detect=False, device="cpu")
    ahead, back = score(model, *files, device="cpu"), score(model, *files[::-1], device="cpu")
    lengths = [tuple(map(len, texts)) for texts in zip(*map(read_lines, files), strict=True)]
    ratio = median(tgt / src for src, tgt in lengths)
    more = [(tgt - ratio * src) / math.sqrt((tgt / ratio + src) / 2) for src, tgt in lengths]
    away = [abs(one - median(more)) for one in more]
    for row, a, b, far in zip(records(tmp_path), ahead, back, away, strict=True):
        length = far / (1.4826 * median(away))
        assert row["length"] == pytest.approx(length, rel=1e-4, abs=1e-6)
        expected = -(abs(a.mean - b.mean) - (a.mean + b.mean) / 2) - 0.3 * length
        assert row["score"] == pytest.approx(expected, rel=1e-4)


def test_a_dry_run_writes_scores_alone_and_a_later_one_goes_on(
    noisy: Path, model: Path, tmp_path: Path, command: Command
) -> None:
    to = tmp_path / "out"
    given = arguments(noisy, model, to, "--no-detect")
    dry = command(*given, "--dry-run")
    assert dry.code == 0, dry.err
    assert "nothing else is written: it is a dry run" in dry.err
    assert not (to / "kept").exists()
    parts = {path: path.stat().st_mtime_ns for path in (to / "scores").glob("part-*")}
    wet = command(*given[:-1], "0.5")  # another share needs no new scores
    assert wet.code == 0, wet.err
    assert len(list(read_lines(to / "kept" / "kept.en"))) == 30
    assert parts == {path: path.stat().st_mtime_ns for path in parts}
    told = command(*given).mistake()
    assert told.startswith(f"{to} was begun with keep 0.5, not 0.75: ")
    assert f"remove {to / 'kept'}, or choose" in told


@pytest.mark.exhaustive(after=1)
@pytest.mark.parametrize(
    "moment",
    [
        KillAt("os.rename", r"scores/part-00000001\.jsonl\.[0-9a-f]+\.making"),
        KillAt("open", r"scores/part-00000002\.jsonl\.[0-9a-f]+\.making"),
        KillAt("os.rename", r"kept\.[0-9a-f]+\.making"),
        KillAt("open", r"report\.json\.[0-9a-f]+\.making"),
    ],
    ids=["in a part", "between parts", "before the pairs", "before the report"],
)
def test_killed_it_goes_on_to_the_same_bytes(
    moment: KillAt, noisy: Path, model: Path, tmp_path: Path, command: Command
) -> None:
    out, whole = tmp_path / "out", tmp_path / "whole"
    given = arguments(noisy, model, out, "--no-detect")
    killed = start(*given, log=tmp_path / "log", kill_at=moment)
    killed.join()
    assert killed.exitcode == -signal.SIGKILL, (tmp_path / "log").read_text()
    for to in (out, whole):
        assert command(*arguments(noisy, model, to, "--no-detect")).code == 0
    for path in [*whole.glob("kept/kept.*"), *whole.glob("scores/*")]:
        assert (out / path.relative_to(whole)).read_bytes() == path.read_bytes()


def test_without_models_only_faults_are_dropped(
    noisy: Path, tmp_path: Path, command: Command
) -> None:
    corpus: list[str | Path] = [
        "--src",
        noisy / "b.en",
        "--tgt",
        noisy / "b.de",
        "--to",
        tmp_path / "out",
    ]
    done = command("data", "filter", *corpus, "--no-models")
    assert done.code == 0, done.err
    assert len(list(read_lines(tmp_path / "out" / "kept" / "kept.de"))) == 60 - len(FAULTS)
    told = command("data", "filter", *corpus, "--no-models", "--keep", "0.5").mistake()
    assert told.startswith("--keep 0.5 keeps the best by models")
    told = command("data", "filter", *corpus, "--languages", "en").mistake()
    assert told == "--languages en: give two codes, such as en,de"


def test_scores_of_rules_are_not_taken_for_those_of_models(
    noisy: Path, model: Path, tmp_path: Path, command: Command
) -> None:
    to = tmp_path / "out"
    corpus: list[str | Path] = ["--src", noisy / "b.en", "--tgt", noisy / "b.de", "--to", to]
    given = ["data", "filter", *corpus, "--no-detect", "--dry-run"]
    assert command(*given, "--no-models").code == 0
    told = command(*given).mistake()
    assert told.startswith(f'{to} was begun with models none, not "trained"; ')
    told = command(*arguments(noisy, model, to, "--no-detect")).mistake()
    assert told.startswith(f"{to} was begun with models none, not ")


def test_kept_pairs_are_those_of_the_input_byte_for_byte(tmp_path: Path) -> None:
    """Separators that are no line breaks stay, and so do spaces."""
    marks = ["\u2028", "\x85", "\x0c", "  ", "\u00a0"]
    for side, word in (("en", "house"), ("de", "Haus")):
        lines = (f"{'x' * number} {word}{mark}{word}" for number, mark in enumerate(marks, start=1))
        write_lines(tmp_path / f"a.{side}", lines)
    files = tmp_path / "a.en", tmp_path / "a.de"
    done = filter_corpus(*files, to=tmp_path / "out", use_models=False, detect=False)
    assert done.files is not None
    assert [path.read_bytes() for path in done.files] == [path.read_bytes() for path in files]


def test_other_languages_are_refused(noisy: Path, tmp_path: Path) -> None:
    corpus = noisy / "b.en", noisy / "b.de"
    to = tmp_path / "out"
    filter_corpus(*corpus, to=to, use_models=False, detect=False)
    with pytest.raises(InputError, match='begun with languages "en" and "de", not "en" and "nl": '):
        filter_corpus(*corpus, to=to, use_models=False, detect=False, languages=("en", "nl"))
    for languages in [("en", "en"), ("../x", "de")]:
        with pytest.raises(InputError, match="--languages "):
            filter_corpus(*corpus, to=tmp_path / "x", use_models=False, languages=languages)


def test_a_corpus_that_changes_meanwhile_is_noticed(noisy: Path, tmp_path: Path) -> None:
    for side in ("en", "de"):
        shutil.copy(noisy / f"b.{side}", tmp_path / f"c.{side}")

    class Meddler(PipelineWatcher):
        def stage(self, title: str, *, is_done: bool = False) -> None:
            assert not is_done
            if title.startswith("writing"):
                lines = list(read_lines(tmp_path / "c.de"))
                write_lines(tmp_path / "c.de", reversed(lines))

    files = tmp_path / "c.en", tmp_path / "c.de"
    with pytest.raises(InputError, match=r"c\.de was changed while it was read"):
        filter_corpus(
            *files, to=tmp_path / "out", use_models=False, detect=False, watcher=Meddler()
        )
    assert not (tmp_path / "out" / "kept").exists()


def test_a_corpus_of_faults_alone_is_an_error(tmp_path: Path) -> None:
    for side in ("en", "de"):
        write_lines(tmp_path / f"a.{side}", ["the same"] * 3)
    files = tmp_path / "a.en", tmp_path / "a.de"
    with pytest.raises(InputError, match="no pair is kept: 3 source and target identical; is this"):
        filter_corpus(*files, to=tmp_path / "out", use_models=False, detect=False)


@given(st.lists(st.integers(20, 200), min_size=20, max_size=60), st.floats(0.5, 2))
def test_half_of_a_target_is_farther_than_any_whole_one(lengths: list[int], ratio: float) -> None:
    pairs = [Pair("x" * src, "y" * round(ratio * src)) for src in lengths]
    model = LengthModel.fit(pairs)
    farthest = max(map(model.distance, pairs))
    for pair in pairs:
        assert model.distance(Pair(pair.src, pair.tgt[: len(pair.tgt) // 2])) > farthest


def test_near_duplicates_differ_in_case_marks_and_numbers_alone() -> None:
    pairs = [
        Pair("Read page 12 of the book.", "Lies Seite 12 des Buches."),
        Pair("read page 7 of the book!", "Lies Seite 7 des Buches"),
        Pair("Read page 12 of the books.", "Lies Seite 12 des Buches."),
    ]
    assert [one.fault for one in judged_pairs(pairs)] == [None, NEAR_DUPLICATE, None]


def test_a_selection_counts_what_it_drops(tmp_path: Path) -> None:
    part = tmp_path / "part-00000000.jsonl"
    rows: list[dict[str, object]] = [{"reason": None, "score": -float(n)} for n in range(8)]
    rows += [{"reason": EMPTY}, {"reason": EMPTY}]
    write_lines(part, (json.dumps({"pair": n, **row}) for n, row in enumerate(rows, start=1)))
    found = Selection([part], keep=0.5)
    assert [found.reason(number) for number in range(10)] == (
        [None] * 5 + ["among the worst"] * 3 + [EMPTY] * 2
    )
    assert found.dropped == {EMPTY: 2, "among the worst": 3}
    assert found.cut == -4.0


@pytest.mark.exhaustive
def test_planted_pairs_are_dropped(tmp_path: Path) -> None:
    """Of 5 % bad pairs, 90 % are in the tenth that two small models drop."""
    short = (pair for pair in generate(150_000, seed=3) if max(map(len, pair)) <= 50)
    pairs, kinds = plant(list(islice(short, 12_000)), share=0.05, seed=1, other=[FRENCH])
    write_lines(tmp_path / "a.en", (pair.src for pair in pairs))
    write_lines(tmp_path / "a.de", (pair.tgt for pair in pairs))
    done = filter_corpus(
        tmp_path / "a.en", tmp_path / "a.de", to=tmp_path / "out", settings=SMALL, device="cpu"
    )
    assert done.kept == 10_800
    selection = Selection(sorted((tmp_path / "out" / "scores").glob("part-*")), keep=0.9)
    planted = Counter(kinds.values())
    caught = Counter(kind for number, kind in kinds.items() if not selection.is_kept[number])
    assert set(planted) == set(PLANTED)
    for kind in PLANTED:
        assert caught[kind] >= 0.9 * planted[kind], (caught, planted)


SMALL = [
    "model.vocab_size=600",
    "model.d_model=64",
    "model.d_ff=128",
    "model.h=4",
    "model.n_layers=1",
    "model.p_drop=0",
    "training.batch_tokens=1600",
    "training.schedule=linear",
    "training.learning_rate=0.006",
    "training.warmup_steps=50",
    "training.steps=900",
    "run.checkpoint_steps=900",
    "run.average=1",
    "run.score_sentences=0",
]


def test_planting_is_the_same_for_a_seed_and_changes_targets_alone() -> None:
    pairs = list(generate(400, seed=5))
    found, kinds = plant(pairs, share=0.05, seed=2, other=[FRENCH])
    assert (found, kinds) == plant(pairs, share=0.05, seed=2, other=[FRENCH])
    assert len(kinds) == 20
    assert [pair.src for pair in found] == [pair.src for pair in pairs]
    changed = {number for number in range(400) if found[number] != pairs[number]}
    assert changed == set(kinds)
    assert Counter(kinds.values()) == dict.fromkeys(PLANTED, 5)
