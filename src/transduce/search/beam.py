"""Beam search (§6.1) over the protocol `Searchable` alone.

A sentence keeps its k best unfinished hypotheses and its best finished ones. It is done as soon as
a bound proves that no unfinished hypothesis can overtake them, and then leaves the batch.
"""

from dataclasses import dataclass
from typing import Generic, Self

import torch
from torch import Tensor

from transduce.models.base import Searchable, State
from transduce.search.cancel import raise_if_cancelled
from transduce.search.candidates import best_continuations
from transduce.search.constraint import Constraint, private_copy
from transduce.search.constraints.steering import steered_continuations, steering_of
from transduce.search.hypothesis import Hypothesis
from transduce.text.special_ids import BOS_ID, EOS_ID

SHRINK_SHARE = 0.25
"""The share of a batch that must be done before it shrinks: that copies the other sentences."""

FEW_SENTENCES = 64
"""Up to this many, results are put together on the CPU."""


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
        """((5 + |Y|) / 6)^α, by which a log-probability is divided; |Y| counts EOS."""
        penalty: Tensor = ((5 + length) / 6) ** self.alpha
        return penalty


@torch.inference_mode()
def beam_search(
    model: Searchable[State],
    src: Tensor,
    beam: Beam,
    *,
    max_tokens: Tensor,
    constraint: Constraint | None = None,
) -> list[list[Hypothesis]]:
    """Translate each sentence of [B, S]; return its best hypotheses, the best first.

    A hypothesis has at most max_tokens, [B], ids, EOS included. Where none has ended by then, the
    best unfinished ones are returned; where the constraint leaves none, the list is empty. The
    model is used in the mode it is in: turn off dropout before.
    """
    limits = max_tokens.to(src.device)  # [B]
    longest, count = int(max_tokens.max()), src.size(0)
    if constraint is not None:
        constraint = private_copy(constraint, count, max_steps=longest, device=src.device)
    search = Search.start(model, src, beam, limits, max_steps=longest, constraint=constraint)
    results: list[list[Hypothesis]] = [[] for _ in range(count)]
    sentences = list(range(count))
    for step in range(longest):
        raise_if_cancelled()
        search.advance(reach=step + 1)
        done: list[bool] = search.done.tolist()
        if sum(done) < max(1, SHRINK_SHARE * len(done)):
            continue
        rows = [row for row, is_done in enumerate(done) if is_done]
        for row, hypotheses in zip(rows, search.hypotheses(rows), strict=True):
            results[sentences[row]] = hypotheses
        others = [row for row, is_done in enumerate(done) if not is_done]
        if not others:
            break
        sentences = [sentences[row] for row in others]
        smaller = search.allocate_like(len(others), max_steps=search.ids.size(2))
        smaller.copy_from(search, others, steps=step + 1)
        search = smaller
    return results


