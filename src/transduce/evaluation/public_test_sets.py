"""Public test sets by name, from sacreBLEU: downloaded once, then kept in its own folder."""

import tarfile
import zipfile
import zlib
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from sacrebleu.utils import (
    get_available_testsets,
    get_langpairs_for_testset,
    get_reference_files,
    get_source_file,
)

from transduce.errors import InputError, did_you_mean


@dataclass(frozen=True)
class PublicTestSet:
    """The source and the reference files of a test set."""

    src: Path
    refs: tuple[Path, ...]


def fetch_test_set(name: str, pair: str) -> PublicTestSet:
    """Return the files of a test set such as wmt14 for a pair such as en-de; download if needed."""
    known = get_available_testsets()
    if name not in known:
        hint = did_you_mean(name, known)
        raise InputError(f"no test set named {name!r}{hint}; 'sacrebleu --list' lists them all")
    pairs = get_langpairs_for_testset(name)
    if pair not in pairs:
        raise InputError(f"{name} has no pair {pair!r}: use one of {', '.join(sorted(pairs))}")
    try:
        src, refs = get_source_file(name, pair), get_reference_files(name, pair)
    except (OSError, HTTPException, EOFError, zlib.error) as fault:
        raise _unavailable(name, pair, str(fault)) from fault
    except (tarfile.TarError, zipfile.BadZipFile) as damaged:
        raise _unavailable(name, pair, str(damaged)) from damaged
    except SystemExit as refused:  # sacreBLEU exits where a download has a wrong digest
        raise _unavailable(name, pair, "see above") from refused
    return PublicTestSet(Path(src), tuple(map(Path, refs)))


def _unavailable(name: str, pair: str, reason: str) -> InputError:
    return InputError(
        f"cannot get the test set {name} {pair}: {reason}; with no network, "
        f"fetch it elsewhere with sacreBLEU, or give the texts with --src and --ref"
    )
