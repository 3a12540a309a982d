"""Make the shortlist of a model from pairs: with what each source token is linked most."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from transduce.config.schema import Config
from transduce.data.alignment.aligner import train_aligner
from transduce.data.alignment.grids import cells_of
from transduce.data.alignment.lexicon import LinkCounts
from transduce.data.alignment.links import CHUNK_PAIRS, SAMPLE_CELLS
from transduce.data.corpus import (
    DEFAULT_FIELDS,
    BrokenPair,
    Source,
    count_records,
    read_records,
    source_of,
)
from transduce.data.encoding.encoder import BothSides
from transduce.data.encoding.side import Side
from transduce.errors import InputError
from transduce.export.ctranslate2 import is_exported
from transduce.models.folder import load_settings, load_tokenizer
from transduce.models.shortlist import Shortlist, shortlist_path
from transduce.text.tokenizer import Tokenizer
from transduce.translation.shortlist.check import check_can_narrow

FREQUENT, PER_TOKEN = 100, 100
"""How many of the most frequent target tokens are always candidates, and how many of each token."""
LARGEST = 10_000
MAX_PAIRS = 500_000
"""Pairs that are read of a larger corpus, spread evenly."""


@dataclass(frozen=True)
class MadeShortlist:
    """A shortlist that was written."""

    path: Path
    pairs: int  # that it was made from
    tokens: int  # of the source, that have a list
    entries: int  # of all lists


def make_shortlist(
    model: str | Path,
    *,
    src: Sequence[str | Path] = (),
    tgt: Sequence[str | Path] = (),
    fields: str = DEFAULT_FIELDS,
    frequent: int = FREQUENT,
    per_token: int = PER_TOKEN,
) -> MadeShortlist:
    """Write the shortlist of a model into its folder, from the pairs that it was trained on.

    src, tgt, fields: the pairs, as for `train`; by default those that the model's settings name.
    frequent: how many of the most frequent target tokens are candidates of every sentence.
    per_token: how many candidates each source token brings, at most.
    """
    for name, value in (("frequent", frequent), ("per_token", per_token)):
        if not 1 <= value <= LARGEST:
            raise InputError(f"{name}={value}: use 1 to {LARGEST:,}")
    folder = Path(model)
    if is_exported(folder):
        raise InputError(
            f"{folder} was exported to CTranslate2: make the shortlist of the model folder, and "
            "export that with --shortlist"
        )
    config = load_settings(folder)
    check_can_narrow(config, folder)
    tokenizer = load_tokenizer(folder, config)
    sides = _encoded(_sources(config, src, tgt, fields), tokenizer)
    made = _shortlist(*sides, tokenizer, frequent=frequent, per_token=per_token)
    path = shortlist_path(folder)
    made.save(path, tokenizer)
    used = int((np.diff(made.starts) > 0).sum())
    return MadeShortlist(path, sides[0].lengths.size, used, made.ids.size)


def _sources(
    config: Config, src: Sequence[str | Path], tgt: Sequence[str | Path], fields: str
) -> list[Source]:
    """Return the given pairs, or those of the settings."""
    if tgt and not src:
        raise InputError("--tgt has the translations of which texts? Give them with --src")
    if not src:
        src, tgt, fields = config.data.src, config.data.tgt, config.data.fields
    if not src:
        raise InputError("from which pairs? Give them with --src and --tgt")
    if tgt and len(src) != len(tgt):
        raise InputError(f"--src names {len(src)} files but --tgt {len(tgt)}: give pairs of files")
    files = [Path(path) for path in (*src, *tgt)]
    return [
        source_of(Path(one), Path(other) if other else None, fields=fields, among=files)
        for one, other in zip(src, tgt or [""] * len(src), strict=True)
    ]


def _encoded(sources: Sequence[Source], tokenizer: Tokenizer) -> tuple[Side, Side]:
    """Encode all pairs, or every n-th of more than `MAX_PAIRS`."""
    every = -(-sum(map(count_records, sources)) // MAX_PAIRS) or 1
    records = (record for source in sources for record in read_records(source))
    pairs = (pair for pair in islice(records, 0, None, every) if not isinstance(pair, BrokenPair))
    vocabularies = BothSides(tokenizer)
    src, tgt = [], []
    while batch := list(islice(pairs, CHUNK_PAIRS)):
        src.append(vocabularies.source.encode([pair.src for pair in batch]))
        tgt.append(vocabularies.target.encode([pair.tgt for pair in batch]))
    if not src:
        raise InputError("the texts have no pairs: give others with --src and --tgt")
    return _joined(src), _joined(tgt)


def _joined(sides: Sequence[Side]) -> Side:
    return Side(
        np.concatenate([side.ids for side in sides]),
        np.concatenate([side.lengths for side in sides]),
    )


def _shortlist(
    src: Side, tgt: Side, tokenizer: Tokenizer, *, frequent: int, per_token: int
) -> Shortlist:
    """Align a part of the pairs to learn from them, then link the tokens of all."""
    every = -(-int(cells_of(src.lengths, tgt.lengths).sum()) // SAMPLE_CELLS) or 1
    sample = np.arange(src.lengths.size) % every == 0
    aligner = train_aligner(src.only(sample), tgt.only(sample)).pruned()
    counts = LinkCounts.of(aligner, _chunks(src, tgt), len(tokenizer.target))
    starts, ids = counts.most_linked(per_token, len(tokenizer.source))
    return Shortlist(counts.most_frequent(frequent), starts, ids, len(tokenizer.target))


def _chunks(src: Side, tgt: Side) -> Iterator[tuple[Side, Side]]:
    """Stream consecutive pairs, many at a time."""
    many = 5 * CHUNK_PAIRS
    ends = [np.append(0, np.cumsum(side.lengths)) for side in (src, tgt)]
    for first in range(0, src.lengths.size, many):
        last = min(first + many, src.lengths.size)
        yield (
            Side(src.ids[ends[0][first] : ends[0][last]], src.lengths[first:last]),
            Side(tgt.ids[ends[1][first] : ends[1][last]], tgt.lengths[first:last]),
        )
