"""Sentence ends, found by conservative rules: better to miss an end than to invent one."""

import re

# Character sets for regular expressions; `[` and `]` are escaped.
END_MARKS = r"!?…।॥؟۔։။።។"
"""Characters that always end a sentence; a full stop does not."""
CLOSING = r""""'”’»)\]"""
"""Quotes and brackets that still belong to the sentence they follow."""
UNSPACED_END_MARKS = r"。！？"
"""End marks of scripts that are written without spaces: none need follow."""
UNSPACED_CLOSING = r"」』”’）》】"
"""Closing quotes and brackets of these scripts."""

_END = re.compile(
    rf"(?:(?P<stop>\.)|[{END_MARKS}])[{CLOSING}]*\s+"
    r"""(?=[^\W\d_]|["'“‘„«(\[¿¡\d])"""
    # A quotation that the sentence goes on after, as in 「…。」と, ends nothing. Runs are matched
    # whole and once, or a text of nothing but marks would take quadratic time.
    rf"|(?<![{UNSPACED_END_MARKS}])[{UNSPACED_END_MARKS}]++"
    rf"(?:[{UNSPACED_CLOSING}]++(?![とっ、，])|(?![{UNSPACED_CLOSING}]))"
)
_ABBREVIATION = re.compile(
    r"approx|bijv|blz|bspw|bzw|ca|capt|cf|co|col|dept|dhr|dott|dr|dra|drs|ecc|enz|etc|evtl|exma|exmo"
    r"|frl|gen|ggf|gov|hr|hrsg|inc|ing|inkl|jr|lt|ltd|messrs|mevr|mgr|mio|mlle|mme|mr|mrd|mrs|ms|mt"
    r"|prof|rev|sen|sgt|sig|sog|sr|sra|srta|st|str|tel|tsd|ud|uds|usw|vgl|vs|zzgl",
    re.IGNORECASE,
)
_BEFORE_A_NUMBER = re.compile(
    r"abb|abs|afb|art|bd|cap|chap|ch|fig|kap|no|nos|nr|núm|num|op|p|pag|pág|par|pp|s|sec|tab|vol",
    re.IGNORECASE,
)
"""Abbreviations if a number follows; otherwise most of these are words, as `no` and `art` are."""


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
    is_short = (len(bare) == 1 and bare.isalnum()) or "." in bare
    is_abbreviation = _ABBREVIATION.fullmatch(bare) is not None or (
        after.isdigit() and _BEFORE_A_NUMBER.fullmatch(bare) is not None
    )
    is_ordinal = bare.isdigit() and len(bare) < 3
    return not (is_short or is_abbreviation or is_ordinal or after.islower())
