"""What decides the translations of a text, so that work that was stopped goes on with the same."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from transduce.bulk.output_lines import OutputForm
from transduce.bulk.workers import ModelIdentity
from transduce.data.corpus import DEFAULT_FIELDS, read_side
from transduce.files.resumable import content_digest
from transduce.translation.options import Options
from transduce.translation.wording.rules import NO_WORDING

LEFT_OUT = {"to": None, "shortlist": False, "wording": None, "memory": None}
"""What descriptions of older versions may leave out, and the value that each had then."""


@dataclass(frozen=True)
class TextFiles:
    """Files with lines to translate, which can be read again and again."""

    files: Sequence[Path]
    fields: str = DEFAULT_FIELDS

    def __iter__(self) -> Iterator[str]:
        """Stream the lines of all files; of a file with both sides, those of the source."""
        for path in self.files:
            yield from read_side(path, "src", fields=self.fields, source_only=True)

    def described(self) -> dict[str, Any]:
        """Describe the content."""
        return {
            "input": content_digest(self.files),
            "formats": [path.suffix.lower() for path in self.files],
            "fields": self.fields,
        }


@dataclass(frozen=True)
class OutputSettings:
    """How a text is translated and written, beside the model."""

    options: Options
    form: OutputForm = "text"
    prefix: str | Path | None = None  # what translations must start with, or a file of that
    precision: str = "float32"

    def described(self) -> dict[str, Any]:
        """Describe it, with digests in the place of what may be large."""
        words, memory = self.options.wording, self.options.memory
        settings = asdict(replace(self.options, wording=NO_WORDING, memory=None))
        del settings["wording"], settings["memory"]
        is_file = isinstance(self.prefix, Path)
        return {
            "prefix": content_digest([Path(self.prefix or "")]) if is_file else self.prefix,
            "jsonl": self.form == "jsonl",
            "n-best": self.options.n_best if self.form == "n-best" else None,
            "precision": self.precision,
            **settings,
            "wording": None if words == NO_WORDING else words.digest,
            "memory": None if memory is None else memory.described(),
        }


def described_model(identity: ModelIdentity) -> dict[str, Any]:
    """Describe a model that was loaded."""
    return {
        "model": list(identity.digests),
        # `engine` was the option as it was given, which may be none or auto.
        "the engine": identity.engine,
        "device": identity.device,
        **({} if identity.to is None else {"to": identity.to}),
        "shortlist": identity.shortlist,
    }
