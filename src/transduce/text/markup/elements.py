"""Elements of HTML: which divide a text, which are left alone, and which have no content."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


VOID = _names(
    "area base basefont bgsound br col embed frame hr img input keygen link meta param source "
    "track wbr"
)
"""Elements without content and without an end tag."""

FOREIGN = _names("math svg")
"""Elements that a `/>` ends, as in XML."""

RCDATA = _names("textarea title")
"""Elements whose content is text, with references but without tags."""

RAW = RCDATA | _names("iframe noembed noframes plaintext script style xmp")
"""Elements in whose content `<` begins no tag, but for their own end tag."""

DIVIDING = _names(
    "address area article aside audio base blockquote body br button canvas caption center col "
    "colgroup dd details dialog dir div dl dt fieldset figcaption figure footer form frame "
    "frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html iframe legend li link main map menu "
    "menuitem meta nav noembed noframes noscript object ol optgroup option p param picture "
    "plaintext pre rb rp rt rtc ruby search section select source summary table tbody td template "
    "tfoot th thead title tr track ul video xmp"
)
"""Elements that stand between texts: no sentence goes on across their tags. All others are inline.

`br` divides too: what is written in lines is translated in lines.
"""

LEFT_ALONE = _names(
    "code iframe kbd math noembed noframes plaintext pre samp script style svg textarea var xmp"
)
"""Elements that are never translated."""

HIDDEN = _names("math script style svg textarea")
"""Those of them that are no words of the text around them."""

_BLOCKS = _names(
    "address article aside blockquote center details dialog dir div dl fieldset figcaption figure "
    "footer form h1 h2 h3 h4 h5 h6 header hgroup hr main menu nav ol p pre search section table ul"
)
_ROWS = _names("tbody tfoot thead tr")
_CELLS = _ROWS | _names("td th")

CLOSED_BY = {
    "dd": _names("dd dt"),
    "dt": _names("dd dt"),
    "head": _names("body"),
    "li": _names("li"),
    "optgroup": _names("optgroup"),
    "option": _names("optgroup option"),
    "p": _BLOCKS,
    "rp": _names("rp rt"),
    "rt": _names("rp rt"),
    "tbody": _ROWS - {"tr"},
    "td": _CELLS,
    "th": _CELLS,
    "thead": _ROWS - {"tr"},
    "tr": _ROWS,
}
"""Elements whose end tag may be left out, and the start tags that end them then."""
