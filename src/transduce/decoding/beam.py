"""Beam search (§6.1) over the protocol `Searchable` alone.

A sentence keeps its k best unfinished hypotheses and its best finished ones. It is done as soon as
nothing that is still unfinished could overtake, which is proved by a bound, and then leaves the
batch.
"""

from dataclasses import dataclass
from typing import Generic, Self

import torch
from torch import Tensor

from transduce.decoding.answer import Answer, answer_limits
from transduce.decoding.candidates import best_continuations
from transduce.decoding.stop import go_on
from transduce.models.base import Searchable, State
from transduce.text.special_ids import BOS_ID, EOS_ID, PAD_ID

LEAVING = 0.25
"""The share of a batch that must be done before its sentences leave: leaving copies the others."""


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
    search = Search.start(model, src, beam, limits, max_steps=int(limits.max()), prefix=prefix)
    results: list[list[Answer]] = [[] for _ in range(src.size(0))]
    sentences = list(range(src.size(0)))
    for step in range(int(limits.max())):
        go_on()
        search.advance(reach=step + 1)
        done: list[bool] = search.done.tolist()
        if sum(done) < max(1, LEAVING * len(done)):
            continue
        rows = [row for row, is_done in enumerate(done) if is_done]
        for row, answers in zip(rows, search.answers(rows), strict=True):
            results[sentences[row]] = answers
        others = [row for row, is_done in enumerate(done) if not is_done]
        if not others:
            break
        sentences = [sentences[row] for row in others]
        smaller = search.room_for(len(others), max_steps=search.ids.size(2))
        smaller.take(search, others, steps=step + 1)
        search = smaller
    return results


