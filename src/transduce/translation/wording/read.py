"""Glossaries and forbidden words read from files, or given in Python."""

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path

from transduce.errors import InputError
from transduce.files.errors import reporting_read_errors
from transduce.files.regular import read_regular
from transduce.text.phrases.glossary import MAX_TERMS, Glossary, make_term, parse_glossary
from transduce.text.phrases.patterns import compiled
from transduce.translation.wording.rules import Wording, forbidden_words

MAX_FILE_BYTES = 1 << 26
MAX_PATTERNS = 32

GlossaryInput = Glossary | Mapping[str, str | Sequence[str]] | str | PathLike[str]
"""A glossary, its file, or translations by term: a text, or a list of alternatives."""


def read_glossary(path: str | PathLike[str]) -> Glossary:
    """Read a file of terms: source, tab, translations with | between them, tab, rules."""
    return parse_glossary(_lines(Path(path)), name=str(path))


def read_forbidden(path: str | PathLike[str]) -> tuple[str, ...]:
    """Read a file of forbidden words or phrases, one a line."""
    return forbidden_words(_lines(Path(path)), name=str(path))


def as_glossary(given: GlossaryInput) -> Glossary:
    """Make a glossary of what a caller may give."""
    if isinstance(given, Glossary):
        return given
    if isinstance(given, str | PathLike):
        return read_glossary(given)
    if len(given) > MAX_TERMS:
        raise InputError(f"a glossary of {len(given):,} terms: use at most {MAX_TERMS:,}")
    return Glossary(
        tuple(
            make_term(
                source, [to] if isinstance(to, str) else to, place=f"the term {source[:40]!r}"
            )
            for source, to in given.items()
        )
    )


def wording(
    glossary: GlossaryInput | None = None,
    *,
    forbid: Iterable[str] = (),
    keep_placeholders: bool = False,
    keep: Sequence[str] = (),
    soft: bool = False,
) -> Wording:
    """Say what translations must contain, and must not, for `Options(wording=…)`.

    glossary: terms with their translations: a file, or a dictionary.
    forbid: words and phrases that no translation contains.
    keep_placeholders: copy addresses, format fields, quantities with units and emoji.
    keep: patterns of other parts to copy.
    soft: the glossary is a hint to a model that was trained with such (`data.terms`), which may
        inflect terms or leave them out; no constraint.
    """
    if isinstance(keep, str) or isinstance(forbid, str):
        raise InputError("got one text instead of several: put it into a list")
    if len(keep) > MAX_PATTERNS:
        raise InputError(f"{len(keep)} patterns of what to keep: use at most {MAX_PATTERNS}")
    if soft and glossary is None:
        raise InputError("soft is for the terms of a glossary: give one, or leave it out")
    return Wording(
        None if glossary is None else as_glossary(glossary),
        forbidden_words(forbid, name="forbid"),
        keep_placeholders,
        tuple(compiled(text) for text in keep),
        soft,
    )


def _lines(path: Path) -> list[str]:
    with reporting_read_errors(path):
        content = read_regular(path, max_bytes=MAX_FILE_BYTES)
    try:
        return content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as fault:
        raise InputError(f"{path} is not UTF-8: convert it") from fault
