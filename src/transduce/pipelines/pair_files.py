"""Pairs that a pipeline writes: two texts in a folder that is complete or absent."""

from collections.abc import Iterable, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from transduce.config.schema import Config
from transduce.data.corpus import Pair
from transduce.errors import InputError
from transduce.files.atomic import atomic_folder, sync
from transduce.files.errors import reporting_write_errors
from transduce.pipelines.stages import write_json
from transduce.translation.languages import training_pair

FileName = str | PathLike[str]
Files = FileName | Sequence[FileName]

OUTCOME = "outcome.json"


def paths_of(files: Files) -> list[Path]:
    """Take one file, or several."""
    several = [files] if isinstance(files, str | PathLike) else files
    return [Path(fspath(file)) for file in several]


def check_share(keep: float) -> None:
    """Raise unless this is a share of pairs to keep."""
    if not 0 < keep <= 1:
        raise InputError(f"--keep {keep:g}: use more than 0, up to 1")


def languages_of(config: Config) -> tuple[str, str]:
    """Return the languages of a model, by which files are named; src and tgt if it has none."""
    pair = training_pair(config)
    return ("src", "tgt") if pair is None else (pair.source, pair.target)


def write_pairs(
    folder: Path, name: str, endings: tuple[str, str], pairs: Iterable[Pair]
) -> tuple[Path, Path]:
    """Write both sides of pairs, such as train.en and train.de; the files are on the disk then."""
    paths = folder / f"{name}.{endings[0]}", folder / f"{name}.{endings[1]}"
    with paths[0].open("wb") as src, paths[1].open("wb") as tgt:
        for pair in pairs:
            src.write(f"{pair.src}\n".encode())
            tgt.write(f"{pair.tgt}\n".encode())
    for path in paths:
        sync(path)
    return paths


def write_pair_folder(
    folder: Path,
    name: str,
    endings: tuple[str, str],
    pairs: Iterable[Pair],
    outcome: dict[str, Any],
) -> None:
    """Write a folder with both sides of pairs, and with what is known of them."""
    with reporting_write_errors(folder), atomic_folder(folder) as making:
        write_pairs(making, name, endings, pairs)
        write_json(making / OUTCOME, outcome)
