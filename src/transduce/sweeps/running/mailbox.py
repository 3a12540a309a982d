"""What the tasks of a sweep on a Ray cluster report, and which are to stop."""


class Mailbox:
    """An actor on the node of the sweep's process.

    It keeps messages as they were pickled: its process then loads no torch, as unpickling would.
    """

    def __init__(self) -> None:
        self._messages: list[tuple[str, bytes]] = []
        self._stopped: set[str] = set()

    def put(self, task: str, message: bytes) -> None:
        """Keep what a task reports."""
        self._messages.append((task, message))

    def take(self) -> list[tuple[str, bytes]]:
        """Return what was reported since, in order."""
        taken, self._messages = self._messages, []
        return taken

    def stop(self, task: str) -> None:
        """Note that a task is to stop."""
        self._stopped.add(task)

    def is_stopped(self, task: str) -> bool:
        """Whether a task is to stop."""
        return task in self._stopped
