"""Tasks are found by name: our own, and those that other packages install."""

import pytest

from tests.tasks.toy import Backwards
from transduce.errors import ConfigError, InputError
from transduce.tasks.base import MetricScore
from transduce.tasks.registry import find_task, task_names
from transduce.tasks.translation import TranslationTask

OWN = ["translation", "answers", "generic", "pronunciation", "parsing"]


def test_without_other_packages_there_is_translation() -> None:
    assert task_names() == OWN
    assert find_task("translation") == TranslationTask()
    message = r"no task named 'translating' \(did you mean translation\?\): data.task is one of"
    with pytest.raises(ConfigError, match=message):
        find_task("translating")


@pytest.mark.usefixtures("installed_tasks")
def test_a_task_of_another_package_is_found_and_ours_stays_ours() -> None:
    assert task_names() == [*OWN, "backwards", "metric", "misnamed"]
    assert isinstance(find_task("backwards"), Backwards)
    assert find_task("translation") == TranslationTask()


@pytest.mark.usefixtures("installed_tasks")
@pytest.mark.parametrize("name", ["misnamed", "metric"])
def test_an_entry_point_that_is_no_task_of_its_name_is_refused(name: str) -> None:
    message = f"the entry point '{name}' of transduce.tasks is not a Task whose name is '{name}'"
    with pytest.raises(ConfigError, match=message):
        find_task(name)


def test_text_is_written_as_it_is_unless_the_task_says_otherwise() -> None:
    assert TranslationTask().target_form is None
    assert TranslationTask().to_target("As it is.") == "As it is."
    assert Backwards().target_form == "backwards"
    assert Backwards().from_target(Backwards().to_target("abc")) == "abc"


def test_an_error_rate_says_that_lower_is_better() -> None:
    metric = Backwards().metric([])
    assert metric.score(["abcd", "xyz"], ["abce", "xyz"]) == MetricScore(
        "wrong", 100 / 7, "toy|version:1", higher_is_better=False
    )
    with pytest.raises(InputError, match="1 translation but 2 references: wrong needs one"):
        metric.score(["a"], ["a", "b"])


@pytest.mark.parametrize(
    ("references", "tokenizer"),
    [
        (["A man walks."], "13a"),
        (["他昨天在图书馆看了一本很有意思的书。"], "zh"),
        (["彼は昨日図書館で本を読んだ。"], "char"),
        (["เขาไปโรงเรียนทุกวัน"], "char"),
        ([""], "13a"),
    ],
)
def test_the_metric_of_translation_suits_the_script(references: list[str], tokenizer: str) -> None:
    metric = TranslationTask().metric(references)
    assert f"|tok:{tokenizer}|" in metric.score(references, references).signature


def test_translation_is_limited_as_in_the_paper() -> None:
    task = TranslationTask()
    assert [task.max_tgt_tokens(length) for length in (1, 250)] == [51, 300]
    assert task.max_src_tokens == 250
