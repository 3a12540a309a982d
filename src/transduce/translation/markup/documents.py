"""Translated texts of a document as one translation."""

from collections.abc import Iterator, Sequence

from transduce.text.markup.document import MarkupDocument
from transduce.translation.options import Alternative, Translation


def translated_document(
    source: str, document: MarkupDocument, lines: Sequence[Translation]
) -> Translation:
    """Join the translations of a document's texts: the best of each, the second best of each.

    The score is the sum of theirs.
    """
    alternatives: dict[str, Alternative] = {}
    for rank in range(max((len(line.alternatives) for line in lines), default=1)):
        chosen = [line.alternatives[min(rank, len(line.alternatives) - 1)] for line in lines]
        text = document.with_lines([one.text for one in chosen])
        alternatives.setdefault(text, Alternative(text, sum(one.score for one in chosen)))
    best, *_ = alternatives.values()
    return Translation(
        source,
        *best,
        tuple(alternatives.values()),
        "; ".join(_notes(lines)),
        all(line.is_finished for line in lines),
    )


def _notes(lines: Sequence[Translation]) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        if line.note:
            yield f"text {number}: {line.note}"
