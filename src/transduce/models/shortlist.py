"""A lexical shortlist in a model folder: by which target tokens each source token is translated.

A search then scores the candidates of its sentence alone: what the source tokens are translated by,
and the most frequent target tokens.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transduce.errors import InputError
from transduce.models.folder import load_weights, save_weights
from transduce.models.model_files import settings_folder
from transduce.text.special_ids import EOS_ID
from transduce.text.tokenizer import Tokenizer

SHORTLIST = "shortlist.safetensors"
MAX_BYTES = 1 << 28
"""Of a file: a larger one is no shortlist."""
SPECIAL = EOS_ID + 1
"""The special tokens, the first ids, are candidates of every sentence."""
DIGEST_BYTES = 16

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Shortlist:
    """The target tokens by which each source token is translated, and those that always may be."""

    frequent: Numbers  # ascending
    starts: Numbers  # for each source token, and one more: where its target tokens begin in `ids`
    ids: Numbers  # target tokens
    tgt_size: int

    def of(self, token: int) -> Numbers:
        """Return by which target tokens a source token is translated."""
        return self.ids[self.starts[token] : self.starts[token + 1]]

    def candidates(
        self, sentences: Sequence[Sequence[int]], also: Sequence[Sequence[int]]
    ) -> NDArray[np.bool_]:
        """Return which target tokens are candidates of each sentence, [B, V].

        `also` has more of them for each: those of a given prefix.
        """
        found = np.zeros((len(sentences), self.tgt_size), dtype=np.bool_)
        found[:, :SPECIAL] = True
        found[:, self.frequent] = True
        for row, (ids, others) in enumerate(zip(sentences, also, strict=True)):
            for token in set(ids):
                found[row, self.of(token)] = True
            found[row, list(others)] = True
        return found

    def lists(self) -> Iterator[tuple[int, Numbers]]:
        """Stream the source tokens that have a list, each with its list."""
        for token in np.flatnonzero(np.diff(self.starts)).tolist():
            yield token, self.of(token)

    def save(self, path: Path, tokenizer: Tokenizer) -> None:
        """Write it, complete or not at all."""
        tensors = {
            "frequent": torch.from_numpy(self.frequent.astype(np.int32)),
            "ids": torch.from_numpy(self.ids.astype(np.int32)),
            "starts": torch.from_numpy(self.starts.astype(np.int64)),
            "tokenizer": _digest(tokenizer),
        }
        save_weights(path, tensors, metadata={})

    @classmethod
    def load(cls, path: Path, tokenizer: Tokenizer) -> Self:
        """Read what `save` wrote; raise unless it is a shortlist for this tokenizer."""
        remedy = "make it again with 'transduce shortlist'"
        if path.stat().st_size > MAX_BYTES:
            raise InputError(
                f"{path} has more than {MAX_BYTES:,} bytes, so it is no shortlist: {remedy}"
            )
        tensors = load_weights(path)
        fault = _fault(tensors, tokenizer)
        if fault is not None:
            raise InputError(f"{path}: {fault}; {remedy}")
        frequent, starts, ids = (
            tensors[name].numpy().astype(np.int64) for name in ("frequent", "starts", "ids")
        )
        return cls(frequent, starts, ids, len(tokenizer.target))


def shortlist_path(folder: Path) -> Path:
    """Return where the shortlist of a model folder, a run or a checkpoint is."""
    return settings_folder(folder) / SHORTLIST


def load_shortlist(folder: Path, tokenizer: Tokenizer) -> Shortlist:
    """Read the shortlist of a model; raise an error that says how to make one if there is none."""
    path = shortlist_path(folder)
    if not path.is_file():
        raise InputError(
            f"{folder} has no {SHORTLIST}: make one with 'transduce shortlist', before an export"
        )
    return Shortlist.load(path, tokenizer)


def _fault(tensors: dict[str, Tensor], tokenizer: Tokenizer) -> str | None:
    """Return why these are not the tensors of a shortlist, or None if they are."""
    expected = {
        "frequent": torch.int32,
        "ids": torch.int32,
        "starts": torch.int64,
        "tokenizer": torch.uint8,
    }
    if {name: tensor.dtype for name, tensor in tensors.items()} != expected or any(
        tensor.dim() != 1 for tensor in tensors.values()
    ):
        return "it is no shortlist"
    if not torch.equal(tensors["tokenizer"], _digest(tokenizer)):
        return "it was made for another tokenizer"
    starts, ids = tensors["starts"], tensors["ids"]
    if len(starts) != len(tokenizer.source) + 1 or starts[0] != 0 or starts[-1] != len(ids):
        return "its lists are not those of the source tokens"
    if bool((starts[1:] < starts[:-1]).any()):
        return "its lists overlap"
    every = torch.cat([ids, tensors["frequent"]])
    if len(every) and not 0 <= int(every.min()) <= int(every.max()) < len(tokenizer.target):
        return "it has tokens that the vocabulary lacks"
    return None


def _digest(tokenizer: Tokenizer) -> Tensor:
    """Return a digest of the entries of both sides: what ids mean."""
    sides = (tokenizer.source, tokenizer.target)
    digest = blake2b(digest_size=DIGEST_BYTES)
    for side in sides:
        names = side.tokens(range(len(side)))
        digest.update("\0".join(chain(names, ("",))).encode())
        digest.update(b"\0\0")
    return torch.tensor(list(digest.digest()), dtype=torch.uint8)
