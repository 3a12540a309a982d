"""Settings of corpora in several languages: their texts, and how much of each is trained on."""

import math
import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from transduce.config.sections.section import Section

CODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,30}")
"""What a language may be called: en, pt-BR, zh_Hans."""

LanguageCode = Annotated[str, Field(pattern=f"^{CODE.pattern}$")]
CorpusName = Annotated[str, Field(pattern=r"^[\w+-]{1,100}$")]


def _at_least_two(texts: dict[str, str]) -> dict[str, str]:
    if len(texts) < 2:
        raise ValueError(
            f"data.corpora: a corpus has texts in two languages or more, not in {len(texts)}: "
            "write {en: train.en, de: train.de}"
        )
    return texts


def _sound_weights(weights: dict[str, float]) -> dict[str, float]:
    if not all(0 <= weight < math.inf for weight in weights.values()):
        raise ValueError(f"data.mix={weights}: no weight may be below 0 or infinite")
    return weights


def _stages(value: Any) -> Any:
    return () if value is None else value


Texts = Annotated[dict[LanguageCode, str], AfterValidator(_at_least_two)]
NamedCorpora = dict[CorpusName, Texts]
"""The file of each language, by the name of the corpus."""

Weights = Annotated[dict[CorpusName, float], AfterValidator(_sound_weights)]
"""How often each corpus is used in an epoch; 1 where it is not named."""


class MixStage(Section):
    """A part of the training with weights of its own."""

    until: Annotated[float, Field(gt=0, lt=1e12)] | None = Field(
        default=None,
        description="where it ends: up to 1, a share of the budget; above, a step; the last has "
        "none",
    )
    mix: Weights = Field(description="the weight of each corpus by its name; others have 1")


def _in_order(stages: tuple[MixStage, ...]) -> tuple[MixStage, ...]:
    ends = [stage.until for stage in stages]
    if not ends:
        return stages
    given = [end for end in ends[:-1] if end is not None]
    if ends[-1] is not None or len(given) < len(ends) - 1:
        raise ValueError(
            "data.stages: each stage but the last needs `until`, and the last has none"
        )
    kinds = {end <= 1 for end in given}
    if given != sorted(set(given)) or len(kinds) > 1:
        raise ValueError(
            f"data.stages: the ends {given} must rise, and be all shares of the budget, up to 1, "
            "or all steps"
        )
    return stages


Stages = Annotated[tuple[MixStage, ...], BeforeValidator(_stages), AfterValidator(_in_order)]
