"""HTML and XHTML: the text of their blocks."""

from transduce.translation.documents.collector import MarkupRules, SegmentCollector
from transduce.translation.documents.edits import EditableText
from transduce.translation.documents.encodings import decode
from transduce.translation.documents.html_scanner import RAW_TEXT, scan_html

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
    skipped=RAW_TEXT | {"pre", "svg", "math", "template", "rt", "rp"},
    kept=frozenset({"code", "kbd", "samp", "var", "tt"}),
)


def parse_html(content: bytes, name: str, *, is_xml: bool = False) -> EditableText:
    """Find the text of a page, or of a chapter of a book."""
    found = EditableText(decode(content, name, is_markup=True))
    add_html(found, found.content.text, is_xml=is_xml)
    return found


def add_html(target: EditableText, text: str, *, start: int = 0, is_xml: bool = False) -> None:
    """Add the segments of some HTML that begins at `start` of a text."""
    collector = SegmentCollector(target, HTML_RULES)
    scan_html(text, collector, is_xml=is_xml, start=start)
    collector.flush()
