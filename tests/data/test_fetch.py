"""Getting a corpus: a tiny one over the real path, and the real ones' entries."""

import gzip
import hashlib
import io
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from tests.data.test_download import Server, names, sha256
from tests.data.test_unpack import member, write_tar, write_zip
from transduce.cli.data.public import _get_with_bars, get_corpus, list_corpora
from transduce.data.public.catalog import CORPORA, SPLITS, Corpus, Download, Text
from transduce.data.public.download import RetryPolicy
from transduce.data.public.fetch import LEDGER, fetch_corpus
from transduce.data.public.integrity import RejectedFileError
from transduce.data.public.opus import OPUS, opus_corpus
from transduce.data.public.progress import FileProgress
from transduce.errors import InputError

RETRIES = RetryPolicy(timeout_s=10, attempts=3, pause_s=0)
SGML = '<doc><seg id="1">{}</seg></doc>\n'
TEXTS = {"a.en": "one\ntwo\n", "a.de": "eins\nzwei\n", "dev.en": "three\n", "dev.de": "drei\n"}
TEXTS |= {"test.en": "R&D\n", "test.de": "F&E\n"}


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    """A folder with the archives of the tiny corpus."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    train = ((member(f"training/a.{x}"), TEXTS[f"a.{x}"].encode()) for x in ("en", "de"))
    write_tar(folder / "train.tgz", *train)
    for language in ("en", "de"):
        packed = gzip.compress(TEXTS[f"dev.{language}"].encode(), mtime=0)
        (folder / f"dev.{language}.gz").write_bytes(packed)
    test = ((member(f"t/test-{x}.sgm"), SGML.format(text).encode()) for x, text in SIDES.items())
    write_tar(folder / "test.tar", *test)
    return folder


SIDES = {"en": "R&amp;D", "de": "F&amp;E"}


@pytest.fixture
def server(mirror: Path) -> Iterator[Server]:
    with Server.running() as running:
        running.files = {path.name: path.read_bytes() for path in mirror.iterdir()}
        yield running


def tiny(base: str, mirror: Path) -> dict[str, Corpus]:
    """An entry as the real ones are: some checksums are known and some are not."""
    known = sha256((mirror / "train.tgz").read_bytes())
    both = ("en", "de")
    downloads = (
        Download(
            f"{base}/x/train.tgz",
            300,
            tuple(Text(f"a.{x}", "train", x, f"training/a.{x}") for x in both),
            known,
        ),
        *(
            Download(f"{base}/dev.{x}.gz", 30, (Text(f"dev.{x}", "dev", x, f"dev.{x}.gz"),))
            for x in both
        ),
        Download(
            f"{base}/test.tar",
            10_240,
            tuple(Text(f"test.{x}", "test", x, f"t/test-{x}.sgm") for x in both),
        ),
    )
    return {"tiny": Corpus("tiny", both, 2, "none", downloads)}


def bring(server: Server, mirror: Path, folder: Path) -> tuple[Path, ...]:
    return fetch_corpus("tiny", folder, catalog=tiny(server.url, mirror), retries=RETRIES)


def ledger(folder: Path) -> dict[str, str]:
    read = json.loads((folder / LEDGER).read_text())
    assert isinstance(read, dict)
    return read


def test_a_corpus_comes_as_plain_texts(server: Server, mirror: Path, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    paths = bring(server, mirror, folder)
    assert {path.name: path.read_text() for path in paths} == TEXTS
    archives = {path.name for path in mirror.iterdir()}
    assert set(names(folder)) == {*TEXTS, *archives, LEDGER}
    known = {*TEXTS, *archives} - {"train.tgz"}
    assert set(ledger(folder)) == known
    for name, recorded in ledger(folder).items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == recorded


def test_the_second_time_fetches_nothing(server: Server, mirror: Path, tmp_path: Path) -> None:
    first = bring(server, mirror, tmp_path / "to")
    server.requests.clear()
    assert bring(server, mirror, tmp_path / "to") == first
    for archive in mirror.iterdir():  # a user may delete them: only the texts are needed
        (tmp_path / "to" / archive.name).unlink()
    bring(server, mirror, tmp_path / "to")
    assert server.requests == []


def test_an_archive_that_is_there_is_not_fetched(
    server: Server, mirror: Path, tmp_path: Path
) -> None:
    bring(server, mirror, tmp_path / "to")
    server.requests.clear()
    for name in TEXTS:
        (tmp_path / "to" / name).unlink()
    paths = bring(server, mirror, tmp_path / "to")
    assert {path.name: path.read_text() for path in paths} == TEXTS
    assert server.requests == []


@pytest.mark.parametrize("trailing", ["", "/"])
def test_a_mirror_by_url(server: Server, mirror: Path, tmp_path: Path, trailing: str) -> None:
    catalog = tiny("https://nowhere.invalid", mirror)
    address = f"{server.url}/deep/er{trailing}"
    paths = fetch_corpus("tiny", tmp_path / "to", catalog=catalog, mirror=address, retries=RETRIES)
    assert {path.name: path.read_text() for path in paths} == TEXTS


def test_a_mirror_folder(mirror: Path, tmp_path: Path) -> None:
    catalog = tiny("https://nowhere.invalid", mirror)
    before = {path.name: path.read_bytes() for path in mirror.iterdir()}
    paths = fetch_corpus("tiny", tmp_path / "to", catalog=catalog, mirror=str(mirror))
    assert {path.name: path.read_text() for path in paths} == TEXTS
    assert {path.name: path.read_bytes() for path in mirror.iterdir()} == before


@pytest.mark.parametrize("address", ["file:///etc", "ftp://host/x", "https:///x", "s3://bucket"])
def test_other_kinds_of_mirror_are_refused(mirror: Path, tmp_path: Path, address: str) -> None:
    catalog = tiny("https://nowhere.invalid", mirror)
    with pytest.raises(InputError, match="give a folder, or a URL that starts with http"):
        fetch_corpus("tiny", tmp_path / "to", catalog=catalog, mirror=address)


def test_a_mirror_that_is_not_a_url(mirror: Path, tmp_path: Path) -> None:
    catalog = tiny("https://nowhere.invalid", mirror)
    with pytest.raises(InputError, match="is not a valid URL"):
        fetch_corpus(
            "tiny",
            tmp_path / "to",
            catalog=catalog,
            mirror="http://127.0.0.1:port",
            retries=RETRIES,
        )


def test_an_unknown_name_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'multi30' \(did you mean multi30k\?\); 'transduce data"):
        fetch_corpus("multi30", tmp_path / "to")
    assert names(tmp_path) == []


@pytest.mark.parametrize("archive", ["train.tgz", "dev.en.gz", "test.tar"])
def test_a_damaged_download_leaves_nothing_in_its_name(
    server: Server, mirror: Path, tmp_path: Path, archive: str
) -> None:
    """Whether its checksum is known or not: one without is found out when it is unpacked."""
    whole = server.files[archive]
    server.files[archive] = b"<html>Please log in to this network.</html>"
    folder = tmp_path / "to"
    with pytest.raises(RejectedFileError, match=re.escape(archive)):
        bring(server, mirror, folder)
    assert not (folder / archive).exists()
    assert not (folder / LEDGER).exists() or archive not in ledger(folder)
    server.files[archive] = whole
    paths = bring(server, mirror, folder)
    assert {path.name: path.read_text() for path in paths} == TEXTS


@pytest.mark.parametrize("name", ["train.tgz", "dev.en.gz"])
def test_a_file_that_changed_on_the_server_is_not_taken_for_the_first(
    server: Server, mirror: Path, tmp_path: Path, name: str
) -> None:
    folder, catalog = tmp_path / "to", tiny(server.url, mirror)
    bring(server, mirror, folder)
    texts = [text for split in SPLITS for text in catalog["tiny"].texts(split)]
    for gone in (name, *(text.name for text in texts)):
        (folder / gone).unlink()
    server.files[name] = gzip.compress(b"something else\n", mtime=0)
    found = hashlib.sha256(server.files[name]).hexdigest()
    with pytest.raises(RejectedFileError, match=rf"{name} is damaged: its sha256 is {found}, exp"):
        bring(server, mirror, folder)
    assert not (folder / name).exists()


@pytest.mark.parametrize("name", ["dev.en.gz", "a.de"])
def test_a_file_that_was_altered_here_is_set_aside(
    server: Server, mirror: Path, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "to"
    bring(server, mirror, folder)
    (folder / name).write_text("altered")
    (folder / "dev.en").unlink()
    with pytest.raises(RejectedFileError, match=rf"{name} is damaged.*now .*{name}\.rejected"):
        bring(server, mirror, folder)
    assert not (folder / name).exists()
    assert (folder / f"{name}.rejected").read_text() == "altered"
    paths = bring(server, mirror, folder)
    assert {path.name: path.read_text() for path in paths} == TEXTS


@pytest.mark.parametrize("left", [[], ["test.tar"], [LEDGER, "test.tar"]], ids=len)
def test_a_file_of_a_user_is_never_replaced(
    server: Server, mirror: Path, tmp_path: Path, left: list[str]
) -> None:
    """A text of the same name: alone, beside the archive, or of a folder that was complete."""
    folder = tmp_path / "to"
    bring(server, mirror, folder)
    for path in folder.iterdir():
        if path.name not in left:
            path.unlink()
    (folder / "test.en").write_text("my own\n")
    for _ in range(2):
        with pytest.raises(
            InputError, match=r"test\.en is there already and is not of this corpus"
        ):
            bring(server, mirror, folder)
        assert (folder / "test.en").read_text() == "my own\n"
        assert not (folder / "test.de").exists()
    (folder / "test.en").write_text(TEXTS["test.en"])  # as a kill leaves it
    if left:
        paths = bring(server, mirror, folder)
        assert {path.name: path.read_text() for path in paths} == TEXTS


def test_a_user_s_file_is_seen_before_the_download(
    server: Server, mirror: Path, tmp_path: Path
) -> None:
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / "a.en").write_text("my own\n")
    with pytest.raises(InputError, match=r"a\.en is there already"):
        bring(server, mirror, tmp_path / "to")
    assert server.requests == []


def test_what_is_set_aside_twice_is_kept_twice(
    server: Server, mirror: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "to"
    for text in ("first", "second"):
        bring(server, mirror, folder)
        (folder / "a.de").write_text(text)
        with pytest.raises(RejectedFileError, match=r"a\.de is damaged"):
            bring(server, mirror, folder)
    assert (folder / "a.de.rejected").read_text() == "first"
    assert (folder / "a.de.rejected.2").read_text() == "second"


def test_a_hostile_archive_is_set_aside(server: Server, mirror: Path, tmp_path: Path) -> None:
    folder, evil = tmp_path / "to", write_tar(tmp_path / "evil.tar", (member("../a.en"), b"evil"))
    server.files["test.tar"] = evil.read_bytes()
    with pytest.raises(RejectedFileError, match=r"test\.tar is refused.*outside the folder"):
        bring(server, mirror, folder)
    assert not (folder / "test.tar").exists()
    assert "a.en" not in names(tmp_path)


@pytest.mark.parametrize("content", ["[]", "{", '{"dev.en.gz": 1}', "[" * 100_000])
def test_a_broken_ledger_is_an_error(
    server: Server, mirror: Path, tmp_path: Path, content: str
) -> None:
    (tmp_path / LEDGER).write_text(content)
    with pytest.raises(InputError, match=r"checksums\.json is not a list of checksums; delete it"):
        bring(server, mirror, tmp_path)


@pytest.mark.skipif(not Path("/sys").exists(), reason="needs a folder without write permission")
def test_a_folder_that_may_not_be_written_to(server: Server, mirror: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for folder in (Path("/sys/corpora"), tmp_path / "file" / "to"):
        with pytest.raises(InputError, match=rf"cannot write {folder}: .*; choose a folder"):
            bring(server, mirror, folder)


@pytest.mark.parametrize("kill_at", [2, 6, 9, 16, 22, 28])
def test_killed_at_any_step_and_run_again(
    server: Server, mirror: Path, tmp_path: Path, kill_at: int
) -> None:
    program = f"""
