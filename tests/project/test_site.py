"""`make site`: all documents and the Python API as a site that needs no other host.

Building it takes a quarter of a minute, so the default tests look at the pages that it is built of.
"""

import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from docs.site.build import configure, module_page

import transduce
from tests.project.documents import ROOT
from tests.project.test_documents import EVERY_DOCUMENT, broken_links

BUILD = ROOT / "docs" / "site" / "build.py"
PACKAGE = ROOT / "src" / "transduce"
LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src")}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, BUILD, "--out", place],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout
    return place / "site"


class Page(HTMLParser):
    """The anchors of a page, its links, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (tag, name) == ("a", "name"):
                self.ids.add(value)
            elif (tag, name) == ("a", "href"):
                self.links.append(value)
            elif (tag, name) in LOADED:
                self.loads.append(value)


def faults(site: Path) -> Iterator[str]:
    """Find links that lead nowhere, and whatever is loaded from another host."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        if path.name == "404.html":  # shown at any address, so its links start at the host
            continue
        for link in (*page.links, *page.loads):
            url = urlsplit(link)
            if url.scheme or url.netloc:
                if link in page.loads:
                    yield f"{path.relative_to(site)} loads {link}"
                continue
            target = (path.parent / unquote(url.path)).resolve() if url.path else path
            target = target / "index.html" if target.is_dir() else target
            fragment = unquote(url.fragment)
            if not target.is_file():
                yield f"{path.relative_to(site)} links to {link}, which is not there"
            elif fragment and target in pages and fragment not in pages[target].ids:
                yield f"{path.relative_to(site)} links to {link}, which has no such anchor"


def test_the_pages_to_build_are_whole_and_their_links_lead_somewhere(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    settings = configure(tmp_path, pages)
    for document in EVERY_DOCUMENT:
        assert f" {document}\n" in settings, "it is in the navigation"
        assert list(broken_links(pages / document)) == []
    readme = (pages / "README.md").read_text(encoding="utf-8")
    assert "](reference/transduce/nn/mixers/attention.md)" in readme
    for path in PACKAGE.glob("*/**/*.py"):
        page = module_page(path)
        assert f" {page}\n" in settings
        name = str(page.relative_to("reference").with_suffix("")).removesuffix("/index")
        assert f"\n::: {name.replace('/', '.')}\n" in (pages / page).read_text(encoding="utf-8")


@pytest.mark.exhaustive
def test_every_link_leads_somewhere_and_nothing_comes_from_other_hosts(site: Path) -> None:
    assert list(faults(site)) == []


@pytest.mark.exhaustive
def test_no_style_or_font_comes_from_other_hosts(site: Path) -> None:
    sheets = list(site.rglob("*.css"))
    assert sheets
    outside = re.compile(r"(?:@import|url\()\s*['\"]?(?:https?:)?//")
    assert [sheet for sheet in sheets if outside.search(sheet.read_text(encoding="utf-8"))] == []


@pytest.mark.exhaustive
def test_every_document_is_a_page(site: Path) -> None:
    for document in EVERY_DOCUMENT:
        place = Path(document)
        stem = "index" if place.name == "README.md" else place.stem
        page = site / place.with_name(f"{stem}.html")
        title = (ROOT / document).read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
        assert f">{title}" in page.read_text(encoding="utf-8")


@pytest.mark.exhaustive
def test_a_link_to_a_module_leads_to_its_page(site: Path) -> None:
    index = (site / "index.html").read_text(encoding="utf-8")
    assert "reference/transduce/nn/mixers/attention.html" in index
    assert "attention.py" not in " ".join(Page(index).links)


@pytest.mark.exhaustive
def test_the_reference_has_every_public_name_and_every_module(site: Path) -> None:
    public = Page((site / "reference" / "index.html").read_text(encoding="utf-8"))
    names = {f"transduce.{name}" for name in transduce.__all__ if not name.startswith("_")}
    assert names <= public.ids
    for path in PACKAGE.glob("*/**/*.py"):
        within = path.relative_to(PACKAGE.parent)
        stem = "index" if path.stem == "__init__" else path.stem
        assert (site / "reference" / within.with_name(f"{stem}.html")).is_file()


@pytest.mark.exhaustive
def test_the_search_needs_no_server(site: Path) -> None:
    """A page from the disk can load a script, but not fetch a file or start a worker."""
    variable, _, index = (site / "search.js").read_text(encoding="utf-8").partition("=")
    assert variable.split() == ["var", "__index"]
    found: defaultdict[str, str] = defaultdict(str)
    for item in json.loads(index.strip().rstrip(";"))["items"]:
        found[item["location"].partition("#")[0]] += item["text"]
    assert "one command" in found["index.html"].lower()
    assert "LibreTranslate" in found["docs/SERVING.html"]
    summary = (transduce.TransduceError.__doc__ or "").partition("\n")[0].rstrip(".")
    assert summary in found["reference/index.html"]
    page = Page((site / "docs" / "SERVING.html").read_text(encoding="utf-8"))
    assert "../assets/iframe-worker.js" in page.loads
    assert (site / "assets" / "iframe-worker.js").is_file()


@pytest.mark.parametrize(
    ("planted", "fault"),
    [
        ('<a href="gone.html">', "gone.html, which is not there"),
        ('<a href="b.html#gone">', "b.html#gone, which has no such anchor"),
        ('<a href="#gone">', "#gone, which has no such anchor"),
        ('<script src="https://example.org/x.js"></script>', "loads https://example.org/x.js"),
        ('<link rel="stylesheet" href="//example.org/x.css">', "loads //example.org/x.css"),
    ],
)
def test_a_planted_fault_is_found(planted: str, fault: str, tmp_path: Path) -> None:
    (tmp_path / "b.html").write_text('<h1 id="here">')
    sound = '<a href="b.html#here"><a href="https://example.org">'
    (tmp_path / "a.html").write_text(sound)
    assert list(faults(tmp_path)) == []
    (tmp_path / "a.html").write_text(sound + planted)
    [found] = faults(tmp_path)
    assert fault in found
