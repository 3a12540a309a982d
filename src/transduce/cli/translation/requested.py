"""What the options of a command ask for: the search, the wording and a translation memory."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from transduce.errors import InputError
from transduce.search.sample import Sampling
from transduce.translation.load import default_options
from transduce.translation.memory.read import MemoryUse, translation_memory
from transduce.translation.options import Options
from transduce.translation.wording.read import read_forbidden, wording
from transduce.translation.wording.rules import Wording


def search(model: Path, beam: int | None, alpha: float | None, *, whole_lines: bool) -> Options:
    """Return how to translate: as the model's task wants it, but for what is given."""
    own = default_options(model)
    return replace(
        own,
        beam=own.beam if beam is None else beam,
        alpha=own.alpha if alpha is None else alpha,
        whole_lines=whole_lines,
    )


def sampling(given: dict[str, Any], *, is_wanted: bool) -> Sampling | None:
    """Check the options of sampling; return None if it is not wanted."""
    given = {name: value for name, value in given.items() if value is not None}
    if not is_wanted:
        for name in given:
            raise InputError(f"--{name.replace('_', '-')} is for sampling: add --sample")
        return None
    if not 0 < given.get("temperature", 1) < math.inf:
        raise InputError(
            f"--temperature {given['temperature']}: use more than 0, or leave out --sample"
        )
    if given.get("top_k", 1) < 1:
        raise InputError(f"--top-k {given['top_k']}: use 1 or more")
    if not 0 < given.get("top_p", 1) <= 1:
        raise InputError(f"--top-p {given['top_p']}: use more than 0, up to 1")
    return Sampling(**given)


def rules(
    glossary: Path | None,
    forbid: Path | None,
    keep: Sequence[str] | None,
    *,
    soft: bool,
    keep_placeholders: bool = False,
) -> Wording:
    """Read what translations must contain, and what they must not."""
    return wording(
        glossary,
        forbid=() if forbid is None else read_forbidden(forbid),
        keep_placeholders=keep_placeholders,
        keep=keep or (),
        soft=soft,
    )


def memory(
    path: Path | None, fields: str, threshold: float, *, as_prefix: bool
) -> MemoryUse | None:
    """Read a translation memory, if one is given."""
    if path is None:
        return None
    return translation_memory(path, fields=fields, threshold=threshold, as_prefix=as_prefix)
