"""Translation memories read from files, or given in Python."""

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from transduce.data.corpus import DEFAULT_FIELDS, read_pairs, source_of
from transduce.errors import InputError
from transduce.translation.memory.units import MemoryMatch, TranslationMemory

DEFAULT_THRESHOLD = 0.75
LEAST_THRESHOLD = 0.5

MemoryInput = TranslationMemory | Mapping[str, str] | str | PathLike[str]
"""A memory, its file, or translations by source."""


@dataclass(frozen=True)
class MemoryUse:
    """A translation memory, and what is done with its matches."""

    memory: TranslationMemory
    threshold: float = DEFAULT_THRESHOLD  # matches that are less similar are not offered
    as_prefix: bool = False  # translations begin as a similar one does, where that is safe

    def __post_init__(self) -> None:
        if not LEAST_THRESHOLD <= self.threshold <= 1:
            raise InputError(
                f"a similarity of {self.threshold:g}: use {LEAST_THRESHOLD:g} to 1, which offers "
                "none but the same"
            )

    def described(self) -> dict[str, str | float | bool]:
        """Describe it, with a digest in the place of the texts."""
        return {
            "digest": self.memory.digest,
            "threshold": self.threshold,
            "as_prefix": self.as_prefix,
        }

    def match(self, text: str) -> MemoryMatch | None:
        """Find the same text, or the most similar one."""
        same = self.memory.exact(text)
        if same is not None or self.threshold == 1:
            return same
        return self.memory.similar(text, threshold=self.threshold)


def read_memory(path: str | PathLike[str], *, fields: str = DEFAULT_FIELDS) -> TranslationMemory:
    """Read a file with both sides: .tmx, .tsv, .csv, .jsonl, .po or .xlf, plain or compressed.

    fields: the two columns, fields or languages, such as en,de.
    """
    try:
        return TranslationMemory(read_pairs(source_of(Path(path), fields=fields)), name=str(path))
    except InputError as fault:
        raise InputError(str(fault).replace("--fields", "--memory-fields")) from fault


def as_memory(given: MemoryInput) -> TranslationMemory:
    """Make a memory of what a caller may give."""
    if isinstance(given, TranslationMemory):
        return given
    if isinstance(given, Mapping):
        return TranslationMemory(given.items())
    return read_memory(given)


def translation_memory(
    memory: MemoryInput,
    *,
    fields: str = DEFAULT_FIELDS,
    threshold: float = DEFAULT_THRESHOLD,
    as_prefix: bool = False,
) -> MemoryUse:
    """Say which translations exist already, for `Options(memory=…)`.

    memory: a file with both sides, or a dictionary.
    fields: the columns, fields or languages of such a file, such as en,de.
    threshold: how similar a text must be to be offered.
    as_prefix: begin translations as a similar one does, where that is safe.
    """
    if isinstance(memory, str | PathLike):
        memory = read_memory(memory, fields=fields)
    return MemoryUse(as_memory(memory), threshold, as_prefix)
