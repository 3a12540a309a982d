"""Text in, text out: the command, the Python API and the server all translate with this.

Lines are read in windows, so input of any size takes bounded memory. Within a window, sentences of
similar length are translated together; a sentence gets the same translation alone and in any batch,
unless two candidates have the same score but for rounding.
"""

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

import torch

from transduce.errors import InputError, counted
from transduce.hardware.allocator import release_freed_memory
from transduce.models.attention import Attention, attention_of
from transduce.models.base import Searchable
from transduce.models.shortlist import Shortlist
from transduce.search.hypothesis import Hypothesis
from transduce.search.speculative.drafter import Drafter
from transduce.tasks.base import Task
from transduce.tasks.translation import TranslationTask
from transduce.text.markup.document import MarkupFormat, read_markup
from transduce.text.markup.marked import Line, MarkedText, text_of
from transduce.text.phrases.patterns import Pattern
from transduce.text.phrases.signs import SIGNS, SignedText, put_back, signed_source
from transduce.text.pieces import Piece, cut, join
from transduce.text.scripts import main_script, name_of_script
from transduce.text.sentences import split_sentences
from transduce.text.special_ids import EOS_ID
from transduce.text.spelling import scripts_of_vocabulary
from transduce.text.tokenizer import Tokenizer
from transduce.translation.engine import (
    EncodedSentence,
    Engine,
    SearchResult,
    length,
    log_probability,
    penalty,
)
from transduce.translation.languages import NO_TAGS, tags_of
from transduce.translation.lines import (
    InputLine,
    count_in_whole_windows,
    numbered,
    windows,
)
from transduce.translation.markup.documents import translated_document
from transduce.translation.markup.tags import (
    TranslatedPiece,
    UntaggedLine,
    put_tags_back,
)
from transduce.translation.memory.read import MemoryInput, MemoryUse, as_memory
from transduce.translation.memory.use import Beginnings, translate_with_memory
from transduce.translation.options import Alternative, Options, Translation
from transduce.translation.torch_engine import TorchEngine
from transduce.translation.wording.read import GlossaryInput, as_glossary
from transduce.translation.wording.rules import NO_WORDING, PhraseRule, Wording, sign_rules
from transduce.translation.wording.sentences import check_can_hint, with_wording

WINDOWS_UNTIL_RELEASE = 16
"""Windows after which freed memory is returned to the system."""
NEXT_PIECE = 2_654_435_769
"""Added to the number of a line for each of its pieces, so that each has its own sample."""

TextFormat = Literal["text"] | MarkupFormat


