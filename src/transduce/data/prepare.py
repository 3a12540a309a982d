"""From text to token ids: development set, subwords and stores, each made once.

Everything is kept in a cache folder, under a name that is a digest of all that determines its
content, and is complete or absent. Several processes may ask at once: one works, the others wait.
"""

import logging
import math
import os
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from transduce.config.schema import DataConfig
from transduce.data.alignment.links import with_links
from transduce.data.cleaning import (
    DEFAULT_RULES,
    UNREADABLE,
    Rules,
    advice_on_dropped,
    describe_dropped,
)
from transduce.data.corpus import (
    Pair,
    Source,
    count_pairs,
    count_records,
    format_of,
    read_pairs,
    source_of,
    text_or_corpus,
)
from transduce.data.development_set import hold_out_development_set
from transduce.data.encoding.encoder import TargetForm
from transduce.data.store import Store, StoreSpec, identity_digest, open_or_build
from transduce.data.subwords import WantedVocabulary, learn_subwords
from transduce.errors import ConfigError, InputError, counted
from transduce.files.digests import Digests, JsonMemory
from transduce.files.errors import reporting_write_errors
from transduce.files.in_threads import in_threads
from transduce.files.locks import locked
from transduce.files.unchanged import ReadDigests, unchanged_files
from transduce.text.tokenizer import Learning, Tokenizer

_log = logging.getLogger("transduce")

NO_TEXT = (
    "no training text: give --src and --tgt, or data.src and data.tgt; for several languages, "
    "--text for each, or data.corpora"
)

Phase = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]
"""Announces a phase of the work; its context gives a function that reports (done, total)."""


@dataclass(frozen=True)
class Corpora:
    """The training corpora and the development set, as text."""

    sources: tuple[Source, ...]
    pairs: int  # of all sources
    dev: tuple[Source, ...]
    held_out: tuple[Path | Source, ...]  # texts whose sentences must not be trained on
    rules: Rules | None  # None: no cleaning
    digests: ReadDigests = field(default_factory=ReadDigests, compare=False)  # as they were read


@dataclass(frozen=True)
class DevPart:
    """A part of the development set that is reported by itself: a file, or a direction."""

    name: str
    start: int  # its first pair
    end: int
    target: str | None = None  # the language to translate into, where the model has several


