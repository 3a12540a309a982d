"""`model`: what the settings of every architecture have."""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from transduce.config.sections.section import Count, Probability, Section


class ModelConfig(Section):
    """The settings of every architecture; each kind of model adds its own in a subclass."""

    separate_vocabularies: ClassVar[bool] = False
    """Whether its models have an embedding of their own for the source if src_vocab_size is set."""

    kind: str = Field(
        default="transformer",
        description="the architecture: transformer (§3) or an installed kind",
    )
    vocab_size: int = Field(
        default=37_000,
        ge=4,
        le=10_000_000,
        description="vocabulary entries, shared by source and target (§3.4); of the target, with "
        "data.shared_vocabulary=false",
    )
    src_vocab_size: int | None = Field(
        default=None,
        ge=4,
        le=10_000_000,
        description="vocabulary entries of the source, with data.shared_vocabulary=false; if not "
        "given, vocab_size",
    )
    d_model: Count = Field(default=512, description="width of every layer's output (§3.1)")
    p_drop: Probability = Field(
        default=0.1, description="P_drop: dropout on sub-layer outputs and embeddings (§5.4)"
    )

    @model_validator(mode="after")
    def _mark_kind_as_given(self) -> Self:
        self.model_fields_set.add("kind")  # a copy with changes must know which class to build
        return self

    @property
    def max_length(self) -> int | None:
        """The longest source or target in tokens, EOS included; None: no limit."""
        return None

    @property
    def needs_links(self) -> bool:
        """Whether training needs to know which tokens translate each other."""
        return False

    def fitted_to(self, vocabulary: Sequence[str]) -> dict[str, Any]:
        """Return the settings that follow from a vocabulary, given as the texts of its entries."""
        return {"vocab_size": len(vocabulary)}

    def sizes(self) -> str:
        """Return the size of the vocabulary, or those of source and target: `31 → 43`."""
        target = f"{self.vocab_size:,}"
        return target if self.src_vocab_size is None else f"{self.src_vocab_size:,} → {target}"

    def reference_warmup(self) -> int:
        """Return the warm-up whose peak in §5.3 suits this model, however long its own is."""
        return 4_000

    def least_warmup(self) -> int:
        """Return the shortest warm-up chosen for it, if the run has four times the steps."""
        return 100

    def summary(self) -> str:
        """Describe the architecture and its sizes in one line."""
        return f"{self.kind}, d_model {self.d_model}, dropout {self.p_drop}"

    def columns(self) -> dict[str, str]:
        """Return the columns of the table of presets, by heading."""
        return {
            name: str(getattr(self, name))
            for name in type(self).model_fields
            if name not in ("kind", "vocab_size", "src_vocab_size")
        }

    def free_settings(self) -> frozenset[str]:
        """Return the names of the settings that fine-tuning may change."""
        return frozenset({"p_drop"})
