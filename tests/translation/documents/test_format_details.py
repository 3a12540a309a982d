"""Details of formats: what is read as text, what is kept, and how text is written again."""

import pytest

from tests.translation.documents.samples import archive, docx, members, translated
from transduce.errors import InputError
from transduce.translation.documents.edits import Edit, edited
from transduce.translation.documents.encodings import DecodedText
from transduce.translation.documents.inline_codes import wrap


def upper(source: str, name: str) -> str:
    return translated(source.encode(), name, str.upper).decode()


def test_long_runs_and_many_lines_take_linear_time() -> None:
    # Each took minutes when its time was squared.
    for run in (" ", "_", "`", "*"):
        upper(f"a{run * 150_000}b\n", "a.md")
    assert wrap("a b c", 100_000) == "a\nb\nc"
    assert wrap("ab " * 30_000, 15_000).count("\n") == 14_999


def test_cells_of_a_table_are_found_behind_the_cell_before() -> None:
    table = "| Name of the file | file |\n|---|---|\n| a | a |\n"
    assert upper(table, "a.md") == table.upper()


def test_edits_that_overlap_are_refused() -> None:
    text = DecodedText("abcd", "a.txt")
    assert edited(text, [Edit(1, 2, "x"), Edit(2, 2, "y"), Edit(2, 3, "z")]) == "axyzd"
    with pytest.raises(InputError, match=r"a\.txt character 2"):
        edited(text, [Edit(0, 2, "x"), Edit(1, 3, "y")])
