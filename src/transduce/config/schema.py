"""The settings. Defaults are the paper's base model; presets and files state only what differs.

A setting that was not given may follow from others (`d_k` from `d_model` and `h`). Pydantic
remembers which were given, so a copy with changes works those out again.
"""

import difflib
import reprlib
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from transduce.errors import ConfigError

Tree = dict[str, Any]
"""Settings as plain nested mappings, the way YAML gives them."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


Count = Annotated[int, Field(ge=1, le=1_000_000)]
Share = Annotated[float, Field(ge=0, lt=1)]


def _per_head(section: dict[str, Any]) -> int:
    width: int = section["d_model"] // section["h"]
    return width


class ModelConfig(_Section):
    """The model of §3; with the training section, the columns of Table 3."""

    vocab_size: int = Field(
        default=37_000,
        ge=4,
        le=10_000_000,
        description="vocabulary entries, shared by source and target (§3.4)",
    )
    n_layers: Count = Field(
        default=6, description="N: layers of the encoder; as many again of the decoder (§3.1)"
    )
    d_model: Count = Field(default=512, description="width of every layer's output (§3.1)")
    d_ff: Count = Field(default=2048, description="inner width of the feed-forward network (§3.3)")
    h: Count = Field(default=8, description="attention heads (§3.2.2)")
    d_k: Count = Field(
        default_factory=_per_head,
        description="width of a head's queries and keys; if not given, d_model / h (§3.2.2)",
    )
    d_v: Count = Field(
        default_factory=_per_head,
        description="width of a head's values; if not given, d_model / h (§3.2.2)",
    )
    p_drop: Share = Field(
        default=0.1, description="P_drop: dropout on sub-layer outputs and embeddings (§5.4)"
    )
    p_drop_attention: Share = Field(
        default=0.0, description="dropout on attention weights; a deviation above 0"
    )
    p_drop_ff: Share = Field(
        default=0.0, description="dropout after the feed-forward ReLU; a deviation above 0"
    )
    attention_bias: bool = Field(
        default=False, description="biases in the attention projections; a deviation if true"
    )
    norm: Literal["post", "pre"] = Field(
        default="post",
        description="layer norm after the residual sum (§3.1); pre, before it, is a deviation",
    )
    positions: Literal["sinusoidal", "learned"] = Field(
        default="sinusoidal", description="position encodings (§3.5; Table 3 row E)"
    )
    max_positions: Count = Field(
        default=1024,
        description="longest sequence in tokens; sinusoidal models may change it after training",
    )

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> Self:
        following = {"d_k", "d_v"} - self.model_fields_set
        if following and self.d_model % self.h:
            divisors = ", ".join(str(n) for n in range(1, 65) if self.d_model % n == 0)
            raise ValueError(
                f"model.h={self.h} does not divide model.d_model={self.d_model}; "
                f"use one of {divisors}, or give model.d_k and model.d_v"
            )
        return self

    @model_validator(mode="after")
    def _sines_and_cosines_pair_up(self) -> Self:
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ValueError(
                f"model.d_model={self.d_model} is odd, but sinusoidal positions come in pairs; "
                "use an even width or model.positions=learned"
            )
        return self


class TrainingConfig(_Section):
    """The training of §5, as far as Table 3 varies it."""

    eps_ls: Share = Field(default=0.1, description="ε_ls: label smoothing (§5.4)")
    steps: int = Field(default=100_000, ge=1, le=10**12, description="optimiser steps (§5.2)")


class Config(_Section):
    """Everything that decides what a run computes."""

    model: ModelConfig = Field(
        default_factory=lambda: ModelConfig(), description="the architecture (§3)"
    )
    training: TrainingConfig = Field(
        default_factory=lambda: TrainingConfig(), description="how it is trained (§5)"
    )

    @classmethod
    def from_tree(cls, tree: Any) -> Self:
        """Validate plain nested mappings; whatever is wrong becomes one ConfigError of one line."""
        try:
            return cls.model_validate(tree)
        except ValidationError as invalid:
            raise ConfigError("; ".join(_complaints(invalid))) from invalid

    def with_changes(self, changes: Tree) -> Self:
        """Copy with changes; settings that nobody gave are worked out again."""
        return self.from_tree(merge(self.model_dump(exclude_unset=True), changes))


def merge(tree: Tree, changes: Tree) -> Tree:
    """Return the tree with the leaves of `changes` laid over it."""
    merged = dict(tree)
    for key, value in changes.items():
        below = merged.get(key)
        merged[key] = (
            merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
        )
    return merged


def setting_names() -> list[str]:
    """Every setting as it is written after `--set`: `model.d_model`, …"""
    return [
        f"{section}.{name}"
        for section, field in Config.model_fields.items()
        for name in _section_class(field.annotation).model_fields
    ]


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ` (did you mean …?)` for the known name whose last part is closest, or nothing."""
    by_last_part = {candidate.rpartition(".")[2]: candidate for candidate in known}
    close = difflib.get_close_matches(name.rpartition(".")[2], by_last_part, n=1)
    return f" (did you mean {by_last_part[close[0]]}?)" if close else ""


def _section_class(annotation: Any) -> type[_Section]:
    assert isinstance(annotation, type), annotation
    assert issubclass(annotation, _Section), annotation
    return annotation


def _complaints(invalid: ValidationError) -> Iterator[str]:
    for error in invalid.errors(include_url=False):
        name = ".".join(str(part) for part in error["loc"])
        found = reprlib.repr(error["input"])
        match error["type"]:
            case "default_factory_not_called":
                pass  # follows from a setting that is complained about already
            case "extra_forbidden":
                known = [*Config.model_fields, *setting_names()]
                yield f"unknown setting {name}{nearest(name, known)}"
            case "value_error":
                yield str(error["ctx"]["error"])
            case "model_type":
                section = name or "the settings"
                yield f"{section} must be names with values below them: found {found}"
            case _:
                rule = error["msg"].replace("Input should be", "must be")
                yield f"{name}={found}: {rule}"
