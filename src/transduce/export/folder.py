"""Folders that are written for others: complete or not there, and nobody's files are replaced."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transduce.disk import in_the_making
from transduce.errors import InputError


@contextmanager
def exporting(out: Path) -> Iterator[Path]:
    """Give a folder to write in, which gets its own name when all is written."""
    if out.exists():
        raise InputError(f"{out} exists already: choose another --out, or remove it")
    try:
        with in_the_making(out.resolve()) as making:
            yield making
    except OSError as fault:
        raise InputError(f"cannot write {out}: {fault.strerror}") from fault
