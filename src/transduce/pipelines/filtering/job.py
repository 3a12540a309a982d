"""What to filter and how, checked before anything is done."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from transduce.config.schema import Config, DataConfig, Tree, merge
from transduce.data.corpus import (
    Pair,
    Source,
    check_fields_used,
    read_records,
    source_of,
)
from transduce.errors import InputError, counted, how_to_install
from transduce.files.resumable import content_digest
from transduce.pipelines.pair_files import check_share, languages_of
from transduce.pipelines.stages import PipelineStage, digest_of_model
from transduce.pipelines.watcher import PipelineWatcher
from transduce.text.detection import LanguageDetector

SAMPLE, FORWARD, REVERSE, SCORES, KEPT = "sample", "forward", "reverse", "scores", "kept"
SAMPLE_PAIRS = 200_000
PRESET = "tiny"
STEPS = 3_000
"""Steps of each small model, unless the settings give another budget."""
BUDGETS = ("steps", "minutes", "epochs")


@dataclass(frozen=True)
class FilterJob:
    """A corpus, where its parts go, and what decides which are kept."""

    src: list[Path]
    tgt: list[Path]
    sources: list[Source]  # the corpus, by the format of each file
    out: Path
    keep: float | None
    fields: str
    models: tuple[Path, Path] | None
    trains: bool
    languages: tuple[str, str]
    detector: LanguageDetector | None
    preset: str
    settings: Tree
    sample_pairs: int
    shard_pairs: int
    device: str

    @property
    def uses_models(self) -> bool:
        """Whether pairs are scored by models."""
        return self.trains or self.models is not None

    def model_folders(self) -> tuple[Path, Path]:
        """Return the models of both directions: those given, or those of the stages."""
        return self.models or (self.out / FORWARD, self.out / REVERSE)

    def read(self) -> Iterator[Pair]:
        """Stream all pairs."""
        return chain.from_iterable(map(read_records, self.sources))

    def stages(self) -> list[PipelineStage]:
        """Describe what each stage is made from."""
        text = {**self.described_text(), "languages": list(self.languages)}
        models: Any = "trained" if self.trains else None
        if self.models is not None:
            models = [digest_of_model(folder) for folder in self.models]
        sample = self.sample_pairs if self.trains else None
        trained = {"preset": self.preset, "settings": self.settings} if self.trains else {}
        return [
            PipelineStage(SAMPLE, {"models": models, **text, "sample": sample}),
            PipelineStage(FORWARD, trained),
            PipelineStage(REVERSE, trained),
            PipelineStage(SCORES, {"detection of languages": self.detector is not None}),
            PipelineStage(KEPT, {"keep": self.keep}),
        ]

    def described_text(self) -> dict[str, Any]:
        """Describe the corpus."""
        return {
            "source text": content_digest(self.src),
            "target text": content_digest(self.tgt),
            "formats": [path.suffix.lower() for path in [*self.src, *self.tgt]],
            "fields": self.fields,
        }

    def described_scores(self) -> dict[str, Any]:
        """Describe everything that decides the scores, once there are models."""
        folders = self.model_folders() if self.uses_models else ()
        return {
            **self.described_text(),
            "languages": list(self.languages) if self.detector else None,
            "models": [digest_of_model(folder) for folder in folders],
        }


def named_languages(src: list[Path], tgt: list[Path], fields: str) -> tuple[str, str]:
    """Return the languages that files are named after; src and tgt if they are not."""
    data = DataConfig(src=tuple(map(str, src)), tgt=tuple(map(str, tgt)), fields=fields)
    return languages_of(Config(data=data))


def checked_languages(languages: tuple[str, str] | None) -> tuple[str, str] | None:
    """Raise unless these are two codes, which files are named after too."""
    if languages is None:
        return None
    shown = ",".join(languages)
    for code in languages:
        if not (code.isascii() and code.replace("-", "").isalnum()):
            raise InputError(f"--languages {shown}: {code!r} is no code of a language")
    if languages[0] == languages[1]:
        raise InputError(f"--languages {shown}: give two that differ, such as en,de")
    return languages


def detector_for(languages: tuple[str, str], watcher: PipelineWatcher) -> LanguageDetector | None:
    """Return what detects these languages, or None and say why not."""
    detector = LanguageDetector.if_installed()
    if detector is None:
        watcher.noted(f"languages are not checked: {how_to_install('detect')}")
        return None
    unknown = [code for code in languages if not detector.knows(code)]
    if unknown:
        watcher.noted("languages are not checked: name both, such as --languages en,de")
        return None
    return detector


def share_to_keep(keep: float | None, *, use_models: bool) -> float | None:
    """Return the share of pairs to keep; None: all without a fault."""
    if not use_models and keep is not None:
        raise InputError(
            f"--keep {keep:g} keeps the best by models: leave it out, or leave out --no-models"
        )
    share = 0.9 if keep is None else keep
    check_share(share)
    return share if use_models else None


def model_settings(given: Tree, device: str) -> Tree:
    """Add a budget to the settings of the small models, unless they have one."""
    own: Tree = {} if device == "auto" else {"run": {"device": device}}
    if not any(given.get("training", {}).get(name) for name in BUDGETS):
        own = merge(own, {"training": {"steps": STEPS}})
    return merge(own, given)


def sources_of(src: list[Path], tgt: list[Path], fields: str) -> list[Source]:
    """Take files as a corpus; raise if they cannot be one."""
    if not src:
        raise InputError("which corpus? Give --src and --tgt")
    if tgt and len(tgt) != len(src):
        raise InputError(
            f"{counted(len(src), 'file')} of source text but {len(tgt):,} of target text: give as "
            "many of each"
        )
    check_fields_used(fields, [*src, *tgt])
    targets: Sequence[Path | None] = tgt or [None] * len(src)
    paired = zip(src, targets, strict=True)
    return [source_of(one, other, fields=fields, among=[*src, *tgt]) for one, other in paired]
