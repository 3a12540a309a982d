"""HTML and XHTML: the text of their blocks."""

from transduce.text.markup.elements import CLOSED_BY, RAW, RCDATA
from transduce.translation.documents.collector import MarkupRules, SegmentCollector
from transduce.translation.documents.edits import EditableText
from transduce.translation.documents.encodings import decode
from transduce.translation.documents.html_scanner import scan_html, scan_xhtml

BLOCKS = frozenset(
    """
    address article aside audio blockquote body button canvas caption center dd details dialog dir
    div dl dt fieldset figcaption figure footer form frameset h1 h2 h3 h4 h5 h6 head header hgroup
    hr html iframe legend li main menu nav noscript object ol optgroup option p pre search section
    select summary table tbody td textarea tfoot th thead title tr ul video
    """.split()  # noqa: SIM905
)
HTML_RULES = MarkupRules(
    blocks=BLOCKS,
    breaks=frozenset({"br"}),
    skipped=(RAW - RCDATA) | {"pre", "svg", "math", "template", "rt", "rp"},
    kept=frozenset({"code", "kbd", "samp", "var", "tt"}),
    closed_by=CLOSED_BY,
)


def parse_html(content: bytes, name: str) -> EditableText:
    """Find the text of a page."""
    found = EditableText(decode(content, name, is_html=True))
    add_html(found, found.content.text)
    return found


def parse_xhtml(content: bytes, name: str) -> EditableText:
    """Find the text of a page in XHTML, or of a chapter of a book."""
    found = EditableText(decode(content, name, is_markup=True))
    collector = SegmentCollector(found, HTML_RULES)
    scan_xhtml(found.content.text, collector, name=name)
    collector.flush()
    return found


def add_html(target: EditableText, text: str, *, start: int = 0) -> None:
    """Add the segments of some HTML that begins at `start` of a text."""
    collector = SegmentCollector(target, HTML_RULES)
    scan_html(text, collector, start=start)
    collector.flush()
