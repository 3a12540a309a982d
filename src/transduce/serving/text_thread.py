"""Work on long texts, in a thread of its own: the event loop runs nothing for long."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")

LITTLE = 2_000
"""Characters that are worked on at once: about a millisecond, less than handing them over costs."""
LINE = 20
"""Each line costs as much as this many characters, blank or not."""


class TextThread:
    """Runs functions one after the other, in the order in which they are given.

    There is one thread only, because Python runs one at a time: more would take turns from the
    event loop.
    """

    def __init__(self, name: str = "texts") -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def run(self, work: Callable[[], Result], *, characters: int, lines: int = 0) -> Result:
        """Return the result of work on a text of this size; of a short one without the thread."""
        if characters + LINE * lines <= LITTLE:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def close(self) -> None:
        """End the thread after what it is doing."""
        self._executor.shutdown(wait=False, cancel_futures=True)
