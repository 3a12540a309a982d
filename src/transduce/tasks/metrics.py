"""Metrics, each with the signature that makes its scores comparable."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from transduce.errors import InputError, counted
from transduce.tasks.base import Metric, MetricScore


@dataclass(frozen=True)
class Bleu(Metric):
    """BLEU from 0 to 100 by sacreBLEU, cased, one reference a sentence.

    `tasks/tokenization.py` chooses the tokenizer that suits a text.
    """

    name: ClassVar[str] = "BLEU"
    tokenize: str = "13a"

    def compute(self, hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
        """Return sacreBLEU's score and signature."""
        score = bleu(hypotheses, references, tokenize=self.tokenize)
        return score.score, score.signature


class ChrF(Metric):
    """chrF2 from 0 to 100 by sacreBLEU."""

    name: ClassVar[str] = "chrF"

    def compute(self, hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
        """Return sacreBLEU's score and signature."""
        metric = CHRF()
        score = metric.corpus_score(hypotheses, [references]).score
        return float(score), str(metric.get_signature())


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *others: Sequence[str],
    tokenize: str = "13a",
) -> MetricScore:
    """Score whole texts by BLEU, with one reference for each sentence or several."""
    for texts in (references, *others):
        if len(hypotheses) != len(texts) or not texts:
            raise InputError(
                f"{counted(len(hypotheses), 'translation')} "
                f"but {counted(len(texts), 'reference')}: "
                "BLEU needs one reference for each, and at least one"
            )
    metric = sacrebleu_bleu(tokenize)
    score = metric.corpus_score(hypotheses, [references, *others]).score
    return MetricScore(Bleu.name, score, str(metric.get_signature()))


def sacrebleu_bleu(tokenize: str) -> BLEU:
    """Make sacreBLEU's own metric with one of its tokenizers."""
    if tokenize not in BLEU.TOKENIZERS:
        raise InputError(
            f"no tokenizer named {tokenize!r}: use one of {', '.join(BLEU.TOKENIZERS)}"
        )
    try:
        # Force: otherwise it warns, past our own display, of text that looks tokenized.
        return BLEU(tokenize=tokenize, force=True)
    except (RuntimeError, ImportError, OSError, AssertionError) as lacking:
        # A package, its dictionary, or a download.
        reason = " ".join(str(lacking).split())
        raise InputError(f"the tokenizer {tokenize} cannot be used: {reason}") from lacking
