"""The tags of a text put around the words of its translation, by the attention of the model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import repeat

from transduce.text.markup.aligned import AlignedPiece, AlignedWords, Weights, weights_by_place
from transduce.text.markup.marked import MarkedText
from transduce.text.markup.placing import put_back
from transduce.text.markup.words import Span, word_spans, words_at
from transduce.text.phrases.hints import folded, owners_of_tokens, without_hints
from transduce.text.phrases.signs import shown_tokens
from transduce.text.spelling import spelled
from transduce.text.tokenizer import Tokenizer
from transduce.text.vocabulary import Vocabulary
from transduce.translation.alignment.text_weights import tokens_of_words, word_weights
from transduce.translation.engine import Engine
from transduce.translation.options import Alternative, Translation


@dataclass(frozen=True)
class TranslatedPiece:
    """A piece of a line and its translation, as texts and as tokens without EOS."""

    source: str
    src_ids: Sequence[int]
    translation: str
    tgt_ids: Sequence[int]
    values: tuple[str, ...] = ()  # what the signs among the tokens stand for
    attention: Weights | None = None  # [N, T, S + 1]; None: the model has none


@dataclass(frozen=True)
class UntaggedLine:
    """A text with markup and its translation without, with the pieces of each alternative."""

    marked: MarkedText
    translation: Translation
    pieces: Sequence[Sequence[TranslatedPiece]]


def put_tags_back(
    lines: Sequence[UntaggedLine], engine: Engine, tokenizer: Tokenizer
) -> list[Translation]:
    """Put the tags of each text back into all alternatives of its translation."""
    pieces = [
        piece for line in lines if line.marked.inlines for one in line.pieces for piece in one
    ]
    pairs = [(piece.src_ids, piece.tgt_ids) for piece in pieces]
    attention = iter((engine.cross_attention(pairs) if pairs else None) or repeat(None))
    found = []
    for line in lines:
        alternatives = []
        for (text, score), its in zip(line.translation.alternatives, line.pieces, strict=True):
            if line.marked.inlines:
                its = [_attended(piece, next(attention), tokenizer) for piece in its]
            tagged = with_tags(line.marked, text, its, tokenizer)
            alternatives.append(Alternative(tagged, score))
        best = alternatives[0].text
        found.append(replace(line.translation, text=best, alternatives=tuple(alternatives)))
    return found


def _attended(
    piece: TranslatedPiece, attention: Weights | None, tokenizer: Tokenizer
) -> TranslatedPiece:
    """Add its attention to a piece; that of hints is their terms', and they are left out."""
    owners = owners_of_tokens(piece.src_ids, tokenizer.source)
    if owners is None or attention is None:
        return replace(piece, attention=attention)
    own = folded(attention, [*owners, owners[-1] + 1])  # the last column is EOS
    return replace(piece, src_ids=without_hints(piece.src_ids, owners), attention=own)


def with_tags(
    marked: MarkedText, translation: str, pieces: Sequence[TranslatedPiece], tokenizer: Tokenizer
) -> str:
    """Return the translation of a text, joined of pieces, with the text's tags."""
    if not marked.inlines:
        return marked.reader.written(translation)
    sources = _places(marked.text, [piece.source for piece in pieces])
    targets = _places(translation, [piece.translation for piece in pieces])
    cuts = {place for one in marked.inlines for place in (one.start, one.end)}
    source_words = word_spans(marked.text, cuts | {place for span in sources for place in span})
    target_words = word_spans(translation, {place for span in targets for place in span})
    aligned = []
    for piece, source, target in zip(pieces, sources, targets, strict=True):
        src, tgt = words_at(source_words, *source), words_at(target_words, *target)
        weights = _weights(
            piece,
            _within([source_words[word] for word in src], source),
            _within([target_words[word] for word in tgt], target),
            tokenizer,
        )
        aligned.append(AlignedPiece(src.start, tgt.start, weights))
    return put_back(marked, translation, AlignedWords(source_words, target_words, aligned))


def _weights(
    piece: TranslatedPiece, source: Sequence[Span], target: Sequence[Span], tokenizer: Tokenizer
) -> Weights:
    if piece.attention is None or not piece.src_ids or not piece.tgt_ids:
        return weights_by_place(len(target), len(source))
    return word_weights(
        piece.attention,
        tokens_of_words(
            piece.source, source, _spelled(tokenizer.source, piece.src_ids, piece.values)
        ),
        tokens_of_words(
            piece.translation, target, _spelled(tokenizer.target, piece.tgt_ids, piece.values)
        ),
    )


def _spelled(
    vocabulary: Vocabulary, ids: Sequence[int], values: Sequence[str]
) -> list[bytes | None]:
    tokens = shown_tokens(vocabulary.tokens(ids), values, vocabulary)
    return spelled(tokens, are_bytes=vocabulary.is_byte_level)


def _within(words: Sequence[Span], part: Span) -> list[Span]:
    """Return words by the characters of a part of the text."""
    return [(start - part[0], end - part[0]) for start, end in words]


def _places(text: str, parts: Sequence[str]) -> list[Span]:
    """Return where consecutive parts of a text are; spaces may stand between them."""
    found, place = [], 0
    for part in parts:
        start = max(place, text.find(part, place))
        place = min(len(text), start + len(part))
        found.append((start, place))
    return found
