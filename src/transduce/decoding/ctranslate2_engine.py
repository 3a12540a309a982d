"""Searches with CTranslate2, and gives its results the meaning that torch's have.

Its beam search keeps and finishes hypotheses as ours does, but ends otherwise: without a length
penalty when the best hypothesis has ended, as ours does; with one when as many have ended as the
beam is wide, where ours goes on until no other can overtake. Its length penalty is length^α. So all
that it found is asked for, its penalty undone, and the order is by ours.
"""

import math
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import torch

from transduce.decoding.answer import EXTRA_TOKENS, Answer
from transduce.decoding.engine import Engine, Sentence, batched, penalty
from transduce.decoding.options import Options
from transduce.errors import InputError
from transduce.export.ctranslate2 import (
    check_vocabulary,
    entries_of,
    is_exported,
    library,
    write_ctranslate2,
)
from transduce.models.folder import load_model, load_settings, load_tokenizer
from transduce.models.transformer import Transformer
from transduce.text.special_ids import EOS_ID
from transduce.text.tokenizer import Tokenizer

COMPUTE_TYPES = {"float32": "float32", "bf16": "bfloat16", "int8": "int8"}
"""What our names of precisions are called there."""

BATCH_TOKENS = 32_768
"""Positions of hypotheses in a batch where nobody says."""

NOT_THERE = -1e9
"""Hypotheses below this do not exist: at first there is only one."""


