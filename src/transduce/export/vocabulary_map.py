"""CTranslate2's vocabulary map: the shortlist of a model in the text form that it reads.

Each line has a source token, a tab, and the target tokens with spaces between them. The line of the
empty token has those that are candidates of every sentence.
"""

import re
import reprlib
from pathlib import Path

from transduce.errors import InputError
from transduce.files.atomic import atomic_file
from transduce.files.errors import reporting_read_errors, reporting_write_errors
from transduce.files.regular import open_regular
from transduce.models.shortlist import SHORTLIST, SPECIAL, Numbers, Shortlist
from transduce.text.tokenizer import Tokenizer

MAP = "vmap.txt"
_SEPARATOR = re.compile(r"[ \t\n]")


def write_vocabulary_map(folder: Path, shortlist: Shortlist, tokenizer: Tokenizer) -> None:
    """Write both forms of a shortlist into an exported folder: that of CTranslate2, and ours."""
    text = vocabulary_map(shortlist, tokenizer)
    shortlist.save(folder / SHORTLIST, tokenizer)
    with reporting_write_errors(folder / MAP), atomic_file(folder / MAP) as making:
        making.write_bytes(text)


def check_vocabulary_map(folder: Path, tokenizer: Tokenizer) -> None:
    """Raise unless an exported folder has no map, or the one of the shortlist beside it.

    CTranslate2 reads the file whenever it is there, and believes it.
    """
    if not (folder / MAP).exists():
        return
    if not (folder / SHORTLIST).is_file():
        raise InputError(f"{folder / MAP} has no {SHORTLIST} beside it: remove it")
    shortlist = Shortlist.load(folder / SHORTLIST, tokenizer)
    expected = vocabulary_map(shortlist, tokenizer)
    with (
        reporting_read_errors(folder / MAP),
        open_regular(folder / MAP, max_bytes=len(expected)) as file,
    ):
        if file.read() != expected:
            raise InputError(
                f"{folder / MAP} does not match the {SHORTLIST} beside it: export the model again"
            )


def vocabulary_map(shortlist: Shortlist, tokenizer: Tokenizer) -> bytes:
    """Return the map as text; CTranslate2 adds the special tokens itself."""
    sides = (tokenizer.source, tokenizer.target)
    source, target = (side.tokens(range(len(side))) for side in sides)

    def line(name: str, ids: Numbers) -> str:
        return f"{name}\t{' '.join(_checked(target[one]) for one in ids if one >= SPECIAL)}\n"

    lists = ((token, ids) for token, ids in shortlist.lists() if token >= SPECIAL)
    lines = (line(_checked(source[token]), ids) for token, ids in lists)
    return "".join((line("", shortlist.frequent), *lines)).encode()


def _checked(name: str) -> str:
    """Raise if a name cannot be told from its neighbours."""
    if not name or _SEPARATOR.search(name):
        raise InputError(
            f"the entry {reprlib.repr(name)} of the vocabulary cannot stand in CTranslate2's "
            f"{MAP}, where spaces separate entries: use no shortlist"
        )
    return name
