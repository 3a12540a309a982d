"""`data.augment`: how often each kind of noise is put into the training text."""

from collections.abc import Callable
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from transduce.config.sections.section import Section

Rate = Annotated[float, Field(ge=0, le=1)]

USUAL_RATES = {
    "upper": 0.1,
    "title": 0.05,
    "lower": 0.05,
    "missing_end": 0.05,
    "doubled_end": 0.03,
    "typos": 0.3,
    "merged": 0.03,
    "split": 0.03,
    "marks": 0.05,
    "copied": 0.03,
}
"""The share of pairs that gets each kind of noise with `data.augment=true`."""


EXCLUSIVE = (("upper", "title", "lower"), ("missing_end", "doubled_end"))
"""A pair gets at most one kind of each of these groups."""


def _usual(name: str) -> Callable[[dict[str, Any]], float]:
    return lambda section: USUAL_RATES[name] if section["usual"] else 0.0


class AugmentConfig(Section):
    """The share of training pairs that gets each kind of noise; the kinds may come together."""

    usual: bool = Field(
        default=False, description="whether rates that are not given are the usual ones, not 0"
    )
    upper: Rate = Field(
        default_factory=_usual("upper"), description="UPPER CASE, in source and target"
    )
    title: Rate = Field(
        default_factory=_usual("title"), description="Title Case, in the source alone"
    )
    lower: Rate = Field(
        default_factory=_usual("lower"), description="lower case, in the source alone"
    )
    missing_end: Rate = Field(
        default_factory=_usual("missing_end"),
        description="no punctuation at the end of source and target",
    )
    doubled_end: Rate = Field(
        default_factory=_usual("doubled_end"),
        description="the source's punctuation at the end twice or three times",
    )
    typos: Rate = Field(
        default_factory=_usual("typos"),
        description="words of the source mistyped: neighbouring keys, letters swapped or dropped",
    )
    merged: Rate = Field(
        default_factory=_usual("merged"), description="two words of the source without the space"
    )
    split: Rate = Field(
        default_factory=_usual("split"), description="a word of the source cut by a space"
    )
    marks: Rate = Field(
        default_factory=_usual("marks"), description="other quotes and dashes in the source"
    )
    copied: Rate = Field(
        default_factory=_usual("copied"),
        description="an address, number, code or emoji at the same end of source and target",
    )

    @model_validator(mode="after")
    def _excluding_kinds_fit(self) -> Self:
        """Check the kinds of which a sentence gets at most one."""
        for names in EXCLUSIVE:
            if sum(getattr(self, name) for name in names) > 1:
                rates = ", ".join(f"{name}={getattr(self, name)}" for name in names)
                raise ValueError(
                    f"data.augment: {rates}: a sentence gets at most one of these, so together "
                    "they must be at most 1"
                )
        return self

    @classmethod
    def rate_names(cls) -> list[str]:
        """Return the names of the rates."""
        return [name for name in cls.model_fields if name != "usual"]

    def rates(self) -> dict[str, float]:
        """Return the rates that are above 0, by name."""
        found = {name: float(getattr(self, name)) for name in self.rate_names()}
        return {name: rate for name, rate in found.items() if rate > 0}
