"""Text in, text out: the command, the Python API and the server all translate with this.

Lines are read in windows, so input of any size takes bounded memory. Within a window, sentences of
similar length are translated together; a sentence gets the same translation alone and in any batch,
unless two candidates have the same score but for rounding.
"""

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

import torch

from transduce.errors import InputError
from transduce.files.read_ahead import read_ahead as in_a_thread
from transduce.hardware.allocator import release_freed_memory
from transduce.models.base import Searchable
from transduce.models.shortlist import Shortlist
from transduce.search.speculative.drafter import Drafter
from transduce.tasks.base import Task
from transduce.tasks.translation import TranslationTask
from transduce.text.markup.document import MarkupFormat, read_markup
from transduce.text.markup.marked import Line
from transduce.text.scripts import main_script, name_of_script
from transduce.text.spelling import scripts_of_vocabulary
from transduce.text.tokenizer import Tokenizer
from transduce.translation.engine import Engine, SearchResult
from transduce.translation.languages import NO_TAGS, tags_of
from transduce.translation.lines import InputLine, count_in_whole_windows, numbered, windows
from transduce.translation.markup.documents import translated_document
from transduce.translation.memory.read import MemoryInput, MemoryUse, as_memory
from transduce.translation.memory.use import Beginnings, translate_with_memory
from transduce.translation.options import Options, Translation
from transduce.translation.sentences.encode import EncodedLine, LineEncoder
from transduce.translation.sentences.read import ResultReader
from transduce.translation.torch_engine import TorchEngine
from transduce.translation.wording.read import GlossaryInput, as_glossary
from transduce.translation.wording.sentences import check_can_hint

WINDOWS_UNTIL_RELEASE = 16
"""Windows after which freed memory is returned to the system."""

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
        self._tokenizer = tokenizer
        self._task = task or TranslationTask()
        if not isinstance(model, Engine):
            parts = (model, tokenizer, autocast, drafter, shortlist)
            model = TorchEngine(self.device, max_positions, self._task, *parts)
        self._engine = model
        self._beam = beam or self._task.beam
        self._by_sentence = by_sentence and self._task.splits_lines
        taken = 1 + bool(tokenizer.languages and tag_on == "source")  # by EOS, and by a tag
        limits = [self._task.max_src_tokens, max_positions and max_positions - taken]
        max_src_tokens = min((n for n in limits if n is not None), default=None)
        self._encoder = LineEncoder(tokenizer, self._task, NO_TAGS, max_positions, max_src_tokens)

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

    @property
    def gains_by_reading_ahead(self) -> bool:
        """Whether text that is there already is better read ahead: a CUDA device would wait."""
        return self.device.type == "cuda"

    def into(self, language: str | None) -> "Translator":
        """Return a translator into one of the model's languages; None: into the only one.

        It has the same model, so that many of them take no more memory.
        """
        wanted = language or self.to
        tags = tags_of(self._tokenizer, self._tag_on, wanted)
        if wanted == self.to:
            return self
        bound = copy(self)
        bound.to, bound._encoder = wanted, replace(self._encoder, tags=tags)
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
                soft=soft,
                format=format,
            )
        stream = partial(
            self.stream,
            options=options,
            glossary=glossary,
            memory=memory,
            soft=soft,
            read_ahead=self.gains_by_reading_ahead,
        )
        if format == "text":
            return list(stream(texts, prefixes=prefixes))
        if prefixes is not None:
            raise InputError(f"prefixes are for texts, not for documents in {format}")
        if isinstance(texts, str):
            raise InputError("got one text instead of several: put it into a list")
        documents = [read_markup(str(text), format) for text in texts]
        found = stream(chain.from_iterable(document.lines for document in documents))
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
        read_ahead: bool = False,
    ) -> Iterator[Translation]:
        """Translate lines as they arrive, in bounded memory, and yield the results in order.

        `window` lines are read before they are translated together; by default 512 on the CPU and
        8,192 on a GPU. The first `start` lines are skipped, but counted; where `start` is the end
        of a window, the others get the same translations, bit for bit, as without it.

        `first_number` is the number of the first line, from 0, if the lines are a part of a text:
        samples and messages follow it.

        read_ahead: encode the next windows, and search in one, while a window's results are read
            and used, each in a thread of its own. That keeps a GPU busy; but results come later,
            so it is not for lines that wait for an answer.

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
        cut = windows(rest, most=most)
        if options.memory is not None:
            return _in_turn(self._with_memory(cut, options))
        return _in_turn(self._found(cut, options, read_ahead=read_ahead))

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
        return self._encoder.count_tokens(texts)

    def unknown_script(self, text: str) -> str | None:
        """Return the script of a text if the model was hardly trained on any text in it."""
        script = main_script(text)
        if script is None or not self._known_scripts or script in self._known_scripts:
            return None
        return name_of_script(script)

    @cached_property
    def _known_scripts(self) -> frozenset[str]:
        return scripts_of_vocabulary(self._tokenizer)

    def _with_memory(
        self, cut: Iterable[list[InputLine]], options: Options
    ) -> Iterator[list[Translation]]:
        encoder = self._encoder
        parts = (self._engine, self._tokenizer, encoder.tags, encoder.max_positions)
        beginnings = Beginnings(*parts)
        for lines in cut:
            yield translate_with_memory(lines, options, self._translate, beginnings=beginnings)

    def _translate(self, lines: list[InputLine], options: Options) -> list[Translation]:
        return next(self._found([lines], options))

    def _found(
        self, cut: Iterable[list[InputLine]], options: Options, *, read_ahead: bool = False
    ) -> Iterator[list[Translation]]:
        """Translate window by window, with two threads if reading ahead."""
        by_sentence = self._by_sentence and not options.whole_lines
        reader = ResultReader(self._engine, self._tokenizer, self._task)
        encoded: Iterator[list[EncodedLine]] = (
            self._encoder.encode(lines, options.wording, by_sentence=by_sentence) for lines in cut
        )
        encoded = in_a_thread(encoded) if read_ahead else encoded
        searched: Iterator[tuple[list[EncodedLine], list[SearchResult]]] = (
            (lines, self._search(lines, options)) for lines in encoded
        )
        searched = in_a_thread(searched) if read_ahead else searched
        for lines, results in searched:
            yield reader.read(lines, results, options)

    def _search(self, encoded: list[EncodedLine], options: Options) -> list[SearchResult]:
        """Return what is found for all sentences of some lines, in order."""
        sentences = [sentence for line in encoded for sentence in line.sentences]
        return self._engine.search_with_retry(sentences, options)


def _in_turn(found: Iterable[list[Translation]]) -> Iterator[Translation]:
    """Stream the translations of windows, and return freed memory to the system now and then."""
    for number, translations in enumerate(found, start=1):
        yield from translations
        if number % WINDOWS_UNTIL_RELEASE == 0:
            release_freed_memory()
