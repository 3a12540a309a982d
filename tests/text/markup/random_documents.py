"""The random documents and the checks of `benchmarks`, for tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
try:
    from checked_markup import html_tags, is_valid, tags_of, words_of
    from random_markup import broken_document, html_document, xml_document
finally:
    sys.path.pop(0)

__all__ = [
    "broken_document",
    "html_document",
    "html_tags",
    "is_valid",
    "tags_of",
    "words_of",
    "xml_document",
]
