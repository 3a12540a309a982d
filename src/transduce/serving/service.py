"""Texts in, translations out, within the limits: what all endpoints share."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial

from transduce.errors import InputError
from transduce.serving.batcher import Batcher, BatchKey
from transduce.serving.documents import Document, sentence_counts, split_lines
from transduce.serving.http.held_files import HeldFiles
from transduce.serving.languages import LanguagePair, Route, find_routes
from transduce.serving.limits import Limits
from transduce.serving.refusal import Refused, too_busy
from transduce.serving.text_thread import FileThread, Result, TextThread
from transduce.text.detection import LanguageDetector, LanguageGuess
from transduce.text.markup.document import MarkupDocument, MarkupFormat, read_markup
from transduce.text.markup.marked import Line, text_of
from transduce.text.phrases.glossary import Glossary
from transduce.translation.memory.units import TranslationMemory
from transduce.translation.options import Alternative, Options, Translation
from transduce.translation.translator import TextFormat, Translator
from transduce.translation.wording.rules import NO_WORDING

PART_SENTENCES = 32
"""A long document is queued in parts of this many sentences, so that others get their turn."""
PART_LINES = 500
"""The most lines of a part, of which many may be blank."""
COUNTED_CHARACTERS = 10_000
"""The sentences of a long document are counted in about this many characters at a time."""
SURE_ENOUGH = 0.5
"""How sure it must be that a text is in the target language, so that it is left as it is."""
POLL_S = 0.1
"""How often the next part of a document looks for capacity in the queue."""


@dataclass(frozen=True)
class TranslatedDocument:
    """A text, and the translations of its lines."""

    document: Document | MarkupDocument
    lines: list[Translation]

    @property
    def texts(self) -> list[str]:
        """The n best translations of the text: the best of all lines, the second best and so on."""
        ranks = max((len(line.alternatives) for line in self.lines), default=1)
        found: dict[str, None] = {}
        for rank in range(ranks):
            best = [
                line.alternatives[min(rank, len(line.alternatives) - 1)].text for line in self.lines
            ]
            found.setdefault(self.document.with_lines(best))
        return list(found)


@dataclass
class _Part:
    """Some lines of a document, and how many sentences each of them has."""

    lines: list[Line] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sentences = sum(self.counts)

    def add(self, line: Line, count: int) -> None:
        self.lines.append(line)
        self.counts.append(count)
        self.sentences += count

    def counted(self) -> Iterator[tuple[Line, int]]:
        return zip(self.lines, self.counts, strict=True)


class Service:
    """Models by language pair, which share one queue."""

    def __init__(
        self,
        translators: Mapping[LanguagePair, Translator],
        batcher: Batcher,
        limits: Limits,
        *,
        glossaries: Mapping[str, Glossary] | None = None,
        memories: Mapping[str, TranslationMemory] | None = None,
        detector: LanguageDetector | None = None,
    ) -> None:
        self.limits = limits
        self.detector = detector
        self.glossaries = dict(glossaries or {})
        self.memories = dict(memories or {})
        self.batcher = batcher
        self.texts = TextThread()
        self.files = HeldFiles(limits)
        self._file_thread = FileThread(limits.deadline_s)
        self._files_in_work = 0
        self.pairs = sorted(translators)
        self.sources = sorted({pair.source for pair in self.pairs})
        self.routes = find_routes(self.pairs)
        self._translators = dict(translators)

    def default_options(self, route: Route) -> Options:
        """Return how the last model of a route translates if nothing else is asked for."""
        return self._translators[route.legs[-1]].default_options

    def targets(self, source: str) -> list[str]:
        """Return the languages that a source language can be translated to."""
        return sorted(pair.target for pair in self.routes if pair.source == source)

    def route(self, source: str, target: str | None) -> Route:
        """Find the one route with these languages; source "auto" and target None match any.

        One model is better than two: two are taken only if no model alone is fitting.
        """
        fitting = [
            route
            for pair, route in self.routes.items()
            if source in ("auto", pair.source) and target in (None, pair.target)
        ]
        fitting = [route for route in fitting if route.via is None] or fitting
        if len(fitting) == 1:
            return fitting[0]
        known = ", ".join(str(pair) for pair in self.routes)
        if not fitting:
            raise Refused(400, f"no model for these languages: this server translates {known}")
        ambiguous = "source" if len({one.pair.source for one in fitting}) > 1 else "target"
        raise Refused(
            400,
            f"the {ambiguous} is ambiguous, and not detected: name it; this server translates "
            f"{known}",
        )

    async def detected_routes(
        self, source: str, target: str | None, texts: Sequence[str]
    ) -> list[tuple[Route, float]]:
        """Find the route of each text, and how sure its language is; 0: it was not detected.

        A language is detected if the source is "auto" and it can be one of several.
        """
        sources = sorted(pair.source for pair in self.routes if target in (None, pair.target))
        if source != "auto" or self.detector is None or len(set(sources)) < 2:
            return [(self.route(source, target), 0.0)] * len(texts)
        guesses = await self.detect(texts, sorted(set(sources)))
        return [(self.route(best.code, target), best.confidence) for best, *_ in guesses]

    async def routes_if_needed(
        self, source: str, target: str, texts: Sequence[str]
    ) -> list[tuple[Route | None, LanguageGuess]]:
        """Find the route and the language of each text; None: it is in the target language.

        That is so if both languages are the same, or if it is detected with some confidence.
        """
        is_known = any(target in (pair.source, pair.target) for pair in self.routes)
        if source == target and is_known:
            return [(None, LanguageGuess(target, 0.0))] * len(texts)
        if source != "auto" or self.detector is None or not is_known:
            route = self.route(source, target)
            return [(route, LanguageGuess(route.pair.source, 0.0))] * len(texts)
        sources = {pair.source for pair in self.routes if pair.target == target}
        found: list[tuple[Route | None, LanguageGuess]] = []
        for first, *others in await self.detect(texts, sorted({*sources, target})):
            if first.code == target and first.confidence >= SURE_ENOUGH:
                found.append((None, first))
            else:
                best = next((one for one in (first, *others) if one.code in sources), first)
                found.append((self.route(best.code, target), best))
        return found

    async def detect(self, texts: Sequence[str], among: Sequence[str]) -> list[list[LanguageGuess]]:
        """Rank languages for each text; without a detector, all have confidence 0."""
        detector = self.detector
        if detector is None:
            return [[LanguageGuess(code, 0.0) for code in among] for _ in texts]
        self.check_texts(texts)
        return await self.texts.run(
            lambda: [detector.detect(text, among) for text in texts],
            characters=sum(map(len, texts)),
            lines=len(texts),
        )

    def check_texts(self, texts: Sequence[str]) -> None:
        """Refuse texts that are too long together, or not valid."""
        _check_limit(sum(map(len, texts)), self.limits.max_characters, "characters")
        for text in texts:
            _check_text(text)

    async def translate(
        self,
        route: Route,
        texts: Sequence[str],
        options: Options,
        *,
        format: TextFormat = "text",  # noqa: A002 - LibreTranslate calls it so
    ) -> list[TranslatedDocument]:
        """Translate texts line by line, all of them before the deadline or none."""
        check_route(route, options)
        if route.via is not None and format != "text":
            return await self._translate_markup_twice(route, texts, options, format)
        _check_limit(sum(map(len, texts)), self.limits.max_characters, "characters")
        self._check_attention(texts, options)
        documents = await self._documents(texts, format)
        lines: list[Line] = [line for document in documents for line in document.lines]
        counts = await self._counts(route.legs[0], lines)
        part = _Part(lines, counts)
        _check_limit(part.sentences, self.limits.max_sentences, "sentences or parts of long ones")
        found = iter(await self._translate_part(route, part, options))
        return [
            TranslatedDocument(document, [next(found) for _ in document.lines])
            for document in documents
        ]

    async def stream(
        self, route: Route, text: str, options: Options
    ) -> AsyncIterator[list[Translation]]:
        """Translate a document of any length; yield its lines in order, some at a time.

        Each part of it has the deadline.
        """
        check_route(route, options)
        self._check_attention([text], options)
        _check_lines([text], self.limits.max_document_lines)
        async for part in self._stream_lines(route, _checked(text).lines, options):
            yield part

    async def translate_lines(
        self, route: Route, lines: Sequence[Line], options: Options
    ) -> list[str]:
        """Translate the texts of a file by one model, as a stream does with its lines."""
        characters = sum(len(text_of(line)) for line in lines)
        _check_limit(characters, self.limits.max_file_characters, "characters in the file")
        _check_limit(len(lines), self.limits.max_document_lines, "paragraphs or strings")
        for line in lines:
            _check_text(text_of(line))
        if not lines:
            return []
        parts = self._stream_lines(route, lines, options)
        return [line.text async for part in parts for line in part]

    async def _stream_lines(
        self, route: Route, lines: Sequence[Line], options: Options
    ) -> AsyncIterator[list[Translation]]:
        counts: list[int] = []
        for some in _slices(lines):
            counts += await self._counts(route.legs[0], some)
        longest = max(range(len(counts)), key=counts.__getitem__)
        unit = f"sentences or parts of long ones in line {longest + 1:,}"
        _check_limit(counts[longest], self.limits.max_sentences, unit)
        is_first = True
        for part in _parts(lines, counts):
            if not is_first:  # a document that has begun waits instead of being refused
                await self._wait_for_capacity(part.sentences)
            yield await self._translate_part(route, part, options)
            is_first = False

    @contextmanager
    def one_more_file(self) -> Iterator[None]:
        """Count a file that is being translated; refuse it if there are too many."""
        if self._files_in_work >= self.limits.max_files:
            raise too_busy(1)
        self._files_in_work += 1
        try:
            yield
        finally:
            self._files_in_work -= 1

    async def file_work(self, work: Callable[[], Result]) -> Result:
        """Return the result of work on a file, in a thread that texts do not wait for.

        A file whose work takes longer than `deadline_s` is refused, and others go on without it.
        """
        return await self._file_thread.run(work)

    def close(self) -> None:
        """End the threads, and forget the files."""
        self.texts.close()
        self._file_thread.close()
        self.files.clear()

    async def _documents(
        self,
        texts: Sequence[str],
        format: TextFormat,  # noqa: A002
    ) -> Sequence[Document | MarkupDocument]:
        """Split texts into lines; of documents with markup, these are the texts between tags."""
        if format == "text":
            _check_lines(texts, self.limits.max_lines)
            return [_checked(text) for text in texts]
        read = partial(_marked_documents, texts, format)
        documents = await self.texts.run(read, characters=sum(map(len, texts)), lines=len(texts))
        count = sum(len(document.lines) for document in documents)
        _check_limit(count, self.limits.max_lines, "texts between tags")
        return documents

    async def _counts(self, pair: LanguagePair, lines: Sequence[Line]) -> list[int]:
        """Count the sentences of each line."""
        count = partial(sentence_counts, lines, self._translators[pair].count_tokens)
        characters = sum(len(text_of(line)) for line in lines)
        return await self.texts.run(count, characters=characters, lines=len(lines))

    def _check_attention(self, texts: Sequence[str], options: Options) -> None:
        if options.attention:
            most = self.limits.max_attention_characters
            _check_limit(sum(map(len, texts)), most, "characters with attention or alignment")

    async def _translate_part(
        self, route: Route, part: _Part, options: Options
    ) -> list[Translation]:
        """Translate lines by one model, or by two; each has the deadline."""
        *before, last = route.legs
        lines = part.lines
        for leg in before:
            own = self._translators[leg].default_options
            found = await self._translate_leg(leg, part, own)
            between: list[Line] = [" ".join(one.text.split("\n")) for one in found]
            part = _Part(between, await self._counts(last, between))
        found = await self._translate_leg(last, part, options)
        return [replace(one, source=str(line)) for one, line in zip(found, lines, strict=True)]

    async def _translate_markup_twice(
        self,
        route: Route,
        texts: Sequence[str],
        options: Options,
        format: TextFormat,  # noqa: A002
    ) -> list[TranslatedDocument]:
        """Translate documents by two models: the second reads the documents of the first."""
        first, last = (Route((leg,)) for leg in route.legs)
        own = self.default_options(first)
        between = await self.translate(first, texts, own, format=format)
        return await self.translate(last, [one.texts[0] for one in between], options, format=format)

    async def _translate_leg(
        self, pair: LanguagePair, part: _Part, options: Options
    ) -> list[Translation]:
        """Translate lines by one model; blank ones are not queued."""
        key = BatchKey(str(pair), self._translators[pair], options)
        queued = [(line, count) for line, count in part.counted() if count]
        try:
            translations = await self.batcher.translate(
                key,
                [line for line, _ in queued],
                [count for _, count in queued],
                deadline_s=self.limits.deadline_s,
            )
        except InputError as fault:
            raise Refused(400, str(fault)) from fault
        found = iter(translations)
        return [
            next(found) if count else Translation(str(line), "", 0.0, (Alternative("", 0.0),))
            for line, count in part.counted()
        ]

    async def _wait_for_capacity(self, sentences: int) -> None:
        """Wait for capacity in the queue, at most until the deadline; then it may be refused."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.limits.deadline_s):
                while not self.batcher.has_capacity(sentences):
                    await asyncio.sleep(POLL_S)


