"""From text to numbers: the development set, the subwords and the stores, each made once.

Everything lies in a cache folder under a name that follows from all that decides its content, and
is complete or not there. Several processes may ask at once: one works, the others wait for it.
"""

import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain, islice
from pathlib import Path
from typing import Any

from transduce.config.schema import DataConfig
from transduce.data.batching import noise
from transduce.data.cleaning import DEFAULT_RULES, HELD_OUT, Rules, batched, sampled
from transduce.data.corpus import (
    Pair,
    Source,
    TwoFiles,
    read_pairs,
    source_of,
    survey,
)
from transduce.data.digests import Digests, Memory
from transduce.data.store import Recipe, Store, open_or_build
from transduce.disk import in_the_making, locked, sync
from transduce.errors import ConfigError, InputError
from transduce.text.tokenizer import Tokenizer

LEARN_PAIRS = 1_000_000
"""Subwords are learnt from at most about so many pairs, taken evenly from the whole corpus."""

DEV_SHARE = 20
"""At most one pair in so many is held out."""

Phase = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]
"""Announces a piece of work and gives a function that is told how much of it is done, of what."""


@dataclass(frozen=True)
class Corpora:
    """What is learnt from and what it is scored on, still as text."""

    sources: tuple[Source, ...]
    pairs: int
    dev: tuple[Source, ...]
    held_out: tuple[Path | Source, ...]
    rules: Rules | None


