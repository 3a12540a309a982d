"""Signs in the place of placeholders that both sides of a training pair have."""

from collections import Counter
from hashlib import blake2b

from transduce.data.corpus import Pair
from transduce.text.noise.draws import Draws
from transduce.text.phrases.placeholders import placeholder_spans
from transduce.text.phrases.signs import SIGNS, replaced
from transduce.text.vocabulary import SIGN


def with_signs(pair: Pair) -> Pair:
    """Replace each placeholder that both sides have equally often by a sign, the same on both.

    Which signs these are is drawn, so that all are learnt alike; it follows from the pair alone.
    """
    spans = [placeholder_spans(text) for text in pair]
    if not all(spans) or SIGN.search(pair.src + pair.tgt):
        return pair
    src, tgt = (
        Counter(text[start:end] for start, end in some)
        for text, some in zip(pair, spans, strict=True)
    )
    draws = Draws(int.from_bytes(blake2b("\n".join(pair).encode(), digest_size=8).digest()))
    left, known = list(SIGNS), {}
    for text, count in src.items():
        if tgt[text] == count and left:
            known[text] = left.pop(draws.below(len(left)))
    return Pair(*(replaced(text, some, known) for text, some in zip(pair, spans, strict=True)))
