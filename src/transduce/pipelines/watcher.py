"""What a pipeline tells whoever waits for it."""

from collections.abc import Sequence

from transduce.bulk.translate import BulkWatcher
from transduce.bulk.workers import OutputRecord
from transduce.training.progress import ProgressCallback


class PipelineWatcher:
    """Is told how far a pipeline is; this one does nothing with it."""

    def stage(self, title: str, *, is_done: bool = False) -> None:
        """A stage begins; `is_done`: an earlier command has finished it."""

    def working(self, done: int, total: int) -> None:
        """So much of the stage is done, of lines or sentences; 0 where the total is not known."""

    def training(self) -> ProgressCallback:
        """A model is trained in this stage: return what is called with the events of its run."""
        return lambda _event: None

    def noted(self, text: str) -> None:
        """The user should know something."""

    def should_stop(self) -> bool:
        """Whether the pipeline is to stop, as soon as what is done can be continued."""
        return False


class BulkProgress(BulkWatcher):
    """Tells the watcher of a pipeline how far the translation of a text is."""

    def __init__(self, watcher: PipelineWatcher) -> None:
        self._watcher = watcher
        self._done = self._total = 0

    def begun(self, *, before: int, total: int, changes: Sequence[str]) -> None:
        """Say what was done before."""
        self._done, self._total = before, total
        for change in changes:
            self._watcher.noted(f"the translation was begun with {change}: going on with it")
        self._watcher.working(before, total)

    def translated(self, line: OutputRecord) -> None:
        """Count a line."""
        del line
        self._done += 1
        self._watcher.working(self._done, self._total)

    def noted(self, text: str) -> None:
        """Pass a note on."""
        self._watcher.noted(text)