class Translator:
    """Translates text with a model; `transduce.load` makes one from a model folder."""

    def __init__(
        self,
        model: Searchable[Any] | Engine,
        tokenizer: Tokenizer,
        *,
        task: Task | None = None,
        max_positions: int | None = None,
        by_sentence: bool = False,
        device: torch.device | str = "cpu",
        autocast: torch.dtype | None = None,
        read_from: Sequence[Sequence[Path]] = (),
        drafter: Drafter | None = None,
        shortlist: Shortlist | None = None,
        tag_on: Literal["source", "target"] = "source",
        sources: Sequence[str] = (),
        beam: int | None = None,
    ) -> None:
        """Translate with a model that is prepared for inference, or with an engine.

        task: how text is written and limited; by default translation.
        max_positions: the longest sequence of the model, EOS included; None: no limit.
        by_sentence: split lines into sentences, because the model was trained on single ones.
        device, autocast: where and in which precision the model computes, if no engine is given.
        read_from: the files of each model; of a run that goes on, others may be the best by now.
        drafter: proposes tokens to greedy search, which then takes less time for one sentence, if
            no engine is given.
        shortlist: of which tokens a translation may consist, by those of its source, if no engine
            is given.
        tag_on: where a model of several languages has the tag of the one to translate into.
        sources: the languages that such a model translates from.
        beam: hypotheses kept if no options are given; by default as the task wants it.
        """
        if max_positions is not None and max_positions < 2:
            raise InputError(
                f"model.max_positions={max_positions}: there is no position beside EOS"
            )
        self.device = torch.device(device)
        self.read_from = read_from
        self.sources = tuple(sources)
        self.to: str | None = None  # the language that it translates into, of several
        self._tag_on: Literal["source", "target"] = tag_on
        self._tags = NO_TAGS
        self._tokenizer = tokenizer
        self._task = task or TranslationTask()
        if not isinstance(model, Engine):
            parts = (model, tokenizer, autocast, drafter, shortlist)
            model = TorchEngine(self.device, max_positions, self._task, *parts)
        self._engine = model
        self._beam = beam or self._task.beam
        self._by_sentence = by_sentence and self._task.splits_lines
        self._max_positions = max_positions
        taken = 1 + bool(tokenizer.languages and tag_on == "source")  # by EOS, and by a tag
        limits = [self._task.max_src_tokens, max_positions and max_positions - taken]
        self._max_src_tokens = min((n for n in limits if n is not None), default=None)

    @property
    def engine_name(self) -> str:
        """What it searches with: torch or ctranslate2."""
        return self._engine.name

    @property
    def has_shortlist(self) -> bool:
        """Whether it searches with a shortlist."""
        return self._engine.has_shortlist

    @property
    def default_options(self) -> Options:
        """How it translates if no options are given: as its model or its task wants it."""
        return Options(beam=self._beam, alpha=self._task.alpha)

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that it can translate into, if there are several; (): there is one."""
        return self._tokenizer.languages

    def into(self, language: str | None) -> "Translator":
        """Return a translator into one of the model's languages; None: into the only one.

        It has the same model, so that many of them take no more memory.
        """
        wanted = language or self.to
        tags = tags_of(self._tokenizer, self._tag_on, wanted)
        if wanted == self.to:
            return self
        bound = copy(self)
        bound.to, bound._tags = wanted, tags
        return bound

    def translate(
        self,
        texts: Sequence[Line],
        options: Options | None = None,
        *,
        to: str | None = None,
        prefixes: Sequence[str] | None = None,
        glossary: GlossaryInput | None = None,
        memory: MemoryInput | None = None,
        soft: bool = False,
        format: TextFormat = "text",  # noqa: A002 - LibreTranslate calls it so
    ) -> list[Translation]:
        """Translate texts; `prefixes` are the texts that their translations must start with.

        to: the language to translate into, for a model of several.
        glossary: terms that must be translated so: a dictionary, or a file; see `wording`.
        memory: translations that exist already: a dictionary, or a file; see `translation_memory`.
        soft: the glossary is a hint, and no constraint, for models trained with `data.terms`.
        format: html or xml: each text is a document. Its tags are kept, and those within sentences
            follow the words that they were around.

        What cannot be translated, such as a text that is no valid Unicode, raises `InputError`.
        """
        if to is not None:
            bound = self.into(to)
            return bound.translate(
                texts,
                options,
                prefixes=prefixes,
                glossary=glossary,
                memory=memory,
                format=format,
            )
        if format == "text":
            found = self.stream(
                texts, options, prefixes=prefixes, glossary=glossary, memory=memory, soft=soft
            )
            return list(found)
        if prefixes is not None:
            raise InputError(f"prefixes are for texts, not for documents in {format}")
        if isinstance(texts, str):
            raise InputError("got one text instead of several: put it into a list")
        documents = [read_markup(str(text), format) for text in texts]
        lines = chain.from_iterable(document.lines for document in documents)
        found = self.stream(lines, options, glossary=glossary, memory=memory, soft=soft)
        return [
            translated_document(str(text), document, list(islice(found, len(document.lines))))
            for text, document in zip(texts, documents, strict=True)
        ]

    def stream(
        self,
        lines: Iterable[Line],
        options: Options | None = None,
        *,
        prefixes: Iterable[str] | None = None,
        glossary: GlossaryInput | None = None,
        memory: MemoryInput | None = None,
        soft: bool = False,
        window: int | None = None,
        start: int = 0,
        first_number: int = 0,
    ) -> Iterator[Translation]:
        """Translate lines as they arrive, in bounded memory, and yield the results in order.

        `window` lines are read before they are translated together; by default 512 on the CPU and
        8,192 on a GPU. The first `start` lines are skipped, but counted; where `start` is the end
        of a window, the others get the same translations, bit for bit, as without it.

        `first_number` is the number of the first line, from 0, if the lines are a part of a text:
        samples and messages follow it.

        A line may be a `MarkedText`; its translation has the markup.
        """
        if isinstance(lines, str) or isinstance(prefixes, str):
            raise InputError("got one text instead of several: put it into a list")
        self.into(None)  # raises if the language is open
        options = options or self.default_options
        if glossary is not None:
            wording = replace(options.wording, glossary=as_glossary(glossary), is_soft=soft)
            options = replace(options, wording=wording)
        elif soft:
            raise InputError("soft is for the terms of a glossary: give one, or leave it out")
        check_can_hint(options.wording, self._tokenizer)
        if memory is not None:
            options = replace(options, memory=MemoryUse(as_memory(memory)))
        self._engine.check(options, has_prefixes=prefixes is not None)
        if options.attention:
            self._engine.attention_model()  # raises if there is no attention to show
        most = self._most_lines(window)
        rest = islice(numbered(lines, prefixes, first=first_number), start, None)
        return self._in_turn(windows(rest, most=most), options)

    def count_in_whole_windows(
        self,
        lines: Iterable[Line],
        done: int,
        *,
        prefixes: Iterable[str] | None = None,
        window: int | None = None,
    ) -> int:
        """Count the lines that need no translation if the first `done` have theirs.

        These are the lines of whole windows, so that `stream` may start after them.
        """
        most = self._most_lines(window)
        return count_in_whole_windows(numbered(lines, prefixes), done, most=most)

    def _most_lines(self, window: int | None) -> int:
        if window is not None and window < 1:
            raise InputError(f"a window of {window} lines: use 1 or more")
        return window or (512 if self.device.type == "cpu" else 8192)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text."""
        return [len(ids) for ids in self._tokenizer.encode_batch(texts)]

    def unknown_script(self, text: str) -> str | None:
        """Return the script of a text if the model was hardly trained on any text in it."""
        script = main_script(text)
        if script is None or not self._known_scripts or script in self._known_scripts:
            return None
        return name_of_script(script)

    @cached_property
    def _known_scripts(self) -> frozenset[str]:
        return scripts_of_vocabulary(self._tokenizer)

    def _in_turn(self, read: Iterable[list[InputLine]], options: Options) -> Iterator[Translation]:
        for number, lines in enumerate(read, start=1):
            yield from self._with_memory(lines, options)
            if number % WINDOWS_UNTIL_RELEASE == 0:
                release_freed_memory()

    def _with_memory(self, lines: list[InputLine], options: Options) -> list[Translation]:
        if options.memory is None:
            return self._translate(lines, options)
        parts = (self._engine, self._tokenizer, self._tags, self._max_positions)
        return translate_with_memory(lines, options, self._translate, beginnings=Beginnings(*parts))

    def _translate(self, lines: list[InputLine], options: Options) -> list[Translation]:
        by_sentence = self._by_sentence and not options.whole_lines
        patterns = options.wording.patterns
        encoded = self._encoded(lines, by_sentence=by_sentence, patterns=patterns)
        if options.wording != NO_WORDING:
            encoded = [self._with_wording(line, options.wording) for line in encoded]
        found = self._engine.search_with_retry(
            [s for line in encoded for s in line.sentences], options
        )
        every_id = (hypothesis.ids for one in found for hypothesis in one.hypotheses)
        sources = (
            sentence.text
            for one, sentence in zip(
                found, chain(*(line.sentences for line in encoded)), strict=True
            )
            for _ in one.hypotheses
        )
        texts = map(self._task.read_target, self._tokenizer.decode_batch(every_id), sources)
        results = ((one, [next(texts) for _ in one.hypotheses]) for one in found)
        joined, untagged = [], {}
        for number, line in enumerate(encoded):
            of_line = [self._as_read(next(results), sentence) for sentence in line.sentences]
            attention = self._attention(line, of_line) if options.attention else ()
            joined.append(replace(_joined(line, of_line, options), attention=attention))
            if isinstance(line.source, MarkedText):
                pieces = [_pieces(line, chosen) for chosen in _ranked(line, of_line).values()]
                untagged[number] = UntaggedLine(line.source, joined[-1], pieces)
        tagged = put_tags_back(list(untagged.values()), self._engine, self._tokenizer)
        for number, translation in zip(untagged, tagged, strict=True):
            joined[number] = translation
        return joined

    def _with_wording(self, line: "_EncodedLine", wording: Wording) -> "_EncodedLine":
        parts = (wording, self._tokenizer)
        sentences = [
            with_wording(sentence, *parts, max_tokens=self._max_src_tokens)
            for sentence in line.sentences
        ]
        return replace(line, sentences=sentences)

    def _as_read(
        self, result: tuple[SearchResult, list[str]], sentence: EncodedSentence
    ) -> tuple[SearchResult, list[str]]:
        """Put placeholders back, and add what was unusual about a sentence and its translation."""
        found, texts = result
        missing = [
            f"{value!r} is missing"
            for value, sign in zip(sentence.values, SIGNS, strict=False)
            if texts[0].count(sign) < sentence.text.count(sign)
        ]
        note = "; ".join(filter(None, (sentence.note, found.note, *missing)))
        if self._tokenizer.has_placeholders:
            texts = [put_back(text, sentence.values) for text in texts]
        return replace(found, note=note), texts

    def _attention(
        self, line: "_EncodedLine", results: list[tuple[SearchResult, list[str]]]
    ) -> tuple[Attention, ...]:
        """Return the attention for each piece and its best translation."""
        model = self._engine.attention_model()
        chosen = (
            (s, found.hypotheses[0]) for s, (found, _) in zip(line.sentences, results, strict=True)
        )
        return tuple(
            attention_of(
                model,
                self._tokenizer,
                sentence.ids,
                best.ids + [EOS_ID] * (best.is_finished or not best.ids),
                values=sentence.values,
            )
            for sentence, best in chosen
        )

    def _encoded(
        self, lines: list[InputLine], *, by_sentence: bool, patterns: Sequence[Pattern]
    ) -> list["_EncodedLine"]:
        """Encode lines in pieces that the model can read; a blank line has none."""
        texts = [self._task.to_source(" ".join(text_of(line.source).split())) for line in lines]
        given = [self._task.to_target(line.prefix.rstrip()) for line in lines]
        split = [split_sentences(text) if by_sentence else [text] if text else [] for text in texts]
        signed = [
            [signed_source(part, self._tokenizer, patterns) for part in parts] for parts in split
        ]
        given = [
            parts[0].like(text, patterns) if parts else text
            for parts, text in zip(signed, given, strict=True)
        ]
        prefixes = self._tokenizer.encode_targets(given) if any(given) else [[] for _ in given]
        ids = iter(self._tokenizer.encode_batch([one.text for one in chain.from_iterable(signed)]))
        encoded = []
        for line, parts, prefix, text in zip(lines, signed, prefixes, given, strict=True):
            if self._max_positions is not None and len(prefix) >= self._max_positions:
                raise InputError(
                    f"line {line.number + 1:,}: a prefix of "
                    f"{counted(len(prefix), 'token')}, but the model "
                    f"has {self._max_positions:,} positions; shorten it"
                )
            pieces, rows, values = self._short_enough(line, parts, [next(ids) for _ in parts])
            found = [
                EncodedSentence(
                    [*self._tags.source, *row],
                    line.number + NEXT_PIECE * place,
                    [*self._tags.target, *([] if place else prefix)],
                    piece.text,
                    "" if place else _with_last_space(text, like=line.prefix),
                    values=of_piece,
                    rules=self._sign_rules(piece.text, "" if place else text),
                    tag=list(self._tags.target),
                )
                for place, (row, piece, of_piece) in enumerate(
                    zip(rows, pieces, values, strict=True)
                )
            ]
            encoded.append(_EncodedLine(line.source, pieces, found, len(pieces) > len(parts)))
        return encoded

    def _sign_rules(self, text: str, prefix: str) -> tuple[PhraseRule, ...]:
        return sign_rules(text, prefix) if self._tokenizer.has_placeholders else ()

    def _short_enough(
        self, line: InputLine, parts: list[SignedText], ids: list[list[int]]
    ) -> tuple[list[Piece], list[list[int]], list[tuple[str, ...]]]:
        """Cut those parts of a line that are too long into pieces, and encode them."""
        pieces: list[Piece] = []
        rows: list[list[int]] = []
        values: list[tuple[str, ...]] = []
        for part, row in zip(parts, ids, strict=True):
            if self._max_src_tokens is None or len(row) <= self._max_src_tokens:
                pieces.append(Piece(part.text))
                rows.append(row)
            elif self._task.max_src_tokens is None:
                raise InputError(
                    f"line {line.number + 1:,} has {counted(len(row), 'token')}, "
                    "but the model reads at "
                    f"most {self._max_src_tokens:,}, and the task {self._task.name} does not cut "
                    "lines: shorten it"
                )
            else:
                smaller, their_ids = self._cut(part.text)
                pieces += smaller
                rows += their_ids
            values += [part.values] * (len(pieces) - len(values))
        return pieces, rows, values

    def _cut(self, text: str) -> tuple[list[Piece], list[list[int]]]:
        """Cut a text into pieces that are short enough for the model, and encode them."""
        assert self._max_src_tokens is not None
        pieces = cut(text, max_tokens=self._max_src_tokens, count_tokens=self.count_tokens)
        ids = self._tokenizer.encode_batch([piece.text for piece in pieces])
        return pieces, [row[: self._max_src_tokens] for row in ids]


