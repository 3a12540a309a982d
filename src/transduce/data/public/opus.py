"""Corpora of OPUS by name, such as `opus:Europarl:de-en`: one archive for each pair of languages.

Versions, numbers and terms are from the description that the repository Helsinki-NLP/OPUS has of
each corpus (corpus/NAME/info.yaml); "none stated" is what is said here where it has no terms. The
layout is that of public programs that download the same archives. No download has been tried. No
checksums are published, and sizes and numbers of sentence pairs are not kept here.
"""

import re
from dataclasses import dataclass

from transduce.data.public.catalog import Corpus, Download, Text
from transduce.errors import InputError, did_you_mean

PREFIX = "opus:"
_FORM = re.compile(r"opus:([\w-]+)(?:/(v?\d[\w.-]*))?:([A-Za-z]\w+)-([A-Za-z]\w+)", re.ASCII)
_NONE = "none stated"


@dataclass(frozen=True)
class OpusCorpus:
    """A corpus in its latest known version; `pairs` is how many pairs of its languages exist."""

    name: str
    version: str
    languages: int
    pairs: int
    terms: str


OPUS: dict[str, OpusCorpus] = {
    corpus.name: corpus
    for corpus in (
        OpusCorpus("bible-uedin", "v1", 102, 5_148, "CC0 1.0"),
        OpusCorpus("Books", "v1", 16, 64, "not for commercial use"),
        OpusCorpus("CCMatrix", "v1", 90, 1_197, _NONE),
        OpusCorpus("DGT", "v2019", 25, 299, _NONE),
        OpusCorpus("ECB", "v1", 19, 170, "CC-0"),
        OpusCorpus("EMEA", "v3", 22, 231, _NONE),
        OpusCorpus("Europarl", "v8", 21, 211, _NONE),
        OpusCorpus("EuroPat", "v3", 7, 21, "CC0"),
        OpusCorpus("GlobalVoices", "v2018q4", 46, 851, _NONE),
        OpusCorpus("JRC-Acquis", "v3.0", 22, 231, "see the JRC's page"),
        OpusCorpus("KDE4", "v2", 92, 4_099, _NONE),
        OpusCorpus("MultiUN", "v1", 7, 21, _NONE),
        OpusCorpus("News-Commentary", "v16", 15, 109, _NONE),
        OpusCorpus("NLLB", "v1", 188, 2_656, "ODC-By"),
        OpusCorpus("OpenSubtitles", "v2024", 94, 3_377, "a link to their site"),
        OpusCorpus("ParaCrawl", "v9", 42, 43, _NONE),
        OpusCorpus("QED", "v2.0a", 225, 9_291, "research only"),
        OpusCorpus("SETIMES", "v2", 10, 45, "CC BY-SA 3.0"),
        OpusCorpus("Tatoeba", "v2023-04-12", 397, 4_344, "CC BY 2.0 FR"),
        OpusCorpus("TED2020", "v1", 108, 4_796, "TED Talks Usage Policy"),
        OpusCorpus("TildeMODEL", "v2018", 30, 274, "CC BY 4.0"),
        OpusCorpus("UNPC", "v1.0", 6, 15, "name the United Nations"),
        OpusCorpus("WikiMatrix", "v1", 86, 1_620, "CC BY-SA 4.0"),
    )
}


def opus_corpus(name: str) -> Corpus:
    """Describe one pair of languages of a corpus, in any order, in the latest version or another.

    Files are named after corpus and version too, so that corpora can share a folder.
    """
    form = _FORM.fullmatch(name)
    if not form or form[3] == form[4]:
        raise InputError(f"{name!r} is not such as opus:Europarl:de-en or opus:Europarl/v7:de-en")
    if form[1] not in OPUS:
        hint = did_you_mean(form[1], OPUS)
        raise InputError(
            f"no OPUS corpus named {form[1]!r}{hint}; 'transduce data list' lists them"
        )
    known, languages = OPUS[form[1]], tuple(sorted(form.group(3, 4)))
    version, pair = form[2] or known.version, "-".join(languages)
    stem = f"{known.name}-{version}.{pair}"
    texts = (Text(f"{stem}.{x}", "train", x, f"{known.name}.{pair}.{x}") for x in languages)
    url = f"https://object.pouta.csc.fi/OPUS-{known.name}/{version}/moses/{pair}.txt.zip"
    download = Download(url, None, tuple(texts), file=f"{stem}.txt.zip")
    return Corpus(f"opus:{known.name}/{version}:{pair}", languages, None, known.terms, (download,))
