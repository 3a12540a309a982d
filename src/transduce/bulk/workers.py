"""What translates shards: a model in this process, or others behind the same interface."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from transduce.bulk.output_lines import OutputForm, output_lines
from transduce.bulk.shards import Shard
from transduce.errors import InputError
from transduce.files.resumable import content_digest
from transduce.translation.inference import Precision
from transduce.translation.load import EngineName, load
from transduce.translation.options import Options
from transduce.translation.translator import Translator


@dataclass(frozen=True)
class ModelSource:
    """Where a model is, and how it is loaded."""

    folders: tuple[Path, ...]  # several are an ensemble
    device: str = "auto"
    precision: Precision = "float32"
    engine: EngineName | None = None
    draft: str | None = None  # what proposes tokens: another model, or ngrams
    to: str | None = None  # the language to translate into, of a model of several
    shortlist: bool = False  # whether only likely tokens are searched

    def load(self) -> Translator:
        """Load it."""
        return load(
            self.folders,
            self.device,
            precision=self.precision,
            engine=self.engine,
            draft=self.draft,
            to=self.to,
            shortlist=self.shortlist,
        ).into(None)


@dataclass(frozen=True)
class ModelIdentity:
    """What was loaded, as far as translations depend on it."""

    digests: tuple[str, ...]  # of the files of each model
    engine: str
    device: str  # its type, such as cpu
    to: str | None = None  # the language that it translates into, of several
    shortlist: bool = False  # whether only likely tokens are searched

    @classmethod
    def of(cls, translator: Translator) -> "ModelIdentity":
        """Read the files of a translator's models again, and digest them."""
        digests = tuple(map(_digest_of_model, translator.read_from))
        device = translator.device.type
        return cls(digests, translator.engine_name, device, translator.to, translator.has_shortlist)


@dataclass(frozen=True)
class ShardSettings:
    """How shards are translated and written."""

    options: Options
    form: OutputForm
    window: int


@dataclass(frozen=True)
class OutputRecord:
    """What is written for a line of the input, and what is unusual about it."""

    number: int  # in the whole text, from 0
    output: tuple[str, ...]  # lines of the part
    note: str
    script: str | None  # that of the source, if the model was not trained on it


class ShardWorkers(Protocol):
    """Translates shards, several at once if it can."""

    @property
    def identity(self) -> ModelIdentity:
        """What the model is; waits until one is loaded."""

    @property
    def max_in_flight(self) -> int:
        """How many shards may be submitted and not returned yet."""

    def submit(self, shard: Shard, settings: ShardSettings) -> None:
        """Have a shard translated."""

    def next_done(self) -> tuple[Shard, Iterable[OutputRecord]]:
        """Wait for one of the submitted shards; return it with its lines, in order."""

    def close(self) -> None:
        """Give up what was submitted, and free everything."""


class LocalWorker:
    """A model in this process: it translates one shard, line by line as they are asked for."""

    max_in_flight = 1

    def __init__(self, translator: Translator) -> None:
        self._translator = translator
        self._submitted: list[tuple[Shard, ShardSettings]] = []
        self.identity = ModelIdentity.of(translator)

    def submit(self, shard: Shard, settings: ShardSettings) -> None:
        """Note the shard that comes next."""
        self._submitted.append((shard, settings))

    def next_done(self) -> tuple[Shard, Iterable[OutputRecord]]:
        """Return the shard and its lines, which are translated while they are read."""
        shard, settings = self._submitted.pop(0)
        return shard, translated_lines(self._translator, shard, settings)

    def close(self) -> None:
        """Do nothing: the translator belongs to the caller."""


def translated_lines(
    translator: Translator, shard: Shard, settings: ShardSettings
) -> Iterator[OutputRecord]:
    """Translate the lines of a shard."""
    found = translator.stream(
        shard.texts,
        settings.options,
        prefixes=shard.prefixes,
        window=settings.window,
        first_number=shard.first,
        read_ahead=translator.gains_by_reading_ahead,
    )
    for number, translation in enumerate(found, start=shard.first):
        yield OutputRecord(
            number,
            tuple(output_lines(number, translation, settings.form)),
            translation.note,
            translator.unknown_script(translation.source),
        )


def _digest_of_model(files: Sequence[Path]) -> str:
    """Return a digest of what translations depend on: the weights, the vocabulary, the settings."""
    try:
        return content_digest(files)
    except InputError:
        gone = [path for path in files if not path.exists()]
        if not gone:
            raise
        return f"{gone[0]} is gone"  # a run removed it since, so no command can continue this one
