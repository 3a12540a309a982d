"""The documents' commands run and print what is shown; README.ko.md is README.md in Korean.

Blocks that train run in brief here; `make docs` runs them for real (see documents.py).
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
import typer.main

from tests.project.documents import BLOCK, DOCUMENTS, ROOT, faults
from transduce.cli.app import app
from transduce.config.schema import Config

README, KOREAN = ROOT / "README.md", ROOT / "README.ko.md"
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
ANCHORED = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
EVERY_DOCUMENT = sorted(
    str(path.relative_to(ROOT))
    for folder in (ROOT, ROOT / "docs", ROOT / "recipes")
    for path in folder.glob("*.md")
)
SPAN = re.compile(r"`([^`\n]+)`")
TABLE_ROW = re.compile(r"^\|.*\|$", re.MULTILINE)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all documents: each may use the models that those before it have trained."""
    return tmp_path_factory.mktemp("documents")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_is_true(document: str, place: Path) -> None:
    assert list(faults((ROOT / document).read_text(encoding="utf-8"), place, brief=True)) == []


def test_the_korean_readme_is_the_same_document() -> None:
    english, korean = (path.read_text(encoding="utf-8") for path in (README, KOREAN))
    for parts in (BLOCK.findall, headings, links, figures, spans):
        assert parts(korean) == parts(english)


def headings(text: str) -> list[str]:
    return re.findall(r"^#+(?= )", BLOCK.sub("", text), re.MULTILINE)


def links(text: str) -> list[str]:
    """Return where it points to, but for the other language."""
    return sorted(set(LINK.findall(text)) - {README.name, KOREAN.name})


def figures(text: str) -> list[list[str]]:
    """Return the numbers of each row of a table, in whatever order a language puts them."""
    return [sorted(re.findall(r"\d[\d.,:]*\d|\d", row)) for row in TABLE_ROW.findall(text)]


def spans(text: str) -> list[str]:
    return sorted(set(SPAN.findall(BLOCK.sub("", text))))


@pytest.mark.parametrize("document", EVERY_DOCUMENT)
def test_links_lead_somewhere(document: str) -> None:
    assert list(broken_links(ROOT / document)) == []


def broken_links(document: Path) -> Iterator[str]:
    """Find links to files that are not there, and to headings that a document does not have."""
    prose = SPAN.sub("", BLOCK.sub("", document.read_text(encoding="utf-8")))
    for name, anchor in ANCHORED.findall(prose):
        target = document.parent / unquote(name) if name else document
        if not target.exists():
            yield name
        elif anchor and unquote(anchor) not in anchors(target.read_text(encoding="utf-8")):
            yield f"{name}#{anchor}"


def anchors(text: str) -> set[str]:
    """Return what its headings are called in links: as GitHub does, and our site."""
    seen: Counter[str] = Counter()
    names = set()
    for heading in HEADING.findall(BLOCK.sub("", text)):
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        names.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return names


@pytest.mark.parametrize(
    "link", ["gone.md", "other.md#gone", "other.md#the-cards-limit-2", "#gone", "other.md#code"]
)
def test_a_link_that_leads_nowhere_is_found(link: str, tmp_path: Path) -> None:
    limit = "## The card's limit\n"
    (tmp_path / "other.md").write_text(f"# Other\n{limit}{limit}```console\n# code\n```\n")
    document = tmp_path / "this.md"
    sound = "# This\n[a](other.md#the-cards-limit) [b](#this) [c](other.md#the-cards-limit-1)\n"
    document.write_text(sound)
    assert list(broken_links(document)) == []
    document.write_text(f"{sound}[d]({link})\n")
    assert list(broken_links(document)) == [link]


@pytest.mark.parametrize("document", EVERY_DOCUMENT)
def test_make_targets_exist(document: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)
    named = re.findall(r"`make ([a-z-]+)`", (ROOT / document).read_text(encoding="utf-8"))
    assert set(named) <= set(targets)


@pytest.mark.parametrize("readme", [README, KOREAN])
def test_what_a_kill_costs_is_the_default(readme: Path) -> None:
    """The README says how many minutes of training are repeated at most."""
    [lost] = re.findall(r"(\d+)[^\d]*`run\.save_minutes`", readme.read_text(encoding="utf-8"))
    assert float(lost) == Config().run.save_minutes


@pytest.mark.parametrize("document", DOCUMENTS)
def test_commands_in_a_sentence_exist(document: str) -> None:
    text = BLOCK.sub("", (ROOT / document).read_text(encoding="utf-8"))
    assert [span for span in SPAN.findall(text) if not could_run(span)] == []


def could_run(span: str) -> bool:
    """Say whether a command of ours, or a benchmark, has the name and the options given."""
    program, *words = span.split()
    options = {word for word in words if word.startswith("--")}
    if program == "transduce":
        command = typer.main.get_command(app)
        while words and not words[0].startswith("--") and hasattr(command, "commands"):
            command = command.commands.get(words.pop(0))
        if command is None:
            return False
        return options <= {name for one in command.params for name in one.opts} | {"--help"}
    if program == "python" and words and words[0].startswith("benchmarks/"):
        script = ROOT / words[0]
        return script.exists() and all(f'"{o}"' in script.read_text("utf-8") for o in options)
    return True


TRUE = """
```console
$ make test
$ transduce presets
…
$ transduce --version
transduce 0.1.0
```
```python
import transduce
```
```pycon
>>> 1 + 1
2
```
"""


@pytest.mark.parametrize(
    ("true", "planted"),
    [
        ("$ make test", "$ make tset"),
        ("$ transduce presets", "$ transduce preset"),
        ("transduce 0.1.0", "transduce 0.1.1"),
        ("transduce 0.1.0", "transduce 0.1.0\nand more"),
        ("import transduce", "import transducer"),
        ("2\n", "3\n"),
        ("```console", "```sh"),
        ("$ make test", "$ no-such-program"),
        ("$ make test", "$ pip install '.[serve,sreve]'"),
    ],
)
def test_a_planted_fault_is_found(true: str, planted: str, tmp_path: Path) -> None:
    assert true in TRUE
    assert list(faults(TRUE.replace(true, planted, 1), tmp_path, brief=True)) != []


def test_nothing_is_found_where_there_is_no_fault(tmp_path: Path) -> None:
    assert list(faults(TRUE, tmp_path, brief=True)) == []


def test_a_trained_block_may_differ_in_figures_alone(tmp_path: Path) -> None:
    block = "```console trained\n$ transduce --version\n{}\n```\n"
    assert list(faults(block.format("transduce 9.9.9"), tmp_path, brief=False)) == []
    assert list(faults(block.format("another 0.1.0"), tmp_path, brief=False)) != []


@pytest.mark.parametrize(
    "span", ["transduce trian", "transduce train --srcs", "python benchmarks/no.py"]
)
def test_a_command_that_does_not_exist_is_found(span: str) -> None:
    assert not could_run(span)
