"""Corpora in which each row is one sentence in several languages, and directions between these."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path, PurePath

from transduce.config.schema import DataConfig
from transduce.config.sections.languages import CODE, NamedCorpora
from transduce.data.corpus import FORMATS, format_of, read_texts
from transduce.data.formats.lines import COMPRESSED
from transduce.errors import ConfigError, InputError, counted, did_you_mean
from transduce.files.in_threads import stoppable

Row = tuple[str, ...]
"""One sentence in each language of a corpus, in the order of its languages."""


@dataclass(frozen=True, order=True)
class Direction:
    """From one language to another."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"


@dataclass(frozen=True)
class Multiway:
    """Texts in several languages that match line by line, or fields of one file."""

    name: str
    languages: tuple[str, ...]
    files: tuple[Path, ...]  # of each language; several may be in one file

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs of languages, each once, as places among them."""
        count = len(self.languages)
        return [(one, other) for one in range(count) for other in range(one + 1, count)]

    def rows(self) -> Iterator[Row]:
        """Stream the rows; raise if the files have different numbers of lines."""
        groups = _by_file(self.files)
        streams = [
            read_texts(path, tuple(self.languages[place] for place in places))
            for path, places in groups.items()
        ]
        order = [place for places in groups.values() for place in places]
        try:
            for parts in zip(*streams, strict=True):
                texts = [text for part in parts for text in part]
                yield tuple(text for _, text in sorted(zip(order, texts, strict=True)))
        except ValueError as unequal:
            raise InputError(self._unequal()) from unequal

    def count(self) -> int:
        """Read everything, and count the rows."""
        return sum(1 for _ in stoppable(self.rows()))

    def directions(self, wanted: Iterable[Direction]) -> list[Direction]:
        """Return those directions that this corpus has texts for."""
        own = set(self.languages)
        return [one for one in wanted if {one.source, one.target} <= own]

    def _unequal(self) -> str:
        counts = {
            path: sum(1 for _ in read_texts(path, tuple(self.languages[n] for n in places)))
            for path, places in _by_file(self.files).items()
        }
        first, *others = counts
        other = next((path for path in others if counts[path] != counts[first]), first)
        return (
            f"{other} has {counted(counts[other], 'line')} but {first} has {counts[first]:,}: "
            "parallel files must match line by line"
        )


def _by_file(files: tuple[Path, ...]) -> dict[Path, list[int]]:
    """Group the places of languages by their file."""
    found: dict[Path, list[int]] = {}
    for place, path in enumerate(files):
        found.setdefault(path, []).append(place)
    return found


def multiway_corpora(named: NamedCorpora) -> tuple[Multiway, ...]:
    """Return the corpora that settings name."""
    found = []
    for name, texts in named.items():
        files = tuple(Path(file) for file in texts.values())
        for path, places in _by_file(files).items():
            if len(places) > 1 and format_of(path) == "text":
                raise ConfigError(
                    f"data.corpora: {path} is the text of several languages; a file with a column "
                    f"for each ends in one of {', '.join(FORMATS)}"
                )
        found.append(Multiway(name, tuple(texts), files))
    return tuple(found)


def languages_of(config: DataConfig) -> tuple[str, ...]:
    """Return the languages of all corpora, in the order in which they are named."""
    named = (*config.corpora.values(), *config.dev_corpora.values())
    return tuple(dict.fromkeys(language for texts in named for language in texts))


def trained_directions(config: DataConfig) -> tuple[Direction, ...]:
    """Return the directions of a run: those that are asked for and that some corpus has."""
    known = {str(one): one for one in _possible(config.corpora)}
    wanted = known if config.directions == ("all",) else _named(known, config.directions)
    without = _named(known, config.without_directions, setting="without_directions")
    found = tuple(one for name, one in wanted.items() if name not in without)
    if config.corpora and not found:
        raise ConfigError("data.directions, data.without_directions: no direction is left to train")
    return found


def zero_shot_directions(config: DataConfig) -> tuple[Direction, ...]:
    """Return all directions between the languages of a run that it does not train."""
    trained = trained_directions(config)
    sources = dict.fromkeys(one.source for one in trained)
    targets = dict.fromkeys(one.target for one in trained)
    possible = (Direction(src, tgt) for src in sources for tgt in targets if src != tgt)
    return tuple(one for one in possible if one not in trained)


def target_languages(directions: Iterable[Direction]) -> tuple[str, ...]:
    """Return the languages that are translated into, in order."""
    return tuple(dict.fromkeys(one.target for one in directions))


def _possible(corpora: Mapping[str, Mapping[str, str]]) -> dict[Direction, None]:
    return {
        Direction(source, target): None
        for texts in corpora.values()
        for source, target in permutations(texts, 2)
    }


def _named(
    known: Mapping[str, Direction], names: Iterable[str], *, setting: str = "directions"
) -> dict[str, Direction]:
    found = {}
    for name in names:
        if name not in known:
            raise ConfigError(
                f"data.{setting}: no corpus has texts for {name!r}{did_you_mean(name, known)}; "
                f"there are {', '.join(known)}"
            )
        found[name] = known[name]
    return found


def named_by_files(files: Iterable[str]) -> dict[str, dict[str, str]]:
    """Take files named `NAME.LANGUAGE` as corpora: `train.en`, `train.de.gz`, or `fr=other.txt`.

    Files of one name, in one folder, are one corpus.
    """
    corpora: dict[str, dict[str, str]] = {}
    for given in files:
        stated, path = _stated_language(given)
        name, ending = _stem_and_ending(path)
        language = stated or (ending if format_of(Path(path)) == "text" else "")
        if not language:
            raise ConfigError(
                f"--text {given}: its name does not end in a language, as train.en does; "
                f"write en={given}"
            )
        texts = corpora.setdefault(str(PurePath(path).parent / name), {})
        if language in texts:
            raise ConfigError(
                f"--text {given}: {texts[language]} is in {language} too; give corpora different "
                "names"
            )
        texts[language] = path
    short = short_names(list(corpora))
    return {short[path]: texts for path, texts in corpora.items()}


def check_names_match(corpora: Mapping[str, Mapping[str, str]]) -> None:
    """Raise if a text stands alone, as one does whose name differs from the others'."""
    for texts in corpora.values():
        if len(texts) == 1:
            [path] = texts.values()
            raise ConfigError(
                f"--text {path}: a corpus has texts in two languages or more, and no other is "
                f"named {stem_of(path)}; name them alike, as train.en and train.de, or list them "
                "under data.corpora in a recipe"
            )


