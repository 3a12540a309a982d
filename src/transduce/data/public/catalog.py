"""The public corpora: their URLs, archives and texts.

Sources: URLs and layouts are from the page of the WMT14 translation task
(https://www.statmt.org/wmt14/translation-task.html), the repository multi30k/dataset, and public
programs that read the same archives. Checksums of Europarl, Common Crawl and News Commentary are
from TensorFlow Datasets, that of test-full.tgz from sacreBLEU, those of Multi30k from torchtext.
Pair counts of WMT14 are from Hugging Face's datasets. None of these downloads has been tried.
Sizes are approximate, that of the UN corpus too; those of dev.tgz and test-full.tgz are guesses.
Terms are notes, not advice: read the owners'. No licence text was found for Multi30k.
"""

from dataclasses import dataclass
from typing import Literal, get_args

Split = Literal["train", "dev", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)


@dataclass(frozen=True)
class Text:
    """A plain text file of one sentence per line, aligned with the same file in other languages."""

    name: str
    split: Split
    language: str
    member: str  # its path in the archive; for a .gz, the archive's own name


@dataclass(frozen=True)
class Download:
    """One file on a server and the texts that are unpacked from it."""

    url: str
    size_bytes: int | None  # approximate, where it is known
    texts: tuple[Text, ...]
    checksum: str | None = None  # such as sha256:9f86…
    file: str | None = None  # its name here and on a mirror, where it is not that of the URL

    @property
    def name(self) -> str:
        """The name of the file, here and on a mirror."""
        return self.file or self.url.rpartition("/")[2]


@dataclass(frozen=True)
class Corpus:
    """A named set of training, development and test texts."""

    name: str
    languages: tuple[str, ...]
    pairs: int | None  # of the training set, where it is known
    terms: str
    downloads: tuple[Download, ...]

    @property
    def size_bytes(self) -> int:
        """The approximate size of all downloads whose size is known."""
        return sum(download.size_bytes or 0 for download in self.downloads)

    def texts(self, split: Split) -> tuple[Text, ...]:
        """Return the texts of one split."""
        texts = (text for download in self.downloads for text in download.texts)
        return tuple(text for text in texts if text.split == split)


def _text(member: str, split: Split, *, name: str | None = None) -> Text:
    """Name a text after its member, without the suffixes of compression and SGML."""
    plain = (name or member).rpartition("/")[2].removesuffix(".gz")
    return Text(plain, split, plain.rpartition(".")[2], member)


def _wmt(
    path: str,
    size_bytes: int,
    members: str,
    *,
    languages: tuple[str, str],
    split: Split = "train",
    checksum: str | None = None,
) -> Download:
    """Describe both sides of one part of WMT; `{}` in `members` stands for the language."""
    texts = tuple(_text(members.format(language), split) for language in languages)
    return Download(f"https://www.statmt.org/{path}", size_bytes, texts, checksum)


def _wmt_parts(other: str) -> tuple[Download, ...]:
    """Return the parts that En-De and En-Fr share; each archive holds all languages of the task."""
    pair = ("en", other)
    return (
        _wmt(
            "wmt13/training-parallel-europarl-v7.tgz",
            657_632_379,
            f"training/europarl-v7.{other}-en.{{}}",
            languages=pair,
            checksum="sha256:0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7",
        ),
        _wmt(
            "wmt13/training-parallel-commoncrawl.tgz",
            918_311_367,
            f"commoncrawl.{other}-en.{{}}",
            languages=pair,
            checksum="sha256:c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5",
        ),
        _wmt(
            "wmt14/training-parallel-nc-v9.tgz",
            80_418_416,
            f"training/news-commentary-v9.{other}-en.{{}}",
            languages=pair,
            checksum="sha256:cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485",
        ),
        _wmt("wmt14/dev.tgz", 20_000_000, "dev/newstest2013.{}", languages=pair, split="dev"),
        _newstest2014(other),
    )


