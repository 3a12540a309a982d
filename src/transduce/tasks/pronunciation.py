"""Pronunciation: the letters of a word in, its phonemes out, separated by spaces.

A word may have several pronunciations. Training text has a line for each. A line of a development
or test set may list all of them, separated by ` | `: an output is compared with the nearest.
"""

from collections.abc import Sequence
from typing import ClassVar

from transduce.config.schema import Tree
from transduce.tasks.base import AdditiveMetric, Metric, Scores
from transduce.tasks.error_rates import edit_distance, percent
from transduce.tasks.generic import GenericTask

SEPARATOR = "|"


def pronunciations(text: str) -> list[list[str]]:
    """Return the phonemes of each pronunciation in a line."""
    return [one.split() for one in text.split(SEPARATOR)]


class PronunciationErrors(AdditiveMetric):
    """The share of words that have none of their pronunciations, and phonemes to edit.

    Edits are counted to the nearest pronunciation, per phoneme of it.
    """

    name: ClassVar[str] = "words wrong"
    signature: ClassVar[str] = "exact and edits per phoneme|references:nearest of those listed"
    higher_is_better: ClassVar[bool] = False

    def counts(self, hypothesis: str, reference: str) -> tuple[float, ...]:
        """Return 1 for a wrong word, 1 for the word, its edits, and the nearest's phonemes."""
        ours = hypothesis.split()
        edits, length = min(
            (edit_distance(ours, one), len(one)) for one in pronunciations(reference)
        )
        return float(edits > 0), 1.0, float(edits), float(length)

    def scores(self, sums: Sequence[float]) -> Scores:
        """Return both error rates, that of words first."""
        wrong, words, edits, phonemes = sums
        return {self.name: percent(wrong, words), "phonemes wrong": percent(edits, phonemes)}


class PronunciationTask(GenericTask):
    """Letters to phonemes."""

    name: ClassVar[str] = "pronunciation"

    def settings(self) -> Tree:
        """Return a vocabulary of letters and one of phonemes, and text that is kept as it is."""
        return {
            "data": {
                "shared_vocabulary": False,
                "subwords": "characters",
                "tgt_subwords": "whitespace",
                "clean": False,
                "held_out_by": "source",
            }
        }

    def to_target(self, text: str) -> str:
        """Return the first pronunciation of a line."""
        return text.partition(SEPARATOR)[0].strip()

    def metric(self, references: Sequence[str]) -> Metric:  # noqa: ARG002
        """Return the share of words that are wrong."""
        return PronunciationErrors()
