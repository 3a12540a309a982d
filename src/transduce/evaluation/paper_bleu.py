"""BLEU as the paper reports it (§6.1, Table 2): on tokenised text, with compounds split.

Its scores come from the scripts of its time: Moses' tokenizer, hyphens separated from compounds
(`a-b` becomes `a ##AT##-##AT## b`), then Moses' multi-bleu. That gives higher scores than sacreBLEU
with its own tokenizer, so the two must not be compared with each other.
"""

import re
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import version
from types import ModuleType

from sacrebleu.metrics.bleu import BLEU

from transduce.errors import InputError, counted, how_to_install
from transduce.tasks.base import MetricScore

PAPER_BLEU = "BLEU as in the paper"
CONVENTION = "Moses tokenisation, compounds split, cased"

_COMPOUND = re.compile(r"(\S)-(\S)")


class MissingMosesError(InputError):
    """sacremoses, the package with Moses' tokenizer, is not installed."""


def paper_bleu(
    hypotheses: Sequence[str], references: Sequence[str], *others: Sequence[str], language: str
) -> MetricScore:
    """Score whole texts as the paper does; Moses' tokenizer depends on the language."""
    for texts in (references, *others):
        if len(hypotheses) != len(texts) or not texts:
            raise InputError(
                f"{counted(len(hypotheses), 'translation')} "
                f"but {counted(len(texts), 'reference')}: "
                "BLEU needs one reference for each, and at least one"
            )
    tokenised = moses_tokenizer(language)
    cut = [
        [split_compounds(tokenised(text)) for text in side]
        for side in (hypotheses, references, *others)
    ]
    # As multi-bleu does: words between spaces, cased, without smoothing.
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    score = metric.corpus_score(cut[0], cut[1:]).score
    ours = f"moses:{language}|compounds:split|sacremoses:{version('sacremoses')}"
    return MetricScore(PAPER_BLEU, score, f"{ours}|{metric.get_signature()}")


def moses_tokenizer(language: str) -> Callable[[str], str]:
    """Return Moses' tokenizer for a language: from text to tokens joined by spaces."""
    check_language(language)
    tokenizer = require_sacremoses().MosesTokenizer(lang=language.partition("-")[0])

    def tokenised(text: str) -> str:
        words: str = tokenizer.tokenize(text, return_str=True)
        return words

    return tokenised


def check_language(language: str) -> None:
    """Raise unless this looks like the code of a language, such as de, pt-BR or zh-Hans."""
    if not re.fullmatch(r"[a-z]{2,3}(-[A-Za-z]{2,4})?", language):
        raise InputError(f"no language {language!r}: give a code of two letters, such as de")


def split_compounds(text: str) -> str:
    """Separate the hyphens of compounds: `rich-text` becomes `rich ##AT##-##AT## text`."""
    return _COMPOUND.sub(r"\1 ##AT##-##AT## \2", text)


def require_sacremoses() -> ModuleType:
    """Return the package with Moses' tokenizer; raise if it is not installed."""
    try:
        return import_module("sacremoses")
    except ImportError:
        raise MissingMosesError(
            f"{PAPER_BLEU} needs the package sacremoses: {how_to_install('paper')}"
        ) from None
