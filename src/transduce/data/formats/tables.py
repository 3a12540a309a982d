"""Columns of tables: TSV, whose lines are split at tabs, and CSV, quoted as RFC 4180 says.

Columns are chosen by number, from 1, and then every line is text; or by the names in the first
line, the header. By default they are named `src` and `tgt`; a table without these names has no
header, and its first column is the source and its second the target.
"""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from transduce.data.formats.broken import BrokenRecord, beginning
from transduce.data.formats.lines import MAX_LINE_BYTES, read_lines
from transduce.errors import InputError, counted, did_you_mean

DEFAULT_NAMES = ("src", "tgt")

Row = tuple[int, list[str]]
"""The number of a line, from 1, and its cells."""

_HEADER_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
    hyp hypothesis id index lang language line mt no nr number original ref reference sentence
    source src target text tgt translation
    arabic chinese czech danish dutch english finnish french german greek hebrew hindi hungarian
    indonesian italian japanese korean norwegian polish portuguese romanian russian spanish swedish
    thai turkish ukrainian vietnamese
    aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy
    da de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu
    hy hz ia ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg
    li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os
    pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw ta te tg
    th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
    """,
    )
)
"""What the names of columns are usually made of: roles, languages and their codes."""


def read_columns(
    path: Path,
    names: tuple[str, ...],
    *,
    sides: tuple[int, ...] = (0, 1),
    delimiter: str,
    source_only: bool = False,
) -> Iterator[list[str] | BrokenRecord]:
    """Stream the cells of some columns, one row at a time.

    `sides` says of each name whether it is the source's, 0, or the target's, 1. `source_only`: the
    source is all that is wanted, so an error asks for its column alone.
    """
    rows = _csv_rows(path) if delimiter == "," else _tsv_rows(path)
    number, first = next(rows, (0, []))
    if not first:
        raise InputError(f"{path} has only blank lines")
    place = f"{path} line {number:,}"
    try:
        places, has_header = _places(first, names, sides, place, delimiter=delimiter)
    except _ColumnError as unclear:
        raise InputError(unclear.for_source if source_only else str(unclear)) from None
    if not has_header:
        yield [first[place] for place in places]
    for number, cells in rows:
        if len(cells) != len(first):
            fault = _miscounted(cells, first, delimiter)
            broken = InputError(f"{path} line {number:,}: {fault}")
            yield BrokenRecord(broken, delimiter.join(cells))
            continue
        has_header = False
        yield [cells[place] for place in places]
    if has_header:
        raise InputError(f"{path} has a header ({_listed(first)}) but no other line")


class _ColumnError(InputError):
    """It is not clear which columns are meant."""

    def __init__(self, fault: str, cure: str, cure_for_source: str) -> None:
        super().__init__(f"{fault} {cure}")
        self.for_source = f"{fault} {cure_for_source}"


def lacks_names(path: Path, names: tuple[str, ...]) -> bool:
    """Whether a TSV has two columns and no header, where these names would be looked for."""
    _, first = next(_tsv_rows(path))
    return _lacks_names([cell.strip() for cell in first], names)


def header_read_as_text(path: Path, names: tuple[str, ...], *, delimiter: str) -> list[str] | None:
    """Return the chosen cells of the first line if they look like a header; None: they do not.

    Columns that are chosen by number have none, so such a line is read as text.
    """
    rows = _csv_rows(path) if delimiter == "," else _tsv_rows(path)
    _, first = next(rows, (0, []))
    if not all(map(_is_number, names)) or any(int(name) > len(first) for name in names):
        return None
    chosen = [first[int(name) - 1].strip() for name in names]
    return chosen if _looks_like_header(chosen) else None


def _tsv_rows(path: Path) -> Iterator[Row]:
    for number, line in enumerate(read_lines(path), start=1):
        yield number, line.split("\t")


def _csv_rows(path: Path) -> Iterator[Row]:
    """Stream the rows of a CSV, without blank lines; a quoted cell may have line breaks."""
    csv.field_size_limit(MAX_LINE_BYTES)
    rows = csv.reader((f"{line}\n" for line in read_lines(path)), strict=True)
    number = 1
    try:
        for cells in rows:
            if cells:
                yield number, cells
            number = rows.line_num + 1
    except csv.Error as malformed:
        raise InputError(
            f"{path} line {number:,}: not CSV: {malformed}; is a quote not doubled or not closed?"
        ) from malformed


def _places(
    cells: list[str],
    names: tuple[str, ...],
    sides: tuple[int, ...],
    place: str,
    *,
    delimiter: str,
) -> tuple[list[int], bool]:
    """Find the columns of the names; say whether the first line is a header."""
    header = [cell.strip() for cell in cells]
    if all(map(_is_number, names)):
        return [_numbered(name, cells, place) for name in names], False
    if all(name in header for name in names):
        return [header.index(name) for name in names], True
    if set(names) <= set(DEFAULT_NAMES):
        return _default_places(header, sides, place), False
    if delimiter == "\t" and _lacks_names(header, names):
        # The names are for other files: `corpus.check_fields` has seen to that.
        return list(sides), False
    return [_named(name, header, place) for name in names], True


def _lacks_names(header: list[str], names: tuple[str, ...]) -> bool:
    """Whether these are two columns of text, so that the names must be those of other files."""
    return not (
        len(header) != 2
        or all(map(_is_number, names))
        or set(names) <= set(DEFAULT_NAMES)
        or _may_name(header, names)
    )


def _may_name(header: list[str], names: tuple[str, ...]) -> bool:
    """Whether the first line is a header with these names, or one that is misspelt."""
    folded = [cell.casefold() for cell in header]
    is_close = any(name.casefold() in folded or did_you_mean(name, header) for name in names)
    return is_close or _looks_like_header(header)


def _named(name: str, header: list[str], place: str) -> int:
    folded = [cell.casefold() for cell in header]
    if name in header:
        return header.index(name)
    if name.casefold() in folded:
        return folded.index(name.casefold())
    if _is_number(name):
        return _numbered(name, header, place)
    raise _ColumnError(
        f"{place}: no column {name!r}{did_you_mean(name, header)}; the first line has "
        f"{_listed(header)};",
        "choose two of these, or two numbers such as --fields 1,2",
        "choose the source's among these, or its number, such as --fields 1",
    )


def _default_places(header: list[str], sides: tuple[int, ...], place: str) -> list[int]:
    """Return the first two columns of a table that has no others, and no header."""
    if len(header) > 2 or (len(header) == 1 and len(sides) == 2):
        raise _not_two(header, place)
    if _looks_like_header(header):
        numbers = ",".join(str(number) for number in range(1, len(header) + 1))
        raise _ColumnError(
            f"{place} looks like a header ({_listed(header)}):",
            f"name the columns, as in --fields {','.join(header)}, or use --fields {numbers} if "
            "it is text",
            f"name the source's column, as in --fields {header[0]}, or use --fields 1 if it is "
            "text",
        )
    return [min(side, len(header) - 1) for side in sides]


def _looks_like_header(cells: list[str]) -> bool:
    return len(set(cells)) == len(cells) and all(map(_is_header_word, cells))


def _not_two(cells: list[str], place: str) -> InputError:
    if len(cells) > 2:
        return _ColumnError(
            f"{place}: {len(cells)} columns",
            f"instead of two: {_listed(cells)}; if this is a header, choose two of these names; "
            "if it is text, choose two by number, such as --fields 1,3",
            f"({_listed(cells)}): if this is a header, choose one of these names; if it is text, "
            "choose the source's by number, such as --fields 1",
        )
    other = next((sign for sign in ("\t", ";", ",") if sign in cells[0]), None)
    found = {"\t": "tabs: is it a .tsv?", ";": "semicolons: write commas", ",": "commas: a .csv?"}
    hint = f"; it has {found[other]}" if other else ""
    return InputError(f"{place}: 1 column instead of two{hint}")


def _miscounted(cells: list[str], first: list[str], delimiter: str) -> str:
    sign = "a tab" if delimiter == "\t" else "a comma"
    columns = counted(len(cells), "column")
    wanted = "two" if len(first) == 2 else f"{len(first)} as in the first line"
    cure = f"remove {sign} from the text, or the line"
    if delimiter == ",":
        cure = "put the text that has a comma in quotes, or remove the line"
    if len(cells) < len(first):
        cure = "add what is missing, or remove the line"
    row = beginning(delimiter.join(cells))
    return f"{columns} instead of {wanted}, separated by {sign}: {row}; {cure}"


def _is_number(name: str) -> bool:
    return re.fullmatch("[1-9][0-9]{0,5}", name) is not None


def _numbered(name: str, cells: list[str], place: str) -> int:
    if int(name) > len(cells):
        raise InputError(f"{place}: no column {name}; there are {len(cells)}: {_listed(cells)}")
    return int(name) - 1


def _is_header_word(cell: str) -> bool:
    """Whether a cell is made of such words; a number or a region may follow, as in en_US."""
    parts = re.split(r"[\s_.-]+", re.sub(r"[_-]([A-Za-z]{2}|[0-9]+)$", "", cell).casefold())
    return len(parts) <= 3 and all(part in _HEADER_WORDS for part in parts)


def _listed(cells: list[str]) -> str:
    """List cells in one short line."""
    shown = [repr(cell if len(cell) <= 20 else cell[:19] + "…") for cell in cells[:8]]
    return ", ".join(shown) + (", …" if len(cells) > 8 else "")
