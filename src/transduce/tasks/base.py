"""What a run is for: the class `Task`, and the scores by which its models are judged."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

import torch

from transduce.config.schema import DataConfig, Tree
from transduce.errors import InputError, counted
from transduce.search.constraint import Constraint
from transduce.search.hypothesis import Hypothesis
from transduce.tasks.degenerate import Fault
from transduce.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class MetricScore:
    """A score, the metric it comes from, and what makes it comparable with other scores."""

    name: str  # of the metric
    score: float
    signature: str
    higher_is_better: bool = True
    parts: dict[str, float] = field(default_factory=dict, hash=False)  # of directions or files


class Metric(ABC):
    """Compares a model's output with references."""

    name: ClassVar[str]
    """What tables and curves call it."""
    higher_is_better: ClassVar[bool] = True
    """False for an error rate."""

    @abstractmethod
    def compute(self, hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
        """Return the score of a whole test set and its signature: all that the score depends on."""

    def score(self, hypotheses: Sequence[str], references: Sequence[str]) -> MetricScore:
        """Score a whole test set; raise unless there is one reference for each hypothesis."""
        if len(hypotheses) != len(references) or not references:
            raise InputError(
                f"{counted(len(hypotheses), 'translation')} "
                f"but {counted(len(references), 'reference')}: "
                f"{self.name} needs one reference for each, and at least one"
            )
        score, signature = self.compute(hypotheses, references)
        return MetricScore(self.name, score, signature, self.higher_is_better)


Scores = dict[str, float]
"""Numbers by name; the first is the score, the others are shown beside it."""


class AdditiveMetric(Metric):
    """A metric that is computed from sums over lines, so that any sample of them is scored fast."""

    signature: ClassVar[str]
    """All that the score depends on."""

    @abstractmethod
    def counts(self, hypothesis: str, reference: str) -> tuple[float, ...]:
        """Return what is summed, for one line."""

    @abstractmethod
    def scores(self, sums: Sequence[float]) -> Scores:
        """Return the score, and what is shown beside it, from the sums over all lines."""

    def signature_of(self, name: str) -> str:
        """Return the signature of one of the scores; most metrics have the same for all."""
        del name
        return self.signature

    def length(self, reference: str) -> int:
        """Return the length of a reference in words."""
        return len(reference.split())

    def sums(self, hypotheses: Sequence[str], references: Sequence[str]) -> list[float]:
        """Sum over all lines."""
        rows = map(self.counts, hypotheses, references)
        return [sum(column) for column in zip(*rows, strict=True)]

    def compute(self, hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
        """Return the score of a whole test set and its signature."""
        found = self.scores(self.sums(hypotheses, references))
        return found[self.name], self.signature

    def as_score(self, sums: Sequence[float]) -> MetricScore:
        """Return the score of sums over lines."""
        return MetricScore(
            self.name, self.scores(sums)[self.name], self.signature, self.higher_is_better
        )


class Task(ABC):
    """How target text is written, read, scored and limited, and what the output may be.

    Tasks are sent to other processes, so they must be picklable.
    """

    name: ClassVar[str]
    """What `data.task` calls it."""

    splits_lines: ClassVar[bool] = True
    """Whether a line may be taken apart into sentences that are processed one by one."""

    hardly_usable: ClassVar[float | None] = None
    """A score of the metric that is no better than this means that the output cannot be used."""

    has_own_scores: ClassVar[bool] = False
    """Whether its metric, an `AdditiveMetric`, replaces BLEU, chrF and TER in evaluations."""

    beam: ClassVar[int] = 4
    """Hypotheses that a search keeps where nothing else is asked for."""

    alpha: ClassVar[float] = 0.6
    """Exponent of the length penalty where nothing else is asked for."""

    def settings(self) -> Tree:
        """Return the settings that suit the task, for those that the user leaves open.

        Those of the section `model` are a Transformer's.
        """
        return {}

    def configured(self, data: DataConfig) -> Self:
        """Return the task as the settings want it; most tasks have no settings of their own."""
        del data
        return self

    @property
    @abstractmethod
    def max_src_tokens(self) -> int | None:
        """The longest source in tokens; longer ones are cut into pieces. None: never cut.

        A source that is too long for the model itself is then an error.
        """

    @abstractmethod
    def max_tgt_tokens(self, src_tokens: int) -> int:
        """Return the maximum length of the output for a source of that length, EOS included."""

    @abstractmethod
    def metric(self, references: Sequence[str]) -> Metric:
        """Return the metric by which models are compared, suited to these references."""

    def dev_metric(self, references: Sequence[str]) -> Metric:
        """Return the metric that chooses among the weights of a run, if it is another."""
        return self.metric(references)

    @abstractmethod
    def fault_of(self, hypothesis: Hypothesis, src_ids: Sequence[int]) -> Fault | None:
        """Return what makes a hypothesis degenerate, or None if it is sound."""

    def to_target(self, text: str) -> str:
        """Return the text that the model is trained to write for a line of the target file."""
        return text

    def from_target(self, text: str) -> str:
        """Return what the user reads for what the model wrote: the inverse of `to_target`."""
        return text

    def to_source(self, text: str) -> str:
        """Return the text that the model reads for a line of the user's."""
        return text

    def read_target(self, text: str, source: str) -> str:
        """Return what the user reads for what the model wrote about a source.

        A task whose output repeats parts of the source overrides this instead of `from_target`.
        """
        del source
        return self.from_target(text)

    @property
    def target_form(self) -> str | None:
        """Names what `to_target` writes: encoded data is cached under it. None: text as it is.

        A task whose `to_target` changes should return another name, or old caches are used.
        """
        return None if type(self).to_target is Task.to_target else self.name

    def constraint(
        self,
        sources: Sequence[str],
        tokenizer: Tokenizer,
        *,
        max_tokens: Sequence[int],
        hypotheses: int,
        device: torch.device,
    ) -> Constraint | None:
        """Return what the output for each source must obey; None: it is free.

        `max_tokens` is how long each output may become, EOS included. The constraint is for that
        many hypotheses a source, and its tensors are on the device.
        """
        del sources, tokenizer, max_tokens, hypotheses, device
        return None
