"""A system error about a file becomes one line that names it and says what to do."""

import errno
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from transduce.errors import InputError
from transduce.files.errors import reporting_read_errors, reporting_write_errors

PATH = Path("folder/file")


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "; free some disk space and run the command again"),
        (errno.EDQUOT, "; free some disk space and run the command again"),
        (errno.EACCES, "; choose a folder you can write to"),
        (errno.EROFS, "; choose a folder you can write to"),
        (errno.EIO, ""),
    ],
)
def test_a_write_error_says_what_to_do(number: int, remedy: str) -> None:
    with pytest.raises(InputError) as caught, reporting_write_errors(PATH):
        raise OSError(number, os.strerror(number))
    assert str(caught.value) == f"cannot write folder/file: {os.strerror(number)}{remedy}"
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize("fault", [OSError(errno.EIO, "Input/output error"), OSError("odd data")])
def test_a_read_error_names_the_file(fault: OSError) -> None:
    with pytest.raises(InputError) as caught, reporting_read_errors(PATH):
        raise fault
    assert str(caught.value) == f"cannot read folder/file: {fault.strerror or 'odd data'}"


@pytest.mark.parametrize("report", [reporting_read_errors, reporting_write_errors])
def test_other_errors_pass_unchanged(
    report: Callable[[Path], AbstractContextManager[None]],
) -> None:
    with pytest.raises(ValueError, match="not about a file"), report(PATH):
        raise ValueError("not about a file")
