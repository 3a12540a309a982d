"""Fetching public corpora by name, and checking them.

Where no checksum of a file is published, its content is accepted the first time and must stay the
same from then on: `checksums.json` in the folder, the ledger, records it. A text of another content
than the ledger or the archive has is a user's own, and is never replaced.
"""

import json
import os
from collections.abc import Mapping
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

from transduce.data.public.catalog import CORPORA, SPLITS, Corpus, Download
from transduce.data.public.download import RetryPolicy, fetch_file
from transduce.data.public.integrity import RejectedFileError, checksum, verify
from transduce.data.public.opus import OPUS, PREFIX, opus_corpus
from transduce.data.public.progress import OnProgress
from transduce.data.public.unpack import unpack
from transduce.errors import InputError, did_you_mean
from transduce.files.atomic import atomic_file
from transduce.files.errors import reporting_read_errors, reporting_write_errors
from transduce.files.regular import read_json

LEDGER = "checksums.json"


def fetch_corpus(
    name: str,
    folder: Path,
    *,
    mirror: str | None = None,
    progress: OnProgress = lambda _progress: None,
    retries: RetryPolicy = RetryPolicy(),  # noqa: B008 - frozen
    catalog: Mapping[str, Corpus] | None = None,
) -> tuple[Path, ...]:
    """Bring the texts of a corpus to a folder; those that are there and intact are kept.

    `mirror` is another folder, or the start of a URL, that has files of the same names.
    """
    corpus = find_corpus(name, catalog=catalog)
    with reporting_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for download in corpus.downloads:
        source = _source(download, mirror)
        if not _has_texts(download, folder, progress):
            _check_room(download, folder)
            _fetch_archive(download, source, folder, retries=retries, report=progress)
            _unpack_texts(download, folder, report=progress)
    return tuple(folder / text.name for split in SPLITS for text in corpus.texts(split))


def find_corpus(name: str, *, catalog: Mapping[str, Corpus] | None = None) -> Corpus:
    """Return a corpus of the catalog, or one of OPUS, by its name."""
    corpora = CORPORA if catalog is None else catalog
    if name.startswith(PREFIX):
        return opus_corpus(name)
    if name not in corpora:
        hint = did_you_mean(name, [*corpora, *(f"{PREFIX}{one}" for one in OPUS)])
        raise InputError(f"no corpus named {name!r}{hint}; 'transduce data list' lists them")
    return corpora[name]


def _source(download: Download, mirror: str | None) -> str | Path:
    address = download.url if mirror is None else mirror
    if mirror is not None and "://" not in mirror:
        return Path(mirror) / download.name
    try:
        parts = urlsplit(address)
    except ValueError as malformed:
        raise InputError(f"{address}: {malformed}") from malformed
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise InputError(f"{address}: give a folder, or a URL that starts with http:// or https://")
    return address if mirror is None else f"{mirror.rstrip('/')}/{download.name}"


def _has_texts(download: Download, folder: Path, report: OnProgress) -> bool:
    """Whether all texts are there and unchanged; a changed one is set aside with an error."""
    ledger = _read_ledger(folder)
    paths = [folder / text.name for text in download.texts]
    if not all(path.exists() and path.name in ledger for path in paths):
        return False
    for path in paths:
        _verify_in_place(path, f"sha256:{ledger[path.name]}", report)
    return True


def _check_room(download: Download, folder: Path) -> None:
    """Raise before the download if a text's name is taken by a file that is not ours.

    Without the archive, only a text in the ledger can be ours: a kill leaves both.
    """
    ledger = _read_ledger(folder)
    for path in (folder / text.name for text in download.texts):
        is_there = os.path.lexists(path)
        if is_there and path.name not in ledger and not (folder / download.name).exists():
            raise _taken(path)


def _fetch_archive(
    download: Download,
    source: str | Path,
    folder: Path,
    *,
    retries: RetryPolicy,
    report: OnProgress,
) -> None:
    """Fetch the file unless it is there, and record its checksum if none is published."""
    path, recorded = folder / download.name, _read_ledger(folder).get(download.name)
    expected = download.checksum or (recorded and f"sha256:{recorded}")
    if path.exists():
        _verify_in_place(path, expected, report)
    else:
        fetch_file(source, path, expected=expected, retries=retries, report=report)
    if expected is None:
        _record(folder, {path.name: checksum(path, name=path.name, report=report)})


def _unpack_texts(download: Download, folder: Path, *, report: OnProgress) -> None:
    """Unpack the texts; a bad archive is set aside, so that the next run downloads it again."""
    path = folder / download.name
    targets = {text.member: folder / text.name for text in download.texts}
    try:
        sums = unpack(path, targets, report=report, check=partial(_check_targets, report=report))
    except RejectedFileError as rejection:
        _set_aside(path, rejection)
    _record(folder, {target.name: found for target, found in sums.items()})


def _check_targets(sums: Mapping[Path, str], *, report: OnProgress) -> None:
    """Raise if a text would take the place of a file that is not ours."""
    for path, new in sums.items():
        if os.path.lexists(path):
            ours = (new, _read_ledger(path.parent).get(path.name))
            if checksum(path, name=path.name, report=report) not in ours:
                raise _taken(path)


def _taken(path: Path) -> InputError:
    return InputError(
        f"{path} is there already and is not of this corpus: choose another folder, or move it away"
    )


def _verify_in_place(path: Path, expected: str | None, report: OnProgress) -> None:
    try:
        verify(path, expected, name=path.name, report=report)
    except RejectedFileError as rejection:
        _set_aside(path, rejection)


def _set_aside(path: Path, rejection: RejectedFileError) -> NoReturn:
    """Rename a rejected file and drop its record; a user may have edited it, so it is kept."""
    aside = _free_name(path.with_name(path.name + ".rejected"))
    with reporting_write_errors(path):
        path.replace(aside)
    _record(path.parent, {path.name: None})
    raise RejectedFileError(
        f"{rejection}; it is now {aside}: run the command again to get a new copy"
    ) from rejection


def _free_name(path: Path) -> Path:
    """Return a path at which nothing is, with a number if need be."""
    numbered = (path.with_name(f"{path.name}.{number}") for number in count(2))
    return next(one for one in chain([path], numbered) if not os.path.lexists(one))


def _read_ledger(folder: Path) -> dict[str, str]:
    """Read the recorded checksums, by file name."""
    path = folder / LEDGER
    try:
        with reporting_read_errors(path):
            ledger = read_json(path) if path.exists() else {}
        if isinstance(ledger, dict) and all(isinstance(value, str) for value in ledger.values()):
            return ledger
    except ValueError:
        pass
    raise InputError(
        f"{path} is not a list of checksums; delete it to accept the files as they are"
    )


def _record(folder: Path, checksums: Mapping[str, str | None]) -> None:
    """Add checksums to the ledger; None removes one."""
    changed = {**_read_ledger(folder), **checksums}
    kept = {name: changed[name] for name in sorted(changed) if changed[name] is not None}
    path = folder / LEDGER
    with reporting_write_errors(path), atomic_file(path) as making:
        making.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
