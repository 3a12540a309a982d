"""Scores, intervals and tests equal those of sacreBLEU's own command; buckets are by length."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from transduce.errors import InputError
from transduce.evaluation import report as module
from transduce.evaluation.report import EvaluationReport, bleu_by_length, length_unit, report
from transduce.grammar import generate
from transduce.tasks.metrics import bleu
from transduce.tasks.tokenization import Tokenization
from transduce.tasks.writing import Writing

PAIRS = list(generate(150, seed=3))
REFERENCES = [pair.tgt for pair in PAIRS]


def spoilt(every: int, *, first: int = 0) -> list[str]:
    """Swap two words in every `every`-th sentence, and drop one word in the sentence after it."""
    spoilt = []
    for n, words in enumerate(text.split() for text in REFERENCES):
        changes = {0: [*words[1::-1], *words[2:]], 1: words[:2] + words[3:]}
        spoilt.append(" ".join(changes.get((n - first) % every, words)))
    return spoilt


OURS, WORSE = spoilt(3), spoilt(2)
AS_GOOD = [*spoilt(3, first=1)[:-1], REFERENCES[-1]]  # except for one edit, which TER counts


SECOND = [f"Well, {text}" if n % 4 else AS_GOOD[n] for n, text in enumerate(REFERENCES)]
WORDS = Tokenization("13a", Writing("spaced", "words"))


def scored(
    *systems: list[str], refs: tuple[list[str], ...] = (REFERENCES,)
) -> tuple[EvaluationReport, ...]:
    return report(systems, refs, tokenization=WORDS)


def by_command(
    folder: Path,
    hypotheses: dict[str, list[str]],
    *options: str,
    refs: tuple[list[str], ...] = (REFERENCES,),
) -> str:
    """Score texts under these names with sacreBLEU's own command."""
    named = {f"references{n}": lines for n, lines in enumerate(refs)}
    for name, lines in (hypotheses | named).items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", *named, "-w", "9", "-i", *hypotheses]
    return subprocess.run(
        [*command, "-m", "bleu", "chrf", "ter", *options],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
    ).stdout


@pytest.mark.parametrize("refs", [(REFERENCES,), (REFERENCES, SECOND)])
def test_scores_intervals_and_signatures_are_those_of_the_command(
    refs: tuple[list[str], ...], tmp_path: Path
) -> None:
    [found] = scored(OURS, refs=refs)
    expected = json.loads(by_command(tmp_path, {"ours": OURS}, "--confidence", refs=refs))
    assert found.sentences == 150
    assert found.comparisons == ()
    assert [score.name for score in found.scores] == ["BLEU", "chrF2", "TER"]
    for score, theirs in zip(found.scores, expected, strict=True):
        assert (score.name, score.signature) == (theirs["name"], theirs["signature"])
        assert score.score == pytest.approx(theirs["score"], abs=1e-9)
        assert score.mean == pytest.approx(theirs["confidence_mean"], rel=1e-6)
        assert score.margin == pytest.approx(theirs["confidence_var"], rel=1e-6)
        assert score.margin is not None
        assert 0.5 < score.margin < 5
        assert f"nrefs:{len(refs)}|bs:1000|seed:12345|" in score.signature


@pytest.mark.parametrize("refs", [(REFERENCES,), (REFERENCES, SECOND)])
def test_the_paired_tests_are_those_of_the_command(
    refs: tuple[list[str], ...], tmp_path: Path
) -> None:
    """Several systems, all against the first."""
    systems = {"ours": OURS, "as-good": AS_GOOD, "worse": WORSE}
    baseline, *found = scored(*systems.values(), refs=refs)
    assert baseline.comparisons == ()
    # As LaTeX: its JSON cannot be written where a number is a float32.
    table = by_command(tmp_path, systems, "--paired-bs", "-f", "latex", refs=refs)
    lines = [line.strip() for line in table.splitlines()]
    theirs = [
        next(line for line in lines if line.startswith(start)).split("&")[1:]
        for start in ("Baseline: ours", "as-good", "worse")
    ]
    for system, cells in zip(found, theirs[1:], strict=True):
        for n, (score, comparison) in enumerate(
            zip(system.scores, system.comparisons, strict=True)
        ):
            assert score.name == comparison.name
            assert comparison.other == pytest.approx(float(theirs[0][n].split()[0]), abs=1e-8)
            assert score.score == pytest.approx(float(cells[n].split()[0]), abs=1e-8)
            assert comparison.difference == score.score - comparison.other
            (p_value,) = re.findall(r"p = ([0-9.]+)", cells[n])
            assert comparison.p_value == pytest.approx(float(p_value), abs=6e-5)


def test_a_small_difference_is_chance() -> None:
    for others, is_chance in ((AS_GOOD, True), (WORSE, False)):
        for comparison in scored(others, OURS)[1].comparisons:
            assert comparison.p_value is not None
            assert (comparison.p_value > 0.05) is is_chance


def test_our_scores_are_the_same_beside_another_system() -> None:
    [alone], [_, beside] = scored(OURS), scored(WORSE, OURS)
    for one, other in zip(alone.scores, beside.scores, strict=True):
        assert one.mean is not None
        assert one.margin is not None
        assert (one.name, one.score, one.signature) == (other.name, other.score, other.signature)
        assert other.mean == pytest.approx(one.mean, rel=1e-6)
        assert other.margin == pytest.approx(one.margin, rel=1e-5)


