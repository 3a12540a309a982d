"""Attention weights of a source and its translation, by layer and head, with their tokens."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transduce.errors import InputError
from transduce.models.base import Seq2Seq
from transduce.models.folder import LoadedModel
from transduce.text.phrases.hints import folded, owners_of_tokens, without_hints
from transduce.text.phrases.signs import shown_tokens, signed_source
from transduce.text.special_ids import BOS_ID, EOS_ID
from transduce.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Attention:
    """The weights of all N layers and h heads, with the tokens of their rows and columns.

    A row is how one position distributes its attention; it sums to 1. The decoder's row t belongs
    to the step that chose `target[t]`, which attends to the tokens before it, `read[: t + 1]`. A
    model without self-attention has 0 layers of it: `encoder` and `decoder` are then empty.
    """

    source: tuple[str, ...]  # S tokens, the last is EOS
    read: tuple[str, ...]  # T tokens, the first is BOS: the target shifted right
    target: tuple[str, ...]  # T tokens
    encoder: NDArray[np.float32]  # [N, h, S, S]
    decoder: NDArray[np.float32]  # [N, h, T, T]
    cross: NDArray[np.float32]  # [N, h, T, S]
    source_are_bytes: bool = True  # characters of tokens stand for bytes, as in our subwords
    target_are_bytes: bool = True
    alignment_head: tuple[int, int] | None = None  # layer and head that were trained to align


def attention_of(
    model: Seq2Seq,
    tokenizer: Tokenizer,
    src_ids: Sequence[int],
    tgt_ids: Sequence[int],
    *,
    values: Sequence[str] = (),
) -> Attention:
    """Return a model's attention for a source, given without EOS, and a translation.

    The translation ends with EOS, unless it was cut off. What attends to a hint attends to its
    term; hints are not shown. `values` are what the signs of placeholders stand for.
    """
    src, tgt = [*src_ids, EOS_ID], [BOS_ID, *tgt_ids]
    device = model.projection.device

    def weights(maps: Tensor | None, length: int) -> NDArray[np.float32]:
        if maps is None:
            return np.zeros((0, 0, length, length), np.float32)
        found: NDArray[np.float32] = maps[:, 0].float().cpu().numpy()
        return found

    with torch.inference_mode():
        maps = model.attention_maps(
            torch.tensor([src], device=device), torch.tensor([tgt[:-1]], device=device)
        )
    encoder, cross = weights(maps.encoder, len(src)), weights(maps.cross, 0)
    owners = owners_of_tokens(src, tokenizer.source)
    if owners is not None:
        is_text = np.diff(owners, prepend=-1) > 0
        src, cross = without_hints(src, owners), folded(cross, owners)
        encoder = folded(encoder[:, :, is_text], owners) if encoder.size else encoder
    written = shown_tokens(tokenizer.tokens(tgt), values, tokenizer.target)
    return Attention(
        source=tuple(shown_tokens(tokenizer.source.tokens(src), values, tokenizer.source)),
        read=tuple(written[:-1]),
        target=tuple(written[1:]),
        encoder=encoder,
        decoder=weights(maps.decoder, len(tgt) - 1),
        cross=cross,
        source_are_bytes=tokenizer.source.is_byte_level,
        target_are_bytes=tokenizer.target.is_byte_level,
        alignment_head=model.abilities.alignment_head,
    )


def attention_between(
    loaded: LoadedModel,
    source: str,
    translation: str,
    *,
    before: tuple[Sequence[int], Sequence[int]] = ((), ()),
) -> Attention:
    """Return a model's attention for a source and any translation of it.

    `before` has the tags of languages that go before them.
    """
    tokenizer = loaded.tokenizer
    signed = signed_source(source, tokenizer)
    src = _encode(loaded, tokenizer.encode_batch, "source", signed.text)
    tgt = _encode(loaded, tokenizer.encode_targets, "translation", signed.like(translation))
    src, tgt = [*before[0], *src], [*before[1], *tgt]
    ended = [*tgt, EOS_ID]
    return attention_of(loaded.model, tokenizer, src, ended, values=signed.values)


def _encode(
    loaded: LoadedModel, encode: Callable[[list[str]], list[list[int]]], name: str, text: str
) -> list[int]:
    """Encode a text; refuse an empty one, and one that is too long for the model."""
    try:
        text.encode()
    except UnicodeEncodeError as half:
        raise InputError(f"the {name} has half of a surrogate pair") from half
    [ids] = encode([" ".join(text.split())])
    longest = loaded.config.model.max_length
    if not ids:
        raise InputError(f"the {name} is empty: there is no attention to show")
    if longest is not None and len(ids) >= longest:  # EOS takes a position too
        raise InputError(
            f"the {name} has {len(ids) + 1:,} tokens with EOS, but the model has "
            f"{longest:,} positions; shorten it"
        )
    return ids
