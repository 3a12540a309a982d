"""From texts in several languages to stores: rows held out, subwords, tags, pairs as numbers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from transduce.config.schema import DataConfig
from transduce.data.batching import hash_noise
from transduce.data.cleaning import DEFAULT_RULES, Rules
from transduce.data.corpus import Pair, Source, TwoSides, count_pairs, format_of, text_or_corpus
from transduce.data.development_set import PAIRS_PER_DEV_PAIR
from transduce.data.languages.corpora import (
    Direction,
    Multiway,
    multiway_corpora,
    target_languages,
    trained_directions,
)
from transduce.data.languages.store import LanguageSpec, open_or_build_languages
from transduce.data.prepare import (
    DevPart,
    Phase,
    Prepared,
    cache_locked,
    check_not_empty,
    is_plain,
    wanted_vocabulary,
)
from transduce.data.store import StoreSpec, identity_digest
from transduce.data.subwords import learn_subwords
from transduce.errors import ConfigError, InputError
from transduce.files.atomic import atomic_folder, sync
from transduce.files.digests import Digests
from transduce.files.errors import reporting_write_errors
from transduce.files.in_threads import in_threads
from transduce.files.unchanged import ReadDigests, unchanged_files
from transduce.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class LanguageCorpora:
    """The training corpora and the development sets of several languages, as text."""

    corpora: tuple[Multiway, ...]
    directions: tuple[Direction, ...]
    rows: int  # of all corpora
    pairs: int  # of all directions
    dev: tuple[Multiway, ...]
    judging: StoreSpec  # rules and held-out texts
    digests: ReadDigests = field(default_factory=ReadDigests, compare=False)  # as they were read

    @property
    def text_pairs(self) -> int:
        """How many pairs all texts make if each is used once."""
        lines = sum(len(corpus.languages) for corpus in self.corpora) * self.rows
        return lines // (2 * len(self.corpora))


def find_language_corpora(
    config: DataConfig, cache: Path, *, seed: int, phase: Phase
) -> LanguageCorpora:
    """Check and count the rows, and hold out development rows if no set is given."""
    corpora, dev = multiway_corpora(config.corpora), multiway_corpora(config.dev_corpora)
    directions = trained_directions(config)
    texts = tuple(text_or_corpus(Path(name), fields=config.fields) for name in config.held_out)
    rules = DEFAULT_RULES if config.clean else None
    with phase("counting rows"), unchanged_files(ReadDigests()) as digests:
        counts = in_threads(Multiway.count, corpora)
        for text in texts:
            count_pairs(text)
        for corpus in dev:
            corpus.count()
        _check_dev(dev, directions)
        if not dev:
            with cache_locked(cache):
                dev = _held_out_rows(corpora, counts, cache, config, seed=seed)
    sizes = zip(corpora, counts, strict=True)
    pairs = sum(len(corpus.directions(directions)) * count for corpus, count in sizes)
    judging = _judging(config, dev, texts, rules)
    return LanguageCorpora(corpora, directions, sum(counts), pairs, dev, judging, digests)


def prepare_languages(
    config: DataConfig,
    found: LanguageCorpora,
    cache: Path,
    *,
    vocab_size: int,
    processes: int,
    phase: Phase,
) -> Prepared:
    """Learn one vocabulary for all languages, unless a tokenizer is given, and encode all texts.

    With several target languages, the vocabulary has a tag for each. A tokenizer that has tags gets
    those that it lacks, even if there is one target language.
    """
    targets = target_languages(found.directions)
    tags = targets if len(targets) > 1 or _has_tags(config) else ()
    spec = LanguageSpec(found.corpora, found.directions, found.judging)
    with cache_locked(cache), unchanged_files(found.digests):
        if config.tokenizer is not None:
            path = Path(config.tokenizer)
            _check_spells(path, tags)
        else:
            wanted = wanted_vocabulary(config, vocab_size - len(tags), None)
            with phase("learning subwords"):
                path = learn_subwords(spec, cache, wanted, pairs=found.text_pairs)
        path = tagged_tokenizer(path, tags, cache)
        tokenizer = _shared_tokenizer(path)
        plain = replace(found.judging, is_plain=tokenizer.has_plain_punctuation)
        spec = replace(spec, tokenizer=path, judging=plain)
        with phase("encoding") as progress:
            train = open_or_build_languages(
                spec,
                cache,
                tag_on=config.tag_on,
                rows=found.rows,
                processes=processes,
                progress=progress,
            )
        unjudged = StoreSpec((), None, None)
        dev_spec = LanguageSpec(found.dev, found.directions, unjudged, path)
        dev = open_or_build_languages(dev_spec, cache, tag_on=config.tag_on, rows=0, processes=1)
        dev_pairs, parts = _read_dev(
            found.dev, found.directions, has_tags=bool(tokenizer.languages)
        )
        known = Digests(cache)
        digests = {str(file): known.of(file) for file in [*spec.inputs(), path]}
    check_not_empty(train)
    return Prepared(tokenizer, train, dev, dev_pairs, path, digests, parts)


def _has_tags(config: DataConfig) -> bool:
    """Whether a tokenizer is given that has tags: its model is always told the language."""
    return config.tokenizer is not None and bool(Tokenizer.load(Path(config.tokenizer)).languages)


def tagged_tokenizer(path: Path, languages: Iterable[str], cache: Path) -> Path:
    """Return a tokenizer with a tag for each language: this one, or a larger one in the cache."""
    tokenizer = Tokenizer.load(path)
    lacking = [language for language in languages if language not in tokenizer.languages]
    if not lacking:
        return path
    folder = cache / f"tags-{identity_digest({'of': Digests(cache).of(path), 'tags': lacking})}"
    if not folder.exists():
        with reporting_write_errors(folder), atomic_folder(folder) as making:
            tokenizer.with_tags(lacking).save(making / "tokenizer.json")
            sync(making / "tokenizer.json")
    return folder / "tokenizer.json"


def _check_spells(path: Path, tags: Sequence[str]) -> None:
    """Raise if languages are added to a vocabulary that cannot spell their text."""
    tokenizer = Tokenizer.load(path)
    added = [language for language in tags if language not in tokenizer.languages]
    if added and tokenizer.languages and not tokenizer.target.has_every_byte:
        raise ConfigError(
            f"{path} has words or characters of its own text alone, so that most of {added[0]} "
            "would be unknown: start from a model whose subwords are bpe, unigram or wordpiece"
        )


def _shared_tokenizer(path: Path) -> Tokenizer:
    tokenizer = Tokenizer.load(path)
    if tokenizer.target is not tokenizer.source:
        raise ConfigError(
            f"data.corpora: a text is the source of one direction and the target of another, but "
            f"{path} encodes them in different ways: use one vocabulary for both sides"
        )
    if tokenizer.has_placeholders:
        raise ConfigError(
            f"data.corpora: {path} has entries for placeholders, which are the same on both sides "
            "of a pair, but a text has several translations: use a vocabulary without them"
        )
    return tokenizer


def _judging(
    config: DataConfig,
    dev: Sequence[Multiway],
    texts: tuple[Path | Source, ...],
    rules: Rules | None,
) -> StoreSpec:
    """Say what is dropped: no sentence of the development sets is trained on."""
    if config.held_out_by == "source":
        raise ConfigError("data.held_out_by=source is for one direction, not for data.corpora")
    files = dict.fromkeys(path for corpus in dev for path in corpus.files)
    held_out = (*texts, *(held for path in files for held in _held_texts(path, dev)))
    return StoreSpec((), None, rules, held_out, is_plain=is_plain(config))


def _held_texts(path: Path, dev: Sequence[Multiway]) -> list[Path | Source]:
    """Return a file of a development set as texts that are held out."""
    languages = [
        language
        for corpus in dev
        for language, file in zip(corpus.languages, corpus.files, strict=True)
        if file == path
    ]
    if format_of(path) == "text":
        return [path]
    return [TwoSides(path, path, language) for language in languages]


def _check_dev(dev: Sequence[Multiway], directions: Sequence[Direction]) -> None:
    if dev and not any(corpus.directions(directions) for corpus in dev):
        raise ConfigError(
            "data.dev_corpora has texts for none of the directions that are trained: "
            f"{', '.join(map(str, directions[:10]))}"
        )


def _read_dev(
    dev: Sequence[Multiway], directions: Sequence[Direction], *, has_tags: bool
) -> tuple[list[Pair], tuple[DevPart, ...]]:
    """Read the pairs of each direction, in the order of the store; each direction is a part."""
    pairs: list[Pair] = []
    parts = []
    for corpus in dev:
        rows = list(corpus.rows())
        for direction in corpus.directions(directions):
            src, tgt = (corpus.languages.index(n) for n in (direction.source, direction.target))
            start = len(pairs)
            pairs += [Pair(row[src], row[tgt]) for row in rows]
            name = str(direction) if len(dev) == 1 else f"{corpus.name} {direction}"
            target = direction.target if has_tags else None
            parts.append(DevPart(name, start, len(pairs), target))
    return pairs, tuple(parts)


def _held_out_rows(
    corpora: Sequence[Multiway],
    counts: Sequence[int],
    cache: Path,
    config: DataConfig,
    *,
    seed: int,
) -> tuple[Multiway, ...]:
    """Write rows of each corpus that are drawn by the seed to the cache; return these corpora."""
    most = max(1, config.dev_pairs // len(corpora))
    found = []
    for corpus, count in zip(corpora, counts, strict=True):
        wanted = max(1, min(most, count // PAIRS_PER_DEV_PAIR))
        found.append(_drawn_rows(corpus, cache, count=count, wanted=wanted, seed=seed))
    return tuple(found)


def _drawn_rows(corpus: Multiway, cache: Path, *, count: int, wanted: int, seed: int) -> Multiway:
    known = Digests(cache)
    files = list(zip(corpus.languages, map(known.of, corpus.files), strict=True))
    folder = cache / f"dev-{identity_digest({'rows': files, 'count': wanted, 'seed': seed})}"
    drawn = replace(corpus, files=tuple(folder / f"dev.{one}" for one in corpus.languages))
    if folder.exists():
        return drawn
    # Some rows will have a blank side, so twice as many are drawn as needed.
    drawn_order = np.argsort(hash_noise(count, seed, -1))[: 2 * wanted + 100].tolist()
    candidates = {number: rank for rank, number in enumerate(drawn_order)}
    sound = {
        candidates[number]: row
        for number, row in enumerate(corpus.rows())
        if number in candidates and all(map(_is_line, row))
    }
    rows = [row for _, row in sorted(sound.items())][:wanted]
    if not rows:
        raise InputError(
            f"no development rows can be held out from {corpus.name}: of {len(candidates):,}, "
            "none has text in all its languages; give data.dev_corpora"
        )
    with reporting_write_errors(folder), atomic_folder(folder) as making:
        for path, column in zip(drawn.files, zip(*rows, strict=True), strict=True):
            (making / path.name).write_text(
                "".join(f"{text}\n" for text in column), encoding="utf-8", newline=""
            )
            sync(making / path.name)
    return drawn


def _is_line(text: str) -> bool:
    """Whether a text is not blank, and is read back unchanged if it is written as a line."""
    return bool(text.strip()) and "\n" not in text and text[-1] != "\r" and text[0] != "\ufeff"