@dataclass(frozen=True)
class _EncodedLine:
    """A line in pieces, usually one; none if it is blank."""

    source: Line
    pieces: list[Piece]
    sentences: list[EncodedSentence]
    is_cut: bool  # because it was too long


def _joined(
    line: _EncodedLine, results: list[tuple[SearchResult, list[str]]], options: Options
) -> Translation:
    """Join the pieces of a line: the best of each, then the second best of each, and so on."""
    if not results:
        return Translation(str(line.source), "", 0.0, (Alternative("", 0.0),))
    alternatives = [
        Alternative(text, _joint_score([hypothesis for hypothesis, _ in chosen], options.alpha))
        for text, chosen in _ranked(line, results).items()
    ]
    return Translation(
        str(line.source),
        *alternatives[0],
        tuple(alternatives),
        _joint_note([found for found, _ in results], is_cut=line.is_cut),
        all(found.hypotheses[0].is_finished for found, _ in results),
    )


def _ranked(
    line: _EncodedLine, results: list[tuple[SearchResult, list[str]]]
) -> dict[str, list[tuple[Hypothesis, str]]]:
    """Return the best texts of a line, each with the hypothesis and the text of every piece.

    Different ids can spell the same text: the best counts.
    """
    found: dict[str, list[tuple[Hypothesis, str]]] = {}
    for rank in range(max((len(texts) for _, texts in results), default=1)):
        chosen = []
        for result, texts in results:
            place = min(rank, len(texts) - 1)
            chosen.append((result.hypotheses[place], texts[place]))
        found.setdefault(join(line.pieces, [text for _, text in chosen]), chosen)
    return found


