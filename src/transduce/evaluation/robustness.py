"""What noise in the source costs: one test set, clean and with each kind of noise."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from transduce.evaluation.scoring import ComparedTexts, NoisyScores
from transduce.tasks.base import MetricScore, Task
from transduce.text.noise.texts import mistyped_text, title_cased, unpunctuated, upper_cased

Texts = Sequence[str]
CLEAN = "clean"


@dataclass(frozen=True)
class _Noise:
    """How the source is changed, and how the references follow."""

    name: str
    source: Callable[[str, int], str]  # from a line and its number
    reference: Callable[[str], str] = lambda line: line


NOISES = (
    _Noise(CLEAN, lambda line, _number: line),
    _Noise("UPPER CASE", lambda line, _number: upper_cased(line), upper_cased),
    _Noise("Title Case", lambda line, _number: title_cased(line)),
    _Noise("no final punctuation", lambda line, _number: unpunctuated(line), unpunctuated),
    _Noise("typos", mistyped_text),
)
"""As in training (`data.augment`): upper case and the end of a sentence are the target's too."""


def score_robustness(
    translate: Callable[[Texts], Texts],
    texts: ComparedTexts,
    task: Task,
    *,
    clean: Texts,
    tokenize: str,
) -> Iterator[NoisyScores]:
    """Translate the sources with each kind of noise when it is asked for, and score that.

    `clean` are the translations without noise, `tokenize` is the tokenizer of BLEU. A task with a
    metric of its own is scored by that.
    """
    assert texts.sources is not None
    best: tuple[MetricScore, ...] | None = None
    for noise in NOISES:
        sources = [noise.source(line, number) for number, line in enumerate(texts.sources)]
        references = [[noise.reference(line) for line in lines] for lines in texts.references]
        hypotheses = clean if best is None else translate(sources)
        scores = _scores(hypotheses, references, task, tokenize)
        best = best or scores
        yield NoisyScores(noise.name, scores, tuple(map(_loss, best, scores)))


def _loss(clean: MetricScore, noisy: MetricScore) -> float:
    difference = clean.score - noisy.score
    return difference if clean.higher_is_better else -difference


def _scores(
    hypotheses: Texts, references: Sequence[Texts], task: Task, tokenize: str
) -> tuple[MetricScore, ...]:
    if task.has_own_scores:
        return (task.metric(references[0]).score(hypotheses, references[0]),)
    metrics = {
        "BLEU": BLEU(tokenize=tokenize, force=True),
        "BLEU, case ignored": BLEU(tokenize=tokenize, lowercase=True, force=True),
        "chrF2": CHRF(),
    }
    return tuple(
        MetricScore(
            name,
            float(metric.corpus_score(hypotheses, references).score),
            str(metric.get_signature()),
        )
        for name, metric in metrics.items()
    )
