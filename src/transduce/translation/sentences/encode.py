"""Lines cut into sentences that a model can read, and encoded."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from transduce.errors import InputError, counted
from transduce.tasks.base import Task
from transduce.text.markup.marked import Line, text_of
from transduce.text.phrases.patterns import Pattern
from transduce.text.phrases.signs import SignedText, signed_source
from transduce.text.pieces import Piece, cut
from transduce.text.sentences import split_sentences
from transduce.text.tokenizer import Tokenizer
from transduce.translation.engine import EncodedSentence
from transduce.translation.languages import TagIds
from transduce.translation.lines import InputLine
from transduce.translation.wording.rules import NO_WORDING, PhraseRule, Wording, sign_rules
from transduce.translation.wording.sentences import with_wording

NEXT_PIECE = 2_654_435_769
"""Added to the number of a line for each of its pieces, so that each has its own sample."""


@dataclass(frozen=True)
class EncodedLine:
    """A line in pieces, usually one; none if it is blank."""

    source: Line
    pieces: list[Piece]
    sentences: list[EncodedSentence]
    is_cut: bool  # because it was too long


@dataclass(frozen=True)
class LineEncoder:
    """Encodes lines for one model, in pieces that it can read."""

    tokenizer: Tokenizer
    task: Task
    tags: TagIds
    max_positions: int | None  # the longest sequence of the model, EOS included; None: no limit
    max_src_tokens: int | None  # the longest source, without EOS and tag; None: no limit

    def encode(
        self, lines: list[InputLine], wording: Wording, *, by_sentence: bool
    ) -> list[EncodedLine]:
        """Encode lines, with what their translations must contain; a blank line has no pieces."""
        encoded = self._encoded(lines, by_sentence=by_sentence, patterns=wording.patterns)
        if wording == NO_WORDING:
            return encoded
        return [self._with_wording(line, wording) for line in encoded]

    def _with_wording(self, line: EncodedLine, wording: Wording) -> EncodedLine:
        parts = (wording, self.tokenizer)
        sentences = [
            with_wording(sentence, *parts, max_tokens=self.max_src_tokens)
            for sentence in line.sentences
        ]
        return replace(line, sentences=sentences)

    def _encoded(
        self, lines: list[InputLine], *, by_sentence: bool, patterns: Sequence[Pattern]
    ) -> list[EncodedLine]:
        texts = [self.task.to_source(" ".join(text_of(line.source).split())) for line in lines]
        given = [self.task.to_target(line.prefix.rstrip()) for line in lines]
        split = [split_sentences(text) if by_sentence else [text] if text else [] for text in texts]
        signed = [
            [signed_source(part, self.tokenizer, patterns) for part in parts] for parts in split
        ]
        given = [
            parts[0].like(text, patterns) if parts else text
            for parts, text in zip(signed, given, strict=True)
        ]
        prefixes = self.tokenizer.encode_targets(given) if any(given) else [[] for _ in given]
        ids = iter(self.tokenizer.encode_batch([one.text for one in chain.from_iterable(signed)]))
        return [
            self._encoded_line(line, parts, [next(ids) for _ in parts], prefix, text)
            for line, parts, prefix, text in zip(lines, signed, prefixes, given, strict=True)
        ]

    def _encoded_line(
        self,
        line: InputLine,
        parts: list[SignedText],
        ids: list[list[int]],
        prefix: list[int],
        prefix_text: str,
    ) -> EncodedLine:
        if self.max_positions is not None and len(prefix) >= self.max_positions:
            raise InputError(
                f"line {line.number + 1:,}: a prefix of {counted(len(prefix), 'token')}, but the "
                f"model has {self.max_positions:,} positions; shorten it"
            )
        pieces, rows, values = self._short_enough(line, parts, ids)
        sentences = [
            EncodedSentence(
                [*self.tags.source, *row],
                line.number + NEXT_PIECE * place,
                [*self.tags.target, *([] if place else prefix)],
                piece.text,
                "" if place else _with_last_space(prefix_text, like=line.prefix),
                values=of_piece,
                rules=self._sign_rules(piece.text, "" if place else prefix_text),
                tag=list(self.tags.target),
            )
            for place, (row, piece, of_piece) in enumerate(zip(rows, pieces, values, strict=True))
        ]
        return EncodedLine(line.source, pieces, sentences, is_cut=len(pieces) > len(parts))

    def _sign_rules(self, text: str, prefix: str) -> tuple[PhraseRule, ...]:
        return sign_rules(text, prefix) if self.tokenizer.has_placeholders else ()

    def _short_enough(
        self, line: InputLine, parts: list[SignedText], ids: list[list[int]]
    ) -> tuple[list[Piece], list[list[int]], list[tuple[str, ...]]]:
        """Cut those parts of a line that are too long into pieces, and encode them."""
        pieces: list[Piece] = []
        rows: list[list[int]] = []
        values: list[tuple[str, ...]] = []
        for part, row in zip(parts, ids, strict=True):
            if self.max_src_tokens is None or len(row) <= self.max_src_tokens:
                pieces.append(Piece(part.text))
                rows.append(row)
            elif self.task.max_src_tokens is None:
                raise InputError(
                    f"line {line.number + 1:,} has {counted(len(row), 'token')}, but the model "
                    f"reads at most {self.max_src_tokens:,}, and the task {self.task.name} does "
                    "not cut lines: shorten it"
                )
            else:
                smaller, their_ids = self._cut(part.text, max_tokens=self.max_src_tokens)
                pieces += smaller
                rows += their_ids
            values += [part.values] * (len(pieces) - len(values))
        return pieces, rows, values

    def _cut(self, text: str, *, max_tokens: int) -> tuple[list[Piece], list[list[int]]]:
        """Cut a text into pieces that are short enough for the model, and encode them."""
        pieces = cut(text, max_tokens=max_tokens, count_tokens=self.count_tokens)
        ids = self.tokenizer.encode_batch([piece.text for piece in pieces])
        return pieces, [row[:max_tokens] for row in ids]

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text."""
        return [len(ids) for ids in self.tokenizer.encode_batch(texts)]


def _with_last_space(text: str, *, like: str) -> str:
    """Add one space if a text had space at its end: then its last word is complete."""
    return f"{text} " if text and like[-1].isspace() else text
