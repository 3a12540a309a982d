"""Texts in, translations out, within the limits: what all the protocols of the server share."""

import asyncio
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

from transduce.decoding.options import Alternative, Options, Translation
from transduce.decoding.translator import Translator
from transduce.errors import InputError
from transduce.serving.batcher import Batcher, Kind
from transduce.serving.documents import Document, document, weight
from transduce.serving.languages import Pair
from transduce.serving.limits import Limits
from transduce.serving.refusal import Refused

PART_SENTENCES = 32
"""Of a long document, so many are put into the queue at a time: others get their turn, too."""
PART_LINES = 500
"""Of which many may be blank."""
AGAIN_S = 0.1
"""A document that has begun waits for room in the queue, and looks for it so often."""


@dataclass(frozen=True)
class Translated:
    """A text, and the translations of its lines."""

    document: Document
    lines: list[Translation]

    @property
    def texts(self) -> list[str]:
        """Give the n best of the whole text: the best of each line, the second best and so on."""
        ranks = max(len(line.alternatives) for line in self.lines)
        found: dict[str, None] = {}
        for rank in range(ranks):
            best = [
                line.alternatives[min(rank, len(line.alternatives) - 1)].text for line in self.lines
            ]
            found.setdefault(self.document.with_lines(best))
        return list(found)


@dataclass
class _Part:
    """Some lines of a document."""

    lines: list[str] = field(default_factory=list)
    weights: list[int] = field(default_factory=list)
    sentences: int = 0

    def add(self, line: str, sentences: int) -> None:
        self.lines.append(line)
        self.weights.append(sentences)
        self.sentences += sentences


class Service:
    """Models by their pairs of languages, over one queue."""

    def __init__(
        self, translators: Mapping[Pair, Translator], batcher: Batcher, limits: Limits
    ) -> None:
        self.limits = limits
        self.batcher = batcher
        self.pairs = sorted(translators)
        self.sources = sorted({pair.source for pair in self.pairs})
        self._translators = dict(translators)

    def targets(self, source: str) -> list[str]:
        """Name the languages that a source can be translated to."""
        return [pair.target for pair in self.pairs if pair.source == source]

    def pair(self, source: str, target: str | None) -> Pair:
        """Find the model for two languages; "auto" is the source if it can be but one."""
        fitting = [
            pair
            for pair in self.pairs
            if source in ("auto", pair.source) and target in (None, pair.target)
        ]
        if len(fitting) == 1:
            return fitting[0]
        known = ", ".join(str(pair) for pair in self.pairs)
        if not fitting:
            raise Refused(400, f"no model for these languages: this server translates {known}")
        unclear = "source" if len({pair.source for pair in fitting}) > 1 else "target"
        raise Refused(
            400,
            f"the {unclear} is unclear, and languages are not detected: name it; this server "
            f"translates {known}",
        )

    async def translate(
        self, pair: Pair, texts: Sequence[str], options: Options
    ) -> list[Translated]:
        """Translate texts line by line, all of them by the deadline or not at all."""
        documents = [_checked(text) for text in texts]
        lines = [line for one in documents for line in one.lines]
        _bounded(len(lines), self.limits.max_lines, "lines")
        weights = [weight(line) for line in lines]
        self._check(sum(map(len, texts)), sum(weights), options)
        found = iter(await self._answers(pair, lines, weights, options))
        return [Translated(one, [next(found) for _ in one.lines]) for one in documents]

    async def stream(self, pair: Pair, text: str, options: Options) -> AsyncIterator[Translation]:
        """Translate a document of any length; its lines come in order, as soon as they are there.

        The deadline is for each part of it.
        """
        if options.attention:
            self._check(len(text), 0, options)
        whole = _checked(text)
        _bounded(len(whole.lines), self.limits.max_document_lines, "lines")
        has_begun = False
        for part in await asyncio.to_thread(self._parts, whole):
            for translation in await self._answers(
                pair, part.lines, part.weights, options, is_patient=has_begun
            ):
                yield translation
            has_begun = True

    def _check(self, characters: int, sentences: int, options: Options) -> None:
        limits = self.limits
        _bounded(characters, limits.max_characters, "characters")
        _bounded(sentences, limits.max_sentences, "sentences or pieces of long ones")
        if options.attention:
            most = limits.max_attention_characters
            _bounded(characters, most, "characters with attention or alignment")

    def _parts(self, whole: Document) -> list[_Part]:
        """Cut a document into parts of some sentences; a line is never cut."""
        parts = [_Part()]
        for number, line in enumerate(whole.lines, 1):
            sentences = weight(line)
            unit = f"sentences or pieces of long ones in line {number:,}"
            _bounded(sentences, self.limits.max_sentences, unit)
            if (
                parts[-1].sentences + sentences > PART_SENTENCES
                or len(parts[-1].lines) == PART_LINES
            ):
                parts.append(_Part())
            parts[-1].add(line, sentences)
        return parts

    async def _answers(
        self,
        pair: Pair,
        lines: Sequence[str],
        weights: Sequence[int],
        options: Options,
        *,
        is_patient: bool = False,
    ) -> list[Translation]:
        """Translate lines, of which blank ones need no model, by the deadline."""
        kind = Kind(str(pair), self._translators[pair], options)
        said = [
            (line, sentences) for line, sentences in zip(lines, weights, strict=True) if sentences
        ]
        try:
            async with asyncio.timeout(self.limits.deadline_s):
                if is_patient:
                    await self._room(sum(weights))
                found = iter(
                    await self.batcher.translate(
                        kind, [line for line, _ in said], [sentences for _, sentences in said]
                    )
                )
        except TimeoutError as late:
            raise Refused(
                503, f"not done within {self.limits.deadline_s:g} s, and given up", retry_after_s=5
            ) from late
        except InputError as fault:
            raise Refused(400, str(fault)) from fault
        return [
            next(found) if sentences else Translation(line, "", 0.0, (Alternative("", 0.0),))
            for line, sentences in zip(lines, weights, strict=True)
        ]

    async def _room(self, sentences: int) -> None:
        while not self.batcher.has_room(sentences):
            await asyncio.sleep(AGAIN_S)


def _bounded(found: int, most: int, unit: str) -> None:
    if found > most:
        raise Refused(413, f"{found:,} {unit}, and the most is {most:,}: send less at once")


def finite(score: float) -> float | None:
    """JSON has no infinity."""
    return score if math.isfinite(score) else None


def _checked(text: str) -> Document:
    """Cut a text into lines, and refuse what is no text: all in a batch would fail with it."""
    try:
        text.encode()
    except UnicodeEncodeError as half:
        raise Refused(400, "the text has half of a surrogate pair") from half
    return document(text)
