"""The page translates as one types, remembers nothing, and works by keyboard and on small screens.

Its script runs in node, over the page's own elements, against a real server.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.serving.test_server import held, metric

NODE = shutil.which("node")
SCRIPT = Path(__file__).with_name("page.mjs")
needs_node = pytest.mark.skipif(NODE is None, reason="node runs the page's script")


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    never = tmp_path_factory.mktemp("held") / "never"
    with held(never, 600) as (_, port):
        yield port


def run(port: int, scenario: str) -> dict[str, Any]:
    assert NODE is not None
    command = [NODE, str(SCRIPT), f"http://127.0.0.1:{port}", scenario]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@needs_node
def test_a_text_is_sent_once_after_a_pause_in_typing(port: int) -> None:
    assert run(port, "typing") == {"asked": ["one"], "busy": "false", "lang": "de"}


@needs_node
def test_a_newer_text_cancels_the_older_request_also_on_the_server(port: int) -> None:
    before = metric(port, "transduce_batches_stopped_total")
    found = run(port, "newer")  # the next would wait forever for what is held
    assert found == {"wasCancelled": True, "asked": ["hold", "next"], "fault": ""}
    assert metric(port, "transduce_batches_stopped_total") == before + 1
    assert metric(port, "transduce_queue_sentences") == 0


@needs_node
def test_an_older_answer_that_comes_late_is_ignored(port: int) -> None:
    assert run(port, "late") == {"shown": "NEWER"}


@needs_node
def test_keys_translate_at_once_and_stop(port: int) -> None:
    found = run(port, "keyboard")
    assert found == {"atOnce": 1, "asked": ["now", "日", "hold"], "isCancelled": True}


@needs_node
def test_no_text_has_no_translation_and_a_long_one_waits_to_be_asked_for(port: int) -> None:
    found = run(port, "emptied")
    assert found == {"afterwards": "", "asked": 1, "status": "Press Translate or Ctrl + Enter."}


@needs_node
def test_another_pair_of_languages_is_asked_for_as_a_typed_text_is(port: int) -> None:
    wait = "Press Translate or Ctrl + Enter."
    assert run(port, "pair") == {"asked": ["one", "one"], "shown": "", "status": wait}
    assert run(port, "keyless") == {"asked": 0, "fault": "", "status": wait}


@needs_node
def test_a_glossary_of_the_server_can_be_chosen(port: int) -> None:
    found = run(port, "glossary")
    assert found == {
        "offered": ["No glossary", "law"],
        "isHidden": False,
        "asked": [None, "law"],
    }


@needs_node
def test_a_file_that_is_dropped_on_the_page_comes_back_translated(port: int) -> None:
    assert run(port, "file") == {
        "prevented": 3,
        "said": "Save the translation of a.html",
        "saved": "ONE <b>TWO</b>",
        "fault": True,
        "isHidden": True,
    }


@needs_node
def test_escape_in_the_pause_stops_what_would_be_asked(port: int) -> None:
    assert run(port, "paused") == {"stopped": "Stopped.", "asked": 0, "shown": ""}


class Elements(HTMLParser):
    """The elements of a page with their attributes, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.labels: set[str | None] = set()
        self._open_labels = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.found.append((tag, attributes))
        if tag == "label":
            self._open_labels += 1
            self.labels.add(attributes.get("for"))
        elif self._open_labels:
            self.labels.add(attributes.get("id"))

    def handle_endtag(self, tag: str) -> None:
        self._open_labels -= tag == "label"


def test_every_field_has_a_label_and_the_order_of_focus_is_that_of_the_page(
    client: TestClient,
) -> None:
    page = Elements(client.get("/").text)
    fields = [at["id"] for tag, at in page.found if tag in ("textarea", "select", "input")]
    assert fields[:2] == ["pair", "text"]
    assert set(fields) <= page.labels
    assert not any("tabindex" in attributes for _, attributes in page.found)
    [result] = [attributes for _, attributes in page.found if attributes.get("id") == "result"]
    assert (result["aria-live"], result["aria-busy"]) == ("polite", "false")


def test_nothing_is_remembered(client: TestClient) -> None:
    page = client.get("/")
    [form] = [at for tag, at in Elements(page.text).found if at.get("id") == "form"]
    assert form["autocomplete"] == "off"
    script = client.get("/web/page.js").text
    assert not re.search(
        r"Storage|indexedDB|cookie|caches|serviceWorker|history\.|location\.hash", script
    )
    answer = client.post("/v1/stream", json={"text": "a"})
    assert answer.headers["cache-control"] == "no-store"
    for response in (page, answer):
        assert "set-cookie" not in response.headers


def test_a_screen_of_360_pixels_has_one_column_and_nothing_wider(client: TestClient) -> None:
    assert 'content="width=device-width, initial-scale=1"' in client.get("/").text
    style = client.get("/web/page.css").text
    narrow = style[style.index("@media (max-width: 46rem)") :]
    assert ".bench { grid-template-columns: minmax(0, 1fr); }" in narrow
    assert set(re.findall(r"[^-]min-width: *([^;}\s]+)", style)) == {"0"}
    fixed = [float(width) for width in re.findall(r"[{;] *width: (\d+)rem", style)]
    assert all(16 * width <= 320 for width in fixed), "wider than the screen less its margins"
    assert "max-width: 100%" in style
    assert "prefers-color-scheme: dark" in style
