"""New folders: complete or absent, and never in the place of an existing one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transduce.errors import InputError
from transduce.files.atomic import atomic_folder
from transduce.files.checksums import files_in, write_checksums
from transduce.files.errors import reporting_write_errors


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Yield a temporary folder to write to; rename it to `out` when everything is written.

    The checksums of all files are added to it.
    """
    if out.exists():
        raise InputError(f"{out} exists already: choose another --out, or remove it")
    with reporting_write_errors(out), atomic_folder(out.resolve()) as temporary:
        yield temporary
        write_checksums(temporary, files_in(temporary))
