"""Where sentences end: a careful guess, which rather misses an end than finds one too many."""

import re

_END = re.compile(
    r"""(?:(?P<stop>\.)|[!?…])["'”’»)\]]*\s+(?=[^\W\d_]|["'“‘„«(\[¿¡\d])"""
    r"""|[。！？][」』”’）]*"""
)
_ABBREVIATION = re.compile(
    r"abs|art|bzw|ca|co|dr|etc|evtl|fig|ggf|inc|jr|ltd|mlle|mme|mr|mrs|ms|no|nr|pp|prof|sr|sra|st"
    r"|str|usw|vgl|vol|vs",
    re.IGNORECASE,
)


def sentences(text: str) -> list[str]:
    """Cut a text after each sentence; the parts together are the text but for space around them."""
    parts, start, seen = [], 0, 0
    for match in _END.finditer(text):
        before, after = text[seen : match.start()], text[match.end() : match.end() + 1]
        seen = match.end()
        if match["stop"] and not _ends_a_sentence(_last_word(before), after):
            continue
        parts.append(text[start:seen])
        start = seen
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]


def _last_word(text: str) -> str:
    """Return what follows the last space; the text before a stop is looked at only once."""
    return "" if not text or text[-1].isspace() else text.rsplit(maxsplit=1)[-1]


def _ends_a_sentence(word: str, after: str) -> bool:
    """Judge a full stop by the word before it and the letter after it."""
    bare = word.lstrip("\"'“‘„«([")
    is_short = len(bare) < 2 or "." in bare or _ABBREVIATION.fullmatch(bare) is not None
    is_ordinal = bare.isdigit() and len(bare) < 3
    return not (is_short or is_ordinal or after.islower())
