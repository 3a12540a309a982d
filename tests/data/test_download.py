"""Downloads from a server that misbehaves."""

import contextlib
import hashlib
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.data.public import download
from transduce.data.public.download import RetryPolicy, fetch_file
from transduce.data.public.integrity import RejectedFileError
from transduce.data.public.progress import FileProgress
from transduce.errors import InputError
from transduce.files.locks import locked_own_file

CONTENT = bytes(range(256)) * 20
AT_ONCE = RetryPolicy(timeout_s=10, attempts=3, pause_s=0)
TIRELESS = RetryPolicy(timeout_s=10, attempts=100, pause_s=0)


class Server(ThreadingHTTPServer):
    """Serves `files` from memory, as badly as the other attributes say."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.requests: list[tuple[str, str | None]] = []
        self.drops: list[int] = []  # after how many bytes to hang up, one for each request
        self.statuses: list[int] = []  # what to answer instead, one for each request
        self.knows_ranges = True
        self.knows_if_range = True
        self.sends_etag = True
        self.sends_length = True
        self.redirect = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that was killed is no error here."""

    @classmethod
    @contextlib.contextmanager
    def running(cls) -> Iterator["Server"]:
        with cls() as server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            try:
                yield server
            finally:
                server.shutdown()
                thread.join()


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server, asked = self.server, self.headers["Range"]
        name = self.path.rpartition("/")[2]
        server.requests.append((name, asked))
        if server.redirect:
            return self.answer(302, b"", Location=server.redirect)
        if server.statuses:
            return self.answer(server.statuses.pop(0), b"")
        if name not in server.files:
            return self.answer(404, b"")
        content = server.files[name]
        etag = f'"{hashlib.sha256(content).hexdigest()}"'
        tag = {"ETag": etag} if server.sends_etag else {}
        condition = self.headers["If-Range"]
        if not server.knows_ranges or not asked:
            return self.answer(200, content, **tag)
        if server.knows_if_range and condition not in (None, etag):
            return self.answer(200, content, **tag)
        start = int(asked.removeprefix("bytes=").removesuffix("-"))
        if start >= len(content):
            return self.answer(416, b"")
        tag["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        return self.answer(206, content[start:], **tag)

    def answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        if self.server.sends_length:
            self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if status in (200, 206) and self.server.drops:
            body = body[: self.server.drops.pop(0)]
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def server() -> Iterator[Server]:
    with Server.running() as running:
        running.files["corpus.tgz"] = CONTENT
        yield running


def silent(_: FileProgress) -> None:
    pass


def sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def bring(
    server: Server, folder: Path, *, expected: str | None = None, retries: RetryPolicy = AT_ONCE
) -> Path:
    path = folder / "corpus.tgz"
    url = f"{server.url}/some/where/corpus.tgz"
    fetch_file(url, path, expected=expected, retries=retries, report=silent)
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def interrupt(server: Server, folder: Path, *, at: int) -> None:
    """Leave the first bytes of the file, as a failed attempt does."""
    server.drops = [at]
    with pytest.raises(InputError, match="run the command again to resume"):
        bring(server, folder, retries=RetryPolicy(attempts=1))
    assert (folder / "corpus.tgz.part").stat().st_size == at
    assert not (folder / "corpus.tgz").exists()
    server.requests.clear()


@given(
    drops=st.lists(st.integers(0, len(CONTENT) // 3), max_size=6),
    knows_ranges=st.booleans(),
    sends_etag=st.booleans(),
)
def test_a_connection_that_drops_anywhere_is_resumed(
    drops: list[int], knows_ranges: bool, sends_etag: bool
) -> None:
    with Server.running() as server, tempfile.TemporaryDirectory() as folder:
        server.files["corpus.tgz"] = CONTENT
        server.drops = [*drops]
        server.knows_ranges, server.sends_etag = knows_ranges, sends_etag
        path = bring(server, Path(folder), expected=sha256(CONTENT), retries=TIRELESS)
        assert path.read_bytes() == CONTENT
        assert names(Path(folder)) == ["corpus.tgz"]


def test_only_missing_bytes_are_requested(server: Server, tmp_path: Path) -> None:
    server.drops = [1000, 500]
    bring(server, tmp_path)
    assert [asked for _, asked in server.requests] == [None, "bytes=1000-", "bytes=1500-"]


def test_a_later_run_resumes(server: Server, tmp_path: Path) -> None:
    interrupt(server, tmp_path, at=1234)
    assert bring(server, tmp_path).read_bytes() == CONTENT
    assert server.requests == [("corpus.tgz", "bytes=1234-")]


@pytest.mark.parametrize("knows_if_range", [True, False])
@pytest.mark.parametrize("sends_etag", [True, False])
@pytest.mark.parametrize("changed", [CONTENT[::-1] + b"longer", b"shorter"])
def test_a_file_that_has_changed_is_fetched_from_the_start(
    server: Server, tmp_path: Path, changed: bytes, sends_etag: bool, knows_if_range: bool
) -> None:
    server.sends_etag, server.knows_if_range = sends_etag, knows_if_range
    interrupt(server, tmp_path, at=1000)
    server.files["corpus.tgz"] = changed
    assert bring(server, tmp_path).read_bytes() == changed
    assert names(tmp_path) == ["corpus.tgz"]


@pytest.mark.parametrize("version", ["[torn", "[" * 100_000])
def test_a_part_of_unknown_origin_is_not_resumed(
    server: Server, tmp_path: Path, version: str
) -> None:
    (tmp_path / "corpus.tgz.part").write_bytes(b"anything")
    (tmp_path / "corpus.tgz.part.json").write_text(version)
    assert bring(server, tmp_path).read_bytes() == CONTENT


def test_a_server_that_does_not_say_how_long_the_file_is(server: Server, tmp_path: Path) -> None:
    server.sends_length = False
    assert bring(server, tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_temporary_error_of_the_server_is_retried(
    server: Server, tmp_path: Path, status: int
) -> None:
    server.statuses = [status, status]
    assert bring(server, tmp_path).read_bytes() == CONTENT


def test_a_permanent_error_of_the_server_is_reported(server: Server, tmp_path: Path) -> None:
    server.statuses = [500] * 10
    with pytest.raises(InputError, match=r"corpus\.tgz: the server answers 500 .* 3 times"):
        bring(server, tmp_path)
    assert len(server.requests) == AT_ONCE.attempts
    assert names(tmp_path) == []


def test_a_missing_file_is_an_error_at_once(server: Server, tmp_path: Path) -> None:
    server.files.clear()
    with pytest.raises(InputError, match=r"corpus\.tgz: the server answers 404 .*--mirror"):
        bring(server, tmp_path)
    assert len(server.requests) == 1
    assert names(tmp_path) == []


def test_no_server_is_an_error(tmp_path: Path) -> None:
    with Server.running() as server:
        url = f"{server.url}/corpus.tgz"
    with pytest.raises(InputError, match=r"cannot download .*refused"):
        fetch_file(url, tmp_path / "corpus.tgz", expected=None, retries=AT_ONCE, report=silent)


def test_a_redirect_to_a_local_file_is_not_followed(server: Server, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("private")
    for redirect in (secret.as_uri(), "ftp://127.0.0.1/secret", "data:text/plain,private"):
        server.redirect = redirect
        with pytest.raises(InputError, match="cannot download"):
            bring(server, tmp_path)
    assert names(tmp_path) == ["secret"]


def test_damaged_bytes_are_named_and_not_kept(server: Server, tmp_path: Path) -> None:
    server.files["corpus.tgz"] = b"damaged" + CONTENT[7:]
    with pytest.raises(RejectedFileError) as caught:
        bring(server, tmp_path, expected=sha256(CONTENT))
    assert names(tmp_path) == []
    for part in (server.url, "corpus.tgz is damaged", sha256(CONTENT).partition(":")[2]):
        assert part in str(caught.value)
    assert hashlib.sha256(server.files["corpus.tgz"]).hexdigest() in str(caught.value)


@pytest.mark.parametrize("moment", ["download", "check"])
def test_a_kill_leaves_nothing_that_looks_complete(
    server: Server, tmp_path: Path, moment: str
) -> None:
    server.drops = [3000]  # two answers, so that "download" is killed with some of it written
    program = f"""
import os, signal
from pathlib import Path
from transduce.data.public.download import RetryPolicy, fetch_file
def report(progress):
    if progress.action == {moment!r} and progress.done_bytes >= 3000:
        os.kill(os.getpid(), signal.SIGKILL)
fetch_file({server.url + "/corpus.tgz"!r}, Path("corpus.tgz"), expected={sha256(CONTENT)!r},
      retries=RetryPolicy(pause_s=0), report=report)
"""
    killed = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert names(tmp_path) == ["corpus.tgz.part", "corpus.tgz.part.json"]
    kept = (tmp_path / "corpus.tgz.part").stat().st_size
    server.requests.clear()
    bring(server, tmp_path, expected=sha256(CONTENT))
    assert names(tmp_path) == ["corpus.tgz"]
    complete = kept == len(CONTENT)
    rest = [] if complete else [("corpus.tgz", f"bytes={kept}-" if kept else None)]
    assert server.requests == rest


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")
@pytest.mark.parametrize("from_folder", [True, False])
def test_a_full_disk_is_one_clear_line(
    server: Server, tmp_path: Path, from_folder: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_all = download._write_all

    def write_to_full_disk(read: Any, _file: Any, *arguments: Any) -> int:
        with Path("/dev/full").open("wb") as full:
            return write_all(read, full, *arguments)

    monkeypatch.setattr(download, "_write_all", write_to_full_disk)
    source = tmp_path / "mirror.tgz"
    source.write_bytes(CONTENT * 10)
    server.files["corpus.tgz"] = CONTENT * 10
    with pytest.raises(
        InputError, match=r"corpus\.tgz\.part: No space left.*free some disk space"
    ) as caught:
        fetch_file(
            source if from_folder else f"{server.url}/corpus.tgz",
            tmp_path / "corpus.tgz",
            expected=None,
            retries=AT_ONCE,
            report=silent,
        )
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "corpus.tgz").exists()


@pytest.mark.parametrize("is_copied", [True, False])
def test_a_part_that_is_not_ours_is_left_alone(
    server: Server, tmp_path: Path, is_copied: bool
) -> None:
    """A browser names its downloads so, too."""
    part = tmp_path / "corpus.tgz.part"
    part.write_bytes(b"of a browser")
    (tmp_path / "source.tgz").write_bytes(CONTENT)
    source = tmp_path / "source.tgz" if is_copied else f"{server.url}/corpus.tgz"
    with pytest.raises(InputError, match=r"corpus\.tgz\.part is there already and is no download"):
        fetch_file(source, tmp_path / "corpus.tgz", expected=None, retries=AT_ONCE, report=silent)
    assert part.read_bytes() == b"of a browser"


def test_a_copy_that_was_interrupted_is_made_again(tmp_path: Path) -> None:
    class StoppedError(Exception):
        pass

    def stop(progress: FileProgress) -> None:
        if progress.done_bytes:
            raise StoppedError

    source, path = tmp_path / "source.tgz", tmp_path / "corpus.tgz"
    source.write_bytes(CONTENT)
    with pytest.raises(StoppedError):
        fetch_file(source, path, expected=None, retries=AT_ONCE, report=stop)
    assert (tmp_path / "corpus.tgz.part").stat().st_size
    fetch_file(source, path, expected=None, retries=AT_ONCE, report=silent)
    assert path.read_bytes() == CONTENT
    assert names(tmp_path) == ["corpus.tgz", "source.tgz"]


def test_a_part_that_is_a_link_is_not_written_through(tmp_path: Path) -> None:
    source, victim = tmp_path / "source.tgz", tmp_path / "victim"
    source.write_bytes(CONTENT)
    victim.write_bytes(b"precious")
    (tmp_path / "corpus.tgz.part").symlink_to(victim)
    with pytest.raises(InputError, match=r"corpus\.tgz\.part is in the way, and it is a link"):
        fetch_file(source, tmp_path / "corpus.tgz", expected=None, retries=AT_ONCE, report=silent)
    assert victim.read_bytes() == b"precious"


def test_a_second_download_of_one_file_is_refused(tmp_path: Path) -> None:
    source, path = tmp_path / "source.tgz", tmp_path / "corpus.tgz"
    source.write_bytes(CONTENT)
    with (
        locked_own_file(tmp_path / "corpus.tgz.part", written=path),
        pytest.raises(InputError, match=r"another command is writing .*corpus\.tgz: let it end"),
    ):
        fetch_file(source, path, expected=None, retries=AT_ONCE, report=silent)


def test_a_file_in_another_folder_is_copied(tmp_path: Path) -> None:
    source, path = tmp_path / "source.tgz", tmp_path / "corpus.tgz"
    with pytest.raises(InputError, match=r"cannot read .*source\.tgz: No such file"):
        fetch_file(source, path, expected=None, retries=AT_ONCE, report=silent)
    source.write_bytes(CONTENT)
    fetch_file(source, path, expected=sha256(CONTENT), retries=AT_ONCE, report=silent)
    assert path.read_bytes() == CONTENT