@dataclass(frozen=True)
class Search(Generic[State]):
    """The state of a search: B sentences with k hypotheses each, all of one length.

    Every tensor is written in place. Each step writes the token of each of the k hypotheses and
    the hypothesis of the step before that it continues; `hypotheses` follows these links backwards.
    """

    model: Searchable[State]
    beam: Beam
    state: State
    constraint: Constraint | None
    limits: Tensor  # [B], the maximum number of tokens, EOS included
    position: Tensor  # [1], the tokens of each hypothesis
    last_ids: Tensor  # [B, k]
    scores: Tensor  # [B, k], log-probabilities, sorted; a hypothesis of −∞ does not exist
    ids: Tensor  # [B, k, T]
    parents: Tensor  # [B, k, T]
    end_scores: Tensor  # [B, k], of the finished hypotheses, by length penalty; sorted
    end_lengths: Tensor  # [B, k], without EOS
    end_parents: Tensor  # [B, k], the hypothesis that EOS followed
    lengths: Tensor  # [B], of the hypotheses, until the sentence was done
    done: Tensor  # [B]

    @classmethod
    def start(
        cls,
        model: Searchable[State],
        src: Tensor,
        beam: Beam,
        limits: Tensor,
        *,
        max_steps: int,
        constraint: Constraint | None = None,
    ) -> Self:
        """Encode the sources, [B, S]. At first each sentence has one hypothesis, which is empty.

        The search writes to the constraint.
        """
        count, k, device = src.size(0), beam.size, src.device
        scores = torch.full((count, k), -torch.inf, device=device)
        scores[:, 0] = 0.0
        written = torch.zeros((count, k, max_steps), dtype=torch.long, device=device)
        return cls(
            model,
            beam,
            state=model.start(model.encode(src), hypotheses=k, max_steps=max_steps),
            constraint=constraint,
            limits=limits,
            position=torch.zeros(1, dtype=torch.long, device=device),
            last_ids=torch.full((count, k), BOS_ID, device=device),
            scores=scores,
            ids=written,
            parents=written.clone(),
            end_scores=torch.full((count, k), -torch.inf, device=device),
            end_lengths=torch.zeros((count, k), dtype=torch.long, device=device),
            end_parents=torch.zeros((count, k), dtype=torch.long, device=device),
            lengths=torch.zeros(count, dtype=torch.long, device=device),
            done=limits <= 0,
        )

    def advance(self, *, reach: int) -> None:
        """Make every hypothesis one token longer, and set aside those that end with it.

        No hypothesis has `reach` tokens yet. The results of a sentence that is done do not change.
        """
        logits = self.model.step(
            self.last_ids, self.state, position=self.position, reach=reach
        )  # [B, k, V]
        scores, parents, ids = self._best_continuations(logits)  # [B, 2k]
        self._collect_finished(scores, parents, ids)
        live, order = scores.masked_fill(ids == EOS_ID, -torch.inf).topk(self.beam.size, dim=1)
        parents, ids = parents.gather(1, order), ids.gather(1, order)  # [B, k]
        self.ids.index_copy_(2, self.position, ids[:, :, None])
        self.parents.index_copy_(2, self.position, parents[:, :, None])
        self.state.select(parents)
        if self.constraint is not None:
            self.constraint.select(parents)
            self.constraint.advance(ids, self.position)
        self.last_ids.copy_(ids)
        self.scores.copy_(torch.where(self.done[:, None], self.scores, live))
        self.position.add_(1)
        self.lengths.copy_(torch.where(self.done, self.lengths, self.position))
        self.done.logical_or_(self._is_certain())

    def hypotheses(self, rows: list[int]) -> list[list[Hypothesis]]:
        """Return the best of some sentences; where too few are finished, also unfinished ones."""
        chosen = torch.tensor(rows, device=self.ids.device)
        lengths = self.lengths[chosen, None].expand(-1, self.beam.size)  # [B, k]
        beams = torch.arange(self.beam.size, device=self.ids.device).expand_as(lengths)
        unfinished = self.scores[chosen] / self.beam.penalty(lengths)
        # Finished ones first, whatever their scores; both are sorted.
        scores = torch.cat([self.end_scores[chosen], unfinished], dim=1)  # [B, 2k]
        order = (scores > -torch.inf).sort(dim=1, descending=True, stable=True).indices
        best = order[:, : self.beam.n_best]  # [B, n]
        steps = int(self.position)
        ids = _follow_parents(
            self.ids[chosen, :, :steps],
            self.parents[chosen, :, :steps],
            torch.cat([self.end_lengths[chosen], lengths], dim=1).gather(1, best),
            torch.cat([self.end_parents[chosen], beams], dim=1).gather(1, best),
        )
        fields = (scores.gather(1, best), best < self.beam.size)
        return [
            [
                Hypothesis(its_ids, score, is_finished)
                for its_ids, score, is_finished in zip(*sentence, strict=True)
                if score > -torch.inf
            ]
            for sentence in zip(ids, *(field.tolist() for field in fields), strict=True)
        ]

    def allocate_like(self, sentences: int, *, max_steps: int) -> Self:
        """Allocate a search of the same kind for other numbers of sentences and steps."""

        def allocate(like: Tensor) -> Tensor:
            return like.new_zeros(sentences, *like.shape[1:])

        written = self.ids.new_zeros(sentences, self.beam.size, max_steps)
        constraint = self.constraint
        if constraint is not None:
            constraint = constraint.allocate_like(sentences, max_steps=max_steps)
        return type(self)(
            self.model,
            self.beam,
            self.state.allocate_like(sentences, max_steps=max_steps),
            constraint,
            position=torch.zeros_like(self.position),
            ids=written,
            parents=written.clone(),
            **{name: allocate(getattr(self, name)) for name in _BY_SENTENCE},
        )

    def copy_from(self, other: Self, sentences: list[int], *, steps: int) -> None:
        """Become those sentences of another search, which has made that many steps.

        Where this one is larger, the rest is filled with copies of the first sentence.
        """
        spare = self.done.size(0) - len(sentences)
        rows = torch.tensor(sentences + sentences[:1] * spare, device=self.done.device)  # [B]
        self.state.copy_from(other.state, rows, steps=steps)
        if self.constraint is not None and other.constraint is not None:
            self.constraint.copy_from(other.constraint, rows, steps=steps)
        self.position.copy_(other.position)
        for name in _BY_SENTENCE:
            getattr(self, name).copy_(getattr(other, name)[rows])
        self.ids[:, :, :steps] = other.ids[rows, :, :steps]
        self.parents[:, :, :steps] = other.parents[rows, :, :steps]

    def _best_continuations(self, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores, parents and ids of the best continuations, each [B, 2k].

        That is twice the beam: even if one of each hypothesis ends, enough remain.
        """
        count, constraint = 2 * self.beam.size, self.constraint
        if constraint is None:
            return best_continuations(logits, self.scores, count)
        steering = steering_of(constraint)
        if steering is not None:
            return steered_continuations(
                logits, self.scores, steering, constraint, position=self.position
            )
        return best_continuations(
            logits,
            self.scores,
            count,
            allowed=constraint.allowed(self.position),
            renormalise=constraint.renormalises,
        )

    def _is_certain(self) -> Tensor:
        """Return for each sentence whether its best are certain or its tokens used up, [B].

        A log-probability only falls, and no penalty is larger than that of the maximum length: so
        no unfinished hypothesis can end with a better score than its own by that penalty. A beam
        of one is greedy search: the first hypothesis that ends is the result.
        """
        bound = self.scores[:, 0] / self.beam.penalty(self.limits)  # [B]
        worst = self.end_scores[:, self.beam.n_best - 1]  # [B]
        is_greedy_end = (worst > -torch.inf) if self.beam.size == 1 else False
        return (worst >= bound) | (self.limits <= self.position) | is_greedy_end

    def _collect_finished(self, scores: Tensor, parents: Tensor, ids: Tensor) -> None:
        """Add the hypotheses that end with this token to the finished, by length penalty.

        Only those among the k best continuations count.
        """
        best = slice(self.beam.size)
        scores, parents, ids = scores[:, best], parents[:, best], ids[:, best]
        ended = (scores / self.beam.penalty(self.position + 1)).masked_fill(
            (ids != EOS_ID) | self.done[:, None], -torch.inf
        )  # [B, k]
        both, order = torch.cat([self.end_scores, ended], dim=1).topk(self.beam.size, dim=1)
        lengths = torch.cat([self.end_lengths, self.position.expand_as(ids)], dim=1)
        end_parents = torch.cat([self.end_parents, parents], dim=1)
        self.end_scores.copy_(both)
        self.end_lengths.copy_(lengths.gather(1, order))
        self.end_parents.copy_(end_parents.gather(1, order))


_BY_SENTENCE = (
    "limits",
    "last_ids",
    "scores",
    "end_scores",
    "end_lengths",
    "end_parents",
    "lengths",
    "done",
)


def _follow_parents(
    ids: Tensor, parents: Tensor, lengths: Tensor, beams: Tensor
) -> list[list[list[int]]]:
    """Collect the tokens of n hypotheses of each sentence, from the last back to the first.

    `lengths`, [B, n], counts their tokens; `beams`, [B, n], says which of the k wrote the last.
    A GPU is launched three times for every token: for a few sentences the CPU is quicker.
    """
    if len(ids) <= FEW_SENTENCES:
        ids, parents, lengths, beams = (given.cpu() for given in (ids, parents, lengths, beams))
    tokens = ids.new_empty(*lengths.shape, ids.size(2))  # [B, n, T]
    for step in reversed(range(ids.size(2))):
        tokens[:, :, step] = ids[:, :, step].gather(1, beams)
        before = parents[:, :, step].gather(1, beams)
        beams = torch.where(step < lengths, before, beams)
    return [
        [its_ids[:length] for its_ids, length in zip(*sentence, strict=True)]
        for sentence in zip(tokens.tolist(), lengths.tolist(), strict=True)
    ]
