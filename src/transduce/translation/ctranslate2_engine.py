"""The engine that searches with CTranslate2, with the scores and the order of our own search.

CTranslate2's beam search keeps and finishes hypotheses as ours does, but stops differently. Without
a length penalty it stops when the best hypothesis has ended, as ours does. With one it stops when
`beam` hypotheses have ended; ours continues until no other can overtake. Its length penalty is
length^α. So we ask for all hypotheses it found, undo its penalty, and sort by ours.
"""

import math
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from transduce.errors import InputError
from transduce.export.ctranslate2 import (
    Entries,
    is_exported,
    library,
    refusal,
    write_ctranslate2,
)
from transduce.export.ctranslate2_check import check_exported
from transduce.export.vocabulary_map import MAP, write_vocabulary_map
from transduce.models.base import Seq2Seq
from transduce.models.folder import (
    load_model,
    load_settings,
    load_tokenizer,
    read_model,
    warn_if_edited,
)
from transduce.models.model_files import ModelFiles
from transduce.models.shortlist import load_shortlist
from transduce.search.hypothesis import Hypothesis
from transduce.tasks.base import Task
from transduce.text.markup.aligned import Weights
from transduce.text.special_ids import EOS_ID
from transduce.text.tokenizer import Tokenizer
from transduce.translation.alignment.forced_attention import TokenPair
from transduce.translation.batches import batches_by_length
from transduce.translation.engine import EncodedSentence, Engine, length, penalty
from transduce.translation.inference import prepare_for_inference
from transduce.translation.options import Options
from transduce.translation.prefix_spelling import PrefixSpelling
from transduce.translation.torch_engine import TorchEngine
from transduce.translation.wording.bounds import PhraseBounds

COMPUTE_TYPES = {"float32": "float32", "bf16": "bfloat16", "int8": "int8"}
"""CTranslate2's names of our precisions."""

BATCH_TOKENS = 32_768
"""Positions of all hypotheses in a batch, by default."""

LOGITS_TOKENS = 1_024
"""Positions in a batch of which the logits are returned, each of the size of the vocabulary."""

MISSING = -1e9
"""A hypothesis with a log-probability below this does not exist: it fills an empty beam."""


