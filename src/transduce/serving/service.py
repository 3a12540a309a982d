"""Texts in, translations out, within the limits: what all endpoints share."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

from transduce.errors import InputError
from transduce.serving.batcher import Batcher, BatchKey
from transduce.serving.documents import Document, sentence_counts, split_lines
from transduce.serving.http.held_files import HeldFiles
from transduce.serving.languages import LanguagePair
from transduce.serving.limits import Limits
from transduce.serving.refusal import Refused, too_busy
from transduce.serving.text_thread import LITTLE, Result, TextThread
from transduce.text.phrases.glossary import Glossary
from transduce.translation.options import Alternative, Options, Translation
from transduce.translation.translator import Translator

PART_SENTENCES = 32
"""A long document is queued in parts of this many sentences, so that others get their turn."""
PART_LINES = 500
"""The most lines of a part, of which many may be blank."""
COUNTED_CHARACTERS = 10_000
"""The sentences of a long document are counted in about this many characters at a time."""
POLL_S = 0.1
"""How often the next part of a document looks for capacity in the queue."""


@dataclass(frozen=True)
class TranslatedDocument:
    """A text, and the translations of its lines."""

    document: Document
    lines: list[Translation]

    @property
    def texts(self) -> list[str]:
        """The n best translations of the text: the best of all lines, the second best and so on."""
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
    """Some lines of a document, and how many sentences each of them has."""

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
    """Models by language pair, which share one queue."""

    def __init__(
        self,
        translators: Mapping[LanguagePair, Translator],
        batcher: Batcher,
        limits: Limits,
        *,
        glossaries: Mapping[str, Glossary] | None = None,
    ) -> None:
        self.limits = limits
        self.glossaries = dict(glossaries or {})
        self.batcher = batcher
        self.texts = TextThread()
        self.files = HeldFiles(limits)
        self._file_thread = TextThread(name="files")
        self._files_in_work = 0
        self.pairs = sorted(translators)
        self.sources = sorted({pair.source for pair in self.pairs})
        self._translators = dict(translators)

    def default_options(self, pair: LanguagePair) -> Options:
        """Return how the model of a pair translates if nothing else is asked for."""
        return self._translators[pair].default_options

    def targets(self, source: str) -> list[str]:
        """Return the languages that a source language can be translated to."""
        return [pair.target for pair in self.pairs if pair.source == source]

    def pair(self, source: str, target: str | None) -> LanguagePair:
        """Find the one pair with these languages; source "auto" and target None match any."""
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
        ambiguous = "source" if len({pair.source for pair in fitting}) > 1 else "target"
        raise Refused(
            400,
            f"the {ambiguous} is ambiguous, and languages are not detected: name it; this server "
            f"translates {known}",
        )

    async def translate(
        self, pair: LanguagePair, texts: Sequence[str], options: Options
    ) -> list[TranslatedDocument]:
        """Translate texts line by line, all of them before the deadline or none."""
        characters = sum(map(len, texts))
        _check_limit(characters, self.limits.max_characters, "characters")
        self._check_attention(texts, options)
        _check_lines(texts, self.limits.max_lines)
        documents = [_checked(text) for text in texts]
        lines = [line for document in documents for line in document.lines]
        counts = await self._counts(pair, lines)
        part = _Part(lines, counts)
        _check_limit(part.sentences, self.limits.max_sentences, "sentences or parts of long ones")
        found = iter(await self._translate_part(pair, part, options))
        return [
            TranslatedDocument(document, [next(found) for _ in document.lines])
            for document in documents
        ]

    async def stream(
        self, pair: LanguagePair, text: str, options: Options
    ) -> AsyncIterator[list[Translation]]:
        """Translate a document of any length; yield its lines in order, some at a time.

        Each part of it has the deadline.
        """
        self._check_attention([text], options)
        _check_lines([text], self.limits.max_document_lines)
        whole = _checked(text)
        counts: list[int] = []
        for lines in _slices(whole.lines):
            counts += await self._counts(pair, lines)
        longest = max(range(len(counts)), key=counts.__getitem__)
        unit = f"sentences or parts of long ones in line {longest + 1:,}"
        _check_limit(counts[longest], self.limits.max_sentences, unit)
        is_first = True
        for part in _parts(whole.lines, counts):
            if not is_first:  # a document that has begun waits instead of being refused
                await self._wait_for_capacity(part.sentences)
            yield await self._translate_part(pair, part, options)
            is_first = False

    async def translate_texts(
        self, pair: LanguagePair, texts: Sequence[str], options: Options
    ) -> list[str]:
        """Translate the texts of a file, each on one line, as a stream does with its lines."""
        characters = sum(map(len, texts))
        _check_limit(characters, self.limits.max_file_characters, "characters in the file")
        _check_limit(len(texts), self.limits.max_document_lines, "paragraphs or strings")
        if not texts:
            return []
        parts = self.stream(pair, "\n".join(texts), options)
        return [line.text async for lines in parts for line in lines]

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
        """Return the result of work on a file, in a thread that texts do not wait for."""
        return await self._file_thread.run(work, characters=LITTLE + 1)

    def close(self) -> None:
        """End the threads, and forget the files."""
        self.texts.close()
        self._file_thread.close()
        self.files.clear()

    async def _counts(self, pair: LanguagePair, lines: Sequence[str]) -> list[int]:
        """Count the sentences of each line."""
        count = partial(sentence_counts, lines, self._translators[pair].count_tokens)
        return await self.texts.run(count, characters=sum(map(len, lines)), lines=len(lines))

    def _check_attention(self, texts: Sequence[str], options: Options) -> None:
        if options.attention:
            most = self.limits.max_attention_characters
            _check_limit(sum(map(len, texts)), most, "characters with attention or alignment")

    async def _translate_part(
        self, pair: LanguagePair, part: _Part, options: Options
    ) -> list[Translation]:
        """Translate lines before the deadline; blank ones are not queued."""
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
            next(found) if count else Translation(line, "", 0.0, (Alternative("", 0.0),))
            for line, count in part.counted()
        ]

    async def _wait_for_capacity(self, sentences: int) -> None:
        """Wait for capacity in the queue, at most until the deadline; then it may be refused."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.limits.deadline_s):
                while not self.batcher.has_capacity(sentences):
                    await asyncio.sleep(POLL_S)


def _slices(lines: Sequence[str]) -> Iterator[list[str]]:
    """Divide lines into groups of few characters, or of one line."""
    group: list[str] = []
    characters = 0
    for line in lines:
        group.append(line)
        characters += len(line)
        if characters >= COUNTED_CHARACTERS or len(group) == PART_LINES:
            yield group
            group, characters = [], 0
    if group:
        yield group


def _parts(lines: Sequence[str], counts: Sequence[int]) -> Iterator[_Part]:
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


def _checked(text: str) -> Document:
    """Split a text into lines; refuse what is not valid text, as its whole batch would fail."""
    try:
        text.encode()
    except UnicodeEncodeError as half:
        raise Refused(400, "the text has half of a surrogate pair") from half
    return split_lines(text)
