"""Parts of a text that are not to be translated: addresses, format fields, quantities, emoji."""

import re
from collections.abc import Iterator, Sequence

from transduce.text.phrases.boundaries import is_word_character
from transduce.text.phrases.patterns import Pattern

MAX_SPAN = 200
"""Characters of a placeholder; longer ones are translated."""

_UNITS = (
    "km/h|mph|kWh|kW|MW|GW|Wh|kHz|MHz|GHz|Hz|kB|KB|MB|GB|TB|KiB|MiB|GiB|mAh|dpi|px|"
    "km|cm|mm|nm|kg|mg|ml|cl|dl|ms|min|kcal|kJ|hPa|bar|dB|lbs|lb|oz|ft|ha|"
    "°C|°F|m²|m³|km²|m|g|l|L|t|s|h|V|A|W|K|%|‰|€|\\$|£|¥"
)
_NUMBER = r"\d{1,20}(?:[.,]\d{1,20}){0,6}"
_EMOJI = "[\u2600-\u27bf\U0001f300-\U0001faff][\ufe0f\U0001f3fb-\U0001f3ff]{0,2}"
# Every part is bounded and begins with something that the others do not: no way to match is tried
# twice.
_PLACEHOLDERS = re.compile(
    "|".join(
        (
            r"(?:https?|ftp)://[^\s<>\"'“”„«»|]{1,180}",
            r"www\.[^\s<>\"'“”„«»|]{1,180}",
            r"[\w.+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,5}",
            r"\{\{[^{}\n]{1,64}\}\}",
            r"\$?\{[^{}\s]{0,64}\}",
            r"%\([A-Za-z_]\w{0,63}\)[-+#0 ]{0,3}\d{0,3}(?:\.\d{1,3})?[sdifgeExXrc]\b",
            r"%(?:\d{1,2}\$)?[-+#0]{0,3}\d{0,3}(?:\.\d{1,3})?(?:l?[sdifgexXuc])\b",
            rf"(?<![\w.,])[€$£¥]?[-+]?{_NUMBER}[ \u00a0\u202f]?(?:{_UNITS})(?!\w)",
            rf"[€$£¥]{_NUMBER}(?!\w)",
            "[\U0001f1e6-\U0001f1ff]{2}",  # flags
            f"{_EMOJI}(?:\u200d{_EMOJI}){{0,6}}",
        )
    )
)
_AFTER_ADDRESS = ".,;:!?)]}"


def placeholder_spans(
    text: str, patterns: Sequence[Pattern] = (), *, known: bool = True
) -> list[tuple[int, int]]:
    """Return where placeholders begin and end, in order: of users' patterns, and of known kinds.

    They do not overlap; what begins first counts, and users' patterns before the others.
    """
    found = [span for pattern in patterns for span in pattern.spans(text)]
    if known:
        found += _known_spans(text)
    spans: list[tuple[int, int]] = []
    for start, end in sorted(found, key=lambda span: (span[0], -span[1])):
        start, end = _stripped(text, start, end)
        if start < end <= start + MAX_SPAN and (not spans or start >= spans[-1][1]):
            spans.append((start, end))
    return spans


def _known_spans(text: str) -> Iterator[tuple[int, int]]:
    for match in _PLACEHOLDERS.finditer(text):
        start, end = match.span()
        if "://" in match[0] or match[0].startswith("www."):
            end = start + len(match[0].rstrip(_AFTER_ADDRESS))
        yield start, end


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """Leave out spaces around it, and all of it if it is part of a longer word."""
    span = text[start:end]
    start += len(span) - len(span.lstrip())
    end -= len(span) - len(span.rstrip())
    if start >= end:
        return start, start
    before, after = text[max(0, start - 1) : start], text[end : end + 1]
    is_part = (before and is_word_character(before) and is_word_character(text[start])) or (
        after and is_word_character(after) and is_word_character(text[end - 1])
    )
    return (start, start) if is_part else (start, end)
