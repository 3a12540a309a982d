"""Marian's vocabulary in the order of ours, which starts with PAD, UNK, BOS and EOS.

Marian has no BOS: its decoder starts from padding. So its padding becomes our BOS, and our PAD is a
new entry. Neither is ever generated: a bias keeps their scores below all others. Marian's own files
are kept with the model, to export it again.
"""

from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any, Self

import torch
from torch import Tensor

from transduce.errors import InputError
from transduce.export.marian_weights import EMBEDDING, OUTPUT_BIAS
from transduce.export.sentencepiece import ENTRIES, MAX_BYTES, SOURCE, TARGET, tokenizer_of
from transduce.files.regular import read_json
from transduce.text.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from transduce.text.tokenizer import SPECIALS, Tokenizer

TOKENS = ("pad", "eos", "decoder_start")
NEVER = -1000.0
"""The bias of tokens that are never generated: far below any score, yet finite in a loss."""


@dataclass(frozen=True)
class MarianVocabulary:
    """The entries of a Marian model in the order of its ids, and which of them are special."""

    entries: tuple[str, ...]
    pad: int
    unk: int
    eos: int

    @classmethod
    def read(cls, folder: Path, config: dict[str, Any]) -> Self:
        """Read the vocabulary of a folder; raise if entries or special tokens are missing."""
        path = folder / ENTRIES
        try:
            ids: dict[str, int] = read_json(path, max_bytes=MAX_BYTES)
            if not all(type(number) is int for number in ids.values()):
                raise ValueError("its ids are not numbers")
            entries = tuple(sorted(ids, key=lambda name: ids[name]))
            is_whole = sorted(ids.values()) == list(range(config["vocab_size"]))
            pad, eos, start = (config.get(f"{name}_token_id") for name in TOKENS)
            has_specials = len({pad, eos, ids["<unk>"]} & set(ids.values())) == len(TOKENS)
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as unreadable:
            why = shorten(str(getattr(unreadable, "strerror", None) or unreadable), 100)
            raise InputError(f"cannot read {path} as Marian's vocabulary ({why})") from unreadable
        if not (is_whole and has_specials):
            raise InputError(
                f"{path} does not have the entries that config.json describes: "
                f"{config['vocab_size']} of them, with <unk>, padding and EOS"
            )
        if start != pad:
            raise InputError(
                f"decoder_start_token_id={start} is not the padding, {pad}: "
                "only Marian models whose decoder starts from padding can be imported"
            )
        return cls(entries, int(pad or 0), ids["<unk>"], int(eos or 0))

    def order(self) -> list[int]:
        """Return Marian's ids in the order of ours, without our PAD, which it lacks."""
        special = {BOS_ID: self.pad, UNK_ID: self.unk, EOS_ID: self.eos}
        rest = [number for number in range(len(self.entries)) if number not in special.values()]
        return [special[number] for number in sorted(special)] + rest

    def tokenizer(self, folder: Path) -> Tokenizer:
        """Build our tokenizer from the folder's SentencePiece models."""
        texts = [self.entries[number] for number in self.order()[len(SPECIALS) - 1 :]]
        return tokenizer_of(folder / SOURCE, folder / TARGET, texts)

    def to_ours(self, weights: dict[str, Tensor]) -> None:
        """Reorder the rows of the embedding and of its bias to ours, in place."""
        order, embedding = torch.tensor(self.order()), weights[EMBEDDING]
        bias = weights.get(OUTPUT_BIAS, embedding.new_zeros(embedding.size(0)))
        weights[EMBEDDING] = torch.cat([torch.zeros_like(embedding[:1]), embedding[order]])
        weights[OUTPUT_BIAS] = torch.cat([bias[:1], bias[order]])
        weights[OUTPUT_BIAS][[PAD_ID, BOS_ID]] = NEVER

    def to_theirs(self, weights: dict[str, Tensor]) -> None:
        """Undo `to_ours`; the bias of the padding, which is never used, becomes 0."""
        order = torch.tensor(self.order())
        for name in (EMBEDDING, OUTPUT_BIAS):
            theirs = torch.empty_like(weights[name][1:])
            theirs[order] = weights[name][1:]
            weights[name] = theirs
        weights[OUTPUT_BIAS][self.pad] = 0.0
