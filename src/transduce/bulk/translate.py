"""Text of any size, translated in shards: each is a file, and what is done stays done.

The lines stream through, so memory does not grow with the text. Only the shards that the manifest
does not have are translated, so a process that was killed at any moment is continued by the next.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from transduce.bulk.made_from import LEFT_OUT, OutputSettings, TextFiles, described_model
from transduce.bulk.manifest import Manifest, opened_manifest
from transduce.bulk.output_lines import OutputForm
from transduce.bulk.ray_workers import RayWorkers
from transduce.bulk.shards import Shard, shards_of
from transduce.bulk.workers import (
    LocalWorker,
    ModelSource,
    OutputRecord,
    ShardSettings,
    ShardWorkers,
)
from transduce.data.corpus import DEFAULT_FIELDS, check_fields, check_fields_used
from transduce.errors import InputError
from transduce.files.unchanged import unchanged_files
from transduce.translation.inference import Precision
from transduce.translation.lines import check_length
from transduce.translation.load import EngineName, Folder, default_options
from transduce.translation.options import Options

SHARD_LINES = 10_000
"""Lines of a shard unless another number is given; what is lost when a process is killed."""
WINDOW_LINES = {"cpu": 128}
"""Lines of a window by type of device, as where all lines go into one file."""
WINDOW_LINES_OF_GPU = 8_192
MAY_CHANGE = ("version", "device")
"""What may differ from the command that began: translations differ by rounding at most."""


class BulkWatcher:
    """Is told how far the translation of a text is; this one does nothing with it."""

    def begun(self, *, before: int, total: int, changes: Sequence[str]) -> None:
        """The work begins; some lines were translated before, with what `changes` says."""

    def translated(self, line: OutputRecord) -> None:
        """A line is translated; lines of different shards may be told in any order."""

    def written(self, *, lines: int) -> None:
        """A part with the translations of so many lines is done."""

    def noted(self, text: str) -> None:
        """The user should know something about the whole."""


@dataclass(frozen=True)
class BulkText:
    """A text to translate in shards, and the folder of its parts."""

    files: TextFiles
    total: int  # lines
    out: Path
    output: OutputSettings
    prefixes: Callable[[], Iterable[str] | None] = lambda: None
    shard_lines: int | None = None  # None: as before, or the default
    window: int | None = None  # None: as before, or as the device wants it
    version: str = ""  # of this package

    def described(self, workers: ShardWorkers, manifest: Manifest) -> dict[str, Any]:
        """Describe everything that decides what is written."""
        device = workers.identity.device
        before = manifest.made_from if manifest.parts else {}
        return {
            **({"version": self.version} if self.version else {}),
            **described_model(workers.identity),
            **self.files.described(),
            **self.output.described(),
            "window": self.window
            or before.get("window", WINDOW_LINES.get(device, WINDOW_LINES_OF_GPU)),
            "shard-lines": self.shard_lines or before.get("shard-lines", SHARD_LINES),
        }


@dataclass(frozen=True)
class ShardedTranslation:
    """A text whose translation is complete."""

    parts: list[Path]  # one after the other they are the whole
    lines: int
    lines_now: int  # the others were translated before


def translate_in_shards(
    path_or_paths: Folder | Sequence[Folder],
    files: Folder | Sequence[Folder],
    out: Folder,
    options: Options | None = None,
    *,
    fields: str = DEFAULT_FIELDS,
    form: OutputForm = "text",
    shard_lines: int | None = None,
    window: int | None = None,
    device: str = "auto",
    precision: Precision = "float32",
    engine: EngineName | None = None,
    to: str | None = None,
    shortlist: bool = False,
    on: str | None = None,
    watcher: BulkWatcher | None = None,
) -> ShardedTranslation:
    """Translate files line by line into the parts of a folder; continue what is there of them.

    path_or_paths, device, precision, engine, to, shortlist: the model, as for `load`.
    files, fields: text, or files of which one column, field or language is translated; compressed
        ones too.
    out: a folder for `part-00000000.txt` and so on, and `manifest.jsonl`, which says what is done.
    form: text; jsonl, a JSON object per line; n-best, as the command writes them.
    shard_lines: lines of a part, rounded up to whole windows; by default 10,000.
    on: the address of a Ray cluster, as for sweeps; None: in this process.

    Sharding changes no line, samples included. A folder that was begun with another input, model or
    option raises `InputError`.
    """
    folders = tuple(map(Path, _several(path_or_paths)))
    text = TextFiles([Path(file) for file in _several(files)], fields)
    check_fields_used(fields, text.files)
    for path in text.files:
        check_fields(path, fields, side="src", among=text.files, source_only=True)
    source = ModelSource(folders, device, precision, engine, to=to, shortlist=shortlist)
    output = OutputSettings(options or default_options(folders[0]), form, precision=precision)
    with unchanged_files():
        job = BulkText(
            text,
            _count(text),
            Path(out),
            output,
            shard_lines=shard_lines,
            window=window,
        )
        watcher = watcher or BulkWatcher()
        with workers_for(source, on, watcher.noted) as workers:
            return translate_text(job, workers, watcher)


@contextmanager
def workers_for(
    source: ModelSource, on: str | None, note: Callable[[str], None] = lambda _text: None
) -> Iterator[ShardWorkers]:
    """Load a model in this process or, given its address, on the nodes of a Ray cluster."""
    if on is None:
        yield LocalWorker(source.load())
        return
    workers = RayWorkers(on, source, note)
    try:
        yield workers
    finally:
        workers.close()


def translate_text(
    text: BulkText, workers: ShardWorkers, watcher: BulkWatcher
) -> ShardedTranslation:
    """Translate what is missing of a text, and write it to its folder."""
    _check_numbers(text)
    with opened_manifest(text.out) as manifest:
        made_from = text.described(workers, manifest)
        changes = manifest.begin(made_from, may_change=MAY_CHANGE, left_out=LEFT_OUT)
        settings = ShardSettings(text.output.options, text.output.form, made_from["window"])
        watcher.begun(
            before=manifest.lines_done, total=text.total, changes=[str(one) for one in changes]
        )
        plan = _Plan(text, manifest, made_from)
        _translate_missing(plan, workers, settings, watcher)
        manifest.complete(lines=text.total, parts=plan.parts)
        paths = [manifest.path_of(part) for part in range(plan.parts)]
        return ShardedTranslation(paths, text.total, plan.lines_missing)


class _Plan:
    """The shards of a text that are not done, as they are read."""

    def __init__(self, text: BulkText, manifest: Manifest, made_from: dict[str, Any]) -> None:
        self._text, self.manifest, self._made_from = text, manifest, made_from
        self.parts = self.lines_missing = 0

    def __iter__(self) -> Iterator[Shard]:
        shards = shards_of(
            self._text.files,
            self._text.prefixes(),
            window=self._made_from["window"],
            shard_lines=self._made_from["shard-lines"],
            lines_done=self._lines_done,
        )
        for shard in shards:
            self.parts = shard.number + 1
            self.lines_missing += len(shard.texts)
            yield shard

    def _lines_done(self, number: int, first: int) -> int | None:
        """Return how many lines a part has if it is done."""
        known = self.manifest.parts.get(number)
        if known is None:
            return None
        lines = min(known.lines, self._text.total - first)  # it has no more, or is damaged
        if not self.manifest.is_done(number, first=first, lines=lines):
            return None
        self.parts = number + 1
        return lines


def _translate_missing(
    plan: _Plan, workers: ShardWorkers, settings: ShardSettings, watcher: BulkWatcher
) -> None:
    """Keep the workers busy, with a bounded number of shards in memory."""
    missing = iter(plan)
    in_flight = 0
    while True:
        while in_flight < workers.max_in_flight and (shard := next(missing, None)) is not None:
            workers.submit(shard, settings)
            in_flight += 1
        if in_flight == 0:
            return
        shard, lines = workers.next_done()
        in_flight -= 1
        outputs = _outputs(lines, watcher)
        plan.manifest.write_part(shard.number, first=shard.first, outputs=outputs)
        watcher.written(lines=len(shard.texts))


def _outputs(lines: Iterable[OutputRecord], watcher: BulkWatcher) -> Iterator[tuple[str, ...]]:
    for line in lines:
        watcher.translated(line)
        yield line.output


def _check_numbers(text: BulkText) -> None:
    for name, number in (("window", text.window), ("shard", text.shard_lines)):
        if number is not None and number < 1:
            raise InputError(f"a {name} of {number} lines: use 1 or more")


def _count(text: TextFiles) -> int:
    """Read everything once, so that a fault in the last line is found before work is done."""
    total = 0
    for total, line in enumerate(text, start=1):
        check_length(line, partial("line {:,}".format, total))
    return total


def _several(given: Folder | Sequence[Folder]) -> Sequence[Folder]:
    return [given] if isinstance(given, str | PathLike) else given
