"""The translation of a text as the stage of a pipeline: in shards, as JSON lines."""

from dataclasses import dataclass
from pathlib import Path

from transduce.bulk.translate import ShardedTranslation, translate_in_shards
from transduce.bulk.workers import ModelSource
from transduce.pipelines.watcher import BulkProgress, PipelineWatcher
from transduce.translation.options import Options


@dataclass(frozen=True)
class BulkSettings:
    """How a text is divided, and where it is translated."""

    shard_lines: int | None = None
    window: int | None = None
    on: str | None = None


@dataclass(frozen=True)
class BulkJob:
    """A text and how it is translated."""

    source: ModelSource
    files: list[Path]
    fields: str
    options: Options


def translate_stage(
    title: str, out: Path, text: BulkJob, bulk: BulkSettings, watcher: PipelineWatcher
) -> ShardedTranslation:
    """Translate a text into the parts of a folder, or what is missing of them."""
    watcher.stage(title)
    return translate_in_shards(
        text.source.folders,
        text.files,
        out,
        text.options,
        fields=text.fields,
        form="jsonl",
        shard_lines=bulk.shard_lines,
        window=bulk.window,
        device=text.source.device,
        precision=text.source.precision,
        engine=text.source.engine,
        on=bulk.on,
        watcher=BulkProgress(watcher),
    )
