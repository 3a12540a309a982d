"""The engine that searches with torch, on any device."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from transduce.errors import InputError, counted
from transduce.hardware.devices import on_device
from transduce.models.base import Searchable, Seq2Seq
from transduce.models.shortlist import Shortlist
from transduce.search.beam import Beam, beam_search
from transduce.search.constraint import AllOf, Constraint, PrefixConstraint, TextConstraint
from transduce.search.ensemble import Ensemble
from transduce.search.hypothesis import Hypothesis
from transduce.search.narrowed import NarrowedModel
from transduce.search.recorded import RecordedBeamSearch
from transduce.search.sample import sample
from transduce.search.speculative.decoding import speculative_search
from transduce.search.speculative.drafter import Drafter
from transduce.text.markup.aligned import Weights
from transduce.text.open_prefix import OpenPrefix, TokenTexts
from transduce.text.special_ids import EOS_ID, PAD_ID
from transduce.text.tokenizer import Tokenizer
from transduce.translation.alignment.forced_attention import (
    TokenPair,
    forced_attention,
)
from transduce.translation.batches import batches_by_length
from transduce.translation.engine import EncodedSentence, Engine, length, penalty
from transduce.translation.inference import threads_for
from transduce.translation.options import Options
from transduce.translation.wording.bounds import PhraseBounds

BYTES_FOR_POSITION = 2**17
"""Memory of a CUDA device for one position: the cache of a big model takes 48 KiB of it."""
MORE_THAN_FREE, SPARE_TOKENS = 1.25, 4
"""How much longer than its free translation one with all terms may be, beside the terms."""
CPU_BATCH_TOKENS = 32_768
"""Positions of hypotheses in a batch on the CPU."""


class BeamSearch(Protocol):
    """Beam search with one model, step by step or by recorded steps."""

    def __call__(
        self, src: Tensor, beam: Beam, *, max_tokens: Tensor, constraint: Constraint | None
    ) -> list[list[Hypothesis]]:
        """Return the best hypotheses for each sentence of [B, S]."""
        ...


@dataclass(frozen=True)
class TorchEngine(Engine):
    """Searches with one model, or an ensemble, on one device."""

    name: ClassVar[str] = "torch"
    model: Searchable[Any]
    tokenizer: Tokenizer
    autocast: torch.dtype | None = None
    drafter: Drafter | None = None
    shortlist: Shortlist | None = None

    @property
    def has_shortlist(self) -> bool:
        """Whether it searches with a shortlist."""
        return self.shortlist is not None

    def check(self, options: Options, *, has_prefixes: bool) -> None:
        """Refuse what cannot be verified: drafts are for greedy search without constraints."""
        if self.has_shortlist:
            options.check_for_shortlist()
        if self.drafter is not None:
            options.check_for_draft(has_prefixes=has_prefixes)

    def attention_model(self) -> Seq2Seq:
        """Return the model, if it is one whose attention can be shown."""
        if not isinstance(self.model, Seq2Seq):
            raise InputError("attention can be shown for one model, not for an ensemble")
        if not self.model.abilities.attention_maps:
            name = type(self.model).__name__
            raise InputError(f"a {name} model has no attention to show")
        return self.model

    def cross_attention(self, pairs: Sequence[TokenPair]) -> list[Weights] | None:
        """Run the model over the pairs; of an ensemble, the first model that has attention."""
        models = self.model.models if isinstance(self.model, Ensemble) else (self.model,)
        for model in models:
            if isinstance(model, Seq2Seq) and model.abilities.attention_maps:
                return forced_attention(model, pairs, device=self.device)
        return None

    def search(
        self, sentences: Sequence[EncodedSentence], options: Options
    ) -> list[list[Hypothesis]]:
        """Search in batches of like length; return the hypotheses in the given order."""
        return self.first_search(sentences, options)[0]

    def first_search(
        self, sentences: Sequence[EncodedSentence], options: Options
    ) -> tuple[list[list[Hypothesis]], list[EncodedSentence]]:
        """Search; return also the sentences, of which some are bound to their rules from now on.

        A beam search knows no rules at first: the best hypotheses of all are the best that obey, if
        they obey. Sentences whose hypotheses do not are searched again, by the rules.
        """
        sentences = [self._with_rules_that_fit(one) for one in sentences]
        is_sampled = options.sampling is not None
        first = [one if is_sampled or one.is_bound else one.without_rules() for one in sentences]
        results = self._search_in_batches(first, options)
        if is_sampled:
            return results, sentences
        again = [
            place
            for place, sentence in enumerate(sentences)
            if not sentence.is_bound and not self._obey(results[place], sentence)
        ]
        for place in again:
            sentences[place] = self._shorter(sentences[place], results[place][0])
        by_rules = [sentences[place] for place in again]
        for place, found in zip(again, self._search_in_batches(by_rules, options), strict=True):
            free = [one for one in results[place] if self._obey([one], sentences[place])]
            results[place] = _best_of_both(free, found, options.n_best)
        return results, sentences

    def _obey(self, hypotheses: list[Hypothesis], sentence: EncodedSentence) -> bool:
        """Return whether all of the hypotheses are complete and obey the rules of a sentence."""
        return self._phrase_bounds.are_obeyed(sentence.rules, hypotheses)

    def _with_rules_that_fit(self, sentence: EncodedSentence) -> EncodedSentence:
        """Leave out rules that the model has learnt, if it has too few positions for all rules."""
        if not sentence.rules or self._has_room_for_rules(sentence):
            return sentence
        others = tuple(rule for rule in sentence.rules if not rule.is_learnt)
        return replace(sentence, rules=others, needs_all=True)

    def _has_room_for_rules(self, sentence: EncodedSentence) -> bool:
        needed = self._phrase_bounds.most_tokens(sentence.rules)
        return self.max_length is None or needed + len(sentence.prefix) + 2 <= self.max_length

    def _shorter(self, sentence: EncodedSentence, free: Hypothesis) -> EncodedSentence:
        """Bind a sentence to its rules, and limit it by the translation without, if that is usable.

        It gets room for what it must contain on top of it.
        """
        sentence = replace(sentence, is_bound=True)
        if not free.is_finished or self._fault_of(free, sentence) is not None:
            return sentence
        most = round(MORE_THAN_FREE * (len(free.ids) + 1)) + SPARE_TOKENS
        return replace(sentence, most_tokens=max(most, len(sentence.prefix) + 1))

    def _search_in_batches(
        self, sentences: Sequence[EncodedSentence], options: Options
    ) -> list[list[Hypothesis]]:
        """Search in batches of like length; return the hypotheses in the given order."""
        results: list[list[Hypothesis]] = [[] for _ in sentences]
        # Apart, so that samples without rules are drawn as if there were none at all, and so that
        # no sentence is searched otherwise because of others.
        kinds = [(bool(sentence.rules), self._is_narrowed(sentence)) for sentence in sentences]
        for kind in sorted(set(kinds)):
            some = [place for place, its in enumerate(kinds) if its == kind]
            self._search_some(some, sentences, options, results)
        return results

    def _search_some(
        self,
        some: list[int],
        sentences: Sequence[EncodedSentence],
        options: Options,
        results: list[list[Hypothesis]],
    ) -> None:
        """Search for the sentences at some indices, and write their hypotheses to `results`."""
        budget = options.max_batch_tokens or batch_tokens(self.device)
        hypotheses = 1 if options.sampling is not None else options.beam
        for batch_places in batches_by_length(
            [max(len(sentences[i].ids), len(sentences[i].prefix)) + 1 for i in some],
            max_tokens=budget // hypotheses,
            cost=lambda tokens: tokens + self.task.max_tgt_tokens(tokens),
            powers=self._is_recorded,
        ):
            places = [some[place] for place in batch_places]
            batch = [sentences[place] for place in places]
            for place, found in zip(places, self._search_or_split(batch, options), strict=True):
                # Nothing is found if scores are NaN, or if no output obeys the constraint.
                results[place] = found or [Hypothesis([], -math.inf, is_finished=False)]

    def _search_or_split(
        self, batch: list[EncodedSentence], options: Options
    ) -> list[list[Hypothesis]]:
        """Search; where the memory is not enough, search for each half of the batch in turn."""
        found = self._search_if_it_fits(batch, options)
        if found is not None:
            return found
        # The tensors of the failed search are freed now. What torch keeps of their memory is of no
        # use to a recorded step, whose memory is its own.
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        if len(batch) > 1:
            half = len(batch) // 2
            halves = (batch[:half], batch[half:])
            return [one for part in halves for one in self._search_or_split(part, options)]
        found = self._search_if_it_fits(batch, options)
        if found is None:
            raise InputError(
                f"not enough memory for one sentence of {counted(len(batch[0].ids), 'token')} "
                f"with a beam of {options.beam:,}{_free_memory(self.device)}: use a smaller beam, "
                "or shorter lines"
            )
        return found

    def _search_if_it_fits(
        self, batch: list[EncodedSentence], options: Options
    ) -> list[list[Hypothesis]] | None:
        """Search; None: the memory is not enough."""
        try:
            return self._search(batch, options)
        except RuntimeError as fault:
            if not _is_lack_of_memory(fault):
                raise
            return None

    def _is_narrowed(self, sentence: EncodedSentence) -> bool:
        return self.has_shortlist and sentence.may_be_narrowed

    def _search_narrowed(
        self, batch: list[EncodedSentence], src: Tensor, limits: Tensor, options: Options
    ) -> list[list[Hypothesis]]:
        """Search among the candidates of each sentence alone."""
        assert self.shortlist is not None, "nothing to narrow by"
        assert isinstance(self.model, Seq2Seq), "an ensemble has several projections"
        prefixes = [sentence.prefix for sentence in batch]
        candidates = self.shortlist.candidates([sentence.ids for sentence in batch], prefixes)
        narrowed = NarrowedModel(self.model, self._projection, candidates)
        constraint = narrowed.prefixes(prefixes)
        found = beam_search(
            narrowed, src, options.searched(), max_tokens=limits, constraint=constraint
        )
        return narrowed.in_whole_vocabulary(found)

    def _search(self, batch: list[EncodedSentence], options: Options) -> list[list[Hypothesis]]:
        src = _padded([[*sentence.ids, EOS_ID] for sentence in batch]).to(self.device)  # [B, S]
        limits = torch.tensor([self._limit(sentence) for sentence in batch])  # [B]
        enabled = self.autocast is not None
        hypotheses = 1 if options.sampling is not None else options.beam
        with (
            on_device(self.device),
            threads_for(self._multiplications(len(batch) * hypotheses)),
            torch.autocast(self.device.type, dtype=self.autocast, enabled=enabled),
        ):
            if self._is_narrowed(batch[0]):  # as all of the batch are
                return self._search_narrowed(batch, src, limits, options)
            constraint = self._constraint(batch, limits.tolist(), hypotheses=hypotheses)
            if self._is_drafted(batch, options, constraint):
                return [self._speculative_search(src, options, max_tokens=int(limits))]
            if options.sampling is None:
                return self._beam_search(
                    src, options.searched(), max_tokens=limits, constraint=constraint
                )
            samples = sample(
                self.model,
                src,
                options.sampling,
                numbers=[sentence.number for sentence in batch],
                max_tokens=limits,
                constraint=constraint,
            )
            return [[_with_penalty(hypothesis, options.alpha)] for hypothesis in samples]

    def _is_drafted(
        self, batch: list[EncodedSentence], options: Options, constraint: Constraint | None
    ) -> bool:
        """Return whether drafts are faster: several sentences are, as a batch.

        A second search has a wider beam, and no drafts.
        """
        is_greedy = options.beam == 1 and options.sampling is None and constraint is None
        return self.drafter is not None and len(batch) == 1 and is_greedy

    def _speculative_search(
        self, src: Tensor, options: Options, *, max_tokens: int
    ) -> list[Hypothesis]:
        assert self.drafter is not None, "only a draft can be verified"
        assert isinstance(self.model, Seq2Seq), "an ensemble reads one token a step"
        return speculative_search(
            self.model, src, self.drafter, max_tokens=max_tokens, alpha=options.alpha
        )

    def _limit(self, sentence: EncodedSentence) -> int:
        """Return the most tokens of its translation, with room for all that it must contain."""
        limit = self.max_tgt_tokens(sentence)
        if sentence.most_tokens is not None:
            limit = min(limit, sentence.most_tokens)
        if not sentence.rules:
            return limit
        needed = self._phrase_bounds.most_tokens(sentence.rules)
        if self.max_length is None:
            return limit + needed
        if not self._has_room_for_rules(sentence):
            raise InputError(
                f"the terms and placeholders of one sentence take up to {needed:,} tokens, but the "
                f"model has {self.max_length:,} positions: use fewer, or shorter sentences"
            )
        return min(limit + needed, self.max_length)

    def _constraint(
        self, batch: list[EncodedSentence], max_tokens: list[int], *, hypotheses: int
    ) -> Constraint | None:
        """Return what the hypotheses must obey: the task's constraint, prefixes and phrases."""
        of_task = self.task.constraint(
            [sentence.text for sentence in batch],
            self.tokenizer,
            max_tokens=max_tokens,
            hypotheses=hypotheses,
            device=self.device,
        )
        given = self._prefix_constraint(batch, hypotheses=hypotheses)
        wording: Constraint | None = None
        if any(sentence.rules for sentence in batch):
            wording = self._phrase_bounds.constraint(
                [sentence.rules for sentence in batch],
                max_tokens,
                hypotheses=hypotheses,
                device=self.device,
            )
        several = [one for one in (of_task, given, wording) if one is not None]
        return AllOf(tuple(several)) if len(several) > 1 else next(iter(several), None)

    def _prefix_constraint(
        self, batch: list[EncodedSentence], *, hypotheses: int
    ) -> Constraint | None:
        """Return the constraint to the given prefixes, of which the last word is given as text."""
        opened = [
            self._token_texts.opened(s.prefix_text).after(s.tag)
            if s.prefix_text
            else OpenPrefix(s.prefix)
            for s in batch
        ]
        constraints: list[Constraint] = []
        if any(prefix.ids for prefix in opened):
            ids = _padded([prefix.ids for prefix in opened]).to(self.device)  # [B, P]
            constraints.append(PrefixConstraint(ids, len(self.tokenizer)))
        if any(prefix.ending for prefix in opened):
            endings = [self._token_texts.continuations(prefix.ending) or [] for prefix in opened]
            constraints.append(
                TextConstraint.of(
                    endings,
                    [len(prefix.ids) for prefix in opened],
                    ranks=self._token_texts.ranks,
                    sizes=self._token_texts.sizes,
                    hypotheses=hypotheses,
                    device=self.device,
                )
            )
        return AllOf(tuple(constraints)) if len(constraints) > 1 else next(iter(constraints), None)

    @cached_property
    def _token_texts(self) -> TokenTexts:
        return TokenTexts(self.tokenizer)

    @cached_property
    def _phrase_bounds(self) -> PhraseBounds:
        return PhraseBounds(self.tokenizer)

    @cached_property
    def _is_recorded(self) -> bool:
        can_be = isinstance(self.model, Ensemble | Seq2Seq) and self.model.abilities.recorded_step
        return can_be and self.device.type == "cuda" and self.autocast is None

    @cached_property
    def _beam_search(self) -> "BeamSearch":
        """Record the steps of a search where the device and the model allow it."""
        if not self._is_recorded:
            return partial(beam_search, self.model)
        return RecordedBeamSearch(
            self.model,
            longest_source=self.max_length,
            max_positions=2 * batch_tokens(self.device),
        )

    def _multiplications(self, rows: int) -> int | None:
        """Count the multiplications for the logits of a step; None for an ensemble."""
        return None if self._projection_size is None else rows * self._projection_size

    @cached_property
    def _projection(self) -> Tensor:
        assert isinstance(self.model, Seq2Seq), "an ensemble has several projections"
        return self.model.projection.detach()

    @cached_property
    def _projection_size(self) -> int | None:
        return self.model.projection.numel() if isinstance(self.model, Seq2Seq) else None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what cannot leave this process: recorded steps and their memory."""
        return {
            name: value
            for name, value in vars(self).items()
            if name not in ("_beam_search", "_projection", "_projection_size", "_phrase_bounds")
        }


def batch_tokens(device: torch.device) -> int:
    """Return how many positions of hypotheses a batch may have by default."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory) // BYTES_FOR_POSITION
    return CPU_BATCH_TOKENS