@dataclass(frozen=True)
class Search(Generic[State]):
    """Where a search stands: B sentences with k hypotheses each, all of one length.

    Every tensor is written in place. How hypotheses came about is kept as what each of the k places
    wrote at each step and which place it went on from, and read backwards at the end.
    """

    model: Searchable[State]
    beam: Beam
    state: State
    limits: Tensor  # [B], how many tokens an answer may have
    prefix: Tensor | None  # [B, P]
    position: Tensor  # [1], the tokens of each hypothesis
    last_ids: Tensor  # [B, k]
    scores: Tensor  # [B, k], log-probabilities, sorted; those of −∞ do not exist
    ids: Tensor  # [B, k, T]
    parents: Tensor  # [B, k, T]
    end_scores: Tensor  # [B, k], of those that are finished, with their length; sorted
    end_lengths: Tensor  # [B, k], without the end
    end_places: Tensor  # [B, k], from where they were finished
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
        prefix: Tensor | None = None,
    ) -> Self:
        """Read the sources, [B, S]; of each sentence's hypotheses, at first only one exists."""
        count, k, device = src.size(0), beam.size, src.device
        scores = torch.full((count, k), -torch.inf, device=device)
        scores[:, 0] = 0.0
        written = torch.zeros((count, k, max_steps), dtype=torch.long, device=device)
        return cls(
            model,
            beam,
            state=model.start(model.encode(src), hypotheses=k, max_steps=max_steps),
            limits=limits,
            prefix=None if prefix is None or prefix.size(1) == 0 else prefix,
            position=torch.zeros(1, dtype=torch.long, device=device),
            last_ids=torch.full((count, k), BOS_ID, device=device),
            scores=scores,
            ids=written,
            parents=written.clone(),
            end_scores=torch.full((count, k), -torch.inf, device=device),
            end_lengths=torch.zeros((count, k), dtype=torch.long, device=device),
            end_places=torch.zeros((count, k), dtype=torch.long, device=device),
            lengths=torch.zeros(count, dtype=torch.long, device=device),
            done=limits <= 0,
        )

    def advance(self, *, reach: int) -> None:
        """Make every hypothesis one token longer, and sort out those that are finished by it.

        No hypothesis has `reach` tokens yet. A sentence that is done stays as it is.
        """
        logits = self.model.step(
            self.last_ids, self.state, position=self.position, reach=reach
        )  # [B, k, V]
        # Twice as many as the beam holds: even if one of each hypothesis ends, enough go on.
        scores, parents, ids = best_continuations(
            logits, self.scores, 2 * self.beam.size, given=self._given()
        )  # [B, 2k]
        self._collect_finished(scores, parents, ids)
        live, order = scores.masked_fill(ids == EOS_ID, -torch.inf).topk(self.beam.size, dim=1)
        parents, ids = parents.gather(1, order), ids.gather(1, order)  # [B, k]
        self.ids.index_copy_(2, self.position, ids[:, :, None])
        self.parents.index_copy_(2, self.position, parents[:, :, None])
        self.state.select(parents)
        self.last_ids.copy_(ids)
        self.scores.copy_(torch.where(self.done[:, None], self.scores, live))
        self.position.add_(1)
        self.lengths.copy_(torch.where(self.done, self.lengths, self.position))
        self.done.logical_or_(self._is_certain())

    def answers(self, rows: list[int]) -> list[list[Answer]]:
        """Read the answers of some sentences; where too few are finished, the best unfinished."""
        chosen = torch.tensor(rows, device=self.ids.device)
        lengths = self.lengths[chosen, None].expand(-1, self.beam.size)  # [B, k]
        places = torch.arange(self.beam.size, device=self.ids.device).expand_as(lengths)
        unfinished = self.scores[chosen] / self.beam.penalty(lengths)
        # Finished ones first, whatever their scores; both are sorted.
        scores = torch.cat([self.end_scores[chosen], unfinished], dim=1)  # [B, 2k]
        order = (scores > -torch.inf).sort(dim=1, descending=True, stable=True).indices
        best = order[:, : self.beam.n_best]  # [B, n]
        steps = int(self.position)
        ids = _written(
            self.ids[chosen, :, :steps],
            self.parents[chosen, :, :steps],
            torch.cat([self.end_lengths[chosen], lengths], dim=1).gather(1, best),
            torch.cat([self.end_places[chosen], places], dim=1).gather(1, best),
        )
        fields = (scores.gather(1, best), best < self.beam.size)
        return [
            [
                Answer(answer, score, is_finished)
                for answer, score, is_finished in zip(*sentence, strict=True)
                if score > -torch.inf
            ]
            for sentence in zip(ids, *(field.tolist() for field in fields), strict=True)
        ]

    def room_for(self, sentences: int, *, max_steps: int) -> Self:
        """Take the memory for so many sentences and steps of the same kind."""

        def room(like: Tensor) -> Tensor:
            return like.new_zeros(sentences, *like.shape[1:])

        written = self.ids.new_zeros(sentences, self.beam.size, max_steps)
        return type(self)(
            self.model,
            self.beam,
            self.state.room_for(sentences, max_steps=max_steps),
            prefix=None if self.prefix is None else room(self.prefix),
            position=torch.zeros_like(self.position),
            ids=written,
            parents=written.clone(),
            **{name: room(getattr(self, name)) for name in _BY_SENTENCE},
        )

    def take(self, other: Self, sentences: list[int], *, steps: int) -> None:
        """Become those sentences of another search after so many steps.

        Where this one has room for more, the rest is copies of the first.
        """
        spare = self.done.size(0) - len(sentences)
        rows = torch.tensor(sentences + sentences[:1] * spare, device=self.done.device)  # [B]
        self.state.take(other.state, rows, steps=steps)
        self.position.copy_(other.position)
        for name in _BY_SENTENCE:
            getattr(self, name).copy_(getattr(other, name)[rows])
        if self.prefix is not None and other.prefix is not None:
            self.prefix.copy_(other.prefix[rows])
        self.ids[:, :, :steps] = other.ids[rows, :, :steps]
        self.parents[:, :, :steps] = other.parents[rows, :, :steps]

    def _is_certain(self) -> Tensor:
        """Say of each sentence whether its best answers are certain, or its tokens used up, [B].

        A log-probability only falls, and no penalty is larger than that of the longest answer: so
        no unfinished hypothesis can end with a better score than its own by that penalty. A beam
        of one is greedy search: its first end is its answer.
        """
        bound = self.scores[:, 0] / self.beam.penalty(self.limits)  # [B]
        worst = self.end_scores[:, self.beam.n_best - 1]  # [B]
        is_greedy_end = (worst > -torch.inf) if self.beam.size == 1 else False
        return (worst >= bound) | (self.limits <= self.position) | is_greedy_end

    def _given(self) -> Tensor | None:
        """Return what the next token must be, [B], or PAD_ID; None where nothing is given."""
        if self.prefix is None:
            return None
        last = self.prefix.size(1) - 1
        given = self.prefix.index_select(1, self.position.clamp(max=last))[:, 0]
        return given.masked_fill(self.position > last, PAD_ID)  # [B]

    def _collect_finished(self, scores: Tensor, parents: Tensor, ids: Tensor) -> None:
        """Take what ends with this token among the finished, with its length in the score.

        Of those that end, too, only what is among the k best counts.
        """
        best = slice(self.beam.size)
        scores, parents, ids = scores[:, best], parents[:, best], ids[:, best]
        ended = (scores / self.beam.penalty(self.position + 1)).masked_fill(
            (ids != EOS_ID) | self.done[:, None], -torch.inf
        )  # [B, k]
        both, order = torch.cat([self.end_scores, ended], dim=1).topk(self.beam.size, dim=1)
        lengths = torch.cat([self.end_lengths, self.position.expand_as(ids)], dim=1)
        places = torch.cat([self.end_places, parents], dim=1)
        self.end_scores.copy_(both)
        self.end_lengths.copy_(lengths.gather(1, order))
        self.end_places.copy_(places.gather(1, order))


_BY_SENTENCE = (
    "limits",
    "last_ids",
    "scores",
    "end_scores",
    "end_lengths",
    "end_places",
    "lengths",
    "done",
)


def _written(
    ids: Tensor, parents: Tensor, lengths: Tensor, places: Tensor
) -> list[list[list[int]]]:
    """Follow n hypotheses of each sentence, [B, n], back to their beginning.

    They have so many tokens, of which the last was written in the place given.
    """
    tokens = ids.new_empty(*lengths.shape, ids.size(2))  # [B, n, T]
    for step in reversed(range(ids.size(2))):
        tokens[:, :, step] = ids[:, :, step].gather(1, places)
        before = parents[:, :, step].gather(1, places)
        places = torch.where(step < lengths, before, places)
    return [
        [its[:length] for its, length in zip(*sentence, strict=True)]
        for sentence in zip(tokens.tolist(), lengths.tolist(), strict=True)
    ]
