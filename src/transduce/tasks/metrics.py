"""Metrics, each with the signature that makes its scores comparable."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from sacrebleu.metrics.bleu import BLEU

from transduce.errors import InputError
from transduce.tasks.base import Metric, MetricScore


@dataclass(frozen=True)
class Bleu(Metric):
    """BLEU from 0 to 100 by sacreBLEU, cased, one reference a sentence.

    For Japanese, Chinese and Korean name the tokenizer: `ja-mecab`, `zh`, `ko-mecab`, or `char`.
    """

    name: ClassVar[str] = "BLEU"
    tokenize: str = "13a"

    def compute(self, hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
        """Return sacreBLEU's score and signature."""
        metric = sacrebleu_bleu(self.tokenize)
        score = metric.corpus_score(hypotheses, [references]).score
        return score, str(metric.get_signature())


def bleu(
    hypotheses: Sequence[str], references: Sequence[str], *, tokenize: str = "13a"
) -> MetricScore:
    """Score whole texts by BLEU."""
    return Bleu(tokenize).score(hypotheses, references)


def sacrebleu_bleu(tokenize: str) -> BLEU:
    """Make sacreBLEU's own metric with one of its tokenizers."""
    if tokenize not in BLEU.TOKENIZERS:
        raise InputError(
            f"no tokenizer named {tokenize!r}: use one of {', '.join(BLEU.TOKENIZERS)}"
        )
    try:
        # Force: otherwise it warns, past our own display, of text that looks tokenized.
        return BLEU(tokenize=tokenize, force=True)
    except (RuntimeError, ImportError, OSError) as lacking:  # a package or a download
        reason = " ".join(str(lacking).split())
        raise InputError(f"the tokenizer {tokenize} cannot be used: {reason}") from lacking
