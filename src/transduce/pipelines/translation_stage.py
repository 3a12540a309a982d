"""The translation of a text as the stage of a pipeline: in shards, as JSON lines."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transduce.bulk.made_from import OutputSettings, TextFiles
from transduce.bulk.output_lines import OutputForm
from transduce.bulk.translate import ShardedTranslation, translate_in_shards
from transduce.bulk.workers import ModelSource
from transduce.pipelines.stages import digest_of_model
from transduce.pipelines.translated_pairs import LineTranslations, read_translations
from transduce.pipelines.watcher import BulkProgress, PipelineWatcher
from transduce.translation.options import Options

FORM: OutputForm = "jsonl"


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

    def described(self) -> dict[str, Any]:
        """Describe everything that decides the translations, but for the device."""
        output = OutputSettings(self.options, FORM, precision=self.source.precision)
        return {
            "model": [digest_of_model(folder) for folder in self.source.folders],
            "engine": self.source.engine,
            "to": self.source.to,
            **TextFiles(self.files, self.fields).described(),
            **output.described(),
        }


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
        form=FORM,
        shard_lines=bulk.shard_lines,
        window=bulk.window,
        device=text.source.device,
        precision=text.source.precision,
        engine=text.source.engine,
        to=text.source.to,
        on=bulk.on,
        watcher=BulkProgress(watcher),
    )


def translated_lines(
    done: ShardedTranslation, watcher: PipelineWatcher
) -> Iterator[LineTranslations]:
    """Stream the translations, and tell how far that is."""
    for number, line in enumerate(read_translations(done.parts), start=1):
        yield line
        watcher.working(number, done.lines)
