"""The settings, whole: four sections, and what must hold between them.

Defaults are the paper's base model; presets and files state only what differs. Each kind of model
has its own class for the model section (`config.kinds`).

A setting that is not given may follow from others (`d_k` from `d_model` and `h`). Pydantic
remembers which were given, so a copy with changes computes the others again.
"""

from typing import Any, Self

from pydantic import Field, SerializeAsAny, ValidationError, field_validator, model_validator

from transduce.config.complaints import Sections, all_complaints, names_in
from transduce.config.kinds import DEFAULT_KIND, find_kind, kind_names
from transduce.config.renamed import with_current_names

# Sections, and the types of settings that models of other packages need, are exported from here.
from transduce.config.sections.data import DataConfig as DataConfig
from transduce.config.sections.model import ModelConfig as ModelConfig
from transduce.config.sections.run import RunConfig as RunConfig
from transduce.config.sections.section import Count as Count
from transduce.config.sections.section import LargeCount as LargeCount
from transduce.config.sections.section import Names as Names
from transduce.config.sections.section import Positive as Positive
from transduce.config.sections.section import Probability as Probability
from transduce.config.sections.section import Section as Section
from transduce.config.sections.training import TrainingConfig as TrainingConfig
from transduce.errors import ConfigError

Tree = dict[str, Any]
"""Settings as plain nested mappings, as YAML is read."""


class Config(Section):
    """Everything that decides what a run computes."""

    model: SerializeAsAny[ModelConfig] = Field(
        default_factory=lambda: find_kind(DEFAULT_KIND).config(),
        description="the architecture (§3)",
    )
    data: DataConfig = Field(
        default_factory=lambda: DataConfig(), description="the text and how it is encoded (§5.1)"
    )
    training: TrainingConfig = Field(
        default_factory=lambda: TrainingConfig(), description="optimisation (§5)"
    )
    run: RunConfig = Field(
        default_factory=lambda: RunConfig(), description="device, checkpoints and scores"
    )

    @field_validator("model", mode="before")
    @classmethod
    def _validate_by_kind(cls, section: Any) -> Any:
        if not isinstance(section, dict):
            return section
        kind = section.get("kind", DEFAULT_KIND)
        if not isinstance(kind, str):
            raise ValueError(f"model.kind={kind!r}: must be the name of a kind of model")
        return find_kind(kind).config.model_validate(section)

    @model_validator(mode="after")
    def _one_average_is_kept(self) -> Self:
        if self.training.optimiser == "schedule_free" and self.run.ema_decay > 0:
            raise ValueError(
                f"run.ema_decay={self.run.ema_decay} averages the weights, which "
                "training.optimiser=schedule_free does itself; set it to 0"
            )
        return self

    @model_validator(mode="after")
    def _terms_can_be_written_in_the_source(self) -> Self:
        if self.data.terms and not self.data.shared_vocabulary:
            raise ValueError(
                "data.terms writes translations into sources: it needs data.shared_vocabulary=true"
            )
        if self.data.terms and self.data.subwords == "whitespace":
            raise ValueError(
                "data.terms: data.subwords=whitespace does not keep the spaces of the text; use "
                "bpe, unigram, wordpiece or characters"
            )
        return self

    @model_validator(mode="after")
    def _placeholders_are_tokens(self) -> Self:
        if self.data.placeholders and "whitespace" in (self.data.subwords, self.data.tgt_subwords):
            raise ValueError(
                "data.placeholders: data.subwords=whitespace does not keep the spaces of the text; "
                "use bpe, unigram, wordpiece or characters"
            )
        if self.data.placeholders and (self.data.corpora or self.data.subword_dropout):
            raise ValueError(
                "data.placeholders: a pair of one direction has the same on both sides, as one "
                "token each; leave out data.corpora and data.subword_dropout, or data.placeholders"
            )
        return self

    @model_validator(mode="after")
    def _sides_have_vocabularies_of_their_own(self) -> Self:
        if not self.data.shared_vocabulary:
            if not self.model.separate_vocabularies:
                raise ValueError(
                    f"data.shared_vocabulary=false: a model of the kind {self.model.kind} has one "
                    "vocabulary for source and target"
                )
            return self
        for name, value in (
            ("data.tgt_subwords", self.data.tgt_subwords),
            ("model.src_vocab_size", self.model.src_vocab_size),
        ):
            if value is not None:
                raise ValueError(
                    f"{name}={value} is for a vocabulary of each side: set "
                    "data.shared_vocabulary=false too, or leave it out"
                )
        return self

    @classmethod
    def from_tree(cls, tree: Any) -> Self:
        """Validate nested mappings; all that is wrong is reported in one line, as a ConfigError."""
        tree = with_current_names(tree)
        try:
            return cls.model_validate(tree)
        except ValidationError as invalid:
            raise ConfigError(all_complaints(invalid, _sections(_model_class(tree)))) from invalid

    def with_changes(self, changes: Tree) -> Self:
        """Copy with changes; settings that were not given are computed again."""
        stated = self.model_dump(exclude_unset=True)
        return self.from_tree(merge(stated, with_current_names(changes)))


def _model_class(tree: Any) -> type[ModelConfig]:
    """Return the class of the model section of a tree that may be invalid."""
    section = tree.get("model") if isinstance(tree, dict) else None
    kind = section.get("kind") if isinstance(section, dict) else None
    return find_kind(kind if kind in kind_names() else DEFAULT_KIND).config


def _sections(model: type[ModelConfig]) -> Sections:
    return {"model": model, "data": DataConfig, "training": TrainingConfig, "run": RunConfig}


def setting_names(model: type[ModelConfig]) -> list[str]:
    """Return every setting as written after `--set`, for one kind of model: `model.d_model`, …"""
    return names_in(_sections(model))


def merge(tree: Tree, changes: Tree) -> Tree:
    """Return the tree with the leaves that `changes` has replaced or added."""
    merged = dict(tree)
    for key, value in changes.items():
        below = merged.get(key)
        merged[key] = (
            merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
        )
    return merged