def _slices(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """Divide lines into groups of few characters, or of one line."""
    group: list[Line] = []
    characters = 0
    for line in lines:
        group.append(line)
        characters += len(text_of(line))
        if characters >= COUNTED_CHARACTERS or len(group) == PART_LINES:
            yield group
            group, characters = [], 0
    if group:
        yield group


def _parts(lines: Sequence[Line], counts: Sequence[int]) -> Iterator[_Part]:
    """Divide a document into parts of some sentences each, between its lines."""
    part = _Part()
    for line, count in zip(lines, counts, strict=True):
        if part.sentences + count > PART_SENTENCES or len(part.lines) == PART_LINES:
            if part.lines:
                yield part
            part = _Part()
        part.add(line, count)
    yield part


def finite(score: float) -> float | None:
    """Return a score, or None if it is not finite: JSON has no infinity."""
    return score if math.isfinite(score) else None


def _check_limit(found: int, most: int, unit: str) -> None:
    if found > most:
        raise Refused(413, f"{found:,} {unit}, but the limit is {most:,}: send less at once")


def _check_lines(texts: Sequence[str], most: int) -> None:
    """Check how many lines texts have, before they are split, which takes longer."""
    _check_limit(sum(text.count("\n") + 1 for text in texts), most, "lines")


def check_route(route: Route, options: Options) -> None:
    """Refuse what two models in a row cannot do: the second does not see the source."""
    needs_source = options.attention or options.memory or options.wording != NO_WORDING
    if route.via is not None and needs_source:
        raise Refused(
            400,
            f"{route.pair} is translated through {route.via}, without alignment, attention, "
            "glossaries, memories and placeholders: leave these out",
        )


def _checked(text: str) -> Document:
    """Split a text into lines; refuse what is not valid text, as its whole batch would fail."""
    _check_text(text)
    return split_lines(text)


def _marked_documents(
    texts: Sequence[str],
    format: MarkupFormat,  # noqa: A002
) -> list[MarkupDocument]:
    """Divide documents into texts; refuse what is not valid text, or not well-formed XML."""
    for text in texts:
        _check_text(text)
    try:
        return [read_markup(text, format) for text in texts]
    except InputError as fault:
        raise Refused(400, str(fault)) from fault


def _check_text(text: str) -> None:
    """Refuse what is not valid text, as its whole batch would fail."""
    try:
        text.encode()
    except UnicodeEncodeError as half:
        raise Refused(400, "the text has half of a surrogate pair") from half
