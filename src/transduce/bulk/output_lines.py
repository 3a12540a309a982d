"""A translation as lines of text: the plain text, a JSON object, or the n best."""

import json
import math
from collections.abc import Iterator
from typing import Any, Literal

from transduce.translation.memory.units import MemoryMatch
from transduce.translation.options import Translation

OutputForm = Literal["text", "jsonl", "n-best"]


def output_lines(number: int, translation: Translation, form: OutputForm) -> Iterator[str]:
    """Format the translation of the line with this number, from 0."""
    if form == "jsonl":
        yield json.dumps(_as_object(translation), ensure_ascii=False)
    elif form == "n-best":
        for text, score in translation.alternatives:
            yield f"{number} ||| {on_one_line(text)} ||| {score:.4f}"
    else:
        yield on_one_line(translation.text)


def on_one_line(text: str) -> str:
    """Replace line ends, which a model may write: they would shift all lines that follow."""
    return text.replace("\r", " ").replace("\n", " ")


def _as_object(translation: Translation) -> dict[str, Any]:
    return {
        "source": translation.source,
        "text": translation.text,
        "score": _finite(translation.score),
        "alternatives": [
            {"text": text, "score": _finite(score)} for text, score in translation.alternatives
        ],
        "note": translation.note,
        **({} if translation.match is None else {"memory": _match(translation.match)}),
    }


def _match(match: MemoryMatch) -> dict[str, Any]:
    return {
        "source": match.source,
        "text": match.target,
        "score": round(match.score, 4),
        "is_used": match.is_used,
    }


def _finite(score: float) -> float | None:
    """Return None for infinity, which JSON does not have."""
    return score if math.isfinite(score) else None
