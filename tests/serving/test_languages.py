"""Languages come from the command line, or from the names of the training files."""

import pytest

from transduce.config.schema import Config
from transduce.serving.languages import LanguagePair, name_of, parse_model_argument, training_pair


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("en-de=runs/a", (LanguagePair("en", "de"), "runs/a")),
        ("en-pt-BR=a=b", (LanguagePair("en", "pt-BR"), "a=b")),
        ("zh-Hans-en=x", (LanguagePair("zh-Hans", "en"), "x")),
        ("runs/en-de", (None, "runs/en-de")),
        ("runs/en-de=x", (None, "runs/en-de=x")),
    ],
)
def test_a_pair_may_stand_before_the_folder(
    argument: str, expected: tuple[LanguagePair | None, str]
) -> None:
    assert parse_model_argument(argument) == expected


@pytest.mark.parametrize(
    ("src", "tgt", "expected"),
    [
        (["a/train.en"], ["a/train.de"], LanguagePair("en", "de")),
        (["x.en.gz", "y.en"], ["x.fr.zst", "y.fr"], LanguagePair("en", "fr")),
        (["X.en.GZ"], ["x.fr.Zst"], LanguagePair("en", "fr")),
        (["train.txt"], ["train.de"], None),
        (["a.en", "b.de"], ["a.de", "b.en"], None),
        (["a.en"], ["b.en"], None),
        (["both.tsv"], [], None),
        ([], [], None),
    ],
)
def test_a_pair_is_read_off_the_names_of_files(
    src: list[str], tgt: list[str], expected: LanguagePair | None
) -> None:
    config = Config.from_tree({"data": {"src": src, "tgt": tgt}})
    assert training_pair(config) == expected


def test_languages_have_names() -> None:
    assert [name_of(code) for code in ("de", "pt-BR", "xx")] == ["German", "Portuguese (BR)", "xx"]
