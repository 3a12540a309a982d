"""The vocabulary of a run, learned from the training corpora and kept in the cache."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain, cycle
from pathlib import Path
from typing import Any, Protocol

from transduce.data.corpus import Pair
from transduce.data.encoding.encoder import TargetForm
from transduce.data.store import identity_digest
from transduce.errors import ConfigError, InputError
from transduce.files.atomic import atomic_folder, sync
from transduce.files.errors import reporting_write_errors
from transduce.files.unchanged import ChangedFileError, compared_in_threads, unchanged_files
from transduce.text.tokenizer import Learning, Tokenizer

LEARN_PAIRS = 200_000
"""Subwords are learned from at most this many pairs, spread evenly over the corpora."""

LEARN_PAIRS_BEFORE = 1_000_000
"""The limit that earlier versions had; it still names what is learned from all pairs."""


class JudgedText(Protocol):
    """Text to learn from, each pair with what is wrong with it; a `StoreSpec` is one."""

    @property
    def is_plain(self) -> bool:
        """Whether the vocabulary has plain punctuation."""

    @property
    def target_form(self) -> TargetForm | None:
        """How target text is written for the model; None: as it is."""

    def identity(self, cache: Path) -> dict[str, Any]:
        """Describe it by content."""

    def judged_pairs(self, chosen: Iterable[int]) -> Iterator[tuple[int, Pair, str | None]]:
        """Stream the chosen pairs, each with the filter that drops it, if any."""


@dataclass(frozen=True)
class WantedVocabulary:
    """The vocabulary to learn: one for both sides, or one for each."""

    target: Learning  # of both sides, if they share it
    source: Learning | None = None  # None: it is shared
    upper: float = 0.0  # the share of pairs that is read in upper case, as it is trained on
    term_markers: bool = False  # entries that stand before and after hints
    placeholders: bool = False  # entries that stand for parts of a text

    def identity(self) -> dict[str, Any]:
        """Return what names it in the cache."""
        shared = {"kind": self.target.kind, "vocab_size": self.target.max_size}
        upper = {"upper": self.upper} if self.upper else {}
        markers = {"term_markers": True} if self.term_markers else {}
        markers |= {"placeholders": True} if self.placeholders else {}
        return shared | upper | markers | ({"source": asdict(self.source)} if self.source else {})


@unchanged_files()
def learn_subwords(spec: JudgedText, cache: Path, wanted: WantedVocabulary, *, pairs: int) -> Path:
    """Learn a vocabulary from the corpora of a spec, unless it is cached; return its file."""
    limit = LEARN_PAIRS if pairs > LEARN_PAIRS else LEARN_PAIRS_BEFORE
    identity = spec.identity(cache) | wanted.identity() | {"pairs": limit}
    folder = cache / f"subwords-{identity_digest(identity)}"
    path = folder / "tokenizer.json"
    if not path.exists():
        tokenizer = _learned(spec, wanted, every=math.ceil(pairs / LEARN_PAIRS))
        with reporting_write_errors(folder), atomic_folder(folder) as making:
            tokenizer.save(making / path.name)
            sync(making / path.name)
    return path


def _learned(spec: JudgedText, wanted: WantedVocabulary, *, every: int) -> Tokenizer:
    source, target = wanted.source, wanted.target

    def texts() -> Iterator[tuple[str, str]]:
        return _partly_upper(_texts(spec, every), wanted.upper)

    try:
        if source is None:
            return Tokenizer.learn(
                compared_in_threads(chain.from_iterable(texts())),
                kind=target.kind,
                vocab_size=target.max_size,
                plain_punctuation=spec.is_plain,
                term_markers=wanted.term_markers,
                placeholders=wanted.placeholders,
            )
        return Tokenizer.learn_separately(
            compared_in_threads(src for src, _ in texts()),
            compared_in_threads(tgt for _, tgt in texts()),
            source=source,
            target=target,
            plain_punctuation=spec.is_plain,
            placeholders=wanted.placeholders,
        )
    except ChangedFileError:
        raise
    except InputError as fault:
        sizes = f"model.vocab_size={target.max_size}"
        if source is not None:
            sizes += f", model.src_vocab_size={source.max_size}"
        raise ConfigError(f"{sizes}: {fault}") from fault


def _texts(spec: JudgedText, every: int) -> Iterator[tuple[str, str]]:
    """Yield source and target, as the model is to write it, of sound pairs, one in `every`."""
    form = spec.target_form
    chosen = cycle([1] + [0] * (every - 1))
    for _, pair, fault in spec.judged_pairs(chosen):
        if fault is None:
            yield pair.src, form.write(pair.tgt) if form else pair.tgt


def _partly_upper(texts: Iterable[tuple[str, str]], share: float) -> Iterator[tuple[str, str]]:
    """Write a share of pairs, spread evenly, in upper case: its words get pieces of their own."""
    for number, (src, tgt) in enumerate(texts):
        is_upper = int((number + 1) * share) > int(number * share)
        yield (src.upper(), tgt.upper()) if is_upper else (src, tgt)
