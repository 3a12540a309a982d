"""How many edits make one text the other, token by token."""

from collections.abc import Sequence


def edit_distance(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the fewest tokens to insert, delete or replace.

    A column of the table of distances is two integers, whose bits say where it rises and where it
    falls (Myers, 1999): so a token of `other` takes a few operations, however long `one` is.
    """
    if not one:
        return len(other)
    places: dict[str, int] = {}
    for place, token in enumerate(one):
        places[token] = places.get(token, 0) | 1 << place
    every = (1 << len(one)) - 1
    rises, falls, distance = every, 0, len(one)
    for token in other:
        same = places.get(token, 0)
        is_diagonal = (((same & rises) + rises) ^ rises) | same | falls
        more, fewer = falls | ~(is_diagonal | rises), rises & is_diagonal
        distance += (more >> len(one) - 1 & 1) - (fewer >> len(one) - 1 & 1)
        more, fewer = more << 1 | 1, fewer << 1
        rises, falls = (fewer | ~(is_diagonal | more)) & every, more & is_diagonal & every
    return distance
