"""Phrases that every hypothesis must contain, or must not, however they are cut into tokens.

Each sentence has some phrases. For each of them an automaton (`text.phrases.automaton`) reads the
tokens of a hypothesis and counts how often the phrase occurs; `least` and `most` bound that number.
EOS is allowed once all phrases are there. When there is only just room for those that are missing,
their tokens are forced. What the automata know lies on the device and moves with the beams.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from transduce.nn.step_state import HypothesisState, SentenceState, StateGroup
from transduce.search.constraint import SharedState
from transduce.search.constraints.steering import Permitted
from transduce.text.special_ids import EOS_ID

UNLIMITED = 1 << 20
"""The most occurrences of a phrase that may occur any number of times."""
DOUBTFUL = -1
"""Stands for the number of phrases found where it is unknown: not allowed if it is bounded."""


class PhraseTable(Protocol):
    """What every token does in every state: `text.phrases.automaton.PhraseAutomaton`."""

    @property
    def columns(self) -> Any:
        """[V], the column of each token."""
        ...

    @property
    def following(self) -> Any:
        """[states, columns], the next state."""
        ...

    @property
    def found(self) -> Any:
        """[states, columns], how many phrases the token completes, or DOUBTFUL."""
        ...

    @property
    def is_partial(self) -> Any:
        """[states], whether a phrase has begun."""
        ...

    @property
    def proposed(self) -> Any:
        """[states, some], tokens that begin the phrase or go on with it; −1: none."""
        ...

    @property
    def distances(self) -> Any:
        """[states], the fewest tokens until it is complete."""
        ...

    @property
    def forced(self) -> Any:
        """[states], the first of these tokens."""
        ...


@dataclass(frozen=True)
class PhraseBound:
    """How often a phrase must occur, and may occur."""

    table: PhraseTable
    least: int = 1
    most: int = UNLIMITED

    @property
    def most_tokens(self) -> int:
        """The most tokens that the required ones take, each with a space before it."""
        return self.least * (int(self.table.distances.max()) + 1)


@dataclass(frozen=True)
class PhraseTables(StateGroup):
    """The tables of D phrases, end to end: R rows, one for each state, and their F cells.

    Number 0 is no phrase at all, with row 0 and cell 0.
    """

    columns: SharedState  # [D, V], the column of each token
    first_cells: SharedState  # [R], the cell of the first column
    widths: SharedState  # [R], the number of columns
    following: SharedState  # [F], the next row
    found: SharedState  # [F], how many phrases are completed, or DOUBTFUL
    found_at_end: SharedState  # [F], the same if the text ends after the token; at least 0
    has_begun: SharedState  # [F], whether a phrase has begun after the token
    at_end: SharedState  # [R], how many are completed if the text ends, or DOUBTFUL
    proposed: SharedState  # [R, Q]
    distances: SharedState  # [R]
    forced: SharedState  # [R]


@dataclass(frozen=True)
class LexicalConstraint(StateGroup):
    """Bounds the number of phrases in every hypothesis. Scores are those of the model.

    P is the number of phrases of a sentence.
    """

    tables: PhraseTables
    bounded: SharedState  # [b, c]: the most phrases with a maximum, the most columns of one
    separator: SharedState  # [1], the token of a space; −1: there is none
    phrases: SentenceState  # [B, P], which ones; those with a maximum come first
    least: SentenceState  # [B, P]
    most: SentenceState  # [B, P]
    longest: SentenceState  # [B, P], the most tokens that one takes, with a space before it
    limits: SentenceState  # [B], the maximum number of tokens, EOS included
    rows: HypothesisState  # [B, k, P], the states of the automata
    counts: HypothesisState  # [B, k, P]
    is_ending: HypothesisState  # [B, k], it would have ended before, but for what was missing

    @classmethod
    def of(
        cls,
        sentences: Sequence[Sequence[PhraseBound]],
        limits: Sequence[int],
        *,
        vocab_size: int,
        hypotheses: int,
        device: torch.device,
        separator: int = -1,
    ) -> "LexicalConstraint":
        """Bound the phrases of each sentence; `limits` are the maximum numbers of tokens.

        `separator` is a token that ends a word, such as a space; −1: the vocabulary has none.
        """
        # The longest first: where another goes on with a phrase, it would no longer be complete.
        ordered = [sorted(one, key=lambda b: -b.table.distances.max()) for one in sentences]
        limited = [[bound for bound in one if bound.most < UNLIMITED] for one in ordered]
        rows = [_in_columns(one, max(map(len, limited))) for one in ordered]
        width = _power_of_two(max(map(len, rows)))
        tables = list({id(b.table): b.table for one in ordered for b in one}.values())
        required = {id(b.table) for one in ordered for b in one if b.least > 0}
        numbers = {id(table): number for number, table in enumerate(tables, start=1)}
        widest = max((b.table.following.shape[1] for one in limited for b in one), default=0)
        joined, first_rows = _joined(
            tables, vocab_size, device, are_required=[id(t) in required for t in tables]
        )

        def spread(values: list[list[int]]) -> Tensor:
            padded = [[*row, *[0] * (width - len(row))] for row in values]
            return torch.tensor(padded, dtype=torch.long).to(device)

        phrases = spread([[numbers[id(b.table)] if b else 0 for b in row] for row in rows])
        longest = [[int(b.table.distances.max()) + 1 if b else 0 for b in row] for row in rows]
        states = first_rows[phrases][:, None].expand(-1, hypotheses, -1)  # [B, k, P]
        return cls(
            joined,
            SharedState(torch.zeros(max(map(len, limited)), _power_of_two(widest), device=device)),
            SharedState(torch.tensor([separator], device=device)),
            SentenceState(phrases),
            SentenceState(spread([[b.least if b else 0 for b in row] for row in rows])),
            SentenceState(spread([[b.most if b else UNLIMITED for b in row] for row in rows])),
            SentenceState(spread(longest)),
            SentenceState(torch.tensor(limits, dtype=torch.long).to(device)),
            HypothesisState(states.clone()),
            HypothesisState(torch.zeros_like(states)),
            HypothesisState(torch.zeros_like(states[:, :, 0], dtype=torch.bool)),
        )

    @property
    def renormalises(self) -> bool:
        """Keep the model's own scores."""
        return False

    @property
    def shape_key(self) -> Hashable:
        """All shapes that are not those of sentences and hypotheses."""
        tables = self.tables
        shared = (
            tables.columns,
            tables.first_cells,
            tables.following,
            tables.proposed,
            self.bounded,
        )
        shapes = tuple(part.tensor.shape for part in shared)
        return (LexicalConstraint, *shapes, self.phrases.tensor.size(1))

    def allowed(self, position: Tensor) -> Tensor:
        """Allow EOS if no phrase is missing; force what is missing if there is room for no more."""
        permitted = self.permitted(position)
        allowed = permitted.mask
        if allowed is None:
            allowed = self._every_token()  # [B, k, V]
        allowed[:, :, EOS_ID] &= permitted.may_end
        if permitted.only is None:
            return allowed
        token = permitted.only[:, :, None]  # [B, k, 1]
        is_it = torch.zeros_like(allowed).scatter_(2, token.clamp(min=0), value=True)  # [B, k, V]
        return torch.where(token >= 0, allowed & is_it, allowed)

    def permitted(self, position: Tensor) -> Permitted:
        """Return the same, without a mask if no phrase has a maximum.

        Proposed are the tokens that begin a missing phrase or go on with one.
        """
        rows, counts = self.rows.tensor, self.counts.tensor  # [B, k, P]
        at_end = self._at_end(rows, counts)  # [B, k, P]
        missing = self._missing(at_end)  # [B, k, P]
        is_missing = missing > 0  # [B, k, P]
        is_met = ~is_missing.any(dim=2)  # [B, k]
        tokens = self.tables.proposed.tensor[rows]  # [B, k, P, Q]
        proposed = tokens.masked_fill(~is_missing[:, :, :, None], -1).flatten(2)  # [B, k, P·Q]
        left = (self.limits.tensor - position)[:, None]  # [B, 1]
        bounded, mask = self.bounded.tensor.size(0), None
        may_end = is_met
        if bounded:
            is_too_many = at_end[:, :, :bounded] > self.most.tensor[:, None, :bounded]
            may_end = is_met & ~is_too_many.any(dim=2)  # [B, k]
            mask = self._allowed_by_maximum(rows, counts, left)  # [B, k, V]
        needed = (self._missing(counts) * self.longest.tensor[:, None]).sum(dim=2) + 1  # [B, k]
        is_tight = left - 1 < needed  # [B, k]
        if is_tight.is_cpu and not bool(is_tight.any()):  # reading it costs no synchronisation
            return Permitted(may_end, proposed, mask=mask)
        token = self._next_required(rows, counts, missing)  # [B, k]
        token = token.masked_fill(is_met, EOS_ID)
        return Permitted(may_end, proposed, token.masked_fill(~is_tight, -1), mask)

    def advance(self, ids: Tensor, position: Tensor) -> None:
        """Let the automata read the tokens."""
        del position
        rows, counts = self._after(self.rows.tensor, self.counts.tensor, ids)
        self.rows.update(rows)
        self.counts.update(counts)

    def progress(self, parents: Tensor, ids: Tensor) -> Tensor:
        """Return how far candidates have come, [B, n]: 2 for each phrase, 1 for one begun.

        A candidate is a hypothesis, [B, n], and a token that follows it, [B, n].
        """
        places = parents[:, :, None].expand(-1, -1, self.phrases.tensor.size(1))  # [B, n, P]
        rows, counts = (x.tensor.gather(1, places) for x in (self.rows, self.counts))
        cells = self._cells(rows, ids)  # [B, n, P]
        missing = self._missing(counts + self.tables.found_at_end.tensor[cells])  # [B, n, P]
        has_begun = self.tables.has_begun.tensor[cells] & (missing > 0)  # [B, n, P]
        return has_begun.any(dim=2).long() - 2 * missing.sum(dim=2)

    def _next_required(self, rows: Tensor, counts: Tensor, missing: Tensor) -> Tensor:
        """Return the next token of the missing phrase that has come furthest, [B, k]."""
        come = self.longest.tensor[:, None] - self.tables.distances.tensor[rows]  # [B, k, P]
        chosen = come.masked_fill(missing == 0, -1).argmax(dim=2, keepdim=True)  # [B, k, 1]
        token = self.tables.forced.tensor[rows].gather(2, chosen)[:, :, 0].clamp(min=0)  # [B, k]
        # If it would make another phrase part of a longer word, a space comes first.
        after = self._missing(self._at_end(*self._after(rows, counts, token)))  # [B, k, P]
        is_harmful = (after > missing).any(dim=2) & (self.separator.tensor >= 0)  # [B, k]
        return torch.where(is_harmful, self.separator.tensor.clamp(min=0), token)

    def _after(self, rows: Tensor, counts: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return rows and counts, [B, n, P], after tokens, [B, n]."""
        cells = self._cells(rows, ids)  # [B, n, P]
        found = self.tables.found.tensor[cells].clamp(min=0)  # [B, n, P]
        return self.tables.following.tensor[cells].long(), counts + found

    def _at_end(self, rows: Tensor, counts: Tensor) -> Tensor:
        """Return the counts if the text ended here, [B, n, P]."""
        return counts + self.tables.at_end.tensor[rows].clamp(min=0)

    def _cells(self, rows: Tensor, ids: Tensor) -> Tensor:
        """Return the cells of rows, [B, n, P], and tokens, [B, n]."""
        phrases = self.phrases.tensor[:, None]  # [B, 1, P]
        columns = self.tables.columns.tensor[phrases, ids[:, :, None]]  # [B, n, P]
        return self.tables.first_cells.tensor[rows] + columns

    def _missing(self, counts: Tensor) -> Tensor:
        """Return how many of each phrase are missing, [B, n, P]."""
        return (self.least.tensor[:, None] - counts).clamp(min=0)

    def _every_token(self) -> Tensor:
        """Return a mask that allows everything, [B, k, V]."""
        rows, vocab_size = self.rows.tensor, self.tables.columns.tensor.size(1)
        return rows.new_ones(*rows.shape[:2], vocab_size, dtype=torch.bool)

    def _allowed_by_maximum(self, rows: Tensor, counts: Tensor, left: Tensor) -> Tensor:
        """Allow the tokens after which no phrase occurs too often, [B, k, V].

        Of the last token before EOS, it must be certain that no phrase ends with it.
        """
        allowed = self._every_token()  # [B, k, V]
        bounded, widest = self.bounded.tensor.shape
        some = rows[:, :, :bounded, None]  # [B, k, b, 1]
        every = torch.arange(widest, device=rows.device)  # [c]
        columns = every.minimum(self.tables.widths.tensor[some] - 1)  # [B, k, b, c]
        cells = self.tables.first_cells.tensor[some] + columns  # [B, k, b, c]
        found = self.tables.found.tensor[cells].long()  # [B, k, b, c]
        at_end = self.tables.at_end.tensor[self.tables.following.tensor[cells].long()]
        room = (self.most.tensor[:, None] - counts)[:, :, :bounded, None]  # [B, k, b, 1]
        is_bad = (found > room) | (found == DOUBTFUL)  # [B, k, b, c]
        is_last = (left <= 2)[:, :, None, None]  # [B, 1, 1, 1]
        is_bad |= is_last & ((at_end > room - found) | (at_end == DOUBTFUL))
        is_bad &= (self.most.tensor < UNLIMITED)[:, None, :bounded, None]
        if is_bad.is_cpu and not bool(is_bad.any()):  # reading it costs no synchronisation there
            return allowed
        for place in range(bounded):
            columns = self.tables.columns.tensor[self.phrases.tensor[:, place]].long()  # [B, V]
            columns = columns.clamp(max=widest - 1)[:, None].expand_as(allowed)  # [B, k, V]
            allowed &= ~is_bad[:, :, place].gather(2, columns)
        return allowed


def _in_columns(bounds: Sequence[PhraseBound], bounded: int) -> list[PhraseBound | None]:
    """Put phrases with a maximum into the first columns, and all others after these."""
    with_maximum = [bound for bound in bounds if bound.most < UNLIMITED]
    others = [bound for bound in bounds if bound.most == UNLIMITED]
    return [*with_maximum, *[None] * (bounded - len(with_maximum)), *others]


def _joined(
    tables: Sequence[PhraseTable],
    vocab_size: int,
    device: torch.device,
    *,
    are_required: Sequence[bool],
) -> tuple[PhraseTables, Tensor]:
    """Put the tables of all phrases end to end; return them and the first row of each, [D].

    The first is of no phrase, with one state. Of phrases that are not required, nothing is
    proposed.
    """
    count = _power_of_two(len(tables) + 1)
    sizes = np.ones((count, 2), dtype=np.int64)
    sizes[1 : len(tables) + 1] = [table.following.shape for table in tables]
    rows, cells = _offsets(sizes[:, 0]), _offsets(sizes.prod(axis=1))
    columns = np.zeros((count, vocab_size), dtype=np.int16)
    for number, table in enumerate(tables, start=1):
        columns[number] = table.columns
    at_end = [table.found[:, table.columns[EOS_ID]] for table in tables]
    proposed = [
        table.proposed if is_required else table.proposed[:0]
        for table, is_required in zip(tables, are_required, strict=True)
    ]

    def by_row(values: Sequence[Any], kind: torch.dtype = torch.long) -> SharedState:
        return state(_flat(values, rows), kind)

    def by_cell(values: Sequence[Any], kind: torch.dtype) -> SharedState:
        return state(_flat(values, cells), kind)

    def state(values: Any, kind: torch.dtype = torch.long) -> SharedState:
        return SharedState(torch.as_tensor(values).to(device, kind))

    joined = PhraseTables(
        state(columns, torch.int16),
        by_row([_first_cells(t, first) for t, first in zip(tables, cells[1:], strict=False)]),
        by_row([np.full(len(t.following), t.following.shape[1]) for t in tables]),
        by_cell(
            [t.following + first for t, first in zip(tables, rows[1:], strict=False)], torch.int32
        ),
        by_cell([t.found for t in tables], torch.int8),
        by_cell([_found_at_end(t) for t in tables], torch.int8),
        by_cell([t.is_partial[t.following] for t in tables], torch.bool),
        by_row(at_end, torch.int8),
        state(_proposals(proposed, rows)),
        by_row([t.distances for t in tables]),
        by_row([t.forced for t in tables]),
    )
    return joined, torch.as_tensor(rows[:-1]).to(device)


def _first_cells(table: PhraseTable, first: int) -> Any:
    states, width = table.following.shape
    return first + width * np.arange(states)


def _found_at_end(table: PhraseTable) -> Any:
    """Count the phrases that a token completes if the text ends after it."""
    at_end = table.found[:, table.columns[EOS_ID]].clip(min=0)  # [states]
    return table.found.clip(min=0) + at_end[table.following]


def _offsets(sizes: Any) -> Any:
    return np.concatenate([[0], np.cumsum(sizes)])


def _flat(values: Sequence[Any], offsets: Any) -> Any:
    """Write the values of phrases 1, 2, … at their offsets; the size is rounded up."""
    whole = np.zeros(_power_of_two(int(offsets[-1])), dtype=np.int64)
    for number, its_values in enumerate(values, start=1):
        whole[offsets[number] : offsets[number] + its_values.size] = its_values.reshape(-1)
    return whole


def _proposals(values: Sequence[Any], offsets: Any) -> Any:
    """Do the same with lists of tokens, [R, Q]."""
    width = _power_of_two(max((tokens.shape[1] for tokens in values if len(tokens)), default=1))
    whole = np.full((_power_of_two(int(offsets[-1])), width), -1, dtype=np.int64)
    for number, tokens in enumerate(values, start=1):
        if len(tokens):
            whole[offsets[number] : offsets[number] + len(tokens), : tokens.shape[1]] = tokens
    return whole


def _power_of_two(count: int) -> int:
    return 1 << max(0, count - 1).bit_length()
