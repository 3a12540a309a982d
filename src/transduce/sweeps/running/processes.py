"""The processes of a sweep, as the process that starts them sees them."""

import multiprocessing
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from transduce.data.worker_processes import script_hidden
from transduce.sweeps.running.worker import STOP, Done, Failed, Message, PrepareJob, TrainJob, work

PRELOADED = ["transduce.sweeps.running.worker", "torch._dynamo"]
"""What each run on the CPU needs; torch loads the second with its first optimiser."""
EXIT_S = 60.0
"""How long a process may take to end after its last message."""


class WorkerProcess:
    """A process that carries out a job.

    Processes are forked from a server, so that nothing of this process's state is in them. If all
    compute on the CPU, the server has loaded torch; with a GPU, each process loads it.
    """

    def __init__(self, job: TrainJob | PrepareJob, log: Path, *, on_gpu: bool) -> None:
        """Start the process; what it prints goes to `log`."""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([] if on_gpu else PRELOADED)
        self.pipe, theirs = context.Pipe()
        self.last: Done | Failed | None = None
        self.is_over = False
        self._process = context.Process(target=work, args=(job, theirs, log))
        with script_hidden():
            self._process.start()
        theirs.close()  # so that this end sees when the process is gone

    @property
    def pid(self) -> int | None:
        """The number of the process."""
        return self._process.pid

    def messages(self) -> Iterator[Message]:
        """Return what the process has reported since; at its end, how it ended."""
        try:
            while self.pipe.poll():
                message: Message = self.pipe.recv()
                if isinstance(message, Done | Failed):
                    self.last = message
                else:
                    yield message
        except (EOFError, OSError):
            self._process.join(EXIT_S)
            self.close()
            self.last = self.last or Failed(self._how_it_ended())
            self.is_over = True
            yield self.last

    def stop(self) -> None:
        """Ask the process to save a checkpoint and end."""
        with suppress(OSError):
            self.pipe.send(STOP)

    def terminate(self) -> None:
        """End the process at once; `messages` then says that it is over."""
        self._process.kill()

    def close(self) -> None:
        """End the process, if it has not ended yet, and forget it."""
        self._process.kill()
        self._process.join()
        self.pipe.close()

    def _how_it_ended(self) -> str:
        code = self._process.exitcode or 0
        if code >= 0:
            return f"its process ended with code {code}"
        with suppress(ValueError):
            name = signal.Signals(-code).name
            memory = ", perhaps because memory ran out" if -code == signal.SIGKILL else ""
            return f"its process was killed by {name}{memory}"
        return f"its process was killed by signal {-code}"
