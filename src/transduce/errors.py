"""The exceptions that a caller may catch.

Each is about something the user can fix, so its message is one line: the setting or the file, the
value found, the rule, and what to do. Our own mistakes are assertions.
"""

import difflib
from collections.abc import Iterable


class TransduceError(Exception):
    """A mistake that the user can fix; the command line prints it as one line and exits with 2."""


class ConfigError(TransduceError):
    """A setting, a preset or a settings file is wrong."""


class InputError(TransduceError):
    """A file, a corpus, a vocabulary, a text or an option is wrong."""


class DivergedError(TransduceError):
    """Training diverged: the loss or the weights were not finite again and again."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ` (did you mean …?)` with the known name whose last part is closest, or ''."""
    by_last_part = {candidate.rpartition(".")[2]: candidate for candidate in known}
    close = difflib.get_close_matches(name.rpartition(".")[2], by_last_part, n=1)
    return f" (did you mean {by_last_part[close[0]]}?)" if close else ""


def counted(count: float, noun: str, plural: str = "", *, form: str = "") -> str:
    """Return a number with its noun: `1 step`, `2,000 steps`, `0.5 minutes`.

    A plural that is not the noun with an s is given: `counted(n, "step is", "steps are")`. `form`
    formats the number; the default has commas, and for fractions as few digits as needed.
    """
    number = format(count, form or ("," if isinstance(count, int) else ",g"))
    return f"{number} {noun if number == '1' else plural or f'{noun}s'}"


def how_to_install(extra: str) -> str:
    """Say how to install the packages of an extra, wherever this package came from."""
    return f"pip install 'transduce[{extra}]' (in a clone: pip install '.[{extra}]')"
