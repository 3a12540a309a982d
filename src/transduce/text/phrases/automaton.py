"""Automata that find a phrase in the text that tokens spell, however it is cut into tokens.

A phrase is one text or several alternatives. It is found where its bytes are, whatever tokens spell
them, but not as a part of a longer word: if its first character belongs to a word, none may stand
before it, and likewise at its end. The end of a word is known when the next character comes, so a
phrase that may be complete is `pending` until then.

Where a character before or after a phrase is cut by tokens, it is unknown whether the phrase is
part of a longer word. Such a phrase is doubtful: it does not count, and where phrases are limited,
the tokens that complete it are not allowed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from transduce.text.phrases.boundaries import Kind, is_word_character
from transduce.text.phrases.vocabulary import PhraseVocabulary, TokenClass
from transduce.text.special_ids import EOS_ID

MAX_PHRASE_BYTES = 8_192
"""The bytes of all alternatives of a phrase together."""
FAR = 1 << 20
"""The distance of states from which a phrase cannot be completed."""
DOUBTFUL = -1
"""Stands for the number of phrases found where it is unknown."""
Ints = NDArray[np.int64]


class _Node:
    """A node of the trie of all alternatives."""

    __slots__ = ("children", "ends_free", "ends_word", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.children: dict[int, _Node] = {}
        self.ends_word = False  # complete if no character of a word follows
        self.ends_free = False  # complete, whatever follows


class _State(NamedTuple):
    """What is known of the text so far."""

    sure: tuple[int, ...]  # nodes that its end has reached
    doubtful: tuple[int, ...]  # the same, where the character before may belong to the word
    pending: bool
    doubtful_pending: bool
    last: Kind  # the kind of the last character


class _Step(NamedTuple):
    state: int
    found: int  # phrases that are complete now, or DOUBTFUL


class _Reading(NamedTuple):
    """What reading a token means: its bytes, and what begins at each."""

    text: tuple[tuple[int, Kind], ...]
    is_end: bool = False


_AFTER_WORD = 1
_NO_BYTE = -1
_OTHER_BYTE = 0xFF  # no text has it
_START = _State((), (), False, False, Kind.BREAK)


@dataclass(frozen=True)
class PhraseAutomaton:
    """The states of a phrase, and what every token does in each of them.

    Tokens that do the same share a column.
    """

    columns: Ints  # [V], the column of each token
    following: Ints  # [states, columns], the next state
    found: Ints  # [states, columns], how many phrases the token completes, or DOUBTFUL
    is_partial: NDArray[np.bool_]  # [states], a phrase has begun
    proposed: Ints  # [states, some], tokens that go on with the phrase or begin it; −1: none
    distances: Ints  # [states], the fewest tokens until the next one is complete, or pending
    forced: Ints  # [states], the first of these tokens

    @property
    def most_tokens(self) -> int:
        """The most tokens that it takes to write the phrase, whatever was written before."""
        return int(self.distances.max())

    @property
    def can_be_written(self) -> bool:
        """Whether the tokens of the vocabulary can spell it."""
        return self.most_tokens < FAR

    def count(self, tokens: Iterable[int]) -> int:
        """Count the phrases in a text that ends after these tokens."""
        return self.count_with_doubt(tokens)[0]

    def count_with_doubt(self, tokens: Iterable[int]) -> tuple[int, int]:
        """Count the phrases in a text that ends after these tokens; then, where it is doubtful."""
        state, count, doubtful = 0, 0, 0
        for token in [*tokens, EOS_ID]:
            column = self.columns[token]
            found = int(self.found[state, column])
            count, doubtful = count + max(0, found), doubtful + (found == DOUBTFUL)
            state = int(self.following[state, column])
        return count, doubtful


def automaton_of(alternatives: Sequence[str], vocabulary: PhraseVocabulary) -> PhraseAutomaton:
    """Make the automaton of a phrase, for the tokens of one vocabulary."""
    return _Builder(list(alternatives), vocabulary).built()


@dataclass
class _Builder:
    alternatives: list[str]
    vocabulary: PhraseVocabulary
    _nodes: list[_Node] = field(default_factory=lambda: [_Node(0), _Node(1)])
    _numbers: dict[_State, int] = field(default_factory=dict)
    _states: list[_State] = field(default_factory=list)
    _steps: dict[tuple[int, int, int], _Step] = field(default_factory=dict)

    def built(self) -> PhraseAutomaton:
        after_word, after_free = self._nodes  # the roots, by what must stand before
        for text in self.alternatives:
            self._add(text, after_word if is_word_character(text[0]) else after_free)
        for last in (Kind.BREAK, Kind.WORD, Kind.UNKNOWN):  # WORD: the number _AFTER_WORD
            self._number(_START._replace(last=last))
        touching = self.vocabulary.touching(self.alternatives)
        columns = self.vocabulary.default_columns.copy()
        readings = [*map(_reading_of_class, self.vocabulary.classes), *map(self._reading, touching)]
        columns[touching] = np.arange(len(readings) - len(touching), len(readings))
        following, found = self._walked(readings)
        merged, kept = _merged_columns(following, found)
        choices = [*self._class_choices(set(touching)), *touching]
        distances, forced = _shortest(following, found, choices, self._are_pending)
        return PhraseAutomaton(
            columns=merged[columns],
            following=following[:, kept],
            found=found[:, kept],
            is_partial=np.array([bool(s.sure) or s.pending for s in self._states]),
            proposed=self._proposed(columns, following, found, forced),
            distances=distances,
            forced=forced,
        )

    def _add(self, text: str, node: _Node) -> None:
        for byte in text.encode():
            if byte not in node.children:
                node.children[byte] = _Node(len(self._nodes))
                self._nodes.append(node.children[byte])
            node = node.children[byte]
        if is_word_character(text[-1]):
            node.ends_word = True
        else:
            node.ends_free = True

    def _number(self, state: _State) -> int:
        if state not in self._numbers:
            self._numbers[state] = len(self._states)
            self._states.append(state)
        return self._numbers[state]

    @property
    def _are_pending(self) -> list[bool]:
        return [state.pending for state in self._states]

    def _reading(self, token: int) -> _Reading:
        text = self.vocabulary.texts[token]
        return _Reading(tuple(zip(text, self.vocabulary.kinds[token], strict=True)))

    def _class_choices(self, touching: set[int]) -> list[int]:
        """Choose a token of each class that ends a word, for where a phrase must be forced."""
        return [
            next((token for token in one.tokens if token not in touching), -1)
            if one.kinds[-1:] == (Kind.BREAK,)
            else -1
            for one in self.vocabulary.classes
        ]

    def _walked(self, readings: list[_Reading]) -> tuple[Ints, Ints]:
        """Read every token in every state that can be reached: [states, tokens] each.

        A token that does not go on with what has begun does the same as in the state without it.
        """
        by_byte: dict[int, list[int]] = {}
        for column, reading in enumerate(readings):
            by_byte.setdefault(reading.text[0][0] if reading.text else _NO_BYTE, []).append(column)
        rows: dict[int, tuple[Ints, Ints]] = {}
        number = 0
        while number < len(self._states):  # reading finds new states
            self._walk(number, readings, by_byte, rows)
            number += 1
        in_order = [rows[number] for number in range(len(self._states))]
        return np.stack([row for row, _ in in_order]), np.stack([row for _, row in in_order])

    def _walk(
        self,
        number: int,
        readings: list[_Reading],
        by_byte: dict[int, list[int]],
        rows: dict[int, tuple[Ints, Ints]],
    ) -> None:
        """Read every token in one state, unless it was done before."""
        if number in rows:
            return
        state = self._states[number]
        base = self._number(state._replace(sure=(), doubtful=()))
        if base == number:
            steps = [self._read(number, reading) for reading in readings]
            rows[number] = (
                np.array([step.state for step in steps]),
                np.array([step.found for step in steps]),
            )
            return
        self._walk(base, readings, by_byte, rows)
        following, found = (row.copy() for row in rows[base])
        for column in self._changed(state, by_byte):
            following[column], found[column] = self._read(number, readings[column])
        rows[number] = (following, found)

    def _changed(self, state: _State, by_byte: dict[int, list[int]]) -> Iterable[int]:
        """Stream the columns of tokens that may go on with what has begun, or leave the state."""
        nodes = {*state.sure, *state.doubtful}
        for byte in {byte for node in nodes for byte in self._nodes[node].children}:
            yield from by_byte.get(byte, ())
        yield from by_byte[_NO_BYTE]

    def _read(self, number: int, reading: _Reading) -> _Step:
        """Read the bytes of a token; EOS ends the text, and others without a text do nothing."""
        if reading.is_end:
            state = self._states[number]
            return _Step(number, DOUBTFUL if state.doubtful_pending else int(state.pending))
        found = 0
        for byte, kind in reading.text:
            key = (number, byte, kind)
            step = self._steps.get(key)
            if step is None:
                step = self._steps[key] = self._next(self._states[number], byte, kind)
            number = step.state
            found = DOUBTFUL if DOUBTFUL in (found, step.found) else found + step.found
        return _Step(number, found)

    def _next(self, state: _State, byte: int, kind: Kind) -> _Step:
        """Read one byte."""
        found = 0
        begun, doubtfully = [1], []  # those that may begin anywhere
        if kind is not Kind.INSIDE:
            if state.pending:
                found = {Kind.BREAK: 1, Kind.UNKNOWN: DOUBTFUL}.get(kind, 0)
            if state.doubtful_pending and kind is not Kind.WORD:
                found = DOUBTFUL
            if state.last is Kind.BREAK:
                begun.append(0)
            elif state.last is Kind.UNKNOWN:
                doubtfully.append(0)
        sure = self._children([*state.sure, *begun], byte)
        doubtful = self._children([*state.doubtful, *doubtfully], byte) - sure
        last = state.last if kind is Kind.INSIDE else kind
        ends = [[self._nodes[node] for node in nodes] for nodes in (sure, doubtful)]
        if found != DOUBTFUL:
            found += any(node.ends_free for node in ends[0])
        if any(node.ends_free for node in ends[1]):
            found = DOUBTFUL
        pending, doubtful_pending = (any(node.ends_word for node in nodes) for nodes in ends)
        after = _State(
            tuple(sorted(sure)), tuple(sorted(doubtful)), pending, doubtful_pending, last
        )
        return _Step(self._number(after), found)

    def _children(self, nodes: list[int], byte: int) -> set[int]:
        children = (self._nodes[node].children.get(byte) for node in nodes)
        return {child.number for child in children if child is not None}

    def _proposed(self, columns: Ints, following: Ints, found: Ints, forced: Ints) -> Ints:
        """List for each state the tokens that write an alternative as the tokenizer writes it.

        Where it writes none, the forced token is proposed.
        """
        proposed: list[dict[int, None]] = [{} for _ in self._states]
        roots = {last: self._numbers[_START._replace(last=last)] for last in list(Kind)[:3]}
        for ids in self.vocabulary.spellings(self.alternatives):
            for state in roots.values():
                path, count = [], 0
                for token in ids:
                    path.append((state, token))
                    count = max(count, int(found[state, columns[token]]))
                    state = int(following[state, columns[token]])
                if count > 0 or self._states[state].pending:
                    for place, token in path:
                        proposed[place].setdefault(token)
        for state, tokens in enumerate(proposed):
            if not tokens and forced[state] >= 0:
                tokens.setdefault(int(forced[state]))
        width = max(1, *(len(tokens) for tokens in proposed))
        return np.array([[*tokens, *[-1] * (width - len(tokens))] for tokens in proposed])


def _reading_of_class(one: TokenClass) -> _Reading:
    """Return what a token of a class does that touches no phrase: it has none of their bytes."""
    if one.is_end:
        return _Reading((), is_end=True)
    return _Reading(tuple((_OTHER_BYTE, kind) for kind in one.kinds))


def _shortest(
    following: Ints, found: Ints, choices: list[int], are_pending: list[bool]
) -> tuple[Ints, Ints]:
    """Return the fewest tokens from each state to the next phrase, and the first of them.

    `choices` are the tokens of the columns, or −1.
    """
    distances = np.where(are_pending, 0, FAR)
    cannot = (found == DOUBTFUL) | (np.array(choices) < 0)
    while True:
        after = np.where(cannot, FAR, np.where(found > 0, 0, distances[following]))
        better = np.where(are_pending, 0, np.minimum(after.min(axis=1) + 1, FAR))
        if (better == distances).all():
            forced = np.array(choices)[after.argmin(axis=1)]
            # After a pending phrase another one may be needed: it begins after a word.
            return (
                np.where(are_pending, distances[_AFTER_WORD], distances),
                np.where(are_pending, forced[_AFTER_WORD], forced),
            )
        distances = better


def _merged_columns(following: Ints, found: Ints) -> tuple[Ints, Ints]:
    """Find columns that are the same; return the new number of each, and which are kept."""
    both = np.concatenate([following, found])
    seen: dict[bytes, int] = {}
    numbers: list[int] = []
    kept: list[int] = []
    for column in range(both.shape[1]):
        key = both[:, column].tobytes()
        if key not in seen:
            seen[key] = len(kept)
            kept.append(column)
        numbers.append(seen[key])
    return np.array(numbers), np.array(kept)
