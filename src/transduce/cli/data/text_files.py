"""Text files of a corpus, which never take the place of others."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.errors import InputError

if TYPE_CHECKING:
    from transduce.data.corpus import Pair


def write_sides(
    folder: Path, parts: "Mapping[str, Sequence[Pair]]", endings: tuple[str, str]
) -> None:
    """Write both sides of each part, such as train.en and train.de.

    A side without an ending is not written. A file that is there already stays as it is; if it
    holds anything else, nothing is written.
    """
    from transduce.cli.terminal.text_output import text_output
    from transduce.files.errors import reporting_write_errors

    texts = {
        folder / f"{name}.{ending}": [pair[side] for pair in pairs]
        for name, pairs in parts.items()
        for side, ending in enumerate(endings)
        if ending
    }
    check_folder(folder)
    kept = {path for path in texts if path.exists()}
    for path in kept:
        if not _holds(path, texts[path]):
            raise InputError(
                f"{path} is there already and holds other text: choose another folder, or move it "
                "away"
            )
    with reporting_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for path in texts.keys() - kept:
        with text_output(path) as write:
            for line in texts[path]:
                write(line)


def check_folder(path: Path) -> None:
    """Raise if a file is where a folder is named."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file: name a folder")


def _holds(path: Path, lines: "Sequence[str]") -> bool:
    from transduce.files.errors import reporting_read_errors

    content = "".join(f"{line}\n" for line in lines).encode()
    with reporting_read_errors(path):
        return (
            path.is_file() and path.stat().st_size == len(content) and path.read_bytes() == content
        )