def _pieces(line: _EncodedLine, chosen: list[tuple[Hypothesis, str]]) -> list[TranslatedPiece]:
    return [
        TranslatedPiece(
            put_back(sentence.text, sentence.values) if sentence.values else sentence.text,
            sentence.ids,
            text,
            hypothesis.ids,
            sentence.values,
        )
        for sentence, (hypothesis, text) in zip(line.sentences, chosen, strict=True)
    ]


def _with_last_space(text: str, *, like: str) -> str:
    """Add one space if a text had space at its end: then its last word is complete."""
    return f"{text} " if text and like[-1].isspace() else text


def _joint_score(hypotheses: list[Hypothesis], alpha: float) -> float:
    """Score several hypotheses as one: their log-probabilities and their lengths add up."""
    if len(hypotheses) == 1:
        return hypotheses[0].score
    total = sum(log_probability(hypothesis, alpha) for hypothesis in hypotheses)
    return total / penalty(sum(length(hypothesis) for hypothesis in hypotheses), alpha)


def _joint_note(found: list[SearchResult], *, is_cut: bool) -> str:
    if len(found) == 1:
        return found[0].note
    notes = [f"piece {number}: {piece.note}" for number, piece in enumerate(found, 1) if piece.note]
    return "; ".join([f"too long, translated in {len(found)} pieces"] * is_cut + notes)
