"""What each score needs: a reference a sentence, spaces between words, a language."""

import pytest

from tests.tasks.toy import Backwards
from transduce.errors import InputError
from transduce.evaluation.scoring import ComparedTexts, Scoring
from transduce.tasks.base import Task
from transduce.tasks.tokenization import choose_tokenization

ENGLISH = ["He read a well-known book.", "I am a student."]
JAPANESE = ["彼は有名な本を読んだ。", "私は学生です。"]


@pytest.fixture
def by_toy_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every model is for a task whose metric takes one reference."""

    def find_task(_name: str) -> Task:
        return Backwards()

    monkeypatch.setattr("transduce.evaluation.scoring.find_task", find_task)


@pytest.mark.usefixtures("by_toy_task")
def test_a_tasks_metric_takes_one_reference_and_says_so() -> None:
    scoring = Scoring(choose_tokenization(ENGLISH), None, "backwards")
    one = scoring([("a", ENGLISH)], ComparedTexts(None, [ENGLISH]))
    assert one.metric is not None
    assert (one.metric.name, one.metric.score, one.no_metric) == ("wrong", 0, "")
    two = scoring([("a", ENGLISH)], ComparedTexts(None, [ENGLISH, ENGLISH]))
    assert two.metric is None
    assert two.no_metric == "wrong: not computed: it takes one reference a sentence"
    assert two.report.scores[0].score == pytest.approx(100)


def test_bleu_as_in_the_paper_takes_several_references_but_needs_spaces() -> None:
    others = ["They read a well-known book.", "We are students."]
    scoring = Scoring(choose_tokenization(ENGLISH), "en")
    result = scoring([("a", others)], ComparedTexts(None, [ENGLISH, others]))
    assert result.paper is not None
    assert result.paper.score == pytest.approx(100)
    assert "|nrefs:2|" in result.paper.signature
    scoring = Scoring(choose_tokenization(JAPANESE), "ja")
    result = scoring([("a", JAPANESE)], ComparedTexts(None, [JAPANESE]))
    assert result.paper is None
    assert result.no_paper == "Moses' tokenizer needs spaces between words"


@pytest.mark.parametrize("language", ["German", "d", "de_DE", "DE"])
def test_an_unknown_language_is_refused(language: str) -> None:
    with pytest.raises(InputError, match=f"no language '{language}'"):
        Scoring(choose_tokenization(ENGLISH), language)


@pytest.mark.parametrize("language", ["de", "pt-BR", "zh-Hans", "yue"])
def test_a_language_may_have_a_variant(language: str) -> None:
    Scoring(choose_tokenization(ENGLISH), language)


def test_the_unit_of_lengths_is_that_of_the_measured_text() -> None:
    scoring = Scoring(choose_tokenization(JAPANESE), None)
    by_source = scoring([("a", JAPANESE)], ComparedTexts(ENGLISH, [JAPANESE]))
    by_reference = scoring([("a", JAPANESE)], ComparedTexts(None, [JAPANESE]))
    assert (by_source.measured, by_source.unit) == ("source", "words")
    assert (by_reference.measured, by_reference.unit) == ("reference", "characters")
