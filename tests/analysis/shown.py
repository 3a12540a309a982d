"""Made-up attention: any tokens, and weights whose rows sum to 1."""

import numpy as np
from numpy.typing import NDArray

from transduce.models.attention import Attention

BOS, EOS = "< bos >", "< eos >"


def bytes_as_letters(text: str) -> str:
    """Spell text as a byte-level vocabulary does, independently of the code that reads it."""
    from tokenizers.pre_tokenizers import ByteLevel

    level = ByteLevel(add_prefix_space=False, use_regex=False)
    return "".join(piece for piece, _ in level.pre_tokenize_str(text))


def shares(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    drawn = np.exp(3 * np.random.default_rng(seed).standard_normal(shape))
    found: NDArray[np.float32] = (drawn / drawn.sum(axis=-1, keepdims=True)).astype(np.float32)
    return found


def attention(
    source: list[str],
    target: list[str],
    *,
    n_layers: int = 2,
    n_encoder_layers: int | None = None,
    h: int = 3,
    cross: NDArray[np.float32] | None = None,
    are_bytes: bool = True,
) -> Attention:
    """Return attention between tokens, given without BOS and EOS; `n_layers` in every stack."""
    s, t = len(source) + 1, len(target) + 1
    decoder = np.tril(shares(n_layers, h, t, t, seed=1))
    return Attention(
        source=(*source, EOS),
        read=(BOS, *target),
        target=(*target, EOS),
        encoder=shares(n_layers if n_encoder_layers is None else n_encoder_layers, h, s, s, seed=2),
        decoder=decoder / decoder.sum(axis=-1, keepdims=True),
        cross=shares(n_layers, h, t, s, seed=3) if cross is None else cross,
        source_are_bytes=are_bytes,
        target_are_bytes=are_bytes,
    )
