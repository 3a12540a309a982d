"""Which languages a model translates between, their tags and their names."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from transduce.config.schema import Config
from transduce.data.formats.lines import COMPRESSED
from transduce.data.languages.corpora import target_languages, trained_directions
from transduce.errors import InputError, did_you_mean
from transduce.text.tokenizer import Tokenizer


@dataclass(frozen=True, order=True)
class LanguagePair:
    """A source and a target language, as codes such as en, de, pt-BR, zh-Hans."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"


@dataclass(frozen=True)
class TagIds:
    """What goes before a source, and before its translation: a tag before one of them, or none."""

    source: tuple[int, ...] = ()
    target: tuple[int, ...] = ()

    def before(self, src: Sequence[int], tgt: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return the tokens of a source and of its translation with these tags before them."""
        return [*self.source, *src], [*self.target, *tgt]


NO_TAGS = TagIds()


def tags_of(tokenizer: Tokenizer, tag_on: Literal["source", "target"], to: str | None) -> TagIds:
    """Return the tags for a language; raise if it is open or not one of the model's."""
    known = tokenizer.languages
    if to is None and not known:
        return NO_TAGS
    if to is None:
        raise InputError(
            f"this model translates into {', '.join(known)}: choose one with --to {known[0]}, or "
            f'to="{known[0]}" in Python'
        )
    if not known:
        raise InputError(
            f"to={to}: this model has no tags of languages, it translates into one: leave it out"
        )
    if to not in known:
        raise InputError(
            f"to={to}: this model translates into {', '.join(known)}{did_you_mean(to, known)}"
        )
    if tag_on == "source":
        return TagIds(source=(tokenizer.source.tags[to],))
    return TagIds(target=(tokenizer.target.tags[to],))


def training_pair(config: Config) -> LanguagePair | None:
    """Return the pair that the training files (train.en, train.de) or fields are named after."""
    source, target = _languages(config)
    if source is None or target is None or source == target:
        return None
    return LanguagePair(source, target)


def language_pairs(config: Config) -> list[LanguagePair]:
    """Return the pairs of languages of a model, as far as its settings tell them.

    A model of several languages translates from each of its sources into each of its targets, in
    directions that it was not trained on too.
    """
    directions = trained_directions(config.data)
    if not directions:
        pair = training_pair(config)
        return [] if pair is None else [pair]
    sources, targets = source_languages(config), target_languages(directions)
    return [LanguagePair(src, tgt) for src in sources for tgt in targets if src != tgt]


def source_languages(config: Config) -> tuple[str, ...]:
    """Return the languages that a model of several was trained to read."""
    return tuple(dict.fromkeys(one.source for one in trained_directions(config.data)))


def target_language(config: Config) -> str | None:
    """Return the language that the target files or field of the training are named after."""
    return _languages(config)[1]


def _languages(config: Config) -> tuple[str | None, str | None]:
    """Return the source and the target language, each None if nothing tells it.

    Fields tell a language only if both do: a column may be called `id` or `no`.
    """
    data = config.data
    if data.corpora:
        directions = trained_directions(data)
        ends = {one.source for one in directions}, {one.target for one in directions}
        source, target = (next(iter(end)) if len(end) == 1 else None for end in ends)
        return source, target
    if data.tgt:
        return _language(data.src), _language(data.tgt)
    fields = [_language_of_field(name) for name in data.fields.split(",")]
    return (fields[0], fields[1]) if len(fields) == 2 and all(fields) else (None, None)


def _language_of_field(field: str) -> str | None:
    """Return the language code that a field is named after, as `en`, `pt_BR` or `English` are."""
    name = field.rpartition(".")[2].strip().replace("_", "-")
    if name.partition("-")[0] in NAMES:
        return name
    return CODES.get(name.casefold())


def _language(names: tuple[str, ...]) -> str | None:
    """Return the language code that all names end with, if any."""
    endings = set()
    for name in names:
        path = PurePath(name)
        is_compressed = path.suffix.lower() in COMPRESSED
        endings.add((path.with_suffix("") if is_compressed else path).suffix[1:])
    [ending] = endings if len(endings) == 1 else {""}
    return ending if ending in NAMES else None


def name_of(code: str) -> str:
    """Return the English name of a language, or its code if the name is not known."""
    plain, _, variant = code.partition("-")
    name = NAMES.get(plain, plain)
    return f"{name} ({variant})" if variant else name


NAMES = dict(
    entry.split(" ", 1)
    for entry in """
af Afrikaans|am Amharic|ar Arabic|az Azerbaijani|be Belarusian|bg Bulgarian|bn Bengali|bs Bosnian
|ca Catalan|cs Czech|cy Welsh|da Danish|de German|el Greek|en English|eo Esperanto|es Spanish
|et Estonian|eu Basque|fa Persian|fi Finnish|fo Faroese|fr French|fy Western Frisian|ga Irish
|gd Scottish Gaelic|gl Galician|gu Gujarati|ha Hausa|he Hebrew|hi Hindi|hr Croatian|hu Hungarian
|hy Armenian|id Indonesian|ig Igbo|is Icelandic|it Italian|ja Japanese|jv Javanese|ka Georgian
|kk Kazakh|km Khmer|kn Kannada|ko Korean|ku Kurdish|ky Kyrgyz|la Latin|lb Luxembourgish|lo Lao
|lt Lithuanian|lv Latvian|mg Malagasy|mi Maori|mk Macedonian|ml Malayalam|mn Mongolian|mr Marathi
|ms Malay|mt Maltese|my Burmese|nb Norwegian Bokmål|ne Nepali|nl Dutch|nn Norwegian Nynorsk
|no Norwegian|ny Chichewa|oc Occitan|pa Punjabi|pl Polish|ps Pashto|pt Portuguese|ro Romanian
|ru Russian|rw Kinyarwanda|sd Sindhi|si Sinhala|sk Slovak|sl Slovenian|sm Samoan|sn Shona
|so Somali|sq Albanian|sr Serbian|st Sesotho|su Sundanese|sv Swedish|sw Swahili|ta Tamil|te Telugu
|tg Tajik|th Thai|tk Turkmen|tl Tagalog|tr Turkish|tt Tatar|ug Uyghur|uk Ukrainian|ur Urdu|uz Uzbek
|vi Vietnamese|wo Wolof|xh Xhosa|yi Yiddish|yo Yoruba|zh Chinese|zu Zulu
""".replace("\n", "").split("|")
)

CODES = {name.casefold(): code for code, name in NAMES.items()}
