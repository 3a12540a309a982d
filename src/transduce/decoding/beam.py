"""Beam search (§6.1) over the protocol `Searchable` alone.

A sentence keeps its k best unfinished hypotheses and its best finished ones. It is finished itself
as soon as nothing that is still unfinished could overtake, which is proved by a bound, and then
leaves the batch.
"""

from dataclasses import dataclass, replace
from typing import Generic

import torch
from torch import Tensor

from transduce.decoding.answer import Answer, answer_limits, log_probabilities
from transduce.models.base import Searchable, State
from transduce.text.special_ids import BOS_ID, EOS_ID, PAD_ID


@dataclass(frozen=True)
class Beam:
    """How to search: the paper's settings (§6.1)."""

    size: int = 4
    alpha: float = 0.6  # of the length penalty; 0 for none
    n_best: int = 1

    def __post_init__(self) -> None:
        assert self.size >= 1, f"a beam of {self.size}"
        assert 1 <= self.n_best <= self.size, f"{self.n_best} best of {self.size}"
        assert self.alpha >= 0, f"alpha={self.alpha}: the bound supposes that longer is no worse"

    def penalty(self, length: Tensor) -> Tensor:
        """((5 + |Y|) / 6)^α, by which a log-probability is divided; |Y| counts the end."""
        penalty: Tensor = ((5 + length) / 6) ** self.alpha
        return penalty


@torch.inference_mode()
def beam_search(
    model: Searchable[State],
    src: Tensor,
    beam: Beam,
    *,
    max_tokens: Tensor | None = None,
    prefix: Tensor | None = None,
) -> list[list[Answer]]:
    """Translate each sentence of [B, S]; return its best answers, the best first.

    An answer has at most max_tokens, [B], ids with its end, or as many as its source and 50 more.
    Where nothing ends by then, the best that there is stands as it is. `prefix`, [B, P], padded,
    is how each answer must begin. The model is used as it is: whoever wants no dropout turns it
    off.
    """
    limits = answer_limits(src) if max_tokens is None else max_tokens.to(src.device)  # [B]
    search = _Search(model, src, beam, limits, prefix)
    results: list[list[Answer]] = [[] for _ in range(src.size(0))]
    while search.sentences.numel():
        search.advance()
        done = search.done()  # [B]
        if bool(done.any()):
            for sentence, answers in search.answers(done):
                results[sentence] = answers
            search.keep(~done)
    return results


@dataclass(frozen=True)
class _Hypotheses:
    """The best so far of B sentences, sorted; those with a score of −∞ do not exist."""

    scores: Tensor  # [B, k], log-probabilities, or normalised by length once finished
    tokens: Tensor  # [B, k, T]
    lengths: Tensor  # [B, k]

    @classmethod
    def none(cls, sentences: int, size: int, longest: int, device: torch.device) -> "_Hypotheses":
        """Make room for k hypotheses that do not exist."""
        return cls(
            torch.full((sentences, size), -torch.inf, device=device),
            torch.full((sentences, size, longest), PAD_ID, device=device),
            torch.zeros((sentences, size), dtype=torch.long, device=device),
        )

    def keep(self, sentences: Tensor) -> "_Hypotheses":
        return _Hypotheses(self.scores[sentences], self.tokens[sentences], self.lengths[sentences])

    def best_of_both(self, other: "_Hypotheses") -> "_Hypotheses":
        """Merge with others; as many stay as there were."""
        scores = torch.cat([self.scores, other.scores], dim=1)
        tokens = torch.cat([self.tokens, other.tokens], dim=1)
        lengths = torch.cat([self.lengths, other.lengths], dim=1)
        best, order = scores.topk(self.scores.size(1), dim=1)  # [B, k]
        return _Hypotheses(best, _rows(tokens, order), lengths.gather(1, order))


