"""Our BLEU is sacreBLEU's own, number and signature."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from transduce.errors import InputError, counted
from transduce.grammar import generate
from transduce.tasks.base import MetricScore
from transduce.tasks.metrics import Bleu, bleu

REFERENCES = [pair.tgt for pair in generate(200, seed=3)]
# Sentences with a word less, with two words changed round, or as they should be.
HYPOTHESES = [
    " ".join([words[:2] + words[3:], [*words[1::-1], *words[2:]], words][n % 3])
    for n, words in enumerate(text.split() for text in REFERENCES)
]


def by_command(folder: Path, tokenize: str) -> dict[str, str | float]:
    """Let sacreBLEU's own command score the same."""
    for name, lines in (("hypotheses", HYPOTHESES), ("references", REFERENCES)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", str(folder / "references")]
    options = ["-i", str(folder / "hypotheses"), "-tok", tokenize, "-w", "12"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    result: dict[str, str | float] = json.loads(done.stdout)
    return result


@pytest.mark.parametrize("tokenize", ["13a", "char"])
def test_score_and_signature_are_those_of_the_command(tokenize: str, tmp_path: Path) -> None:
    found = bleu(HYPOTHESES, REFERENCES, tokenize=tokenize)
    expected = by_command(tmp_path, tokenize)
    assert 30 < found.score < 95
    assert round(found.score, 12) == expected["score"]
    assert found.signature == expected["signature"]
    assert f"nrefs:1|case:mixed|eff:no|tok:{tokenize}|smooth:exp|version:" in found.signature


def test_the_usual_tokenizer_is_13a() -> None:
    assert bleu(HYPOTHESES, REFERENCES) == bleu(HYPOTHESES, REFERENCES, tokenize="13a")


def test_a_score_names_its_metric_and_which_way_is_better() -> None:
    score, signature = Bleu("char").compute(HYPOTHESES, REFERENCES)
    assert Bleu("char").score(HYPOTHESES, REFERENCES) == MetricScore(
        "BLEU", score, signature, higher_is_better=True
    )


def test_case_counts() -> None:
    lower = [text.lower() for text in REFERENCES]
    assert bleu(REFERENCES, REFERENCES).score == pytest.approx(100)
    assert bleu(lower, REFERENCES).score < 90


def test_chinese_is_cut_into_characters() -> None:
    text = "他昨天在图书馆看了一本很有意思的书。"
    found = bleu([text.replace("昨天", "今天")], [text], tokenize="zh")
    assert 50 < found.score < 100
    assert "tok:zh" in found.signature


def test_nothing_said_is_zero() -> None:
    assert bleu([""] * 3, ["one two three four five"] * 3).score == 0


def test_text_that_looks_tokenized_is_no_reason_to_speak(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    assert bleu(["a b c d ."] * 200, ["a b c d."] * 200).score > 0
    assert not caplog.records
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("hypotheses", "references"), [(1, 2), (2, 1), (0, 0)])
def test_lists_that_do_not_match_are_refused(hypotheses: int, references: int) -> None:
    counts = counted(hypotheses, "translation"), counted(references, "reference")
    complaint = " but ".join(counts)
    with pytest.raises(InputError, match=complaint):
        bleu(["x"] * hypotheses, ["x"] * references)


def test_an_unknown_tokenizer_is_refused() -> None:
    with pytest.raises(InputError, match="no tokenizer named '13b': use one of none, zh, 13a"):
        bleu(["x"], ["x"], tokenize="13b")


@pytest.mark.skipif(find_spec("MeCab") is not None, reason="MeCab is installed")
def test_a_tokenizer_that_is_not_installed_says_what_to_do() -> None:
    with pytest.raises(InputError, match=r"^the tokenizer ja-mecab cannot .* pip install sacreb"):
        bleu(["x"], ["x"], tokenize="ja-mecab")