@dataclass(frozen=True)
class CTranslate2Engine(Engine):
    """Searches with one model in CTranslate2's format."""

    name: ClassVar[str] = "ctranslate2"
    folder: Path  # a model folder, or one exported to CTranslate2
    files: ModelFiles | None  # that were converted; None: the folder was exported
    tokenizer: Tokenizer
    translator: Any = field(repr=False)
    falls_back: bool = False  # what it cannot express is searched for with torch
    has_shortlist: bool = False  # whether it searches among the candidates of a batch alone

    @classmethod
    def load(
        cls,
        folder: Path,
        *,
        device: torch.device,
        precision: str,
        task: Task,
        falls_back: bool = False,
        shortlist: bool = False,
    ) -> Self:
        """Load an exported folder, or convert a model folder to a temporary one and load that."""
        if device.type not in ("cpu", "cuda"):
            raise InputError(f"CTranslate2 computes on cpu or cuda, not on {device.type}")
        if precision not in COMPUTE_TYPES:
            raise InputError(f"precision={precision!r}: use one of {', '.join(COMPUTE_TYPES)}")
        files: ModelFiles | None = None
        has_torch_weights = not is_exported(folder)
        library("use the engine torch" if has_torch_weights else "use the model it was made from")
        with ExitStack() as stack:
            if not has_torch_weights:
                config = load_settings(folder)
                tokenizer = load_tokenizer(folder, config)
                warn_if_edited(folder)
                check_exported(folder, config.model, tokenizer)
                if shortlist and not (folder / MAP).exists():
                    raise InputError(
                        f"{folder} was exported without a shortlist: make one with 'transduce "
                        "shortlist' and export the model with --shortlist"
                    )
                converted, compute_type = folder, "default"
                if precision != "float32":
                    compute_type = COMPUTE_TYPES[precision]
            else:
                reason = refusal(load_settings(folder).model)
                if reason is not None:
                    raise InputError(f"{folder}: {reason}; use the engine torch")
                loaded = load_model(folder)
                config, tokenizer = loaded.config, loaded.tokenizer
                files = loaded.files  # a run may have better weights later
                converted = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                compute_type = COMPUTE_TYPES[precision]
                write_ctranslate2(loaded, converted)
                if shortlist:
                    lists = load_shortlist(folder, tokenizer)
                    write_vocabulary_map(converted, lists, tokenizer)
                del loaded
            translator = _opened(converted, device, compute_type)
        return cls(
            device,
            config.model.max_length,
            task,
            folder,
            files,
            tokenizer,
            translator,
            falls_back=falls_back and files is not None,
            has_shortlist=shortlist,
        )

    def attention_model(self) -> Seq2Seq:
        """Load the model a second time, with torch: CTranslate2 does not return single heads."""
        return self._torch_model

    @cached_property
    def _torch_model(self) -> Seq2Seq:
        if self.files is None:
            raise InputError(
                f"{self.folder} was exported to CTranslate2, which cannot show attention: use the "
                "model folder that was exported"
            )
        return read_model(self.files, device=self.device).model

    @cached_property
    def _entries(self) -> Entries:
        return Entries.of(self.tokenizer)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self._entries.target)}

    def search(
        self, sentences: Sequence[EncodedSentence], options: Options
    ) -> list[list[Hypothesis]]:
        """Search in batches of similar length; return the hypotheses in the given order.

        Sentences with rules are left to torch; those with rules that the model has learnt, if their
        free translation does not obey and torch is there.
        """
        bound = [n for n, one in enumerate(sentences) if not all(r.is_learnt for r in one.rules)]
        if bound:
            return self._search_without(bound, sentences, options)
        results = self._search_freely(sentences, options)
        if not self.falls_back:
            return results
        both = zip(sentences, results, strict=True)
        obeyed = [self._phrase_bounds.are_obeyed(one.rules, found) for one, found in both]
        again = [place for place, is_obeyed in enumerate(obeyed) if not is_obeyed]
        if again:
            mended = self._torch_engine.search([sentences[place] for place in again], options)
            for place, found in zip(again, mended, strict=True):
                results[place] = found
        return results

    def _search_freely(
        self, sentences: Sequence[EncodedSentence], options: Options
    ) -> list[list[Hypothesis]]:
        if options.sampling is not None:
            raise InputError("CTranslate2 does not sample as we do: use the engine torch")
        texts = [sentence.text for sentence in sentences]
        limits = [self.max_tgt_tokens(sentence) for sentence in sentences]
        constraint = self.task.constraint(
            texts,
            self.tokenizer,
            max_tokens=limits,
            hypotheses=options.beam,
            device=self.device,
        )
        if constraint is not None:
            raise InputError(
                f"the task {self.task.name} constrains its output, which CTranslate2 cannot do: "
                "use the engine torch"
            )
        spelt = [[sentence] for sentence in sentences]
        if any(sentence.prefix_text for sentence in sentences):
            # It takes prefixes as tokens: a word that may be unfinished is spelt in several ways.
            spelt = self._prefix_spelling.spelt(
                sentences, options.beam, self._next_log_probs, max_tokens=limits
            )
        variants = [variant for one in spelt for variant in one]
        results: list[list[Hypothesis]] = [[] for _ in variants]
        # Batches with prefixes, and those with the shortlist, are searched in another way.
        kinds = [(bool(variant.prefix), self._is_narrowed(variant)) for variant in variants]
        for kind in sorted(set(kinds)):
            places = [place for place, its in enumerate(kinds) if its == kind]
            self._search_some(places, variants, options, results)
        found = iter(results)
        return [
            _ranked(hypothesis for _ in one for hypothesis in next(found))[: options.n_best]
            for one in spelt
        ]

    def _is_narrowed(self, sentence: EncodedSentence) -> bool:
        """Return whether a sentence is searched with the shortlist.

        The score of a prefix is that of the whole vocabulary.
        """
        return self.has_shortlist and sentence.may_be_narrowed and not sentence.prefix

    def _search_without(
        self, bound: list[int], sentences: Sequence[EncodedSentence], options: Options
    ) -> list[list[Hypothesis]]:
        """Search with torch for the sentences whose output is constrained."""
        if not self.falls_back:
            raise InputError(
                "terms, placeholders and forbidden words constrain the search, which CTranslate2 "
                "cannot do: use the engine torch, or auto with a model folder"
            )
        found = iter(self._torch_engine.search([sentences[place] for place in bound], options))
        with_rules = set(bound)
        others = [s for place, s in enumerate(sentences) if place not in with_rules]
        free = iter(self.search(others, options) if others else ())
        return [next(found if place in with_rules else free) for place in range(len(sentences))]

    @cached_property
    def _torch_engine(self) -> TorchEngine:
        model = prepare_for_inference(self._torch_model, precision="float32")
        return TorchEngine(self.device, self.max_length, self.task, model, self.tokenizer)

    @cached_property
    def _phrase_bounds(self) -> PhraseBounds:
        return PhraseBounds(self.tokenizer)

    @cached_property
    def _prefix_spelling(self) -> PrefixSpelling:
        return PrefixSpelling(self.tokenizer)

    def _next_log_probs(self, sentences: Sequence[EncodedSentence]) -> list[Tensor]:
        """Return the log-probabilities, [V], of what follows the prefix of each sentence."""
        results = [torch.empty(0)] * len(sentences)
        for places in batches_by_length(
            [max(len(s.ids), len(s.prefix)) + 1 for s in sentences],
            max_tokens=LOGITS_TOKENS,
            cost=lambda tokens: tokens,
        ):
            batch = [sentences[place] for place in places]
            found = self.translator.translate_batch(
                [self._named_source([*sentence.ids, EOS_ID]) for sentence in batch],
                target_prefix=[self._named(sentence.prefix) for sentence in batch],
                beam_size=1,
                min_decoding_length=0,
                max_decoding_length=max(len(sentence.prefix) for sentence in batch) + 1,
                max_input_length=0,
                return_logits_vocab=True,
            )
            for place, result in zip(places, found, strict=True):
                [steps] = result.logits
                results[place] = _as_tensor(steps[len(sentences[place].prefix)]).log_softmax(-1)
        return results

    def _search_some(
        self,
        some: list[int],
        sentences: Sequence[EncodedSentence],
        options: Options,
        results: list[list[Hypothesis]],
    ) -> None:
        """Search for the sentences at some indices, and write their hypotheses to `results`."""
        budget = (options.max_batch_tokens or BATCH_TOKENS) // options.beam
        longest = [max(len(sentences[i].ids), len(sentences[i].prefix)) + 1 for i in some]
        again: dict[int, list[int]] = {}
        for batch in batches_by_length(
            longest,
            max_tokens=budget,
            cost=lambda tokens: tokens + self.task.max_tgt_tokens(tokens),
        ):
            places = [some[place] for place in batch]
            limit = max(self.max_tgt_tokens(sentences[place]) for place in places)
            found = self._search([sentences[place] for place in places], options, limit)
            for place, hypotheses in zip(places, found, strict=True):
                results[place] = hypotheses
                own = self.max_tgt_tokens(sentences[place])
                if any(length(hypothesis) > own for hypothesis in hypotheses):
                    again.setdefault(own, []).append(place)
        # A batch has one limit. Sentences that exceeded their own are searched again with it.
        for own, places in again.items():
            found = self._search([sentences[place] for place in places], options, own)
            for place, hypotheses in zip(places, found, strict=True):
                results[place] = hypotheses

    def _search(
        self, batch: list[EncodedSentence], options: Options, max_tokens: int
    ) -> list[list[Hypothesis]]:
        sources = [self._named_source([*sentence.ids, EOS_ID]) for sentence in batch]
        prefixes = [self._named(sentence.prefix) for sentence in batch]
        # Without a penalty it stops when the best has ended: too early for several hypotheses.
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
            use_vmap=self._is_narrowed(batch[0]),  # as all of the batch are
        )
        scores = self._prefix_scores(sources, prefixes) if any(prefixes) else [0.0] * len(batch)
        return [
            self._hypotheses(result, options, exponent=exponent, prefix_score=prefix_score)
            for result, prefix_score in zip(found, scores, strict=True)
        ]

    def _hypotheses(
        self, result: Any, options: Options, *, exponent: float, prefix_score: float
    ) -> list[Hypothesis]:
        """Undo its length penalty and apply ours; finished ones come first, as in our search."""
        hypotheses = []
        for names, score in zip(result.hypotheses, result.scores, strict=True):
            log_probability = score * len(names) ** exponent
            if not log_probability > MISSING:
                continue
            ids = [self._ids[name] for name in names]
            is_finished = ids[-1:] == [EOS_ID]
            ours = (log_probability + prefix_score) / penalty(len(ids), options.alpha)
            hypotheses.append(Hypothesis(ids[:-1] if is_finished else ids, ours, is_finished))
        best = _ranked(hypotheses)[: options.n_best]
        return best or [Hypothesis([], -math.inf, is_finished=False)]

    def cross_attention(self, pairs: Sequence[TokenPair]) -> list[Weights] | None:
        """Have it write the translations once more: it returns the attention of one layer."""
        found: list[Weights] = [np.zeros((1, 0, len(src) + 1)) for src, _ in pairs]
        some = [place for place, (_, tgt) in enumerate(pairs) if tgt]
        lengths = [max(map(len, pairs[place])) + 1 for place in some]
        for batch in batches_by_length(lengths, max_tokens=BATCH_TOKENS, cost=lambda n: 2 * n):
            places = [some[index] for index in batch]
            results = self.translator.translate_batch(
                [self._named_source([*pairs[place][0], EOS_ID]) for place in places],
                target_prefix=[self._named(list(pairs[place][1])) for place in places],
                beam_size=1,
                min_decoding_length=0,
                max_decoding_length=max(len(pairs[place][1]) for place in places),
                max_input_length=0,
                return_attention=True,
            )
            for place, result in zip(places, results, strict=True):
                steps = result.attention[0][: len(pairs[place][1])]
                found[place] = np.array(steps)[None]  # [1, T, S]
        return found

    def _prefix_scores(self, sources: list[list[str]], prefixes: list[list[str]]) -> list[float]:
        """Return the log-probabilities of prefixes, which its search counts as 0."""
        scored = self.translator.score_batch(sources, prefixes, max_input_length=0)
        return [sum(s.log_probs[: len(names)]) for s, names in zip(scored, prefixes, strict=True)]

    def _named_source(self, ids: list[int]) -> list[str]:
        return [self._entries.source[number] for number in ids]

    def _named(self, ids: list[int]) -> list[str]:
        return [self._entries.target[number] for number in ids]


def _ranked(hypotheses: Iterable[Hypothesis]) -> list[Hypothesis]:
    """Sort the best first, and finished ones before all others."""
    return sorted(hypotheses, key=lambda one: (not one.is_finished, -one.score))


def _as_tensor(storage: Any) -> Tensor:
    """Copy a storage of CTranslate2, on any device and of any type."""
    types = library()
    on_cpu = storage.to(types.DataType.float32).to_device(types.Device.cpu)
    return torch.from_numpy(np.array(on_cpu))


def _opened(folder: Path, device: torch.device, compute_type: str) -> Any:
    try:
        return library().Translator(
            str(folder),
            device=device.type,
            device_index=device.index or 0,
            compute_type=compute_type,
            intra_threads=torch.get_num_threads(),
        )
    except (RuntimeError, ValueError, LookupError, MemoryError) as fault:
        raise InputError(f"CTranslate2 cannot load {folder}: {fault}") from fault
