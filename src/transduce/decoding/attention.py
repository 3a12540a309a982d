"""Who looked at whom when a sentence was translated."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transduce.decoding.answer import Answer
from transduce.errors import InputError
from transduce.models.attention_maps import attention_maps
from transduce.models.folder import LoadedModel
from transduce.models.transformer import Transformer
from transduce.text.special_ids import BOS_ID, EOS_ID
from transduce.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Attention:
    """The weights of all N layers and h heads, and the tokens that they are between.

    A row says how a position shares its attention out, and sums to 1. The decoder's row t is that
    of the step which chose `target[t]`; it looks at the tokens chosen before: `read[: t + 1]`.
    """

    source: tuple[str, ...]  # S tokens, the last of them the end
    read: tuple[str, ...]  # T tokens, the first of them the beginning
    target: tuple[str, ...]  # T tokens
    encoder: NDArray[np.float32]  # [N, h, S, S]
    decoder: NDArray[np.float32]  # [N, h, T, T]
    cross: NDArray[np.float32]  # [N, h, T, S]
    are_bytes: bool = True  # the letters of tokens stand for bytes, unless text was already cut


def attention_of(
    model: object, tokenizer: Tokenizer, ids: Sequence[int], answer: Answer
) -> Attention:
    """Let a model read a source without its end, and an answer to it, and look on."""
    if not isinstance(model, Transformer):
        raise InputError("attention can be shown of a single Transformer, not of several models")
    src, tgt = [*ids, EOS_ID], [BOS_ID, *answer.ids]
    if answer.is_finished or not answer.ids:
        tgt.append(EOS_ID)
    device = model.projection.device

    def weights(maps: Tensor) -> NDArray[np.float32]:
        found: NDArray[np.float32] = maps[:, 0].float().cpu().numpy()
        return found

    with torch.inference_mode():
        maps = attention_maps(
            model, torch.tensor([src], device=device), torch.tensor([tgt[:-1]], device=device)
        )
    return Attention(
        source=tuple(tokenizer.tokens(src)),
        read=tuple(tokenizer.tokens(tgt[:-1])),
        target=tuple(tokenizer.tokens(tgt[1:])),
        encoder=weights(maps.encoder),
        decoder=weights(maps.decoder),
        cross=weights(maps.cross),
        are_bytes=bool(tokenizer.encode_batch([" "])[0]),  # where text is cut, a space is nothing
    )


def attention_between(loaded: LoadedModel, source: str, translation: str) -> Attention:
    """Look on while a model reads a source and a translation that it need not have made."""
    tokenizer = loaded.tokenizer
    src = _read(loaded, tokenizer.encode_batch, "source", source)
    tgt = _read(loaded, tokenizer.encode_targets, "translation", translation)
    return attention_of(loaded.model, loaded.tokenizer, src, Answer(tgt, 0.0, is_finished=True))


def _read(
    loaded: LoadedModel, encode: Callable[[list[str]], list[list[int]]], name: str, text: str
) -> list[int]:
    """Encode a text, and refuse what the model cannot read."""
    try:
        text.encode()
    except UnicodeEncodeError as half:
        raise InputError(f"the {name} has half of a surrogate pair") from half
    [ids] = encode([" ".join(text.split())])
    longest = loaded.config.model.max_positions
    if not ids:
        raise InputError(f"the {name} is empty: nobody looks at anything")
    if len(ids) >= longest:  # the end takes a position too
        raise InputError(
            f"the {name} has {len(ids) + 1:,} tokens with its end, but the model has "
            f"{longest:,} positions; shorten it"
        )
    return ids