@dataclass(frozen=True)
class Prepared:
    """The training corpora and the development set, encoded."""

    tokenizer: Tokenizer
    train: Store
    dev: Store
    dev_pairs: list[Pair]
    tokenizer_file: Path
    digests: dict[str, str]  # of every file that was read, by its name
    dev_parts: tuple[DevPart, ...] = ()  # all of the set; one part, or none, is not reported

    def some_dev_pairs(self, count: int) -> list[Pair]:
        """Return `count` pairs, or all, spread evenly over the development set."""
        return [self.dev_pairs[place] for place in self._places(count)]

    def parts_of(self, count: int) -> tuple[DevPart, ...]:
        """Return where the parts lie among `some_dev_pairs`; empty parts are left out."""
        places = self._places(count)
        ends = [(bisect_left(places, p.start), bisect_left(places, p.end)) for p in self.dev_parts]
        both = zip(self.dev_parts, ends, strict=True)
        return tuple(replace(p, start=a, end=b) for p, (a, b) in both if a < b)

    def _places(self, count: int) -> list[int]:
        taken = min(count, len(self.dev_pairs))
        return [place * len(self.dev_pairs) // taken for place in range(taken)]


def find_corpora(config: DataConfig, cache: Path, *, seed: int, phase: Phase) -> Corpora:
    """Check and count the training pairs, and hold out a development set if none is given."""
    sources, dev, plain = _train_sources(config), _dev_sources(config), is_plain(config)
    _check_has_no_tags(config)
    files = _files(config)
    texts = tuple(
        text_or_corpus(Path(name), fields=config.fields, among=files) for name in config.held_out
    )
    rules = DEFAULT_RULES if config.clean else None
    with phase("counting pairs"), unchanged_files(ReadDigests()) as digests:
        pairs = _count_once(StoreSpec(sources, None, None, (*texts, *dev)), cache)
        if not dev:
            spec = StoreSpec(
                sources,
                None,
                rules,
                texts,
                plain,
                held_out_by_source=config.held_out_by == "source",
            )
            with cache_locked(cache):
                dev = (
                    hold_out_development_set(
                        spec, cache, pairs=pairs, max_count=config.dev_pairs, seed=seed
                    ),
                )
    return Corpora(sources, pairs, dev, (*texts, *dev), rules, digests)


def prepare(
    config: DataConfig,
    corpora: Corpora,
    cache: Path,
    *,
    vocab_size: int,
    processes: int,
    phase: Phase,
    target_form: TargetForm | None = None,
    src_vocab_size: int | None = None,
    linked: bool = False,
) -> Prepared:
    """Learn the vocabulary, unless a tokenizer is given, and encode everything.

    With a `target_form`, target text is learned and encoded in that form. `src_vocab_size` is for
    sides with vocabularies of their own; if not given, it is `vocab_size`. If `linked`, or for
    `data.terms` or `data.placeholders`, the tokens of the training pairs are aligned.
    """
    wanted = wanted_vocabulary(config, vocab_size, src_vocab_size)
    judging = StoreSpec(
        corpora.sources,
        None,
        corpora.rules,
        corpora.held_out,
        is_plain=config.punctuation == "plain",
        target_form=target_form,
        held_out_by_source=config.held_out_by == "source",
    )
    with cache_locked(cache), unchanged_files(corpora.digests):
        if config.tokenizer is not None:
            path = Path(config.tokenizer)
        else:
            with phase("learning subwords"):
                path = learn_subwords(judging, cache, wanted, pairs=corpora.pairs)
        tokenizer = Tokenizer.load(path)
        if config.placeholders and not tokenizer.has_placeholders:
            raise ConfigError(
                "data.placeholders: this vocabulary has no entries for placeholders: leave it out, "
                "or data.tokenizer and run.init"
            )
        spec = replace(judging, tokenizer=path, is_plain=tokenizer.has_plain_punctuation)
        with phase("encoding") as progress:
            train = open_or_build(
                spec, cache, pairs=corpora.pairs, processes=processes, progress=progress
            )
        if linked or config.terms or config.placeholders:
            with phase("aligning") as progress:
                train = with_links(train, cache, processes=processes, progress=progress)
        dev_spec = StoreSpec(corpora.dev, path, None, target_form=target_form)
        dev = open_or_build(dev_spec, cache, processes=1)
        dev_pairs, parts = _read_dev(corpora.dev)
        known = Digests(cache)
        digests = {str(file): known.of(file) for file in [*spec.inputs(), path]}
    check_not_empty(train)
    _warn_of_unreadable(train)
    return Prepared(tokenizer, train, dev, dev_pairs, path, digests, parts)


def _read_dev(sources: Sequence[Source]) -> tuple[list[Pair], tuple[DevPart, ...]]:
    """Read the development set; each of several files is a part, by the name of its source."""
    pairs: list[Pair] = []
    parts = []
    for source in sources:
        start = len(pairs)
        pairs += read_pairs(source)
        name = next(str(value) for value in vars(source).values() if isinstance(value, Path))
        parts.append(DevPart(name, start, len(pairs)))
    return pairs, tuple(parts) if len(parts) > 1 else ()


def wanted_vocabulary(
    config: DataConfig, vocab_size: int, src_vocab_size: int | None
) -> WantedVocabulary:
    """Return what settings ask for, with these sizes."""
    target = Learning(config.tgt_subwords or config.subwords, vocab_size)
    upper, some = config.augment.upper, config.placeholders > 0
    if config.shared_vocabulary:
        return WantedVocabulary(
            target, upper=upper, term_markers=config.terms > 0, placeholders=some
        )
    source = Learning(config.subwords, src_vocab_size or vocab_size)
    return WantedVocabulary(target, source, upper=upper, placeholders=some)


def check_not_empty(train: Store) -> None:
    """Raise if cleaning has left nothing."""
    if len(train) == 0:
        dropped = train.manifest["dropped"]
        raise InputError(
            f"no pair is left to train on: all {train.manifest['read']:,} were dropped "
            f"({describe_dropped(dropped)}); {advice_on_dropped(dropped)}"
        )


def _warn_of_unreadable(train: Store) -> None:
    """Show the first record that was dropped because it cannot be read."""
    for example in train.manifest.get("unreadable", [])[:1]:
        others = train.manifest["dropped"][UNREADABLE] - 1
        more = f" ({others:,} more like it)" if others else ""
        _log.warning("dropped %s%s", example, more)


def _train_sources(config: DataConfig) -> tuple[Source, ...]:
    if not config.src:
        raise ConfigError(NO_TEXT)
    if config.weights and len(config.weights) != len(config.src):
        raise ConfigError(
            f"data.weights has {counted(len(config.weights), 'number')} for "
            f"{counted(len(config.src), 'corpus', 'corpora')}"
        )
    if not all(0 <= weight < math.inf for weight in config.weights) or (
        config.weights and not any(config.weights)
    ):
        raise ConfigError(
            f"data.weights={list(config.weights)}: none may be below 0 or infinite, and one must "
            "be above 0"
        )
    _check_task_of_trees(config)
    return _paired(config.src, config.tgt, prefix="data.", config=config)


def _check_task_of_trees(config: DataConfig) -> None:
    """Raise if trees are given to the default task, which would learn to write brackets as text."""
    for name in (*config.src, *config.tgt):
        if config.task == "translation" and format_of(Path(name)) == "trees":
            raise ConfigError(
                f"{name} has trees, but data.task=translation: give --task parsing, or --task "
                "generic to write them as plain text"
            )


def _dev_sources(config: DataConfig) -> tuple[Source, ...]:
    if config.dev_tgt and not config.dev_src:
        raise ConfigError("data.dev_tgt is given without data.dev_src")
    return _paired(config.dev_src, config.dev_tgt, prefix="data.dev_", config=config)


def _files(config: DataConfig) -> list[Path]:
    """Return all files that `data.fields` is for."""
    names = (*config.src, *config.tgt, *config.dev_src, *config.dev_tgt, *config.held_out)
    return [Path(name) for name in names]


def _paired(
    sources: Sequence[str], targets: Sequence[str], *, prefix: str, config: DataConfig
) -> tuple[Source, ...]:
    """Pair source and target files in order; their settings are named `prefix`src and tgt."""
    if targets and len(targets) != len(sources):
        raise ConfigError(
            f"{prefix}src names {counted(len(sources), 'file')} but {prefix}tgt {len(targets)}: "
            "give one target file for each source file"
        )
    return tuple(
        source_of(Path(src), Path(tgt) if tgt else None, fields=config.fields, among=_files(config))
        for src, tgt in zip(sources, targets or [""] * len(sources), strict=True)
    )


def is_plain(config: DataConfig) -> bool:
    """Whether the model sees plain punctuation; a given tokenizer decides."""
    if config.tokenizer is None:
        return config.punctuation == "plain"
    plain = Tokenizer.load(Path(config.tokenizer)).has_plain_punctuation
    found = "plain" if plain else "kept"
    if config.punctuation not in ("auto", found):
        raise ConfigError(
            f"data.punctuation={config.punctuation}, but in {config.tokenizer} it is {found}: "
            "leave the setting out"
        )
    return plain


def _check_has_no_tags(config: DataConfig) -> None:
    """Raise if a tokenizer is given whose model is told the language by a tag."""
    if config.tokenizer is None:
        return
    languages = Tokenizer.load(Path(config.tokenizer)).languages
    if languages:
        raise ConfigError(
            f"{config.tokenizer} has a tag for each of {', '.join(languages)}, and data.src and "
            "data.tgt do not say their languages: give the texts with --text, or data.corpora"
        )


def _count_once(spec: StoreSpec, cache: Path) -> int:
    """Check all files and count the training pairs, once for as long as the files stay the same.

    Everything is read before anything is written, so that a misspelt name leaves no folder.
    """
    memory = JsonMemory(cache / "surveys.json")
    known = memory.recall()
    if known and all(os.path.isfile(path) for path in spec.inputs()):  # noqa: PTH113
        pairs = known.get(identity_digest(spec.identity(cache)))
        if isinstance(pairs, int):
            return pairs
    pairs = sum(in_threads(count_records, spec.sources))
    for text in spec.held_out:
        count_pairs(text)
    with cache_locked(cache):
        memory.remember({identity_digest(spec.identity(cache)): pairs})
    return pairs


@contextmanager
def cache_locked(cache: Path) -> Iterator[None]:
    """Let one process at a time work in a cache; the next one finds what it has made."""
    lock = cache / "lock"
    with reporting_write_errors(cache):
        cache.mkdir(parents=True, exist_ok=True)
        lock.touch()
    with locked(lock):
        yield
