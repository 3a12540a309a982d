"""Scores, intervals and tests equal those of sacreBLEU's own command; buckets are by length."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from transduce.errors import InputError
from transduce.evaluation import report as module
from transduce.evaluation.report import bleu_by_length, report
from transduce.grammar import generate
from transduce.tasks.metrics import bleu

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


def by_command(folder: Path, hypotheses: dict[str, list[str]], *options: str) -> str:
    """Score texts under these names with sacreBLEU's own command."""
    for name, lines in (hypotheses | {"references": REFERENCES}).items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", "references", "-w", "9", "-i", *hypotheses]
    return subprocess.run(
        [*command, "-m", "bleu", "chrf", "ter", *options],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
    ).stdout


def test_scores_intervals_and_signatures_are_those_of_the_command(tmp_path: Path) -> None:
    found = report(OURS, REFERENCES)
    expected = json.loads(by_command(tmp_path, {"ours": OURS}, "--confidence"))
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
        assert "|bs:1000|seed:12345|" in score.signature


@pytest.mark.parametrize(("others", "is_chance"), [(AS_GOOD, True), (WORSE, False)])
def test_the_paired_test_is_that_of_the_command(
    others: list[str], is_chance: bool, tmp_path: Path
) -> None:
    found = report(OURS, REFERENCES, against=others)
    # As LaTeX: its JSON cannot be written where a number is a float32.
    table = by_command(tmp_path, {"others": others, "ours": OURS}, "--paired-bs", "-f", "latex")
    lines = [line.strip() for line in table.splitlines()]
    baseline, ours = (
        next(line for line in lines if line.startswith(start)).split("&")[1:]
        for start in ("Baseline: others", "ours")
    )
    for n, (score, comparison) in enumerate(zip(found.scores, found.comparisons, strict=True)):
        assert score.name == comparison.name
        assert comparison.other == pytest.approx(float(baseline[n].split()[0]), abs=1e-8)
        assert score.score == pytest.approx(float(ours[n].split()[0]), abs=1e-8)
        assert comparison.difference == score.score - comparison.other
        (p_value,) = re.findall(r"p = ([0-9.]+)", ours[n])
        assert comparison.p_value == pytest.approx(float(p_value), abs=6e-5)
        assert comparison.p_value is not None
        assert (comparison.p_value > 0.05) is is_chance


def test_our_scores_are_the_same_beside_another_system() -> None:
    alone, beside = report(OURS, REFERENCES), report(OURS, REFERENCES, against=WORSE)
    for one, other in zip(alone.scores, beside.scores, strict=True):
        assert one.mean is not None
        assert one.margin is not None
        assert (one.name, one.score, one.signature) == (other.name, other.score, other.signature)
        assert other.mean == pytest.approx(one.mean, rel=1e-6)
        assert other.margin == pytest.approx(one.margin, rel=1e-5)


def test_a_real_difference_is_significant_and_none_is_not_tested() -> None:
    better = report(REFERENCES, REFERENCES, against=WORSE).comparisons
    assert all(comparison.p_value is not None for comparison in better)
    assert all((comparison.p_value or 1) < 0.01 for comparison in better)
    assert [comparison.difference > 0 for comparison in better] == [True, True, False]  # TER
    same = report(OURS, REFERENCES, against=OURS).comparisons
    assert [(c.difference, c.p_value) for c in same] == [(0, None)] * 3


def test_labels_are_part_of_the_signatures() -> None:
    found = report(OURS[:9], REFERENCES[:9], labels={"test": "wmt14", "lang": "en-de"})
    for score in found.scores:
        assert "|seed:12345|test:wmt14|lang:en-de|case:" in score.signature


def test_chinese_needs_its_tokenizer() -> None:
    text = "他昨天在图书馆看了一本很有意思的书。"
    hypotheses = [text.replace("昨天", "今天")] * 3
    whole, cut = (report(hypotheses, [text] * 3, tokenize=name) for name in ("13a", "zh"))
    assert whole.scores[0].score < 10 < 50 < cut.scores[0].score
    assert "|tok:zh|" in cut.scores[0].signature


def test_too_many_sentences_are_scored_without_resampling(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = report(OURS, REFERENCES)
    monkeypatch.setattr(module, "MAX_RESAMPLED", 149)
    found = report(OURS, REFERENCES)
    assert [s.score for s in found.scores] == [s.score for s in expected.scores]
    assert all(score.mean is None and score.margin is None for score in found.scores)
    assert not any("bs:" in score.signature for score in found.scores)
    with pytest.raises(InputError, match=r"150 sentences are too many .* at most 149"):
        report(OURS, REFERENCES, against=WORSE)


def test_lists_that_do_not_match_are_refused() -> None:
    with pytest.raises(InputError, match="1 translations but 2 references"):
        report(["x"], ["x", "y"])
    with pytest.raises(InputError, match="3 translations to compare with but 2 references"):
        report(["x", "y"], ["x", "y"], against=["x", "y", "z"])
    with pytest.raises(InputError, match="0 translations but 0 references"):
        report([], [])
    with pytest.raises(InputError, match="no tokenizer named '13b'"):
        report(["x"], ["x"], tokenize="13b")


def test_every_sentence_is_in_the_bucket_of_its_length() -> None:
    lengths = [0, 1, 10, 11, 20, 21, 30, 31, 40, 41, 400]
    measured = [" ".join(["word"] * length) for length in lengths]
    found = bleu_by_length(["x"] * 11, ["x"] * 11, measured)
    assert [(b.shortest, b.longest, b.sentences) for b in found] == [
        (0, 10, 3),
        (11, 20, 2),
        (21, 30, 2),
        (31, 40, 2),
        (41, None, 2),
    ]


def test_a_bucket_is_scored_like_a_test_set_of_its_own() -> None:
    sources = [pair.src for pair in PAIRS]
    found = bleu_by_length(OURS, REFERENCES, sources)
    short = [i for i, text in enumerate(sources) if len(text.split()) <= 10]
    assert 0 < len(short) < 150
    assert found[0].sentences == len(short)
    assert found[0].bleu == bleu([OURS[i] for i in short], [REFERENCES[i] for i in short])
    assert sum(bucket.sentences for bucket in found) == 150
    assert all((bucket.bleu is None) == (bucket.sentences == 0) for bucket in found)
