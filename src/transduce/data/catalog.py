"""Public corpora by name: how they are got, checked and kept.

A file without a known checksum is taken as it is the first time and must stay the same from then
on: the folder's ledger, `checksums.json`, remembers it.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

from transduce.config.schema import nearest
from transduce.data.corpora import CORPORA, SPLITS, Corpus, Download
from transduce.data.download import Patience, fetch
from transduce.data.integrity import RejectedFileError, digest, verify, writing
from transduce.data.progress import OnStep
from transduce.data.unpack import unpack
from transduce.errors import InputError

LEDGER = "checksums.json"


def get(
    name: str,
    folder: Path,
    *,
    mirror: str | None = None,
    progress: OnStep = lambda _step: None,
    patience: Patience = Patience(),  # noqa: B008 - frozen
    catalog: Mapping[str, Corpus] | None = None,
) -> tuple[Path, ...]:
    """Bring a corpus' texts to a folder; what is there already, and right, is left alone.

    `mirror` is another folder, or the beginning of an address, that has the same file names.
    """
    corpora = CORPORA if catalog is None else catalog
    if name not in corpora:
        hint = nearest(name, corpora)
        raise InputError(f"no corpus named {name!r}{hint}; 'transduce data list' lists them")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for download in corpora[name].downloads:
        source = _source(download, mirror)
        if not _has_texts(download, folder, progress):
            _bring(download, source, folder, patience=patience, report=progress)
            _take_out(download, folder, report=progress)
    return tuple(folder / text.name for split in SPLITS for text in corpora[name].texts(split))


def _source(download: Download, mirror: str | None) -> str | Path:
    address = download.url if mirror is None else mirror
    if mirror is not None and "://" not in mirror:
        return Path(mirror) / download.name
    try:
        parts = urlsplit(address)
    except ValueError as malformed:
        raise InputError(f"{address}: {malformed}") from malformed
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise InputError(f"{address}: give a folder, or an address with http:// or https://")
    return address if mirror is None else f"{mirror.rstrip('/')}/{download.name}"


def _has_texts(download: Download, folder: Path, report: OnStep) -> bool:
    """Say whether all texts are there as they were first written; an altered one is an error."""
    ledger = _read_ledger(folder)
    paths = [folder / text.name for text in download.texts]
    if not all(path.exists() and path.name in ledger for path in paths):
        return False
    for path in paths:
        _verify_in_place(path, f"sha256:{ledger[path.name]}", report)
    return True


def _bring(
    download: Download, source: str | Path, folder: Path, *, patience: Patience, report: OnStep
) -> None:
    """Fetch the file unless it is there, and remember its checksum if none is known."""
    path, recorded = folder / download.name, _read_ledger(folder).get(download.name)
    expected = download.checksum or (recorded and f"sha256:{recorded}")
    if path.exists():
        _verify_in_place(path, expected, report)
    else:
        fetch(source, path, expected=expected, patience=patience, report=report)
    if expected is None:
        _record(folder, {path.name: digest(path, report=report)})


def _take_out(download: Download, folder: Path, *, report: OnStep) -> None:
    """Unpack the texts; an archive that is unfit is set aside, so that the next run fetches it."""
    path = folder / download.name
    targets = {text.member: folder / text.name for text in download.texts}
    try:
        sums = unpack(path, targets, report=report)
    except RejectedFileError as rejection:
        _set_aside(path, rejection)
    _record(folder, {target.name: checksum for target, checksum in sums.items()})


def _verify_in_place(path: Path, expected: str | None, report: OnStep) -> None:
    try:
        verify(path, expected, report=report)
    except RejectedFileError as rejection:
        _set_aside(path, rejection)


def _set_aside(path: Path, rejection: RejectedFileError) -> NoReturn:
    """Take a file's name and record away, but not its bytes: they may be somebody's work."""
    aside = path.with_name(path.name + ".rejected")
    with writing(path):
        path.replace(aside)
    _record(path.parent, {path.name: None})
    raise RejectedFileError(
        f"{rejection}; it is now {aside}: run the command again to get it anew"
    ) from rejection


def _read_ledger(folder: Path) -> dict[str, str]:
    """Read the checksums that were found the first time, by file name."""
    path = folder / LEDGER
    try:
        ledger = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(ledger, dict) and all(isinstance(value, str) for value in ledger.values()):
            return ledger
    except FileNotFoundError:
        return {}
    except OSError as fault:
        raise InputError(f"cannot read {path}: {fault.strerror}") from fault
    except ValueError:
        pass
    raise InputError(
        f"{path} is not a list of checksums; delete it to accept the files as they are"
    )


def _record(folder: Path, checksums: Mapping[str, str | None]) -> None:
    """Add to the ledger, or take out what is None; a kill leaves the old one or the new one."""
    changed = {**_read_ledger(folder), **checksums}
    kept = {name: changed[name] for name in sorted(changed) if changed[name] is not None}
    path = folder / LEDGER
    part = path.with_name(f"{LEDGER}.part")
    with writing(path):
        part.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
        part.replace(path)
