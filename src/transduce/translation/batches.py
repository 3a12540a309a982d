"""Batches of sentences of similar length, the longest first."""

from collections.abc import Callable, Iterator, Sequence


def batches_by_length(
    lengths: Sequence[int], *, max_tokens: int, cost: Callable[[int], int], powers: bool = False
) -> Iterator[list[int]]:
    """Yield indices of sentences of similar length, the longest first: out of memory comes early.

    `cost` returns the tokens that a sentence of a given length takes. A batch costs at most
    `max_tokens`, padding included, unless it is one sentence. With `powers`, every batch but the
    last has a power of two of sentences.
    """
    by_length = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    start = 0
    while start < len(by_length):
        count = max(1, max_tokens // cost(lengths[by_length[start]]))
        if powers:
            count = 1 << (count.bit_length() - 1)
        yield by_length[start : start + count]
        start += count