def _free_memory(device: torch.device) -> str:
    """Say what a GPU has left, which other programs may be using."""
    if device.type != "cuda":
        return ""
    free, total = (size / 2**30 for size in torch.cuda.mem_get_info(device))
    return f" ({free:.1f} of the GPU's {total:.0f} GiB are free)"


def _is_lack_of_memory(fault: RuntimeError) -> bool:
    """Recognise it too where torch has no exception of its own for it: on a CPU, and in cuBLAS."""
    signs = ("DefaultCPUAllocator", "CUBLAS_STATUS_ALLOC_FAILED")
    return isinstance(fault, torch.OutOfMemoryError) or any(sign in str(fault) for sign in signs)


def _padded(rows: list[list[int]]) -> Tensor:
    """Make one tensor of rows, [B, longest]; through numpy, which reads lists much faster."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    padded = np.full((len(rows), lengths.max()), PAD_ID)
    is_real = np.arange(padded.shape[1]) < lengths[:, None]
    padded[is_real] = np.fromiter(chain.from_iterable(rows), np.int64, lengths.sum())
    return torch.from_numpy(padded)


def _best_of_both(
    free: list[Hypothesis], by_rules: list[Hypothesis], n_best: int
) -> list[Hypothesis]:
    """Return the best of two searches; finished ones come first, and the same ids count once."""
    every = {tuple(one.ids): one for one in (*by_rules, *free)}
    return sorted(every.values(), key=lambda one: (not one.is_finished, -one.score))[:n_best]


def _with_penalty(hypothesis: Hypothesis, alpha: float) -> Hypothesis:
    """Divide a log-probability by the length penalty."""
    return replace(hypothesis, score=hypothesis.score / penalty(length(hypothesis), alpha))
