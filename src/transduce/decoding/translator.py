"""Text in, text out: the one door to a model for the command, the Python API and a server.

Lines are read in windows, so that input of any size takes bounded memory. Within a window sentences
of like length are translated together; a sentence gets the same translation alone and in any batch.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from transduce.decoding.answer import Answer
from transduce.decoding.attention import Attention, attention_of
from transduce.decoding.ctranslate2_engine import CTranslate2Engine
from transduce.decoding.device import Precision, choose_device, made_ready
from transduce.decoding.engine import Engine, Found, Sentence, length, log_probability, penalty
from transduce.decoding.ensemble import Ensemble
from transduce.decoding.lines import Line, numbered, windows
from transduce.decoding.memory import give_back_memory
from transduce.decoding.options import DEFAULT_OPTIONS, Alternative, Options, Translation
from transduce.decoding.sentences import Piece, cut, join
from transduce.decoding.torch_engine import TorchEngine
from transduce.errors import InputError
from transduce.export.ctranslate2 import is_exported, is_installed, refusal
from transduce.models.base import Searchable
from transduce.models.folder import TOKENIZER, load_model, load_settings
from transduce.text.sentences import sentences
from transduce.text.tokenizer import Tokenizer

Folder = str | PathLike[str]
EngineName = Literal["auto", "torch", "ctranslate2"]

MAX_TOKENS = 250
"""Of a piece: longer sentences are rare in training, and search in them seldom ends well."""
WINDOWS_UNTIL_TIDY = 16
LATER_PIECE = 2_654_435_769
"""Added for each piece of a line to the line's number, so that each is drawn for by itself."""


def load(
    path_or_paths: Folder | Sequence[Folder],
    device: str = "auto",
    *,
    precision: Precision = "float32",
    engine: EngineName | None = None,
) -> "Translator":
    """Load a model folder, or several with one vocabulary that translate as one.

    The engine is torch, or CTranslate2 for a folder that was exported to it; `auto` takes
    CTranslate2 on the CPU where it is installed and the model fits it.
    """
    given = [path_or_paths] if isinstance(path_or_paths, str | PathLike) else path_or_paths
    folders = [Path(folder) for folder in given]
    if not folders:
        raise InputError("no model: give at least one folder")
    chosen = choose_device(device)
    if _chosen_engine(engine, folders, chosen) == "ctranslate2":
        return _load_ctranslate2(folders, chosen, precision)
    loaded = [load_model(folder, device=chosen) for folder in folders]
    for folder in folders[1:]:
        _check_one_vocabulary(folders[0], folder)
    models = [made_ready(one.model, precision=precision) for one in loaded]
    return Translator(
        models[0] if len(models) == 1 else Ensemble(models),
        loaded[0].tokenizer,
        device=chosen,
        max_positions=min(one.config.model.max_positions for one in loaded),
        by_sentence=all(one.config.data.lines == "sentences" for one in loaded),
    )


def _chosen_engine(
    name: EngineName | None, folders: list[Path], device: torch.device
) -> EngineName:
    """Settle what is left open."""
    if name not in (None, *get_args(EngineName)):
        raise InputError(f"engine={name!r}: use one of {', '.join(get_args(EngineName))}")
    is_for_it = any(map(is_exported, folders))
    if name == "torch" and is_for_it:
        raise InputError("a model that was exported to CTranslate2 has no weights for torch")
    if name in (None, "auto") and is_for_it:
        return "ctranslate2"
    if name != "auto":
        return name or "torch"
    fits = len(folders) == 1 and device.type == "cpu" and is_installed()
    return "ctranslate2" if fits and not refusal(load_settings(folders[0]).model) else "torch"


def _load_ctranslate2(
    folders: list[Path], device: torch.device, precision: Precision
) -> "Translator":
    if len(folders) > 1:
        raise InputError("CTranslate2 translates with one model: use the engine torch for several")
    engine = CTranslate2Engine.load(folders[0], device=device, precision=precision)
    config = load_settings(folders[0])
    return Translator(
        engine,
        engine.tokenizer,
        device=device,
        max_positions=engine.max_positions,
        by_sentence=config.data.lines == "sentences",
    )


