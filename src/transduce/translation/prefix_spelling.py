"""The tokens of prefixes whose last word may be unfinished, for an engine that takes tokens only.

A beam search over that word alone: every token is allowed that agrees with its bytes, as in
`search.constraint.TextConstraint`, and the likeliest ways to spell the word are kept.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest

from torch import Tensor

from transduce.text.open_prefix import Continuations, OpenPrefix, TokenTexts
from transduce.text.tokenizer import Tokenizer
from transduce.translation.engine import EncodedSentence

NextLogProbs = Callable[[Sequence[EncodedSentence]], Sequence[Tensor]]
"""Returns the log-probabilities, [V], of the token after the prefix of each sentence."""


@dataclass(frozen=True)
class _Spelling:
    """Tokens of a prefix, which spell its last word as far as they go."""

    ids: list[int]
    log_prob: float = 0.0  # of the tokens of the last word
    spelt: int = 0  # bytes of the last word; the last token may spell more than the word has


class PrefixSpelling:
    """Chooses tokens of one vocabulary for prefixes."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._texts = TokenTexts(tokenizer)
        ranks = self._texts.ranks
        self._by_rank = sorted(range(len(ranks)), key=ranks.__getitem__)
        self._sizes = self._texts.sizes

    def spelt(
        self,
        sentences: Sequence[EncodedSentence],
        beam: int,
        next_log_probs: NextLogProbs,
        *,
        max_tokens: Sequence[int],
    ) -> list[list[EncodedSentence]]:
        """Return each sentence once for each of the likeliest ways to spell its prefix."""
        opened = [
            self._texts.opened(s.prefix_text).after(s.tag)
            if s.prefix_text
            else OpenPrefix(s.prefix)
            for s in sentences
        ]
        endings = [self._texts.continuations(prefix.ending) or [] for prefix in opened]
        found = [[_Spelling(prefix.ids)] for prefix in opened]
        while unfinished := [
            (place, spelling)
            for place, spellings in enumerate(found)
            for spelling in spellings
            if spelling.spelt < len(endings[place]) and len(spelling.ids) + 1 < max_tokens[place]
        ]:
            asked = [replace(sentences[place], prefix=one.ids) for place, one in unfinished]
            for (place, one), log_probs in zip(unfinished, next_log_probs(asked), strict=True):
                found[place].remove(one)
                following = endings[place][one.spelt]
                found[place] += self._longer(one, following, log_probs, beam)
            found = [nlargest(beam, some, key=lambda one: one.log_prob) for some in found]
        return [
            [replace(sentence, prefix=one.ids, prefix_text="") for one in some]
            for sentence, some in zip(sentences, map(_complete, found, endings), strict=True)
        ]

    def _longer(
        self, spelling: _Spelling, following: Continuations, log_probs: Tensor, beam: int
    ) -> list[_Spelling]:
        """Add each of the likeliest tokens that agree with what is left of the word."""
        allowed = [*self._by_rank[following.first : following.end], *following.partial]
        best = log_probs[allowed].topk(min(beam, len(allowed)))
        return [
            _Spelling(
                [*spelling.ids, allowed[place]],
                spelling.log_prob + log_prob,
                spelling.spelt + self._sizes[allowed[place]],
            )
            for log_prob, place in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        ]


def _complete(spellings: list[_Spelling], ending: Sequence[Continuations]) -> list[_Spelling]:
    """Drop those that have reached the maximum length within the word, unless all have."""
    return [one for one in spellings if one.spelt >= len(ending)] or spellings