@dataclass(frozen=True)
class CTranslate2Engine(Engine):
    """Searches with one model in CTranslate2's format."""

    folder: Path  # of the model, ours or one that was exported
    tokenizer: Tokenizer
    translator: Any = field(repr=False)

    @classmethod
    def load(cls, folder: Path, *, device: torch.device, precision: str) -> Self:
        """Load an exported folder as it is; convert a model folder first, in a temporary one."""
        if device.type not in ("cpu", "cuda"):
            raise InputError(f"CTranslate2 computes on cpu or cuda, not on {device.type}")
        if precision not in COMPUTE_TYPES:
            raise InputError(f"precision={precision!r}: use one of {', '.join(COMPUTE_TYPES)}")
        with ExitStack() as stack:
            if is_exported(folder):
                config = load_settings(folder)
                tokenizer = load_tokenizer(folder, config)
                converted, compute_type = folder, "default"
                if precision != "float32":
                    compute_type = COMPUTE_TYPES[precision]
            else:
                loaded = load_model(folder)
                config, tokenizer = loaded.config, loaded.tokenizer
                converted = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                compute_type = COMPUTE_TYPES[precision]
                write_ctranslate2(loaded, converted)
                del loaded
            check_vocabulary(converted, tokenizer)
            translator = _opened(converted, device, compute_type)
        return cls(device, config.model.max_positions, folder, tokenizer, translator)

    def transformer(self) -> Transformer:
        """Load the model a second time, for torch: CTranslate2 shows no single heads."""
        return self._transformer

    @cached_property
    def _transformer(self) -> Transformer:
        if is_exported(self.folder):
            raise InputError(
                f"{self.folder} was exported to CTranslate2, which does not show its attention: "
                "use the model folder that it was made from"
            )
        return load_model(self.folder, device=self.device).model

    @cached_property
    def _names(self) -> list[str]:
        return entries_of(self.tokenizer)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self._names)}

    def search(self, sentences: Sequence[Sentence], options: Options) -> list[list[Answer]]:
        """Search in batches of like length; return the answers in the given order."""
        if options.sampling is not None:
            raise InputError("draws by chance are torch's: use the engine torch")
        results: list[list[Answer]] = [[] for _ in sentences]
        # Those with a given beginning apart: for them a search goes another way.
        with_prefix = [place for place, sentence in enumerate(sentences) if sentence.prefix]
        others = [place for place, sentence in enumerate(sentences) if not sentence.prefix]
        for places in (others, with_prefix):
            self._search_some(places, sentences, options, results)
        return results

    def _search_some(
        self,
        some: list[int],
        sentences: Sequence[Sentence],
        options: Options,
        results: list[list[Answer]],
    ) -> None:
        """Search for some sentences, and write the answers to their places."""
        budget = (options.max_batch_tokens or BATCH_TOKENS) // options.beam
        longest = [max(len(sentences[i].ids), len(sentences[i].prefix)) + 1 for i in some]
        again: dict[int, list[int]] = {}
        for batch in batched(longest, max_tokens=budget):
            places = [some[place] for place in batch]
            limit = max(self._limit(sentences[place]) for place in places)
            found = self._search([sentences[place] for place in places], options, limit)
            for place, answers in zip(places, found, strict=True):
                results[place] = answers
                own = self._limit(sentences[place])
                if any(len(answer.ids) + answer.is_finished > own for answer in answers):
                    again.setdefault(own, []).append(place)
        # A batch has one limit: what went beyond its own is searched for with that.
        for own, places in again.items():
            found = self._search([sentences[place] for place in places], options, own)
            for place, answers in zip(places, found, strict=True):
                results[place] = answers

    def _limit(self, sentence: Sentence) -> int:
        """Allow as many tokens as the source or the given beginning has, and 50 more (§6.1)."""
        longer = max(len(sentence.ids) + 1, len(sentence.prefix))
        return min(longer + EXTRA_TOKENS, self.max_positions)

    def _search(
        self, batch: list[Sentence], options: Options, max_tokens: int
    ) -> list[list[Answer]]:
        sources = [self._named([*sentence.ids, EOS_ID]) for sentence in batch]
        prefixes = [self._named(sentence.prefix) for sentence in batch]
        # Without a penalty it ends when the best has ended: too early where more are asked for.
        exponent = options.alpha if options.n_best == 1 else options.alpha or 1.0
        found = self.translator.translate_batch(
            sources,
            target_prefix=prefixes if any(prefixes) else None,
            beam_size=options.beam,
            num_hypotheses=options.beam if exponent else 1,
            length_penalty=exponent,
            min_decoding_length=0,
            max_decoding_length=max_tokens,
            max_input_length=0,
            return_scores=True,
            return_end_token=True,
        )
        given = self._log_probabilities(sources, prefixes) if any(prefixes) else [0.0] * len(batch)
        return [
            self._answers(result, options, exponent=exponent, given=more)
            for result, more in zip(found, given, strict=True)
        ]

    def _answers(
        self, result: Any, options: Options, *, exponent: float, given: float
    ) -> list[Answer]:
        """Undo its length penalty and apply ours; finished ones first, as in our search."""
        answers = []
        for names, score in zip(result.hypotheses, result.scores, strict=True):
            log_probability = score * len(names) ** exponent
            if not log_probability > NOT_THERE:
                continue
            ids = [self._ids[name] for name in names]
            is_finished = ids[-1:] == [EOS_ID]
            ours = (log_probability + given) / penalty(len(ids), options.alpha)
            answers.append(Answer(ids[:-1] if is_finished else ids, ours, is_finished))
        answers.sort(key=lambda answer: (not answer.is_finished, -answer.score))
        return answers[: options.n_best] or [Answer([], -math.inf, is_finished=False)]

    def _log_probabilities(self, sources: list[list[str]], given: list[list[str]]) -> list[float]:
        """Score given beginnings, which its search takes for certain."""
        scored = self.translator.score_batch(sources, given, max_input_length=0)
        return [sum(one.log_probs[: len(names)]) for one, names in zip(scored, given, strict=True)]

    def _named(self, ids: list[int]) -> list[str]:
        return [self._names[number] for number in ids]


def _opened(folder: Path, device: torch.device, compute_type: str) -> Any:
    try:
        return library().Translator(
            str(folder),
            device=device.type,
            device_index=device.index or 0,
            compute_type=compute_type,
            intra_threads=torch.get_num_threads(),
        )
    except (RuntimeError, ValueError) as fault:
        raise InputError(f"CTranslate2 cannot load {folder}: {fault}") from fault
