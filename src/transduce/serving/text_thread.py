"""Work on long texts, in a thread of its own: the event loop runs nothing for long."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from transduce.serving.refusal import Refused, too_busy

Result = TypeVar("Result")

LITTLE = 2_000
"""Characters that are worked on at once: about a millisecond, less than handing them over costs."""
LINE = 20
"""Each line costs as much as this many characters, blank or not."""
MAX_LATE = 4
"""How many files may go on in threads of their own after their time is over."""


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


class FileThread:
    """Runs work on files one after the other; work that is late is left behind.

    A thread cannot be ended from outside. So work that is not done within the deadline keeps its
    thread, its file is refused, and a new thread takes the next file. If `MAX_LATE` are left behind
    already, files wait for the last one, and are refused after the deadline.
    """

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._thread = TextThread("files")
        self._late: list[_Work[Any]] = []

    async def run(self, do: Callable[[], Result]) -> Result:
        """Return the result of work on a file; refuse the file if it takes too long."""
        thread, work = self._thread, _Work(do)
        try:
            async with asyncio.timeout(self._deadline_s):
                return await thread.run(work, characters=LITTLE + 1)
        except TimeoutError:
            if not work.has_begun:
                raise too_busy(1) from None
        self._late = [one for one in self._late if not one.has_ended]
        if len(self._late) < MAX_LATE and thread is self._thread:
            self._late.append(work)
            self._thread = TextThread("files")
        raise Refused(
            413, f"the file was not read within {self._deadline_s:g} s: send a smaller one"
        )

    def close(self) -> None:
        """End the thread after what it is doing."""
        self._thread.close()


@dataclass
class _Work(Generic[Result]):
    """Something to do, and how far it is."""

    do: Callable[[], Result]
    has_begun: bool = False
    has_ended: bool = False

    def __call__(self) -> Result:
        self.has_begun = True
        try:
            return self.do()
        finally:
            self.has_ended = True
