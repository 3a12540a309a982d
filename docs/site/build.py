"""Builds the documents and a reference of the Python API as a site: `make site`.

The site has the folders of the repository, so that links between documents work unchanged, and
README.md is its first page. A link to a module leads to its page in the reference.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

import transduce

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
SOURCES = ROOT / "src"
REFERENCE = Path("reference")
BLOCK = re.compile(r"^(```.*?^```$)", re.DOTALL | re.MULTILINE)
FENCE = re.compile(r"^```(\w+) .*$", re.MULTILINE)
LINK = re.compile(r"(\]\()(?!https?:|#)([^)#\s]+)")
FEW = "{show_root_heading: true, show_root_full_path: false}"

Nav = list[dict[str, Any]]


def main() -> None:
    """Lay the pages out in build/site-source, and build them into build/site."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build", help="the folder to build in")
    out = parser.parse_args().out.resolve()
    config = out / "mkdocs.yml"
    pages = out / "site-source"
    for folder in (pages, out / "site"):
        shutil.rmtree(folder, ignore_errors=True)
    pages.mkdir(parents=True)
    config.write_text(configure(out, pages), encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    raise SystemExit(subprocess.call([*command, "--config-file", config], cwd=out))  # noqa: S603


def configure(out: Path, pages: Path) -> str:
    """Write all pages, and return the settings with their navigation."""
    text = (HERE / "mkdocs.yml").read_text(encoding="utf-8")
    settings, _, nav = text.partition("nav:\n")
    documents: Nav = yaml.safe_load(nav)
    for document in named(documents):
        write_document(document, pages)
    (pages / "assets").mkdir()
    shutil.copy(HERE / "iframe-worker.js", pages / "assets")
    reference = {"Reference": [f"{REFERENCE}/index.md", *write_reference(pages)]}
    whole = yaml.safe_dump({"nav": [*documents, reference]}, allow_unicode=True, sort_keys=False)
    return settings.replace("../src", os.path.relpath(SOURCES, out)) + whole


def named(nav: Nav) -> Iterator[Path]:
    """Find the documents that a navigation names."""
    for entry in nav:
        for value in entry.values():
            if isinstance(value, str):
                yield Path(value)
            else:
                yield from named(value)


def write_document(document: Path, pages: Path) -> None:
    """Copy a document, with the files it links to, and lead its links to pages of the site."""

    def lead(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(document.parent / link[2]))
        return link[1] + os.path.relpath(page_of(target, pages), document.parent)

    text = (ROOT / document).read_text(encoding="utf-8")
    parts = BLOCK.split(text)  # prose and blocks by turns
    parts[::2] = [LINK.sub(lead, prose) for prose in parts[::2]]
    parts[1::2] = [FENCE.sub(r"```\1", block) for block in parts[1::2]]
    write(pages / document, "".join(parts))


def page_of(target: Path, pages: Path) -> Path:
    """Return where the site has what a file of the repository holds."""
    if (ROOT / target).is_relative_to(SOURCES) and target.suffix == ".py":
        return module_page(ROOT / target)
    if target.suffix != ".md":
        (pages / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / target, pages / target)
    return target


def module_page(path: Path) -> Path:
    """Return the page of a module in the reference."""
    within = path.relative_to(SOURCES).with_suffix("")
    return REFERENCE / (within.parent / "index.md" if path.stem == "__init__" else f"{within}.md")


def write_reference(pages: Path) -> Nav:
    """Write a page of the public names and one for each module; return those of the modules."""
    names = [name for name in transduce.__all__ if not name.startswith("_")]
    public = [f"::: transduce.{name}\n    options: {FEW}\n" for name in names]
    write(pages / REFERENCE / "index.md", "\n".join(["# Python API\n", *public]))
    return [
        {package.name: list(write_package(package, pages))}
        for package in sorted((SOURCES / "transduce").iterdir())
        if (package / "__init__.py").is_file()
    ]


def write_package(package: Path, pages: Path) -> Iterator[str | dict[str, Any]]:
    """Write a page for each module of a package, and stream their entries in the navigation."""
    modules = sorted(package.glob("*.py"), key=lambda path: (path.stem != "__init__", path.stem))
    for path in modules:
        page = module_page(path)
        parts = path.relative_to(SOURCES).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        write(pages / page, f"# {name}\n\n::: {name}\n")
        yield str(page) if path.stem == "__init__" else {path.stem: str(page)}
    for folder in sorted(path.parent for path in package.glob("*/__init__.py")):
        yield {folder.name: list(write_package(folder, pages))}


def write(path: Path, text: str) -> None:
    """Write a page, in a folder that may be new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
