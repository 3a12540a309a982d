"""How BLEU and TER take a text apart: one rule for training, `evaluate` and Python."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from transduce.errors import InputError
from transduce.tasks.metrics import sacrebleu_bleu
from transduce.tasks.writing import Writing, writing_of

BY_SPACES = ("13a", "intl", "none")
"""sacreBLEU's tokenizers that take what is between spaces for words."""

TerUnit = Literal["words", "asian"]

_LANGUAGES = {
    **dict.fromkeys(("zh", "zho", "chi", "cmn", "yue", "wuu", "nan", "hak", "lzh"), "zh"),
    **dict.fromkeys(("ja", "jpn"), "ja-mecab"),
    **dict.fromkeys(("ko", "kor"), "ko-mecab"),
    **dict.fromkeys(("th", "tha", "lo", "lao", "km", "khm", "my", "mya", "bur"), "char"),
    **dict.fromkeys(("bo", "bod", "tib", "dz", "dzo"), "char"),
}
"""The tokenizers of languages that are written without spaces, or nearly."""

_PACKAGES = {"ja-mecab": "sacrebleu[ja]", "ko-mecab": "sacrebleu[ko]"}
_NAMES = {"13a": "words between spaces", "zh": "characters", "char": "characters"}


@dataclass(frozen=True)
class Tokenization:
    """What BLEU and TER count in a text."""

    bleu: str  # the name of sacreBLEU's tokenizer
    writing: Writing  # of the references
    notes: tuple[str, ...] = ()  # what a user should know about this choice

    @property
    def ter(self) -> TerUnit | None:
        """What TER counts; "asian": characters of Chinese and Japanese; None: nothing to count."""
        match self.writing.spacing:
            case "words":
                return "words"
            case "cut":  # runs of kana would be other words if they were not cut
                return "words" if self.bleu in BY_SPACES else None
            case "none":
                return "asian" if self.writing.script in ("Chinese", "Japanese") else None


def choose_tokenization(
    references: Sequence[str], *, language: str | None = None, tokenizer: str | None = None
) -> Tokenization:
    """Choose by the tokenizer that was asked for, else the language, else the script.

    Without a language, only tokenizers that need no further package are chosen: the scores of a
    run do not depend on what is installed. Raises `InputError` for an unusable `tokenizer`.
    """
    writing = writing_of(references)
    if tokenizer is not None:
        sacrebleu_bleu(tokenizer)
        return Tokenization(tokenizer, writing)
    by_script = _by_script(writing)
    chosen = _LANGUAGES.get((language or "").partition("-")[0], by_script)
    notes = []
    if writing.spacing == "cut":
        if chosen in (*BY_SPACES, *_PACKAGES):  # which would depend on where the text was cut
            chosen = by_script
        notes.append(
            "the references are cut into words, in a script without spaces: BLEU counts "
            "characters wherever they are cut, and there is no TER; --tokenize none counts the "
            "words as they are cut"
        )
    if chosen in _PACKAGES:
        instead = "char" if chosen == "ja-mecab" else by_script
        if missing := _missing(chosen, instead):
            chosen = instead
            notes.append(missing)
    return Tokenization(chosen, writing, tuple(notes))


def warnings_of(
    tokenization: Tokenization, references: Sequence[str], systems: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """Say where a tokenizer that relies on spaces meets a text without them.

    `systems` are the hypotheses by the name that a message calls them.
    """
    if tokenization.bleu not in BY_SPACES:
        return ()
    unspaced = ["the references"] if writing_of(references).spacing == "none" else []
    for name, hypotheses in systems.items():
        writing = writing_of(hypotheses)
        # Spaces that are missing only in a bad translation should lower its score.
        if writing.script != "spaced" and writing.spacing == "none":
            unspaced.append(name)
    if not unspaced:
        return ()
    better = choose_tokenization(references).bleu
    instead = "" if better in BY_SPACES else f"; use --tokenize {better}"
    return (
        f"BLEU with the tokenizer {tokenization.bleu} says nothing here: it counts words between "
        f"spaces, and there are none in {' and '.join(unspaced)}{instead}",
    )


def _by_script(writing: Writing) -> str:
    if writing.script == "Chinese":
        return "zh"
    return "13a" if writing.spacing == "words" else "char"


def _missing(tokenizer: str, instead: str) -> str | None:
    """Say what is missing for a tokenizer, and what is used instead; None: nothing is missing."""
    try:
        sacrebleu_bleu(tokenizer)
    except InputError:
        return (
            f"BLEU counts {_NAMES[instead]}, because {tokenizer} is not installed: "
            f"pip install '{_PACKAGES[tokenizer]}' to count words as MeCab finds them"
        )
    return None