class Translator:
    """Translates with a model that is used as it is: `load` puts it in eval mode."""

    def __init__(
        self,
        model: Searchable[Any] | Engine,
        tokenizer: Tokenizer,
        *,
        max_positions: int,
        by_sentence: bool = False,
        device: torch.device | str = "cpu",
        autocast: torch.dtype | None = None,
    ) -> None:
        """Take a model, or an engine that has one.

        `by_sentence` says that it has learnt to translate one at a time.
        """
        if max_positions < 2:
            raise InputError(f"model.max_positions={max_positions}: no text fits with its end")
        self.device = torch.device(device)
        self._tokenizer = tokenizer
        if not isinstance(model, Engine):
            model = TorchEngine(self.device, max_positions, model, autocast)
        self._engine = model
        self._by_sentence = by_sentence
        self._max_positions = max_positions
        self._max_src_tokens = min(max_positions - 1, MAX_TOKENS)  # the end takes a position too

    def translate(
        self,
        texts: Sequence[str],
        options: Options = DEFAULT_OPTIONS,
        *,
        prefixes: Sequence[str] | None = None,
    ) -> list[Translation]:
        """Translate texts; `prefixes` are how their translations must begin."""
        return list(self.stream(texts, options, prefixes=prefixes))

    def stream(
        self,
        lines: Iterable[str],
        options: Options = DEFAULT_OPTIONS,
        *,
        prefixes: Iterable[str] | None = None,
        window: int | None = None,
    ) -> Iterator[Translation]:
        """Translate lines as they come, `window` of them at a time, and yield them in order."""
        if isinstance(lines, str) or isinstance(prefixes, str):
            raise InputError("one text where several are expected: put it into a list")
        if options.attention:
            self._engine.transformer()  # raises where there is none to look at
        if prefixes is not None and options.sampling is not None:
            raise InputError("a translation that is drawn by chance cannot be given its beginning")
        if window is not None and window < 1:
            raise InputError(f"a window of {window} lines: use 1 or more")
        most = window or (512 if self.device.type == "cpu" else 8192)
        return self._in_turn(windows(numbered(lines, prefixes), most=most), options)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text: what translating it takes grows with them."""
        return [len(ids) for ids in self._tokenizer.encode_batch(texts)]

    def _in_turn(self, read: Iterable[list[Line]], options: Options) -> Iterator[Translation]:
        for number, lines in enumerate(read, start=1):
            yield from self._translate(lines, options)
            if number % WINDOWS_UNTIL_TIDY == 0:
                give_back_memory()

    def _translate(self, lines: list[Line], options: Options) -> list[Translation]:
        encoded = self._encoded(lines, by_sentence=self._by_sentence and not options.whole_lines)
        found = self._engine.answer([s for line in encoded for s in line.sentences], options)
        every_id = (answer.ids for one in found for answer in one.answers)
        texts = iter(self._tokenizer.decode_batch(every_id))
        said = ((one, [next(texts) for _ in one.answers]) for one in found)
        joined = []
        for line in encoded:
            its = [next(said) for _ in line.sentences]
            shown = self._attention(line, its) if options.attention else ()
            joined.append(replace(_joined(line, its, options), attention=shown))
        return joined

    def _attention(
        self, line: "_Encoded", said: list[tuple[Found, list[str]]]
    ) -> tuple[Attention, ...]:
        """Look on while the model reads each piece with the answer that was chosen."""
        model = self._engine.transformer()
        return tuple(
            attention_of(model, self._tokenizer, sentence.ids, found.answers[0])
            for sentence, (found, _) in zip(line.sentences, said, strict=True)
        )

    def _encoded(self, lines: list[Line], *, by_sentence: bool) -> list["_Encoded"]:
        """Encode lines in pieces that the model can read. Blank ones have nothing to translate."""
        texts = [" ".join(line.source.split()) for line in lines]
        begins = [line.prefix.rstrip() for line in lines]
        prefixes = self._tokenizer.encode_targets(begins) if any(begins) else [[] for _ in begins]
        cut_up = [sentences(text) if by_sentence else [text] if text else [] for text in texts]
        ids = iter(self._tokenizer.encode_batch(list(chain.from_iterable(cut_up))))
        encoded = []
        for line, parts, prefix in zip(lines, cut_up, prefixes, strict=True):
            if len(prefix) >= self._max_positions:
                raise InputError(
                    f"line {line.number + 1:,}: a prefix of {len(prefix):,} tokens, but the model "
                    f"has {self._max_positions:,} positions"
                )
            pieces, rows = self._short_enough(parts, [next(ids) for _ in parts])
            found = [
                Sentence(row, line.number + LATER_PIECE * place, [] if place else prefix)
                for place, row in enumerate(rows)
            ]
            encoded.append(_Encoded(line.source, pieces, found, is_cut=len(pieces) > len(parts)))
        return encoded

    def _short_enough(
        self, parts: list[str], ids: list[list[int]]
    ) -> tuple[list[Piece], list[list[int]]]:
        """Cut the parts of a line that are too long into smaller pieces, and encode those."""
        pieces, rows = [], []
        for part, row in zip(parts, ids, strict=True):
            if len(row) <= self._max_src_tokens:
                pieces.append(Piece(part))
                rows.append(row)
            else:
                smaller, their_ids = self._cut(part)
                pieces += smaller
                rows += their_ids
        return pieces, rows

    def _cut(self, text: str) -> tuple[list[Piece], list[list[int]]]:
        """Cut a text into pieces that the model can read, and encode them."""
        pieces = cut(text, max_tokens=self._max_src_tokens, count_tokens=self.count_tokens)
        ids = self._tokenizer.encode_batch([piece.text for piece in pieces])
        return pieces, [row[: self._max_src_tokens] for row in ids]


@dataclass(frozen=True)
class _Encoded:
    """A line in pieces, mostly one; none if it is blank."""

    source: str
    pieces: list[Piece]
    sentences: list[Sentence]
    is_cut: bool  # where it was too long


def _check_one_vocabulary(one: Path, other: Path) -> None:
    entries = [
        json.loads((folder / TOKENIZER).read_text(encoding="utf-8")) for folder in (one, other)
    ]
    if entries[0] != entries[1]:
        raise InputError(
            f"{other / TOKENIZER} differs from {one / TOKENIZER}: models translate together only "
            "if they share one vocabulary"
        )


def _joined(line: _Encoded, said: list[tuple[Found, list[str]]], options: Options) -> Translation:
    """Put a line's pieces together: the best of each, the second best of each and so on."""
    if not said:
        return Translation(line.source, "", 0.0, (Alternative("", 0.0),))
    alternatives: dict[str, Alternative] = {}  # the same text may be written in other pieces
    for rank in range(max(len(texts) for _, texts in said)):
        chosen = [(found.answers, texts, min(rank, len(texts) - 1)) for found, texts in said]
        text = join(line.pieces, [texts[place] for _, texts, place in chosen])
        score = _joint_score([answers[place] for answers, _, place in chosen], options.alpha)
        alternatives.setdefault(text, Alternative(text, score))
    best, *_ = alternatives.values()
    return Translation(
        line.source,
        *best,
        tuple(alternatives.values()),
        _joint_note([found for found, _ in said], is_cut=line.is_cut),
        all(found.answers[0].is_finished for found, _ in said),
    )


def _joint_score(answers: list[Answer], alpha: float) -> float:
    """Score several answers as one: their log-probabilities and their lengths add up."""
    if len(answers) == 1:
        return answers[0].score
    total = sum(log_probability(answer, alpha) for answer in answers)
    return total / penalty(sum(length(answer) for answer in answers), alpha)


def _joint_note(found: list[Found], *, is_cut: bool) -> str:
    if len(found) == 1:
        return found[0].note
    notes = [f"piece {number}: {piece.note}" for number, piece in enumerate(found, 1) if piece.note]
    return "; ".join([f"too long, translated in {len(found)} pieces"] * is_cut + notes)
