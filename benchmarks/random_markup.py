"""Random documents in HTML, valid and broken, and in XML, over given sentences."""

import random
from collections.abc import Sequence

INLINE = ("b", "i", "em", "span", "u", "mark", "small", "q")
ATTRIBUTES = ("", ' class="x y"', " title='a > b'", ' data-n="1 &amp; 2"', " hidden", ' ID="Z9"')
POINTS = (
    "<!-- a <b> comment -->",
    '<img src="a.png" alt="An <i>image">',
    "<wbr>",
    '<a id="here"></a>',
    "<script>if (a < b && c) { document.write('<b>no</b>'); }</script>",
    "<style>p > b { color: red }</style>",
    '<svg width="1"><path d="M0 0"/></svg>',
    "<input type=checkbox>",
)
KEPT = (
    "<code>x &lt; y</code>",
    "<kbd>Ctrl</kbd>",
    '<span translate="no">Acme <b>Inc</b></span>',
    "<var>n</var>",
    "<samp>ok</samp>",
    '<i class="notranslate">Foo</i>',
)
ENTITIES = ("&amp;", "&lt;", "&nbsp;", "&eacute;", "&#8217;", "&#x2014;", "&quot;", "&copy;")
BLOCKS = ("p", "h2", "div", "section", "blockquote")
SPACES = ("", " ", "\n", "\n  ", "\t")
BROKEN = (
    "<b>", "</b>", "</i>", "<i", "<", "</", "<p", "<!--", "<!", "&", "&#", "&bogus;", '<a href="',
    "</p>", "<td>", "<code>", "</code>", "<script>", "<?x", "<![CDATA[", "\x00", "</script>", "<a/",
)  # fmt: skip


def html_document(draw: random.Random, sentences: Sequence[str]) -> str:
    """Return a valid document."""
    body = "".join(_block(draw, sentences, depth=0) for _ in range(draw.randint(1, 4)))
    title = draw.choice(sentences).replace("&", "&amp;").replace("<", "&lt;")
    return (
        f"<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8><title>{title}</title></head>"
        f"\n<body>{body}</body></html>\n"
    )


def broken_document(draw: random.Random, sentences: Sequence[str]) -> str:
    """Return a document with something wrong: cut, or with parts of markup anywhere."""
    text = html_document(draw, sentences)
    for _ in range(draw.randint(1, 5)):
        place = draw.randrange(len(text))
        text = text[:place] + draw.choice(BROKEN) + text[place:]
    return text[: draw.randrange(len(text))] if draw.random() < 0.3 else text


def xml_document(draw: random.Random, sentences: Sequence[str]) -> str:
    """Return a well-formed document of an unknown vocabulary, with an entity of its own."""
    records = "".join(
        f"{draw.choice(SPACES)}<record n='{number}'><note>{_xml_text(draw, sentences)}</note>"
        f"<empty/><!-- c --><p>{_xml_text(draw, sentences)}</p></record>"
        for number in range(draw.randint(1, 3))
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE doc [<!ENTITY own "x"> <!-- ]> \' -->]>'
        f"\n<doc>{records}</doc>\n"
    )


def _block(draw: random.Random, sentences: Sequence[str], *, depth: int) -> str:
    kind = draw.random()
    if kind < 0.15 and depth < 2:
        inner = "".join(_block(draw, sentences, depth=depth + 1) for _ in range(draw.randint(1, 3)))
        return f"<div{draw.choice(ATTRIBUTES)}>{inner}</div>"
    if kind < 0.3:
        items = "".join(f"<li>{_text(draw, sentences)}" for _ in range(draw.randint(1, 3)))
        return f"<ul>{items}</ul>"
    if kind < 0.4:
        cells = "".join(f"<td>{_text(draw, sentences)}" for _ in range(draw.randint(1, 3)))
        return f"<table><tbody><tr>{cells}</table>"
    if kind < 0.5:
        return draw.choice(("<pre>a  b\n</pre>", "<hr>", "<!-- between -->", '<p translate="no">N'))
    name = draw.choice(BLOCKS)
    space = draw.choice(SPACES)
    return f"{space}<{name}>{space}{_text(draw, sentences)}{space}</{name}>"


def _text(draw: random.Random, sentences: Sequence[str]) -> str:
    words = " ".join(draw.choice(sentences) for _ in range(draw.randint(1, 3))).split()
    words = [word.replace("&", "&amp;").replace("<", "&lt;") for word in words]
    for _ in range(draw.randint(0, 2)):
        words[draw.randrange(len(words))] += draw.choice(ENTITIES)
    return _tagged(draw, words, depth=0, link=False)


def _tagged(draw: random.Random, words: list[str], *, depth: int, link: bool) -> str:
    """Put elements around random words, into each other, and other things between words."""
    parts: list[str] = []
    place = 0
    while place < len(words):
        size = draw.randint(1, max(1, min(6, len(words) - place)))
        some = words[place : place + size]
        place += size
        if depth < 4 and draw.random() < 0.4:
            name = "a" if not link and draw.random() < 0.2 else draw.choice(INLINE)
            inner = _tagged(draw, some, depth=depth + 1, link=link or name == "a")
            parts.append(f"<{name}{draw.choice(ATTRIBUTES)}>{inner}</{name}>")
        else:
            parts.append(" ".join(some))
        if draw.random() < 0.12:
            parts.append(draw.choice(KEPT))
        if draw.random() < 0.12:
            last = draw.choice(POINTS if not link else POINTS[:3])
            parts[-1] += draw.choice(("", " ")) + last
        if draw.random() < 0.03 and depth == 0:
            parts.append("<br>")
    return draw.choice((" ", " ", "\n")).join(parts)


def _xml_text(draw: random.Random, sentences: Sequence[str]) -> str:
    text = draw.choice(sentences).replace("&", "&amp;").replace("<", "&lt;").split()
    place = draw.randrange(len(text))
    text[place] = f'<Term id="t">{text[place]}</Term>'
    extras = ("&own;", "<br/>", "<?pi?>", "<![CDATA[a < b]]>", "<!-- c -->", "&#233;", "<e></e>")
    text.insert(draw.randrange(len(text) + 1), draw.choice(extras))
    return " ".join(text)