def _stated_language(given: str) -> tuple[str, str]:
    """Split `fr=other.txt` into the language and the file; a name may have the sign in it too."""
    stated, sign, path = given.partition("=")
    return (stated, path) if sign and CODE.fullmatch(stated) else ("", given)


def short_names(paths: list[str]) -> dict[str, str]:
    """Name corpora after their files; where two have one name, after their folders too."""
    last = [_plain_name(PurePath(path).name) for path in paths]
    names = {}
    for path, name in zip(paths, last, strict=True):
        names[path] = name if last.count(name) == 1 else _plain_name(path)
    return names


def _stem_and_ending(path: str) -> tuple[str, str]:
    """Split the name of a file at its last dot, without the ending of a compressed file."""
    name = PurePath(path)
    plain = name.with_suffix("") if name.suffix.lower() in COMPRESSED else name
    return plain.stem, plain.suffix[1:]


def language_of_file(path: str) -> str:
    """Return what a file is named after: `fr` for test.fr and test.fr.gz."""
    return _stem_and_ending(path)[1]


def stem_of(path: str) -> str:
    """Return the path of a file without its ending, which may be that of a language."""
    return str(PurePath(path).parent / _stem_and_ending(path)[0])


def _plain_name(text: str) -> str:
    return "".join(sign if sign.isalnum() or sign in "_+-" else "-" for sign in text).strip("-")
