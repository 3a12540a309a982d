"""BLEU as the paper reports it (§6.1, Table 2): of tokenised text, with compounds split.

Its numbers were made by the scripts of its day: Moses' tokenizer, hyphens cut out of compounds
(`a-b` becomes `a ##AT##-##AT## b`), then Moses' multi-bleu. That is more generous than sacreBLEU's
own tokenizer, so neither number may stand for the other.
"""

import re
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import version
from types import ModuleType

from sacrebleu.metrics.bleu import BLEU

from transduce.errors import InputError
from transduce.evaluation.bleu import Bleu

PAPER_BLEU = "BLEU as in the paper"
CONVENTION = "Moses tokenisation, compounds split, cased"

_COMPOUND = re.compile(r"(\S)-(\S)")


class MissingMosesError(InputError):
    """The package that tokenises as Moses does is not installed."""


def paper_bleu(hypotheses: Sequence[str], references: Sequence[str], *, language: str) -> Bleu:
    """Score whole texts in the paper's way; the language decides how Moses tokenises."""
    if len(hypotheses) != len(references) or not references:
        raise InputError(
            f"{len(hypotheses):,} translations but {len(references):,} references: "
            "BLEU needs one reference for each, and at least one"
        )
    tokenised = moses_tokenizer(language)
    cut = [[split_compounds(tokenised(text)) for text in side] for side in (hypotheses, references)]
    # What multi-bleu computes: words as they stand, case counts, and no smoothing.
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    score = metric.corpus_score(cut[0], [cut[1]]).score
    ours = f"moses:{language}|compounds:split|sacremoses:{version('sacremoses')}"
    return Bleu(score, f"{ours}|{metric.get_signature()}")


def moses_tokenizer(language: str) -> Callable[[str], str]:
    """Return Moses' tokenizer for a language: text in, words with spaces between them out."""
    if not re.fullmatch(r"[a-z]{2,3}", language):
        raise InputError(f"no language {language!r}: give a code of two letters, such as de")
    tokenizer = _sacremoses().MosesTokenizer(lang=language)

    def tokenised(text: str) -> str:
        words: str = tokenizer.tokenize(text, return_str=True)
        return words

    return tokenised


def split_compounds(text: str) -> str:
    """Cut the hyphens out of compounds: `rich-text` becomes `rich ##AT##-##AT## text`."""
    return _COMPOUND.sub(r"\1 ##AT##-##AT## \2", text)


def _sacremoses() -> ModuleType:
    try:
        return import_module("sacremoses")
    except ImportError:
        raise MissingMosesError(
            f"{PAPER_BLEU} needs the package sacremoses: pip install 'transduce[paper]'"
        ) from None
