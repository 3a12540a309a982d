"""BLEU by sacreBLEU, which also says how it was computed: the signature."""

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU

from transduce.errors import InputError


@dataclass(frozen=True)
class Bleu:
    """A score from 0 to 100, and what makes it comparable with others."""

    score: float
    signature: str


def bleu(hypotheses: Sequence[str], references: Sequence[str], *, tokenize: str = "13a") -> Bleu:
    """Score whole texts, cased, one reference a sentence.

    For Japanese, Chinese and Korean name the tokenizer: `ja-mecab`, `zh`, `ko-mecab`, or `char`.
    """
    if len(hypotheses) != len(references) or not references:
        raise InputError(
            f"{len(hypotheses):,} translations but {len(references):,} references: "
            "BLEU needs one reference for each, and at least one"
        )
    metric = _metric(tokenize)
    score = metric.corpus_score(hypotheses, [references]).score
    return Bleu(score, str(metric.get_signature()))


def _metric(tokenize: str) -> BLEU:
    if tokenize not in BLEU.TOKENIZERS:
        raise InputError(
            f"no tokenizer named {tokenize!r}: use one of {', '.join(BLEU.TOKENIZERS)}"
        )
    try:
        # Force: else it warns, past our own display, of text that looks tokenized.
        return BLEU(tokenize=tokenize, force=True)
    except (RuntimeError, ImportError, OSError) as lacking:  # a package or a download
        reason = " ".join(str(lacking).split())
        raise InputError(f"the tokenizer {tokenize} cannot be used: {reason}") from lacking
