"""Which word of a source became which word of its translation, as far as attention tells.

A word of the translation is aligned with the source word that it looks at most while it is chosen.
Weights of a source word's tokens are summed, those of a translated word's tokens averaged, and what
goes to the source's end is left out: so every word of the translation has exactly one partner.

Unless a layer is chosen it is the best one: that whose heads, averaged, are the most peaked, which
they are where they agree. No single head is as good. On 200 sentences of Multi30k, with a model of
3 layers and 4 heads, the average of the last layer, which this rule finds for 198 of them, agrees
with 83 % of the links on which IBM model 1 agrees with itself in both directions; the best single
head with 70 %, the most peaked head of each sentence with 62 %, the average of all layers with 73 %
and that of the last but one, the best in deeper models, with 60 %.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transduce.analysis.words import Words, words_of
from transduce.decoding.attention import Attention
from transduce.errors import InputError
from transduce.text.punctuation import plainly

Link = tuple[int, int]
"""Numbers of a source word and of a translated one, from 0."""
Weights = NDArray[np.floating[Any]]


def alignment(
    shown: Sequence[Attention],
    *,
    source: str,
    translation: str,
    layer: int | None = None,
    head: int | None = None,
) -> list[Link]:
    """Align the words, by whitespace, of a source and its translation, in the latter's order.

    Layers and heads count from 0; without a head, it is the average of the layer's.
    """
    sides = [
        (
            words_of(one.source, are_bytes=one.are_bytes),
            words_of(one.target, are_bytes=one.are_bytes),
        )
        for one in shown
    ]
    src_places = _places([src for src, _ in sides], source)
    tgt_places = _places([tgt for _, tgt in sides], translation)
    links: dict[int, int] = {}
    for part, (one, (src, tgt)) in enumerate(zip(shown, sides, strict=True)):
        for src_word, tgt_word in _links(_chosen(one, src, tgt, layer, head), src, tgt):
            # Where two parts of a long text were cut within a word, the first has it.
            links.setdefault(tgt_places[part][tgt_word], src_places[part][src_word])
    return [(src_word, tgt_word) for tgt_word, src_word in sorted(links.items())]


def pharaoh(links: Iterable[Link]) -> str:
    """Write links as most tools read them: `0-0 1-2 2-1`."""
    return " ".join(f"{src}-{tgt}" for src, tgt in links)


def _chosen(one: Attention, src: Words, tgt: Words, layer: int | None, head: int | None) -> Weights:
    """Give the weights between words, [T, S], of a head, or of the average of a layer."""
    _check(layer, head, *one.cross.shape[:2])
    by_words: Weights = tgt.means() @ one.cross @ src.sums()  # [N, h, T, S]
    averages: Weights = by_words.mean(axis=1)  # [N, T, S]
    if layer is None:
        layer = int(averages[:, :, _spoken(src)].max(axis=2, initial=0).mean(axis=1).argmax())
    chosen: Weights = averages[layer] if head is None else by_words[layer, head]  # [T, S]
    return chosen


def _check(layer: int | None, head: int | None, n_layers: int, h: int) -> None:
    if layer is None and head is not None:
        raise InputError(f"head {head + 1} of which layer? Choose one of 1 to {n_layers}")
    for name, number, count in (("layer", layer, n_layers), ("head", head, h)):
        if number is not None and not 0 <= number < count:
            raise InputError(f"{name} {number + 1}: the model has {name}s 1 to {count}")


def _links(weights: Weights, src: Words, tgt: Words) -> list[Link]:
    spoken = _spoken(src)
    if not spoken:
        return []
    return [(spoken[int(weights[word, spoken].argmax())], word) for word in _spoken(tgt)]


def _spoken(words: Words) -> list[int]:
    return [number for number in range(len(words.words)) if number not in words.ends]


def _places(parts: Sequence[Words], text: str) -> list[dict[int, int]]:
    """Find for the words of each part of a text which word of the whole text they are in.

    Mostly they are the same words. Not where a long text was cut within a word, or where something
    is written otherwise: then letters are counted.
    """
    spoken = [(part, word) for part, words in enumerate(parts) for word in _spoken(words)]
    whole = [len(_composed(word)) for word in text.split()]
    found: list[dict[int, int]] = [{} for _ in parts]
    if len(spoken) == len(whole):
        for place, (part, word) in enumerate(spoken):
            found[part][word] = place
        return found
    if not whole:
        return found
    ends = list(accumulate(whole))
    begin = 0
    for part, word in spoken:
        place = int(np.searchsorted(ends, begin, side="right"))
        found[part][word] = min(place, len(whole) - 1)
        begin += len(_composed(parts[part].words[word]))
    return found


def _composed(word: str) -> str:
    return plainly(unicodedata.normalize("NFC", word))
