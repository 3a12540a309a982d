"""What each token of a document is to a translator: text, an inline tag, or what divides texts."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import accumulate

from transduce.errors import InputError
from transduce.text.markup.elements import (
    CLOSED_BY,
    DIVIDING,
    HIDDEN,
    LEFT_ALONE,
)
from transduce.text.markup.tokens import MarkupKind, Token, attributes_of, line_of

MAX_DEPTH = 32
"""Inline elements that are nested deeper divide texts: nobody writes so, and it costs time."""


class Role(Enum):
    """What an item is to a translator."""

    TEXT = "text"
    OPENING = "start tag of an inline element"
    CLOSING = "end tag of an inline element"
    POINT = "something between words"
    KEPT = "words that stay as they are"
    DIVIDER = "what stands between texts"


@dataclass(frozen=True)
class Item:
    """One token, or an element that is left alone, as it is written."""

    role: Role
    source: str
    partner: int = -1  # index of the other tag of an inline element
    shown: str = ""  # the words that stay, as they are written


def html_structure(tokens: Sequence[Token]) -> list[Item]:
    """Find the inline elements of HTML, whatever it is, and what divides its texts."""
    elements = _matched(tokens)
    return _without_divided(_items(tokens, elements, [t.name in DIVIDING for t in tokens]))


def xml_structure(tokens: Sequence[Token], text: str) -> list[Item]:
    """Find the inline elements of XML; raise if its tags do not match.

    An element is inline if there is text beside it, or around it.
    """
    elements = _matched_xml(tokens, text)
    return _without_divided(_items(tokens, elements, _divides_xml(tokens, elements)))


@dataclass
class _Elements:
    """Where elements begin and end."""

    partner: list[int]  # of each tag, the index of the other one; -1: there is none
    end: list[int]  # of each start tag, the index after its element

    @classmethod
    def of(cls, tokens: Sequence[Token]) -> "_Elements":
        return cls([-1] * len(tokens), [len(tokens)] * len(tokens))

    def match(self, start: int, end: int) -> None:
        self.partner[start], self.partner[end], self.end[start] = end, start, end + 1


@dataclass
class _OpenElements:
    """Elements whose end was not seen yet, with the last of each name at hand."""

    stack: list[int] = field(default_factory=list)
    by_name: dict[str, list[int]] = field(default_factory=dict)  # places in the stack
    dividing: list[int] = field(default_factory=list)  # places in the stack

    def push(self, index: int, name: str) -> None:
        self.by_name.setdefault(name, []).append(len(self.stack))
        if name in DIVIDING:
            self.dividing.append(len(self.stack))
        self.stack.append(index)

    def pop(self, tokens: Sequence[Token]) -> int:
        index = self.stack.pop()
        name = tokens[index].name
        self.by_name[name].pop()
        if name in DIVIDING:
            self.dividing.pop()
        return index

    def place_of(self, name: str) -> int:
        """Return the place of the element that an end tag closes; -1: none.

        An inline element is not closed from within an element that divides.
        """
        places = self.by_name.get(name)
        if not places:
            return -1
        is_beyond = name not in DIVIDING and self.dividing and places[-1] < self.dividing[-1]
        return -1 if is_beyond else places[-1]


def _matched(tokens: Sequence[Token]) -> _Elements:
    """Match the tags of HTML; end tags may be missing."""
    elements, opened = _Elements.of(tokens), _OpenElements()
    for index, token in enumerate(tokens):
        if token.kind is MarkupKind.START:
            while opened.stack and token.name in CLOSED_BY.get(
                tokens[opened.stack[-1]].name, frozenset()
            ):
                elements.end[opened.pop(tokens)] = index
            opened.push(index, token.name)
        elif token.kind is MarkupKind.END and (place := opened.place_of(token.name)) >= 0:
            while len(opened.stack) > place + 1:
                elements.end[opened.pop(tokens)] = index
            elements.match(opened.pop(tokens), index)
    return elements


def _matched_xml(tokens: Sequence[Token], text: str) -> _Elements:
    elements, opened, place = _Elements.of(tokens), list[int](), 0
    for index, token in enumerate(tokens):
        if token.kind is MarkupKind.START:
            opened.append(index)
        elif token.kind is MarkupKind.END:
            if not opened or tokens[opened[-1]].name != token.name:
                raise InputError(
                    f"{line_of(text, place)}: </{token.name[:40]}> closes no element: this is not "
                    "well-formed XML"
                )
            elements.match(opened.pop(), index)
        place += len(token.source)
    if opened:
        name, place = tokens[opened[-1]].name[:40], sum(len(t.source) for t in tokens[: opened[-1]])
        raise InputError(
            f"{line_of(text, place)}: <{name}> is never closed: this is not well-formed XML"
        )
    return elements


def _divides_xml(tokens: Sequence[Token], elements: _Elements) -> list[bool]:
    """Return for each tag whether it divides texts: it has no text beside it or around it."""
    parents, stack = [-1] * len(tokens), [-1]
    mixed = [False] * len(tokens)
    for index, token in enumerate(tokens):
        if token.kind is MarkupKind.END:
            stack.pop()
        parents[index] = stack[-1]
        if token.kind is MarkupKind.TEXT and stack[-1] >= 0 and token.source.strip():
            mixed[stack[-1]] = True
        elif token.kind is MarkupKind.START:
            stack.append(index)
    divides = [True] * len(tokens)
    for index, parent in enumerate(parents):  # parents come before what they contain
        divides[index] = parent < 0 or (divides[parent] and not mixed[parent])
        if tokens[index].kind is MarkupKind.END:
            divides[index] = divides[elements.partner[index]]
    return divides


def _items(tokens: Sequence[Token], elements: _Elements, divides: Sequence[bool]) -> list[Item]:
    """Give each token its role; an element that is left alone becomes one item."""
    items: list[Item] = []
    places: dict[int, int] = {}  # of tokens among the items
    index = 0
    while index < len(tokens):
        token, places[index] = tokens[index], len(items)
        if token.kind is MarkupKind.START and _is_left_alone(token):
            end = elements.end[index]
            kept = _kept(tokens[index:end], divides[index:end])
            is_closed = elements.partner[index] >= 0
            items.append(kept if is_closed else replace(kept, role=Role.DIVIDER))
            index = end
            continue
        items.append(_item(token, divides=divides[index], partner=elements.partner[index]))
        index += 1
    if tokens and tokens[-1].kind is MarkupKind.OTHER:
        # It may not be closed: then it would swallow what comes after it.
        items[-1] = replace(items[-1], role=Role.DIVIDER)
    return [
        replace(item, partner=places[item.partner]) if item.partner >= 0 else item for item in items
    ]


def _item(token: Token, *, divides: bool, partner: int) -> Item:
    if token.kind is MarkupKind.TEXT:
        return Item(Role.TEXT, token.source)
    if token.kind is MarkupKind.OTHER:
        return Item(Role.POINT, token.source)
    if divides:
        return Item(Role.DIVIDER, token.source)
    if partner < 0:
        return Item(Role.POINT, token.source)
    role = Role.OPENING if token.kind is MarkupKind.START else Role.CLOSING
    return Item(role, token.source, partner)


def _is_left_alone(token: Token) -> bool:
    if token.name in LEFT_ALONE:
        return True
    lower = token.source.lower()
    if "translate" not in lower:
        return False
    given = attributes_of(token.source)
    says_no = "no" in (given.get("translate", "").lower(), given.get("its:translate", "").lower())
    return says_no or "notranslate" in given.get("class", "").split()


def _kept(tokens: Sequence[Token], divides: Sequence[bool]) -> Item:
    """Make an item of an element that is left alone."""
    source = "".join(token.source for token in tokens)
    is_tag = [token.kind not in (MarkupKind.TEXT, MarkupKind.OTHER) for token in tokens]
    if any(one and other for one, other in zip(is_tag, divides, strict=True)):
        return Item(Role.DIVIDER, source)
    if tokens[0].name in HIDDEN:
        return Item(Role.POINT, source)
    shown = "".join(token.source for token in tokens if token.kind is MarkupKind.TEXT)
    return Item(Role.KEPT, source, shown=shown)


def _without_divided(items: list[Item]) -> list[Item]:
    """Make dividers of inline tags that have a divider between them, or are nested too deep."""
    depth, depths = 0, []
    for item in items:
        depth -= item.role is Role.CLOSING
        depths.append(depth)
        depth += item.role is Role.OPENING
    inline = (Role.OPENING, Role.CLOSING)
    items = [
        replace(item, role=Role.DIVIDER) if item.role in inline and its_depth >= MAX_DEPTH else item
        for item, its_depth in zip(items, depths, strict=True)
    ]
    dividers = list(accumulate(item.role is Role.DIVIDER for item in items))
    return [
        replace(item, role=Role.DIVIDER)
        if item.role in inline and dividers[item.partner] != dividers[index]
        else item
        for index, item in enumerate(items)
    ]
