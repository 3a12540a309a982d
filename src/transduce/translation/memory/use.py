"""Lines translated with the help of a translation memory."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from transduce.text.markup.aligned import Weights
from transduce.text.markup.marked import text_of
from transduce.text.tokenizer import Tokenizer
from transduce.translation.alignment.text_weights import most_peaked
from transduce.translation.engine import Engine
from transduce.translation.languages import TagIds
from transduce.translation.lines import InputLine
from transduce.translation.memory.units import MemoryMatch
from transduce.translation.options import Alternative, Options, Translation
from transduce.translation.wording.rules import Wording, are_obeyed

FEWEST_UNCHANGED = 3
"""The tokens at the beginning of a source that must be unchanged for a prefix."""

Translate = Callable[[list[InputLine], Options], list[Translation]]


def translate_with_memory(
    lines: list[InputLine],
    options: Options,
    translate: Translate,
    *,
    engine: Engine,
    tokenizer: Tokenizer,
    tags: TagIds,
) -> list[Translation]:
    """Take translations from the memory where the source is the same; translate the others.

    A similar source is reported with its translation, and may give a translation its beginning.
    `tags` are those of the language to translate into, if the model has several.
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
        offered = [matches[place] for place in rest]
        left = _with_prefixes(left, offered, engine=engine, tokenizer=tokenizer, tags=tags)
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


def _with_prefixes(
    lines: list[InputLine],
    matches: Sequence[MemoryMatch | None],
    *,
    engine: Engine,
    tokenizer: Tokenizer,
    tags: TagIds,
) -> list[InputLine]:
    """Let lines without a prefix begin as the memory's translation of the same beginning does."""
    chosen = [
        (place, match)
        for place, (line, match) in enumerate(zip(lines, matches, strict=True))
        if match is not None and not line.prefix and isinstance(line.source, str)
    ]
    texts = [" ".join(text_of(lines[place].source).split()) for place, _ in chosen]
    new = tokenizer.encode_batch(texts)
    old = tokenizer.encode_batch([match.source for _, match in chosen])
    targets = tokenizer.encode_targets([match.target for _, match in chosen])
    pairs = [tags.before(src, tgt) for src, tgt in zip(old, targets, strict=True)]
    weights = engine.cross_attention(pairs) if chosen else None
    if weights is None:
        return lines
    rows, columns = len(tags.target), len(tags.source)
    lines = list(lines)
    for (place, match), ours, theirs, ids, own in zip(
        chosen, new, old, targets, weights, strict=True
    ):
        count = _aligned(own[:, rows:, columns:], _unchanged(ours, theirs))
        [text] = tokenizer.decode_batch([ids[:count]])
        lines[place] = replace(lines[place], prefix=_whole_words(text, match.target))
    return lines


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
