"""Sentence ends, found by conservative rules: better to miss an end than to invent one."""

import re

# Character sets for regular expressions; `[` and `]` are escaped.
END_MARKS = r"!?…"
"""Characters that always end a sentence; a full stop does not."""
CLOSING = r""""'”’»)\]"""
"""Quotes and brackets that still belong to the sentence they follow."""
UNSPACED_END_MARKS = r"。！？"
"""End marks of scripts that are written without spaces: none need follow."""
UNSPACED_CLOSING = r"」』”’）"
"""Closing quotes and brackets of these scripts."""

_END = re.compile(
    rf"(?:(?P<stop>\.)|[{END_MARKS}])[{CLOSING}]*\s+"
    r"""(?=[^\W\d_]|["'“‘„«(\[¿¡\d])"""
    rf"|[{UNSPACED_END_MARKS}][{UNSPACED_CLOSING}]*"
)
_ABBREVIATION = re.compile(
    r"abs|art|bzw|ca|co|dr|etc|evtl|fig|ggf|inc|jr|ltd|mlle|mme|mr|mrs|ms|no|nr|pp|prof|sr|sra|st"
    r"|str|usw|vgl|vol|vs",
    re.IGNORECASE,
)


def split_sentences(text: str) -> list[str]:
    """Split a text into its sentences, without the spaces around them."""
    parts, start, seen = [], 0, 0
    for match in _END.finditer(text):
        # From the last match on: a text of nothing but stops is still read only once.
        before, after = text[seen : match.start()], text[match.end() : match.end() + 1]
        seen = match.end()
        if match["stop"] and not _ends_a_sentence(_last_word(before), after):
            continue
        parts.append(text[start:seen])
        start = seen
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]


def _last_word(text: str) -> str:
    """Return what follows the last space."""
    return "" if not text or text[-1].isspace() else text.rsplit(maxsplit=1)[-1]


def _ends_a_sentence(word: str, after: str) -> bool:
    """Whether a full stop ends a sentence, by the word before it and the letter after it."""
    bare = word.lstrip("\"'“‘„«([")
    is_short = len(bare) < 2 or "." in bare or _ABBREVIATION.fullmatch(bare) is not None
    is_ordinal = bare.isdigit() and len(bare) < 3
    return not (is_short or is_ordinal or after.islower())
