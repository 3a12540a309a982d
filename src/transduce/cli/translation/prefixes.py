"""What translations must start with: `--prefix` and `--prefix-text`."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

from transduce.cli.terminal.text_input import TextInput, text_of
from transduce.data.corpus import STANDARD_INPUT, read_lines
from transduce.errors import InputError, counted


@dataclass(frozen=True)
class Prefixes:
    """What translations must start with: a line of a file each, or one text for all of them."""

    path: Path | None = None
    text: str | None = None

    @classmethod
    def of(cls, path: Path | None, text: str | None, lines: TextInput) -> "Prefixes":
        """Check the options; `lines` are what is translated."""
        if path is not None and text is not None:
            raise InputError("--prefix and --prefix-text: use one of them")
        if path is not None and not path.exists() and path != STANDARD_INPUT:
            raise InputError(
                f"cannot read {path}: No such file or directory; if it is the text that all "
                "translations must start with, use --prefix-text"
            )
        if path == STANDARD_INPUT and STANDARD_INPUT in lines.files:
            raise InputError("standard input (-) can be read only once: name files to translate")
        return cls(path, text)

    def __call__(self) -> Iterable[str] | None:
        """Read them from the start; None if there are none."""
        if self.text is not None:
            return repeat(self.text)
        return None if self.path is None else text_of(self.path)

    def check_count(self, total: int) -> None:
        """Raise unless a file has a prefix for each of the lines to translate."""
        if self.path is None or not self.path.is_file():
            return
        count = sum(1 for _ in read_lines(self.path))
        if count != total:
            raise InputError(
                f"{self.path} has {counted(count, 'line')} but there are {total:,} to translate: "
                "give a prefix for every line, or an empty line"
            )