def test_a_real_difference_is_significant_and_none_is_not_tested() -> None:
    better = scored(WORSE, REFERENCES)[1].comparisons
    assert all(comparison.p_value is not None for comparison in better)
    assert all((comparison.p_value or 1) < 0.01 for comparison in better)
    assert [comparison.difference > 0 for comparison in better] == [True, True, False]  # TER
    same = scored(OURS, OURS)[1].comparisons
    assert [(c.difference, c.p_value) for c in same] == [(0, None)] * 3


def test_labels_are_part_of_the_signatures() -> None:
    labels = {"test": "wmt14", "lang": "en-de"}
    [found] = report([OURS[:9]], [REFERENCES[:9]], tokenization=WORDS, labels=labels)
    for score in found.scores:
        assert "|seed:12345|test:wmt14|lang:en-de|case:" in score.signature


def test_chinese_needs_its_tokenizer_and_characters_for_ter() -> None:
    text = "他昨天在图书馆看了一本很有意思的书。"
    hypotheses = [text.replace("昨天", "今天")] * 3
    as_words, as_characters = WORDS, Tokenization("zh", Writing("Chinese", "none"))
    [whole], [cut] = (
        report([hypotheses], [[text] * 3], tokenization=one) for one in (as_words, as_characters)
    )
    assert whole.scores[0].score < 10 < 50 < cut.scores[0].score
    assert "|tok:zh|" in cut.scores[0].signature
    assert whole.scores[2].score == 100
    assert cut.scores[2].score == pytest.approx(100 / 18)  # one character of 18
    assert "|norm:yes|punct:yes|asian:yes|" in cut.scores[2].signature


def test_ter_is_left_out_where_it_has_nothing_to_count() -> None:
    thai = Tokenization("char", Writing("other unspaced", "none"))
    [found] = report([["เขาไปโรงเรียน"]], [["เขามาโรงเรียน"]], tokenization=thai)
    assert [score.name for score in found.scores] == ["BLEU", "chrF2"]


def test_too_many_sentences_are_scored_without_resampling(monkeypatch: pytest.MonkeyPatch) -> None:
    [expected] = scored(OURS)
    monkeypatch.setattr(module, "MAX_RESAMPLED", 149)
    [found] = scored(OURS)
    assert [s.score for s in found.scores] == [s.score for s in expected.scores]
    assert all(score.mean is None and score.margin is None for score in found.scores)
    assert not any("bs:" in score.signature for score in found.scores)
    with pytest.raises(InputError, match=r"150 sentences are too many .* at most 149"):
        scored(OURS, WORSE)


def test_lists_that_do_not_match_are_refused() -> None:
    with pytest.raises(InputError, match="1 translation but 2 references"):
        scored(["x"], refs=(["x", "y"],))
    with pytest.raises(InputError, match="3 translations but 2 references"):
        scored(["x", "y"], ["x", "y", "z"], refs=(["x", "y"],))
    with pytest.raises(InputError, match="2 translations but 1 reference"):
        scored(["x", "y"], refs=(["x", "y"], ["x"]))
    with pytest.raises(InputError, match="0 translations but 0 references"):
        scored([], refs=([],))


def test_every_sentence_is_in_the_bucket_of_its_length() -> None:
    lengths = [0, 1, 10, 11, 20, 21, 30, 31, 40, 41, 400]
    measured = [" ".join(["word"] * length) for length in lengths]
    found = bleu_by_length(["x"] * 11, [["x"] * 11], measured)
    assert [(b.shortest, b.longest, b.sentences) for b in found] == [
        (0, 10, 3),
        (11, 20, 2),
        (21, 30, 2),
        (31, 40, 2),
        (41, None, 2),
    ]


def test_lengths_are_in_characters_where_nothing_separates_words() -> None:
    measured = ["書" * length for length in (1, 20, 21, 40, 80, 81)]
    assert length_unit(measured) == "characters"
    assert length_unit(REFERENCES) == length_unit([" ".join(text) for text in measured]) == "words"
    found = bleu_by_length(["x"] * 6, [["x"] * 6], measured, unit="characters")
    assert [(b.shortest, b.longest, b.sentences) for b in found] == [
        (0, 20, 2),
        (21, 40, 2),
        (41, 60, 0),
        (61, 80, 1),
        (81, None, 1),
    ]


def test_a_bucket_is_scored_like_a_test_set_of_its_own() -> None:
    sources = [pair.src for pair in PAIRS]
    found = bleu_by_length(OURS, [REFERENCES, SECOND], sources)
    short = [i for i, text in enumerate(sources) if len(text.split()) <= 10]
    assert 0 < len(short) < 150
    assert found[0].sentences == len(short)
    chosen = ([text[i] for i in short] for text in (OURS, REFERENCES, SECOND))
    assert found[0].bleu == bleu(*chosen)
    assert "nrefs:2|" in found[0].bleu.signature
    assert sum(bucket.sentences for bucket in found) == 150
    assert all((bucket.bleu is None) == (bucket.sentences == 0) for bucket in found)
