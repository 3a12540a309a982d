"""Languages come from the command line, or from the names of the files a model has learnt from."""

import pytest

from transduce.config.schema import Config
from transduce.serving.languages import Pair, given_pair, learnt_pair, name_of


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("en-de=runs/a", (Pair("en", "de"), "runs/a")),
        ("en-pt-BR=a=b", (Pair("en", "pt-BR"), "a=b")),
        ("zh-Hans-en=x", (Pair("zh-Hans", "en"), "x")),
        ("runs/en-de", (None, "runs/en-de")),
        ("runs/en-de=x", (None, "runs/en-de=x")),
    ],
)
def test_a_pair_may_stand_before_the_folder(
    argument: str, expected: tuple[Pair | None, str]
) -> None:
    assert given_pair(argument) == expected


@pytest.mark.parametrize(
    ("src", "tgt", "expected"),
    [
        (["a/train.en"], ["a/train.de"], Pair("en", "de")),
        (["x.en.gz", "y.en"], ["x.fr.zst", "y.fr"], Pair("en", "fr")),
        (["train.txt"], ["train.de"], None),
        (["a.en", "b.de"], ["a.de", "b.en"], None),
        (["a.en"], ["b.en"], None),
        (["both.tsv"], [], None),
        ([], [], None),
    ],
)
def test_a_pair_is_read_off_the_names_of_files(
    src: list[str], tgt: list[str], expected: Pair | None
) -> None:
    config = Config.from_tree({"data": {"src": src, "tgt": tgt}})
    assert learnt_pair(config) == expected


def test_languages_have_names() -> None:
    assert [name_of(code) for code in ("de", "pt-BR", "xx")] == ["German", "Portuguese (BR)", "xx"]