@dataclass(frozen=True)
class Prepared:
    """The same as numbers."""

    tokenizer: Tokenizer
    train: Store
    dev: Store
    dev_pairs: list[Pair]
    tokenizer_file: Path
    digests: dict[str, str]  # of every file that was read, by its name

    def some_dev_pairs(self, count: int) -> list[Pair]:
        """Take so many pairs, or all, evenly from all of the development set's files."""
        taken = min(count, len(self.dev_pairs))
        return [self.dev_pairs[place * len(self.dev_pairs) // taken] for place in range(taken)]


def sources_of(config: DataConfig) -> tuple[Source, ...]:
    """Name the corpora that the settings give."""
    if not config.src:
        raise ConfigError("no text to learn from: give --src and --tgt, or data.src and data.tgt")
    if config.weights and len(config.weights) != len(config.src):
        raise ConfigError(
            f"data.weights has {len(config.weights)} numbers for {len(config.src)} corpora"
        )
    if not all(0 <= weight < math.inf for weight in config.weights) or (
        config.weights and not any(config.weights)
    ):
        raise ConfigError(
            f"data.weights={list(config.weights)}: none may be below 0 or infinite, and one must "
            "be above 0"
        )
    return _paired(config.src, config.tgt, prefix="data.", fields=config.fields)


def _dev_of(config: DataConfig) -> tuple[Source, ...]:
    if config.dev_tgt and not config.dev_src:
        raise ConfigError("data.dev_tgt is given without data.dev_src")
    return _paired(config.dev_src, config.dev_tgt, prefix="data.dev_", fields=config.fields)


def _is_plain(config: DataConfig) -> bool:
    """Whether the model is to see plain punctuation; a vocabulary that is given decides."""
    if config.tokenizer is None:
        return config.punctuation == "plain"
    is_plain = Tokenizer.load(Path(config.tokenizer)).has_plain_punctuation
    found = "plain" if is_plain else "kept"
    if config.punctuation not in ("auto", found):
        raise ConfigError(
            f"data.punctuation={config.punctuation}, but in {config.tokenizer} it is {found}: "
            "leave the setting out"
        )
    return is_plain


def _paired(
    sources: Sequence[str], targets: Sequence[str], *, prefix: str, fields: str
) -> tuple[Source, ...]:
    """Put files together one by one; the settings that name them are called `prefix`src and tgt."""
    if targets and len(targets) != len(sources):
        raise ConfigError(
            f"{prefix}src names {len(sources)} files but {prefix}tgt {len(targets)}: "
            "they go together one by one"
        )
    return tuple(
        source_of(Path(src), Path(tgt) if tgt else None, fields=fields)
        for src, tgt in zip(sources, targets or [""] * len(sources), strict=True)
    )


def _text_of(path: Path, fields: str) -> Path | Source:
    """Take a .tsv or .jsonl for both sides of a corpus, and anything else for a plain text."""
    kinds = {suffix.lower() for suffix in path.suffixes}
    return source_of(path, fields=fields) if kinds & {".tsv", ".jsonl"} else path


def gather(config: DataConfig, cache: Path, *, seed: int, phase: Phase) -> Corpora:
    """Count the pairs, and hold some out where no development set is given."""
    sources, dev, is_plain = sources_of(config), _dev_of(config), _is_plain(config)
    texts = tuple(_text_of(Path(name), config.fields) for name in config.held_out)
    rules = DEFAULT_RULES if config.clean else None
    with phase("counting pairs"):
        pairs = _surveyed(Recipe(sources, None, None, (*texts, *dev)), cache)
        if not dev:
            count = max(1, min(config.dev_pairs, pairs // DEV_SHARE))
            recipe = Recipe(sources, None, rules, texts, is_plain)
            with _alone(cache):
                dev = (_held_out(recipe, cache, pairs=pairs, count=count, seed=seed),)
    return Corpora(sources, pairs, dev, (*texts, *dev), rules)


def prepare(
    config: DataConfig,
    corpora: Corpora,
    cache: Path,
    *,
    vocab_size: int,
    processes: int,
    phase: Phase,
) -> Prepared:
    """Learn the subwords and encode everything."""
    with _alone(cache):
        if config.tokenizer is not None:
            path = Path(config.tokenizer)
        else:
            with phase("learning subwords"):
                path = _learnt(config, corpora, cache, vocab_size=vocab_size)
        tokenizer = Tokenizer.load(path)
        recipe = Recipe(
            corpora.sources, path, corpora.rules, corpora.held_out, tokenizer.has_plain_punctuation
        )
        with phase("encoding") as progress:
            train = open_or_build(
                recipe, cache, pairs=corpora.pairs, processes=processes, progress=progress
            )
        dev = open_or_build(Recipe(corpora.dev, path, None), cache, processes=1)
    if len(train) == 0:
        raise InputError(
            f"no pair is left to learn from: all {train.manifest['read']:,} were dropped "
            f"({_listed(train.manifest['dropped'])}); {_advice(train.manifest['dropped'])}"
        )
    known = Digests(cache)
    return Prepared(
        tokenizer,
        train,
        dev,
        [pair for source in corpora.dev for pair in read_pairs(source)],
        tokenizer_file=path,
        digests={str(file): known.of(file) for file in [*recipe.inputs(), path]},
    )


def _surveyed(recipe: Recipe, cache: Path) -> int:
    """Count the pairs and find any fault, once for all of the files as they are.

    Everything is read before anything is written: a misspelt name leaves no folder.
    """
    memory = Memory(cache / "surveys.json")
    known = memory.recall()
    if known and all(os.path.isfile(path) for path in recipe.inputs()):  # noqa: PTH113
        pairs = known.get(_digest(recipe.identity(cache)))
        if isinstance(pairs, int):
            return pairs
    before = _stamps(recipe)
    pairs = sum(map(survey, recipe.sources))
    for held in recipe.held_out:
        survey(held)
    with _alone(cache):
        surveyed = _digest(recipe.identity(cache))
        if _stamps(recipe) == before:  # else it may be another text than the one that was counted
            memory.remember({surveyed: pairs})
    return pairs


def _stamps(recipe: Recipe) -> list[tuple[int, int]]:
    """Return what changes with the files."""
    states = [path.stat() for path in recipe.inputs() if os.path.isfile(path)]  # noqa: PTH113
    return [(state.st_size, state.st_mtime_ns) for state in states]


def _held_out(recipe: Recipe, cache: Path, *, pairs: int, count: int, seed: int) -> TwoFiles:
    """Choose pairs by the seed, fit ones that are no duplicates, and write them out."""
    identity = recipe.identity(cache) | {"count": count, "seed": seed}
    folder = cache / f"dev-{_digest(identity)}"
    files = TwoFiles(folder / "dev.src", folder / "dev.tgt")
    if folder.exists():
        return files
    # Some of the chosen will be unfit or equal; the rest of twice as many takes their place.
    drawn = noise(pairs, seed, -1)
    enough = min(2 * count + 100, pairs) - 1
    places = {int(place): int(drawn[place]) for place in drawn.argpartition(enough)[: enough + 1]}
    chosen: dict[Pair, int] = {}
    dropped: Counter[str] = Counter()
    for number, (pair, fault) in enumerate(_judged(recipe)):
        if number in places and fault is not None:
            dropped[fault] += 1
        elif number in places and all(map(_is_one_line, pair)):
            chosen.setdefault(pair, places[number])
    first = sorted(chosen, key=lambda pair: chosen[pair])[:count]
    if not first:
        raise InputError(
            f"of {len(places):,} pairs drawn to be held out none is fit "
            f"({_listed(dropped) or 'they have line breaks'}); {_advice(dropped)}"
        )
    with in_the_making(folder) as making:
        for name, side in (("dev.src", 0), ("dev.tgt", 1)):
            text = "".join(f"{pair[side]}\n" for pair in first)
            (making / name).write_text(text, encoding="utf-8", newline="")
            sync(making / name)
    return files


def _learnt(config: DataConfig, corpora: Corpora, cache: Path, *, vocab_size: int) -> Path:
    is_plain = config.punctuation == "plain"
    recipe = Recipe(corpora.sources, None, corpora.rules, corpora.held_out, is_plain)
    identity = recipe.identity(cache)
    identity |= {"kind": config.subwords, "vocab_size": vocab_size, "pairs": LEARN_PAIRS}
    folder = cache / f"subwords-{_digest(identity)}"
    path = folder / "tokenizer.json"
    if not path.exists():
        every = math.ceil(corpora.pairs / LEARN_PAIRS)
        some = islice(_judged(recipe), 0, None, every)
        lines = chain.from_iterable(pair for pair, fault in some if fault is None)
        try:
            tokenizer = Tokenizer.learn(
                lines,
                kind=config.subwords,
                vocab_size=vocab_size,
                plain_punctuation=recipe.is_plain,
            )
        except InputError as fault:
            raise ConfigError(f"model.vocab_size={vocab_size}: {fault}") from fault
        with in_the_making(folder) as making:
            tokenizer.save(making / path.name)
            sync(making / path.name)
    return path


def _judged(recipe: Recipe) -> Iterator[tuple[Pair, str | None]]:
    """Stream the pairs in order, each with what makes it unfit, such as that it is held out."""
    for source in recipe.sources:
        sample, stream = sampled(read_pairs(source))
        sieve = recipe.sieve(sample)
        for batch in batched(stream, 10_000):
            yield from zip(batch, sieve.faults(batch), strict=True)


def _is_one_line(text: str) -> bool:
    """Whether a text that is written as a line is read back as it was."""
    return "\n" not in text and not text.endswith("\r") and not text.startswith("\ufeff")


def _listed(dropped: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {why}" for why, count in dropped.items())


def _advice(dropped: Mapping[str, int]) -> str:
    more = "give more text, none of which is in the development set or held out"
    return more if not dropped.keys() - {HELD_OUT} else "--no-clean keeps what only looks odd"


@contextmanager
def _alone(cache: Path) -> Iterator[None]:
    """Let one process at a time work in a cache; it notices what the one before has made."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock = cache / "lock"
        lock.touch()
    except OSError as fault:
        raise InputError(f"cannot write in {cache}: {fault.strerror}") from fault
    with locked(lock):
        yield


def _digest(identity: dict[str, Any]) -> str:
    return blake2b(json.dumps(identity, sort_keys=True).encode(), digest_size=12).hexdigest()
