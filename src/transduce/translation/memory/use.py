"""Lines translated with the help of a translation memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from transduce.text.markup.aligned import Weights
from transduce.text.markup.marked import text_of
from transduce.text.tokenizer import Tokenizer
from transduce.translation.alignment.text_weights import most_peaked
from transduce.translation.engine import Engine
from transduce.translation.languages import NO_TAGS, TagIds
from transduce.translation.lines import InputLine
from transduce.translation.memory.units import MemoryMatch
from transduce.translation.options import Alternative, Options, Translation
from transduce.translation.wording.rules import Wording, are_obeyed

FEWEST_UNCHANGED = 3
"""The tokens at the beginning of a source that must be unchanged for a prefix."""
LONGEST_ALIGNED = 1_000
"""Tokens of a source or its translation; attention between longer ones takes too much memory."""

Translate = Callable[[list[InputLine], Options], list[Translation]]


def translate_with_memory(
    lines: list[InputLine],
    options: Options,
    translate: Translate,
    *,
    beginnings: "Beginnings",
) -> list[Translation]:
    """Take translations from the memory where the source is the same; translate the others.

    A similar source is reported with its translation, and may give a translation its beginning.
    """
    assert options.memory is not None, "there is no memory"
    matches = [
        options.memory.match(text) if (text := text_of(line.source)).strip() else None
        for line in lines
    ]
    taken = [
        _taken(line, match, options) if match else None
        for line, match in zip(lines, matches, strict=True)
    ]
    rest = [place for place, one in enumerate(taken) if one is None]
    left = [lines[place] for place in rest]
    if options.memory.as_prefix:
        left = beginnings.as_prefixes(left, [matches[place] for place in rest])
    done = dict(zip(rest, translate(left, options), strict=True))
    return [one or replace(done[place], match=matches[place]) for place, one in enumerate(taken)]


def _taken(line: InputLine, match: MemoryMatch, options: Options) -> Translation | None:
    """Return the memory's translation if it may take the place of a new one.

    Not if tags have to be put into it, if attention is wanted, or if it does not obey.
    """
    is_same = match.score == 1 and isinstance(line.source, str) and not options.attention
    if not is_same or not match.target.startswith(line.prefix.strip()):
        return None
    if not _obeys(options.wording, text_of(line.source), match.target):
        return None
    only = Alternative(match.target, 0.0)
    return Translation(str(line.source), *only, (only,), match=replace(match, is_used=True))


def _obeys(wording: Wording, source: str, target: str) -> bool:
    return are_obeyed(wording.rules_for(" ".join(source.split()))[0], target)


@dataclass(frozen=True)
class Beginnings:
    """Finds what translations of a memory have in common with new ones, by a model's attention."""

    engine: Engine
    tokenizer: Tokenizer
    tags: TagIds = NO_TAGS
    max_positions: int | None = None

    def as_prefixes(
        self, lines: list[InputLine], matches: Sequence[MemoryMatch | None]
    ) -> list[InputLine]:
        """Let lines without a prefix begin as the memory's translation of the same beginning does.

        A unit that is too long for the model gives no prefix.
        """
        chosen = [
            (place, match)
            for place, (line, match) in enumerate(zip(lines, matches, strict=True))
            if match is not None and not line.prefix and isinstance(line.source, str)
        ]
        old = self.tokenizer.encode_batch([match.source for _, match in chosen])
        targets = self.tokenizer.encode_targets([match.target for _, match in chosen])
        units = [
            (place, match, ([*self.tags.source, *src], [*self.tags.target, *tgt]))
            for (place, match), src, tgt in zip(chosen, old, targets, strict=True)
        ]
        units = [unit for unit in units if self._fits(*unit[2])]
        weights = self.engine.cross_attention([pair for *_, pair in units]) if units else None
        if weights is None:
            return lines
        found = dict(enumerate(lines))
        for (place, match, pair), own in zip(units, weights, strict=True):
            prefix = self._common(lines[place], match.target, pair, own)
            found[place] = replace(lines[place], prefix=prefix)
        return list(found.values())

    def _fits(self, src: Sequence[int], tgt: Sequence[int]) -> bool:
        longest = max(len(src), len(tgt)) + 1  # EOS takes one
        return longest <= min(LONGEST_ALIGNED, self.max_positions or LONGEST_ALIGNED)

    def _common(
        self, line: InputLine, target: str, pair: tuple[list[int], list[int]], weights: Weights
    ) -> str:
        """Return the beginning of a target that belongs to what both sources begin with."""
        src, tgt = pair[0][len(self.tags.source) :], pair[1][len(self.tags.target) :]
        [ours] = self.tokenizer.encode_batch([" ".join(text_of(line.source).split())])
        of_text = weights[:, len(self.tags.target) :, len(self.tags.source) :]
        [text] = self.tokenizer.decode_batch([tgt[: _aligned(of_text, _unchanged(ours, src))]])
        return _whole_words(text, target)


def _unchanged(one: Sequence[int], other: Sequence[int]) -> int:
    """Count the tokens at the beginning that are the same, but the last: its word may go on."""
    pairs = zip(one, other, strict=False)
    different = (place for place, (ours, theirs) in enumerate(pairs) if ours != theirs)
    return next(different, min(len(one), len(other))) - 1


def _aligned(weights: Weights, unchanged: int) -> int:
    """Count the tokens at the beginning of a target that attend to the unchanged source, [N, T, S].

    The last column is EOS. Of the layers, the most peaked one counts.
    """
    words = weights[:, :, :-1]  # [N, T, S]
    if unchanged < FEWEST_UNCHANGED or 0 in words.shape:
        return 0
    sources = words[most_peaked(words)].argmax(axis=1)  # [T]
    others = (sources >= unchanged).nonzero()[0]
    return int(others[0]) if len(others) else len(sources)


def _whole_words(text: str, whole: str) -> str:
    """Return the beginning of a text as far as its last word is whole, with a space after it."""
    text = text.rstrip()
    if not text or not whole.startswith(text):
        return ""
    if len(text) < len(whole) and not whole[len(text)].isspace():
        text = text.rpartition(" ")[0]
    return f"{text} " if text else ""
