"""Reading ahead in a thread, and several files at once."""

from collections.abc import Iterator
from threading import Event

import pytest

from transduce.files.in_threads import in_threads, stoppable
from transduce.files.read_ahead import read_ahead


def test_items_come_in_order_and_all() -> None:
    assert list(read_ahead(iter(range(1000)))) == list(range(1000))


def test_an_error_comes_after_the_items_before_it() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise ValueError("damaged")

    items = read_ahead(failing())
    assert next(items) == 1
    with pytest.raises(ValueError, match="damaged"):
        next(items)


def test_what_is_not_read_to_its_end_is_closed() -> None:
    closed = Event()

    def endless() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.set()

    items = read_ahead(endless())
    assert next(items) == 1
    items.close()  # type: ignore[attr-defined]
    assert closed.is_set()


def test_results_are_in_order() -> None:
    assert in_threads(lambda n: n * n, range(20)) == [n * n for n in range(20)]
    assert in_threads(str, []) == []


def test_the_first_error_stops_the_other_threads() -> None:
    started = Event()

    def read(number: int) -> int:
        if number == 0:
            started.wait()
            raise ValueError("damaged")
        endless = stoppable(iter(int, 1))
        for _ in endless:
            started.set()
        return number

    with pytest.raises(ValueError, match="damaged"):
        in_threads(read, [0, 1])
