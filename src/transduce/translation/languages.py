"""Which languages a model translates between, and their names."""

from dataclasses import dataclass
from pathlib import PurePath

from transduce.config.schema import Config
from transduce.data.formats.lines import COMPRESSED


@dataclass(frozen=True, order=True)
class LanguagePair:
    """A source and a target language, as codes such as en, de, pt-BR, zh-Hans."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"


def training_pair(config: Config) -> LanguagePair | None:
    """Return the pair that the training files (train.en, train.de) or fields are named after."""
    source, target = _languages(config)
    if source is None or target is None or source == target:
        return None
    return LanguagePair(source, target)


def target_language(config: Config) -> str | None:
    """Return the language that the target files or field of the training are named after."""
    return _languages(config)[1]


def _languages(config: Config) -> tuple[str | None, str | None]:
    """Return the source and the target language, each None if nothing tells it.

    Fields tell a language only if both do: a column may be called `id` or `no`.
    """
    data = config.data
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