class _Search(Generic[State]):
    """Where a search stands: B unfinished sentences with k hypotheses each, all of one length."""

    def __init__(
        self,
        model: Searchable[State],
        src: Tensor,
        beam: Beam,
        limits: Tensor,
        prefix: Tensor | None,
    ) -> None:
        longest = int(limits.max())
        count, device = src.size(0), src.device
        self.sentences = torch.arange(count, device=device)  # which of the batch are unfinished
        self._model, self._beam = model, beam
        self._limits = limits
        self._prefix = prefix
        self._state = model.start(model.encode(src), max_steps=longest)
        self._last_ids = torch.full((count, 1), BOS_ID, device=device)
        self._live = _Hypotheses.none(count, beam.size, longest, device)
        self._scores = torch.zeros(count, 1, device=device)
        self._finished = _Hypotheses.none(count, beam.size, longest, device)
        self._length = 0

    def advance(self) -> None:
        """Make every hypothesis one token longer, and sort out those that are finished by it."""
        logits, self._state = self._model.step(self._last_ids, self._state)
        total = self._scores[:, :, None] + self._log_probabilities(logits)  # [B, k, V]
        vocab_size = total.size(2)
        # Twice as many as the beam holds: even if one of each hypothesis ends, enough go on.
        scores, places = total.flatten(1).topk(min(2 * self._beam.size, total[0].numel()), dim=1)
        parents, ids = places // vocab_size, places % vocab_size  # [B, 2k]
        self._length += 1
        best = slice(self._beam.size)  # of a hypothesis that ends, too, only the best count
        self._collect_finished(scores[:, best], parents[:, best], ids[:, best])
        live = scores.masked_fill(ids == EOS_ID, -torch.inf)
        self._scores, order = live.topk(min(self._beam.size, live.size(1)), dim=1)  # [B, k]
        parents, ids = parents.gather(1, order), ids.gather(1, order)
        tokens = _rows(self._live.tokens, parents)
        tokens[:, :, self._length - 1] = ids
        self._live = _Hypotheses(self._scores, tokens, torch.full_like(ids, self._length))
        self._state = self._state.select(parents)
        self._last_ids = ids

    def done(self) -> Tensor:
        """Say of each sentence whether its best answers are certain, or its tokens used up.

        A log-probability only falls, and no penalty is larger than that of the longest answer: so
        no unfinished hypothesis can end with a better score than its own by that penalty. A beam
        of one is greedy search: its first end is its answer.
        """
        bound = self._scores.amax(dim=1) / self._beam.penalty(self._limits)  # [B]
        worst = self._finished.scores[:, self._beam.n_best - 1]  # [B]
        is_greedy_end = (worst > -torch.inf) if self._beam.size == 1 else False
        return (worst >= bound) | (self._limits <= self._length) | is_greedy_end

    def keep(self, kept: Tensor) -> None:
        """Drop the other sentences."""
        rows = kept.nonzero().squeeze(1)  # [B]
        self.sentences = self.sentences[rows]
        self._limits, self._last_ids = self._limits[rows], self._last_ids[rows]
        self._prefix = None if self._prefix is None else self._prefix[rows]
        self._live, self._finished = self._live.keep(rows), self._finished.keep(rows)
        self._scores = self._scores[rows]
        self._state = self._state.keep(rows)

    def answers(self, chosen: Tensor) -> list[tuple[int, list[Answer]]]:
        """Read the answers of some sentences; where too few are finished, the best unfinished."""
        rows = chosen.nonzero().squeeze(1)  # [B]
        finished, live = self._finished.keep(rows), self._live.keep(rows)
        penalty = self._beam.penalty(torch.tensor(self._length, device=live.scores.device))
        unfinished = replace(live, scores=live.scores / penalty)
        ended, cut_off = _read(finished, is_finished=True), _read(unfinished, is_finished=False)
        return [
            (sentence, [*best, *others][: self._beam.n_best])
            for sentence, best, others in zip(
                self.sentences[rows].tolist(), ended, cut_off, strict=True
            )
        ]

    def _log_probabilities(self, logits: Tensor) -> Tensor:
        """Normalise in float32; where an answer's beginning is given, nothing else is possible."""
        log_p = log_probabilities(logits)  # [B, k, V]
        if self._prefix is None or self._length >= self._prefix.size(1):
            return log_p
        given = self._prefix[:, self._length]  # [B]
        is_other = torch.arange(log_p.size(2), device=given.device) != given[:, None]  # [B, V]
        return log_p.masked_fill((is_other & (given != PAD_ID)[:, None])[:, None], -torch.inf)

    def _collect_finished(self, scores: Tensor, parents: Tensor, ids: Tensor) -> None:
        """Take what ends with this token among the finished, with its length in the score."""
        length = torch.full_like(ids, self._length)
        ended = _Hypotheses(
            (scores / self._beam.penalty(length)).masked_fill(ids != EOS_ID, -torch.inf),
            _rows(self._live.tokens, parents),
            length - 1,
        )
        self._finished = self._finished.best_of_both(ended)


def _rows(tokens: Tensor, order: Tensor) -> Tensor:
    """Take hypotheses of [B, k, T] by their number, [B, n]."""
    return tokens.gather(1, order[:, :, None].expand(-1, -1, tokens.size(2)))  # [B, n, T]


def _read(hypotheses: _Hypotheses, *, is_finished: bool) -> list[list[Answer]]:
    """Bring hypotheses from the device, sentence by sentence; all at once, for it is waited for."""
    fields = (hypotheses.scores, hypotheses.lengths, hypotheses.tokens)
    return [
        [
            Answer(ids[:length], score, is_finished)
            for score, length, ids in zip(*sentence, strict=True)
            if score > -torch.inf
        ]
        for sentence in zip(*(field.tolist() for field in fields), strict=True)
    ]
