"""Texts in, translations out, within the limits: what all the protocols of the server share."""

import asyncio
import math
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from transduce.decoding.options import Alternative, Options, Translation
from transduce.decoding.sentences import CountTokens
from transduce.decoding.translator import Translator
from transduce.errors import InputError
from transduce.serving.batcher import Batcher, Kind
from transduce.serving.documents import Document, document, weights
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
    """Some lines of a document, and how many sentences each has."""

    lines: list[str] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sentences = sum(self.counts)

    def add(self, line: str, count: int) -> None:
        self.lines.append(line)
        self.counts.append(count)
        self.sentences += count

    def counted(self) -> Iterator[tuple[str, int]]:
        return zip(self.lines, self.counts, strict=True)


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
        _bounded(sum(map(len, texts)), self.limits.max_characters, "characters")
        part = _Part(lines, weights(lines, self._translators[pair].count_tokens))
        _bounded(part.sentences, self.limits.max_sentences, "sentences or pieces of long ones")
        self._check_attention(texts, options)
        found = iter(await self._answers(pair, part, options))
        return [Translated(one, [next(found) for _ in one.lines]) for one in documents]

    async def stream(self, pair: Pair, text: str, options: Options) -> AsyncIterator[Translation]:
        """Translate a document of any length; its lines come in order, as soon as they are there.

        The deadline is for each part of it.
        """
        self._check_attention([text], options)
        whole = _checked(text)
        _bounded(len(whole.lines), self.limits.max_document_lines, "lines")
        has_begun = False
        count_tokens = self._translators[pair].count_tokens
        for part in await asyncio.to_thread(self._parts, whole, count_tokens):
            for translation in await self._answers(pair, part, options, is_patient=has_begun):
                yield translation
            has_begun = True

    def _check_attention(self, texts: Sequence[str], options: Options) -> None:
        if options.attention:
            most = self.limits.max_attention_characters
            _bounded(sum(map(len, texts)), most, "characters with attention or alignment")

    def _parts(self, whole: Document, count_tokens: CountTokens) -> list[_Part]:
        """Cut a document into parts of some sentences; a line is never cut."""
        parts = [_Part()]
        counts = weights(whole.lines, count_tokens)
        for number, (line, count) in enumerate(zip(whole.lines, counts, strict=True), 1):
            unit = f"sentences or pieces of long ones in line {number:,}"
            _bounded(count, self.limits.max_sentences, unit)
            if parts[-1].sentences + count > PART_SENTENCES or len(parts[-1].lines) == PART_LINES:
                parts.append(_Part())
            parts[-1].add(line, count)
        return parts

    async def _answers(
        self, pair: Pair, part: _Part, options: Options, *, is_patient: bool = False
    ) -> list[Translation]:
        """Translate lines, of which blank ones need no model, by the deadline."""
        kind = Kind(str(pair), self._translators[pair], options)
        said = [(line, count) for line, count in part.counted() if count]
        if is_patient:
            await self._room(part.sentences)
        try:
            answers = await self.batcher.translate(
                kind,
                [line for line, _ in said],
                [count for _, count in said],
                deadline_s=self.limits.deadline_s,
            )
        except InputError as fault:
            raise Refused(400, str(fault)) from fault
        found = iter(answers)
        return [
            next(found) if count else Translation(line, "", 0.0, (Alternative("", 0.0),))
            for line, count in part.counted()
        ]

    async def _room(self, sentences: int) -> None:
        """Wait for room in the queue; after the deadline, it is refused as at the beginning."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.limits.deadline_s):
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
