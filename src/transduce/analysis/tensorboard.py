"""The numbers of a run as TensorBoard event files."""

import importlib.util
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from transduce.errors import InputError, how_to_install
from transduce.files.errors import reporting_write_errors
from transduce.training.run.events import Event, Scored, Stepped


def available() -> bool:
    """Return whether TensorBoard is installed: it comes with the extra `plot`."""
    return importlib.util.find_spec("tensorboard") is not None


class EventFiles(AbstractContextManager["EventFiles"]):
    """Writes the scalars of a run's events, with nothing of TensorBoard but its file format.

    TensorBoard's own writer uses a thread, which dies silently when the disk is full, and loads
    TensorFlow where that is installed.
    """

    def __init__(self, folder: Path, step: int) -> None:
        """Start a file for a session that resumes after `step`; later points are discarded."""
        if not available():
            raise InputError(f"TensorBoard is not installed: {how_to_install('plot')}")
        from tensorboard.compat.proto import event_pb2  # type: ignore[import-untyped]
        from tensorboard.summary.writer.record_writer import (  # type: ignore[import-untyped]
            RecordWriter,
        )

        self._proto = event_pb2
        # TensorBoard reads files in the order of their names; each session has its own.
        self._path = folder / f"events.out.tfevents.{time.time_ns()}.transduce"
        with reporting_write_errors(self._path):
            folder.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("xb", buffering=0)
        self._records = RecordWriter(self._file)
        self._write(event_pb2.Event(file_version="brain.Event:2"))
        start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        self._write(event_pb2.Event(step=step + 1, session_log=start))

    def __call__(self, event: Event) -> None:
        """Write the numbers of a step or a score; other events have no numbers."""
        values = _scalars(event)
        if values:
            summary = self._proto.Event().summary
            for tag, value in values.items():
                summary.value.add(tag=tag, simple_value=value)
            self._write(self._proto.Event(step=event.step, summary=summary))

    def close(self) -> None:
        """Close the file; every event is already written."""
        self._file.close()

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def _write(self, event: Any) -> None:
        event.wall_time = time.time()
        with reporting_write_errors(self._path):
            self._records.write(event.SerializeToString())


def _scalars(event: Event) -> dict[str, float]:
    match event:
        case Stepped():
            return {
                "train/loss": event.loss,
                "train/learning_rate": event.learning_rate,
                "train/gradient_norm": event.gradient_norm,
                "train/tokens_per_s": event.tokens_per_s,
            }
        case Scored():
            scores = {"dev/loss": event.loss, "dev/perplexity": event.perplexity}
            if event.metric is None or event.score is None:
                return scores
            tag = f"dev/{event.metric.lower().replace(' ', '_')}"  # dev/bleu for translation
            return scores | {tag: event.score}
        case _:
            return {}