def _newstest2014(other: str) -> Download:
    """Describe the full test set of 3,003 pairs, with English as the source."""
    stem, plain = f"test-full/newstest2014-{other}en", f"newstest2014.{other}-en"
    return Download(
        "https://www.statmt.org/wmt14/test-full.tgz",
        7_000_000,
        (
            _text(f"{stem}-src.en.sgm", "test", name=f"{plain}.en"),
            _text(f"{stem}-ref.{other}.sgm", "test", name=f"{plain}.{other}"),
        ),
        "md5:a8cd784e006feb32ac6f3d9ec7eb389a",
    )


_MULTI30K: tuple[tuple[str, Split, int, str], ...] = (  # file, split, bytes, md5
    ("train.en.gz", "train", 563_000, "0065d13af80720a55ca8153d126e6627"),
    ("train.de.gz", "train", 626_000, "81ff90b99829c0cd4b1b587d394afd39"),
    ("train.fr.gz", "train", 596_000, "6cb767741dcad3931f966fefbc05203f"),
    ("val.en.gz", "dev", 21_000, "2b69aa9253948ac9f67e94917272dd40"),
    ("val.de.gz", "dev", 24_000, "6e0e229eb049e3fc99a1ef02fb2d5f91"),
    ("val.fr.gz", "dev", 23_000, "93fc564584b7e5ba410c761ea5a1c682"),
    ("test_2016_flickr.en.gz", "test", 21_000, "ff2c0fcb4893a13bd73414306bc250ae"),
    ("test_2016_flickr.de.gz", "test", 23_000, "efd67d314d98489b716b145475101932"),
    ("test_2016_flickr.fr.gz", "test", 22_000, "08dc7cd4a662f31718412de95ca9bfe3"),
    ("test_2017_flickr.en.gz", "test", 19_000, "005396bac545d880abe6f00bbb7dbbb4"),
    ("test_2017_flickr.de.gz", "test", 21_000, "6a8d5c87f6ae19e3d35681aa6fd16571"),
    ("test_2017_flickr.fr.gz", "test", 21_000, "cb09af7d2b501f9112f2d6a59fa1360d"),
    ("test_2017_mscoco.en.gz", "test", 9_000, "a7b684e0edbef1d4a23660c8e8e743fd"),
    ("test_2017_mscoco.de.gz", "test", 11_000, "e8cd6ec2bc8a11fc846fa48a46e3d0bb"),
    ("test_2017_mscoco.fr.gz", "test", 10_000, "4995d10954a804d3cdfd907b9fd093e8"),
)


def _multi30k() -> tuple[Download, ...]:
    base = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
    return tuple(
        Download(f"{base}/{file}", size_bytes, (_text(file, split),), f"md5:{md5}")
        for file, split, size_bytes, md5 in _MULTI30K
    )


_EN_FR = ("en", "fr")
_WMT_TERMS = "research; for other uses ask each part's owner"

CORPORA: dict[str, Corpus] = {
    corpus.name: corpus
    for corpus in (
        Corpus(
            "multi30k",
            ("en", "de", "fr"),
            29_000,
            "research; captions of Flickr30k, whose terms apply",
            _multi30k(),
        ),
        Corpus("wmt14-en-de", ("en", "de"), 4_508_785, _WMT_TERMS, _wmt_parts("de")),
        Corpus(
            "wmt14-en-fr",
            _EN_FR,
            40_836_715,
            _WMT_TERMS,
            (
                *_wmt_parts("fr"),
                _wmt(
                    "wmt13/training-parallel-un.tgz",
                    2_370_000_000,
                    "un/undoc.2000.fr-en.{}",
                    languages=_EN_FR,
                ),
                _wmt(
                    "wmt10/training-giga-fren.tar",
                    2_595_102_720,
                    "giga-fren.release2.fixed.{}.gz",
                    languages=_EN_FR,
                ),
            ),
        ),
    )
}
