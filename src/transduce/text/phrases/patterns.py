r"""Patterns that users write: a part of regular expressions, matched in bounded time.

Python's own matcher may take exponential time for some patterns. This one follows all ways to
match at once, so its time grows with the lengths of pattern and text alone. It knows literals, `.`,
`[…]`, `\d \w \s` and their opposites, groups, `|`, `?`, `*`, `+` and `{m,n}`; no anchors, no
look-around and no references. The longest match counts.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from transduce.errors import InputError

MAX_PATTERN = 200
"""Characters of a pattern."""
MAX_STATES = 2_000
"""States of the automaton of a pattern: repetitions multiply them."""
MAX_MATCH = 200
"""Characters of a match."""
MAX_REPEATS = 100

Test = Callable[[str], object]


@dataclass
class _Nfa:
    """States with tests of the next character, and with free moves to others."""

    tests: list[tuple[Test, int] | None] = field(default_factory=list)
    moves: list[list[int]] = field(default_factory=list)

    def add(self) -> int:
        if len(self.tests) >= MAX_STATES:
            raise InputError("too many repetitions: use fewer, or smaller numbers in {…}")
        self.tests.append(None)
        self.moves.append([])
        return len(self.tests) - 1

    def closure(self, states: set[int]) -> set[int]:
        """Return all states that free moves lead to."""
        found, waiting = set(states), list(states)
        while waiting:
            for state in self.moves[waiting.pop()]:
                if state not in found:
                    found.add(state)
                    waiting.append(state)
        return found


class Pattern:
    """A pattern of a user, ready to be found in texts."""

    def __init__(self, text: str) -> None:
        if not 0 < len(text) <= MAX_PATTERN:
            raise InputError(f"a pattern of {len(text):,} characters: use 1 to {MAX_PATTERN}")
        self.text = text
        try:
            self._nfa, self._start, self._end = _Parser(text).parsed()
        except InputError as fault:
            raise InputError(f"the pattern {text!r}: {fault}") from fault
        if self._end in self._nfa.closure({self._start}):
            raise InputError(f"the pattern {text!r} matches the empty text: ask for a character")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pattern) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Stream the beginnings and ends of matches, which do not overlap."""
        place = 0
        while place < len(text):
            end = self._longest(text, place)
            if end > place:
                yield place, end
            place = max(end, place + 1)

    def _longest(self, text: str, start: int) -> int:
        """Return the end of the longest match that begins here; the beginning if there is none."""
        found, states = start, self._nfa.closure({self._start})
        for place in range(start, min(len(text), start + MAX_MATCH)):
            following = {
                test[1] for s in states if (test := self._nfa.tests[s]) and test[0](text[place])
            }
            if not following:
                break
            states = self._nfa.closure(following)
            if self._end in states:
                found = place + 1
        return found


class _Parser:
    """Reads a pattern from left to right and builds its automaton."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0
        self._nfa = _Nfa()

    def parsed(self) -> tuple[_Nfa, int, int]:
        start, end = self._alternatives(depth=0)
        if self._place < len(self._text):
            raise InputError(f"an unexpected {self._text[self._place]!r}")
        return self._nfa, start, end

    def _next(self) -> str:
        return self._text[self._place : self._place + 1]

    def _take(self, expected: str = "") -> str:
        taken = self._next()
        if expected and taken != expected:
            raise InputError(f"{expected!r} is missing")
        if not taken:
            raise InputError("it ends too early")
        self._place += 1
        return taken

    def _alternatives(self, depth: int) -> tuple[int, int]:
        if depth > 20:
            raise InputError("groups within groups within groups: use fewer")
        start, end = self._nfa.add(), self._nfa.add()
        while True:
            first, last = self._sequence(depth)
            self._nfa.moves[start].append(first)
            self._nfa.moves[last].append(end)
            if self._next() != "|":
                return start, end
            self._take()

    def _sequence(self, depth: int) -> tuple[int, int]:
        start = last = self._nfa.add()
        while self._next() not in ("", "|", ")"):
            begin = self._place
            first, end = self._item(depth)
            least, most = self._repeats()
            after, pieces = self._place, [(first, end)]
            for _ in range(max(least, most or least, 1) - 1):
                self._place = begin
                pieces.append(self._item(depth))
            self._place = after
            last = self._chained(last, pieces, least, most)
        return start, last

    def _chained(
        self, last: int, pieces: list[tuple[int, int]], least: int, most: int | None
    ) -> int:
        """Connect the copies of a repeated item; without a maximum, the last may repeat."""
        end = self._nfa.add()
        for number, (first, item_end) in enumerate(pieces):
            if number >= least:
                self._nfa.moves[last].append(end)
            self._nfa.moves[last].append(first)
            last = item_end
        if most is None:
            self._nfa.moves[last].append(pieces[-1][0])
        self._nfa.moves[last].append(end)
        return end

    def _repeats(self) -> tuple[int, int | None]:
        sign = self._next()
        if sign and sign in "?*+":
            self._take()
            return {"?": (0, 1), "*": (0, None), "+": (1, None)}[sign]
        found = re.compile(r"\{(\d{1,3})(?:(,)(\d{1,3})?)?\}").match(self._text, self._place)
        if not found:
            return 1, 1
        self._place = found.end()
        least = int(found[1])
        most = int(found[3]) if found[3] else None if found[2] else least
        if least > MAX_REPEATS or (most is not None and not max(1, least) <= most <= MAX_REPEATS):
            raise InputError(f"{found[0]} is not between 0 and {MAX_REPEATS} repetitions")
        return least, most

    def _item(self, depth: int) -> tuple[int, int]:
        sign = self._take()
        if sign == "(":
            if self._next() == "?":
                self._take()
                self._take(":")
            inside = self._alternatives(depth + 1)
            self._take(")")
            return inside
        if sign in "*+?^$":
            raise InputError(f"{sign!r} is not supported here; write \\{sign} for the character")
        first, end = self._nfa.add(), self._nfa.add()
        self._nfa.tests[first] = (self._test(sign), end)
        return first, end

    def _test(self, sign: str) -> Test:
        if sign == ".":
            return bool
        if sign == "[":
            return self._set()
        if sign == "\\":
            return _escaped(self._take())
        return sign.__eq__

    def _set(self) -> Test:
        """Hand a set of characters to Python's own matcher: one character cannot take long."""
        begin = self._place
        if self._next() == "^":
            self._take()
        if self._next() == "]":
            self._take()
        while (sign := self._next()) not in ("", "]"):
            self._take()
            if sign == "\\":
                self._take()
        self._take("]")
        try:
            with_set = re.compile("[" + self._text[begin : self._place])
        except (re.error, FutureWarning) as fault:
            raise InputError(str(fault)) from fault
        return with_set.fullmatch


def _escaped(sign: str) -> Test:
    if sign in "dDwWsS":
        return re.compile("\\" + sign).fullmatch
    if sign.isalnum():
        raise InputError(f"\\{sign} is not supported")
    return sign.__eq__


@lru_cache(maxsize=256)
def compiled(text: str) -> Pattern:
    """Return the pattern that a text describes."""
    return Pattern(text)