import os, signal
from pathlib import Path
from tests.data.test_fetch import tiny
from transduce.data.public.fetch import fetch_corpus
steps = iter(range(1000))
def report(progress):
    if next(steps) == {kill_at}:
        os.kill(os.getpid(), signal.SIGKILL)
fetch_corpus("tiny", Path({str(tmp_path / "to")!r}), progress=report,
    catalog=tiny({server.url!r}, Path({str(mirror)!r})))
"""
    root = Path(__file__).parents[2]
    killed = subprocess.run([sys.executable, "-c", program], cwd=root, check=False)
    assert killed.returncode == -signal.SIGKILL
    for path in (tmp_path / "to").iterdir():
        assert path.name not in TEXTS or path.read_text() == TEXTS[path.name]
        assert path.name not in server.files or path.read_bytes() == server.files[path.name]
    paths = bring(server, mirror, tmp_path / "to")
    assert {path.name: path.read_text() for path in paths} == TEXTS
    assert not [n for n in names(tmp_path / "to") if ".part" in n or n.endswith(".making")]


@pytest.mark.parametrize("corpus", CORPORA.values(), ids=CORPORA)
def test_an_entry_is_well_formed(corpus: Corpus) -> None:
    files = [download.name for download in corpus.downloads]
    texts = [text for split in SPLITS for text in corpus.texts(split)]
    produced = [*files, *(text.name for text in texts), LEDGER]
    assert len(set(produced)) == len(produced)
    assert all(re.fullmatch(r"[\w.-]+", name) for name in produced)
    for download in corpus.downloads:
        assert urlsplit(download.url).scheme == "https"
        assert download.url.endswith((".tgz", ".tar", ".gz"))
        assert (download.size_bytes or 0) > 0
        assert download.texts
        algorithm, _, digits = (download.checksum or sha256(b"")).partition(":")
        assert re.fullmatch(r"[0-9a-f]+", digits)
        assert len(digits) == 2 * hashlib.new(algorithm, usedforsecurity=False).digest_size
    for split in SPLITS:
        languages = [text.language for text in corpus.texts(split)]
        counts = {languages.count(language) for language in corpus.languages}
        assert set(languages) == set(corpus.languages)
        assert len(counts) == 1
    assert all(text.name.endswith(f".{text.language}") for text in texts)


def test_texts_of_one_name_are_the_same_text_in_every_corpus() -> None:
    """So that two corpora can share a folder."""
    members: dict[str, tuple[str, str]] = {}
    for corpus in CORPORA.values():
        for download in corpus.downloads:
            for text in download.texts:
                origin = (download.url, text.member)
                assert members.setdefault(text.name, origin) == origin


def test_wmt14_is_tuned_on_newstest2013_and_tested_on_newstest2014() -> None:
    german = CORPORA["wmt14-en-de"]
    assert [text.name for text in german.texts("dev")] == ["newstest2013.en", "newstest2013.de"]
    assert {text.name: text.member for text in german.texts("test")} == {
        "newstest2014.de-en.en": "test-full/newstest2014-deen-src.en.sgm",
        "newstest2014.de-en.de": "test-full/newstest2014-deen-ref.de.sgm",
    }
    french = CORPORA["wmt14-en-fr"]
    assert len(french.texts("train")) == 10
    assert "giga-fren.release2.fixed.fr" in [text.name for text in french.texts("train")]


@pytest.mark.parametrize("name", CORPORA)
def test_the_real_layouts_unpack(name: str, tmp_path: Path) -> None:
    """Archives with the members that the entry names, but without the known checksums."""
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    expected = {}
    for download in CORPORA[name].downloads:
        contents = []
        for text in download.texts:
            line = f"{text.name} <&> é\n"
            expected[text.name] = line
            content = line.encode()
            if text.member.endswith(".sgm"):
                content = SGML.format(line.strip().replace("&", "&amp;")).encode()
            elif text.member.endswith(".gz"):
                content = gzip.compress(content)
            contents.append((member(text.member), content))
        if download.name.endswith(".gz"):
            (mirror / download.name).write_bytes(contents[0][1])
        else:
            write_tar(mirror / download.name, *contents)
    unsigned = tuple(replace(part, checksum=None) for part in CORPORA[name].downloads)
    catalog = {name: replace(CORPORA[name], downloads=unsigned)}
    paths = fetch_corpus(name, tmp_path / "to", catalog=catalog, mirror=str(mirror))
    assert {path.name: path.read_text(encoding="utf-8") for path in paths} == expected


PAIR = {"de": "eins\nzwei\n", "en": "one\ntwo\n"}


def opus_zip(folder: Path, corpus: str, sides: dict[str, str]) -> bytes:
    """Return an archive as OPUS has them, with members that nobody wants."""
    pair = "-".join(sides)
    texts = ((f"{corpus}.{pair}.{x}", text.encode()) for x, text in sides.items())
    others = (("README", b"about"), ("LICENSE", b""), (f"{corpus}.{pair}.xml", b"<cesAlign/>"))
    return write_zip(folder / "made.zip", *others, *texts).read_bytes()


@pytest.mark.parametrize("name", ["Europarl:de-en", "Europarl:en-de", "Europarl/v8:de-en"])
def test_a_corpus_of_opus_comes_by_name(server: Server, tmp_path: Path, name: str) -> None:
    server.files = {"Europarl-v8.de-en.txt.zip": opus_zip(tmp_path, "Europarl", PAIR)}
    folder = tmp_path / "to"
    paths = fetch_corpus(f"opus:{name}", folder, mirror=server.url, retries=RETRIES)
    expected = {f"Europarl-v8.de-en.{x}": text for x, text in PAIR.items()}
    assert {path.name: path.read_text() for path in paths} == expected
    assert set(names(folder)) == {*expected, *server.files, LEDGER}
    assert set(ledger(folder)) == {*expected, *server.files}
    server.requests.clear()
    assert fetch_corpus(f"opus:{name}", folder, mirror=server.url, retries=RETRIES) == paths
    assert server.requests == []


def test_an_archive_of_opus_is_at_its_known_address() -> None:
    base = "https://object.pouta.csc.fi"
    for name, url in {
        "opus:Tatoeba:tr-en": f"{base}/OPUS-Tatoeba/v2023-04-12/moses/en-tr.txt.zip",
        "opus:Europarl/v7:de-en": f"{base}/OPUS-Europarl/v7/moses/de-en.txt.zip",
        "opus:News-Commentary:zh-en": f"{base}/OPUS-News-Commentary/v16/moses/en-zh.txt.zip",
        "opus:OpenSubtitles:pt_BR-fr": f"{base}/OPUS-OpenSubtitles/v2024/moses/fr-pt_BR.txt.zip",
    }.items():
        assert [download.url for download in opus_corpus(name).downloads] == [url]


def test_corpora_of_one_pair_share_a_folder(server: Server, tmp_path: Path) -> None:
    """On the server, all three archives have one name."""
    folder = tmp_path / "to"
    expected: dict[str, str] = {}
    for name, version in (("Europarl", "v8"), ("Europarl", "v7"), ("EMEA", "v3")):
        sides = {x: f"{name} {version} {x}\n" for x in PAIR}
        server.files = {"de-en.txt.zip": opus_zip(tmp_path, name, sides)}
        corpus = opus_corpus(f"opus:{name}/{version}:de-en")
        [download] = corpus.downloads
        here = replace(download, url=f"{server.url}/{urlsplit(download.url).path}")
        catalog = {"here": replace(corpus, downloads=(here,))}
        fetch_corpus("here", folder, catalog=catalog, retries=RETRIES)
        expected |= {f"{name}-{version}.de-en.{x}": text for x, text in sides.items()}
    found = [path for path in folder.iterdir() if path.suffix in (".de", ".en")]
    assert {path.name: path.read_text() for path in found} == expected


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "opus:Euoparl:de-en",
            r"'Euoparl' \(did you mean Europarl\?\); 'transduce data list' lists",
        ),
        ("Europarl", r"no corpus named 'Europarl' \(did you mean opus:Europarl\?\)"),
        ("opus:Europarl", "is not such as opus:Europarl:de-en or opus:Europarl/v7:de-en"),
        ("opus:Europarl:de", "is not such as"),
        ("opus:Europarl:de-de", "is not such as"),
        ("opus:Europarl:de-en-fr", "is not such as"),
        ("opus:Europarl/..:de-en", "is not such as"),
        ("opus:Europarl:../x-en", "is not such as"),
        ("opus:Europarl/v8/x:de-en", "is not such as"),
    ],
)
def test_a_wrong_name_of_opus_is_an_error(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fetch_corpus(name, tmp_path / "to")
    assert names(tmp_path) == []


def test_an_archive_of_opus_that_changed_or_is_hostile_is_refused(
    server: Server, tmp_path: Path
) -> None:
    name, file, folder = "opus:Europarl:de-en", "Europarl-v8.de-en.txt.zip", tmp_path / "to"
    server.files = {file: write_zip(tmp_path / "evil.zip", ("../a", b"evil")).read_bytes()}
    with pytest.raises(RejectedFileError, match=r"'\.\./a' leads out.*Europarl-v8.*\.rejected"):
        fetch_corpus(name, folder, mirror=server.url, retries=RETRIES)
    assert names(tmp_path) == ["evil.zip", "mirror", "to"]
    server.files = {file: opus_zip(tmp_path, "Europarl", PAIR)}
    for path in fetch_corpus(name, folder, mirror=server.url, retries=RETRIES):
        path.unlink()
    (folder / file).unlink()
    server.files = {file: opus_zip(tmp_path, "Europarl", PAIR | {"en": "other\n"})}
    with pytest.raises(RejectedFileError, match=r"is damaged: its sha256 is"):
        fetch_corpus(name, folder, mirror=server.url, retries=RETRIES)
    assert not (folder / "Europarl-v8.de-en.en").exists()


@pytest.mark.parametrize("name", OPUS)
def test_an_entry_of_opus_is_well_formed(name: str) -> None:
    one = OPUS[name]
    corpus = opus_corpus(f"opus:{name}/{one.version}:en-fr")
    assert corpus == opus_corpus(f"opus:{name}:fr-en")
    assert 2 <= one.languages <= one.pairs + 1
    assert one.pairs <= one.languages * one.languages


app = typer.Typer()
app.command("list")(list_corpora)
app.command("get")(get_corpus)


def test_the_list_names_every_corpus_in_80_columns() -> None:
    result = CliRunner().invoke(app, ["list"], env={"COLUMNS": "80"})
    lines = result.stdout.splitlines()
    assert {*CORPORA, *(f"opus:{x}" for x in OPUS)} <= {line.partition(" ")[0] for line in lines}
    assert "Downloads from OPUS could not be tried." in result.stdout
    assert max(len(line) for line in lines) <= 80
    assert not any("…" in line for line in lines)


def test_the_command_brings_a_corpus(
    server: Server, mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CORPORA, "tiny", tiny("https://nowhere.invalid", mirror)["tiny"])
    server.drops = [100]
    monkeypatch.setattr("transduce.data.public.download.time.sleep", lambda _seconds: None)
    arguments = ["get", "tiny", "--to", str(tmp_path / "to"), "--mirror", server.url]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    assert f"train {tmp_path / 'to' / 'a.en'}\n" in result.stdout
    assert "trying again from 100 B" in result.stderr
    for line in ("downloading test.tar (10.2 kB)", "downloading test.tar: done"):
        assert result.stderr.count(f"{line}\n") == 1


def test_the_command_brings_a_corpus_of_opus(server: Server, tmp_path: Path) -> None:
    arguments = ["get", "opus:Books:en-de", "--to", str(tmp_path / "to"), "--mirror", server.url]
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, InputError)
    assert "give a --mirror that has Books-v1.de-en.txt.zip" in str(result.exception)
    server.files = {"Books-v1.de-en.txt.zip": opus_zip(tmp_path, "Books", PAIR)}
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    for language, text in PAIR.items():
        path = tmp_path / "to" / f"Books-v1.de-en.{language}"
        assert f"train {path}\n" in result.stdout
        assert path.read_text() == text
    assert "unpacking Books-v1.de-en.txt.zip: done" in result.stderr


def test_a_terminal_gets_bars(
    mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CORPORA, "tiny", tiny("https://nowhere.invalid", mirror)["tiny"])
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    _get_with_bars(console, "tiny", tmp_path / "to", mirror=str(mirror))
    assert isinstance(console.file, io.StringIO)
    assert "unpacking test.tar: done" in console.file.getvalue()
    assert (tmp_path / "to" / "a.en").exists()


def test_progress_only_grows_and_ends(server: Server, mirror: Path, tmp_path: Path) -> None:
    steps: list[FileProgress] = []
    catalog = tiny(server.url, mirror)
    fetch_corpus("tiny", tmp_path / "to", catalog=catalog, retries=RETRIES, progress=steps.append)
    server.files = {"EMEA-v3.de-en.txt.zip": opus_zip(tmp_path, "EMEA", PAIR)}
    fetch = "opus:EMEA:de-en", tmp_path / "to"
    fetch_corpus(*fetch, mirror=server.url, retries=RETRIES, progress=steps.append)
    for name in {step.name for step in steps if step.action == "unpack"}:
        for action in ("download", "unpack"):
            mine = [step for step in steps if (step.name, step.action) == (name, action)]
            done = [step.done_bytes for step in mine]
            assert done == sorted(done)
            assert [step.finished for step in mine] == [False] * (len(mine) - 1) + [True]
            assert all(step.done_bytes <= (step.total_bytes or 0) for step in mine)
