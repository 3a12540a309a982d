"""EVALB's algorithm as its program has it: arrays of brackets, every pair compared.

Written with knowledge of the program's source, without anything of `transduce`, on texts.
"""

from typing import NamedTuple

DELETED = ("TOP", "-NONE-", ",", ":", "``", "''", ".")


class Counts(NamedTuple):
    status: int  # 0: scored, 1: error, 2: skipped
    length: int
    matched: int = 0
    gold: int = 0
    test: int = 0
    words: int = 0
    right_tags: int = 0


def evalb(gold: str, test: str) -> Counts:
    words, brackets, length = read(gold)
    other_words, other_brackets, _ = read(test)
    if not other_words:
        return Counts(2, length)
    if [word for word, _ in words] != [word for word, _ in other_words]:
        return Counts(1, length)
    left = [massaged(one) for one in brackets if kept(one)]
    right = [massaged(one) for one in other_brackets if kept(one)]
    found = [False] * len(right)
    for one in left:
        for place, another in enumerate(right):
            if not found[place] and one[1:] == another[1:] and same(one[0], another[0]):
                found[place] = True
                break
    tags = sum(same(a, b) for (_, a), (_, b) in zip(words, other_words, strict=True))
    return Counts(0, length, sum(found), len(left), len(right), len(words), tags)


def read(text: str) -> tuple[list[tuple[str, str]], list[list[object]], int]:
    parts = text.replace("(", " ( ").replace(")", " ) ").split()
    words: list[tuple[str, str]] = []
    brackets: list[list[object]] = []
    stack: list[int] = []
    place = length = 0
    while place < len(parts):
        if parts[place] == ")":
            brackets[stack.pop()][2] = len(words)
            place += 1
        elif parts[place + 2] == "(":
            stack.append(len(brackets))
            brackets.append([parts[place + 1], len(words), -1])
            place += 2
        else:
            tag, word = parts[place + 1 : place + 3]
            length += tag != "-NONE-"
            if tag not in DELETED:
                words.append((word, tag))
            place += 4
    return words, brackets, length


def massaged(bracket: list[object]) -> list[object]:
    return [cut(str(bracket[0])), *bracket[1:]]


def cut(label: str) -> str:
    for place, sign in enumerate(label):
        if sign in "-=":
            return label[:place]
    return label


def kept(bracket: list[object]) -> bool:
    return bracket[1] != bracket[2] and cut(str(bracket[0])) not in DELETED


def same(one: object, another: object) -> bool:
    return one == another or {one, another} == {"ADVP", "PRT"}
