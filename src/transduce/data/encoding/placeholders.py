"""Signs in the place of placeholders of training pairs, and some that are planted.

Which signs a pair gets, and what is planted, follows from the pair alone.
"""

import re
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b

from transduce.data.corpus import Pair
from transduce.text.noise.draws import Draws
from transduce.text.phrases.placeholders import placeholder_spans
from transduce.text.phrases.signs import SIGNS, Span, replaced
from transduce.text.vocabulary import SIGN

MOST_PLANTED = 3
"""Of a pair."""
MIN_LETTERS = 4
"""Of a word that is planted on, unless it has a digit or begins with a capital letter and has 3."""
_WORD = re.compile(r"\w+(?:[-'’.]\w+)*")
_END = re.compile(r"[^\w\s]*\Z")


def with_signs(pair: Pair, *, planted: float) -> Pair:
    """Replace each placeholder that both sides have equally often by a sign, the same on both.

    In a share of the pairs words that both sides have once become signs too; a pair without such
    words gets one at the beginning or the end.
    """
    if SIGN.search(pair.src + pair.tgt):
        return pair
    spans = [placeholder_spans(text) for text in pair]
    chosen = _in_both(pair, spans)
    draws = Draws(int.from_bytes(blake2b("\n".join(pair).encode(), digest_size=8).digest()))
    signs = _drawn(SIGNS, len(SIGNS), draws)
    if draws.below(1 << 32) < planted * (1 << 32):
        words = [_free_words(text, some) for text, some in zip(pair, spans, strict=True)]
        common = [word for word in _in_both(pair, words) if _can_be_planted_on(pair, word)]
        chosen += _drawn(common, 1 + draws.below(MOST_PLANTED), draws)
        spans = [sorted([*a, *b]) for a, b in zip(spans, words, strict=True)]
        if not chosen:
            return _with_one_added(pair, signs[0], at_start=draws.below(2) == 0)
    known = dict(zip(chosen, signs, strict=False))
    return Pair(*(replaced(text, some, known) for text, some in zip(pair, spans, strict=True)))


def _in_both(pair: Pair, spans: Sequence[Sequence[Span]]) -> list[str]:
    """List the texts that some spans of both sides have equally often."""
    src, tgt = (
        Counter(text[start:end] for start, end in some)
        for text, some in zip(pair, spans, strict=True)
    )
    return [text for text, count in src.items() if tgt[text] == count]


def _free_words(text: str, spans: Sequence[Span]) -> list[Span]:
    """Return where words are, outside of placeholders."""
    words = (match.span() for match in _WORD.finditer(text))
    return [word for word in words if not any(a < word[1] and word[0] < b for a, b in spans)]


def _can_be_planted_on(pair: Pair, word: str) -> bool:
    """Return whether a word is rather a name, a number or a rare word than a common one."""
    least = 1 if any(map(str.isdigit, word)) else MIN_LETTERS - word[0].isupper()
    return len(word) >= least and word not in pair


def _drawn(items: Sequence[str], count: int, draws: Draws) -> list[str]:
    """Draw some items, each at most once, in any order."""
    left = list(items)
    return [left.pop(draws.below(len(left))) for _ in range(min(count, len(left)))]


def _with_one_added(pair: Pair, sign: str, *, at_start: bool) -> Pair:
    if at_start:
        return Pair(*(f"{sign} {text}" for text in pair))
    return Pair(*(_END.sub(rf" {sign}\g<0>", text, count=1) for text in pair))
