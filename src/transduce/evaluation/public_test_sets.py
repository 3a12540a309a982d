"""Public test sets by name, as sacreBLEU has them: fetched once, then kept in its own folder."""

import tarfile
import zipfile
import zlib
from dataclasses import dataclass
from difflib import get_close_matches
from http.client import HTTPException
from pathlib import Path

from sacrebleu.utils import (
    get_available_testsets,
    get_langpairs_for_testset,
    get_reference_files,
    get_source_file,
)

from transduce.errors import InputError


@dataclass(frozen=True)
class Texts:
    """The two texts of a test set."""

    src: Path
    ref: Path


def fetch_test_set(name: str, pair: str) -> Texts:
    """Find a test set such as wmt14 for a pair such as en-de; download it if it is not there."""
    known = get_available_testsets()
    if name not in known:
        nearest = get_close_matches(name, known, n=1)
        hint = f" (did you mean {nearest[0]}?)" if nearest else ""
        raise InputError(f"no test set named {name!r}{hint}; 'sacrebleu --list' names them all")
    pairs = get_langpairs_for_testset(name)
    if pair not in pairs:
        raise InputError(f"{name} has no pair {pair!r}: use one of {', '.join(sorted(pairs))}")
    try:
        src, refs = get_source_file(name, pair), get_reference_files(name, pair)
    except (OSError, HTTPException, EOFError, zlib.error) as fault:
        raise _unavailable(name, pair, str(fault)) from fault
    except (tarfile.TarError, zipfile.BadZipFile) as damaged:
        raise _unavailable(name, pair, str(damaged)) from damaged
    except SystemExit as refused:  # its way to say that the download is not what it should be
        raise _unavailable(name, pair, "see above") from refused
    if len(refs) != 1:
        raise InputError(
            f"{name} {pair} has {len(refs)} references for each sentence; write the one to use "
            f"into a file ('sacrebleu -t {name} -l {pair} --echo FIELD') and give it with --ref"
        )
    return Texts(Path(src), Path(refs[0]))


def _unavailable(name: str, pair: str, reason: str) -> InputError:
    return InputError(
        f"cannot get the test set {name} {pair}: {reason}; with no network, "
        f"fetch it elsewhere with sacreBLEU, or give the texts with --src and --ref"
    )
