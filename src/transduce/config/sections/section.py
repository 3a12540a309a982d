"""What every section of settings is: frozen, strictly typed; and the types of its settings."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator


class Section(BaseModel):
    """A group of settings: frozen, strictly typed, unknown names refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _with_tuples(cls, section: Any) -> Any:
        """Take the lists of YAML and JSON for tuples: settings are frozen."""
        if not isinstance(section, dict):
            return section
        return {k: tuple(v) if isinstance(v, list) else v for k, v in section.items()}


Count = Annotated[int, Field(ge=1, le=1_000_000)]
Probability = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0, lt=1e12)]
LargeCount = Annotated[int, Field(ge=1, le=10**12)]


def _as_tuple(value: Any) -> Any:
    """Accept a list, one value without brackets, or null for none."""
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list | tuple) else (value,)


Files = Annotated[tuple[str, ...], BeforeValidator(_as_tuple)]
Numbers = Annotated[tuple[float, ...], BeforeValidator(_as_tuple)]
Names = Annotated[
    tuple[str, ...], BeforeValidator(_as_tuple), Field(min_length=1, max_length=1_000)
]
