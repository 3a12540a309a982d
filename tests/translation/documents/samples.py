"""A small file of each format, and translators that need no model."""

import io
import zipfile
from collections.abc import Callable, Sequence

from transduce.text.markup.aligned import (
    AlignedPiece,
    AlignedWords,
    Weights,
    weights_by_place,
)
from transduce.text.markup.marked import Line, text_of
from transduce.text.markup.placing import put_back
from transduce.text.markup.words import word_spans
from transduce.translation.documents.inline_codes import lines_to_translate, place_translations
from transduce.translation.documents.registry import parse_file

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
A = "http://schemas.openxmlformats.org/drawingml/2006/main"
P = "http://schemas.openxmlformats.org/presentationml/2006/main"
TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
OFFICE_DOCUMENT = (
    "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
)
PICTURE = bytes(range(256)) * 4
HEADER = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\r\n'


def archive(members: dict[str, str | bytes], *, stored: Sequence[str] = ()) -> bytes:
    """Make a ZIP archive; `stored` members are not compressed."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as out:
        for name, content in members.items():
            info = zipfile.ZipInfo(name, (2020, 2, 3, 4, 5, 6))
            info.compress_type = zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            out.writestr(info, content)
    return written.getvalue()


def members(content: bytes) -> dict[str, bytes]:
    """Return the members of an archive, in order."""
    with zipfile.ZipFile(io.BytesIO(content)) as opened:
        return {info.filename: opened.read(info) for info in opened.infolist()}


def docx(body: str, *, more: dict[str, str | bytes] | None = None) -> bytes:
    """Make a document of Word with this body."""
    types = (
        f'{HEADER}<Types xmlns="{TYPES}">'
        '<Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-'
        'officedocument.wordprocessingml.document.main+xml"/></Types>'
    )
    relations = (
        f'{HEADER}<Relationships xmlns="{RELATIONS}"><Relationship Id="r1" '
        f'Type="{OFFICE_DOCUMENT}" Target="word/document.xml"/></Relationships>'
    )
    document = f'{HEADER}<w:document xmlns:w="{W}"><w:body>{body}</w:body></w:document>'
    return archive(
        {
            "[Content_Types].xml": types,
            "_rels/.rels": relations,
            "word/document.xml": document,
            "word/media/picture.png": PICTURE,
            **(more or {}),
        }
    )


DOCX = docx(
    '<w:p w:rsidR="1"><w:pPr><w:rPr><w:b/></w:rPr></w:pPr>'
    "<w:r w:rsidR='1'><w:t>The qu</w:t></w:r><w:proofErr w:type=\"spellEnd\"/>"
    '<w:r w:rsidR="2"><w:t xml:space="preserve">ick dog &amp; the </w:t></w:r>'
    "<w:r><w:rPr><w:b/></w:rPr><w:t>red cat</w:t></w:r><w:r><w:t>.</w:t></w:r></w:p>"
    '<w:p><w:r><w:t xml:space="preserve">Page </w:t></w:r>'
    '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>PAGE</w:instrText></w:r>'
    '<w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>3</w:t></w:r>'
    '<w:r><w:fldChar w:fldCharType="end"/></w:r></w:p>'
    "<w:p><w:r><w:t>One line</w:t><w:br/><w:t>Another line</w:t></w:r></w:p>"
    "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>a cell</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
)
ODT = archive(
    {
        "mimetype": "application/vnd.oasis.opendocument.text",
        "content.xml": HEADER + "<office:document-content "
        'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
        'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" office:version="1.2">'
        "<office:body><office:text><text:h text:outline-level='1'>A heading</text:h>"
        '<text:p>Some <text:span text:style-name="T1">bold words</text:span> here'
        '<text:note text:note-class="footnote"><text:note-citation>1</text:note-citation>'
        "<text:note-body><text:p>The note</text:p></text:note-body></text:note>, and more"
        "<text:s/>of it.</text:p><text:p/></office:text></office:body></office:document-content>",
        "META-INF/manifest.xml": HEADER + "<manifest:manifest "
        'xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0" '
        'manifest:version="1.2"><manifest:file-entry manifest:full-path="/" '
        'manifest:media-type="application/vnd.oasis.opendocument.text"/><manifest:file-entry '
        'manifest:full-path="content.xml" manifest:media-type="text/xml"/><manifest:file-entry '
        'manifest:full-path="Pictures/picture.png" manifest:media-type="image/png"/>'
        "</manifest:manifest>",
        "Pictures/picture.png": PICTURE,
    },
    stored=("mimetype",),
)
PPTX = archive(
    {
        "[Content_Types].xml": f'{HEADER}<Types xmlns="{TYPES}"><Override '
        'PartName="/ppt/slides/slide1.xml" ContentType="application/vnd.openxmlformats-'
        'officedocument.presentationml.slide+xml"/></Types>',
        "ppt/slides/slide1.xml": f'{HEADER}<p:sld xmlns:p="{P}" xmlns:a="{A}"><a:p><a:r>'
        '<a:rPr lang="en" b="1"/><a:t>A title</a:t></a:r><a:br/><a:r><a:t>and more</a:t></a:r>'
        '</a:p><a:p><a:fld id="1" type="slidenum"><a:t>7</a:t></a:fld></a:p></p:sld>',
        "ppt/media/picture.png": PICTURE,
    }
)
EPUB = archive(
    {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": "<container "
        'xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0"><rootfiles>'
        '<rootfile full-path="OPS/book.opf" '
        'media-type="application/oebps-package+xml"/></rootfiles></container>',
        "OPS/book.opf": '<package xmlns="http://www.idpf.org/2007/opf"><manifest>'
        '<item id="a" href="chapter%201.xhtml" media-type="application/xhtml+xml"/>'
        '<item id="n" href="toc.ncx" media-type="application/x-dtbncx+xml"/>'
        '<item id="p" href="picture.png" media-type="image/png"/></manifest></package>',
        "OPS/chapter 1.xhtml": '<?xml version="1.0"?><!DOCTYPE html>'
        '<html xmlns="http://www.w3.org/1999/xhtml"><head><title/></head><body>'
        '<p class="a">It was <em>very</em> dark.</p></body></html>',
        "OPS/toc.ncx": '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navMap><navPoint>'
        '<navLabel><text>Chapter one</text></navLabel><content src="chapter%201.xhtml"/>'
        "</navPoint></navMap></ncx>",
        "OPS/picture.png": PICTURE,
    },
    stored=("mimetype",),
)
MARKDOWN = """---
title: Not translated
---
# A heading #

Some *emphasised words* and `code()` here,
on [two lines](https://example.org/a_(b) "title").\\
After a hard break: see https://example.org/x and [label].

> A quote that goes
> on and on

- [ ] an item
  with more
  1. inner item

| head | other |
|------|:-----:|
| a \\| b | **c** |

```python
print("code")
```

<div class="x">
<p>Some HTML</p>
</div>

    indented code

[label]: https://example.org/label "Title"
"""
PO = """# Header
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\\n"

#: main.c:1
msgid "Open the file"
msgstr ""

#, fuzzy, c-format
#| msgid "Old text"
msgid ""
"Save %d\\n"
"\\"files\\""
msgstr "alt"

msgid "done"
msgstr "fertig"

#, c-format
msgid "one dog"
msgid_plural "%d dogs"
msgstr[0] ""
msgstr[1] ""

#~ msgid "gone"
#~ msgstr "weg"
"""
XLIFF = """<?xml version="1.0" encoding="utf-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file source-language="en"><body>
  <trans-unit id="1">
    <source>Click <g id="1">the <x id="2"/>button</g> &amp; wait</source>
  </trans-unit>
  <trans-unit id="2"><source>Done</source><target state="final">Fertig</target></trans-unit>
  <trans-unit id="3"><source>Empty</source><target/></trans-unit>
  <trans-unit id="4" translate="no"><source>Never</source></trans-unit>
  <trans-unit id="5"><source>Other</source><target> </target>
    <alt-trans><source>Old</source><target>Alt</target></alt-trans></trans-unit>
</body></file></xliff>
"""
TMX = """<?xml version="1.0"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en-US" datatype="plaintext"/><body>
  <tu><tuv xml:lang="en-US"><seg>A <bpt i="1">&lt;b></bpt>dog<ept i="1">&lt;/b></ept></seg></tuv>
  </tu>
  <tu><tuv xml:lang="en-US"><seg>A cat</seg></tuv><tuv xml:lang="de"><seg>Katze</seg></tuv></tu>
</body></tmx>
"""
JSON = '{"menu": {"open file": "Open \\"it\\"\\nand go",\t"n": [1, true, "caf\\u00e9", ""]}}\n'
YAML = """# a comment
title:   A title  # why
count: 3
yes: "quoted \\"text\\"\\nsecond"
list:
  - 'it''s here'
  - true
  - 2024-01-01
  - &anchor plain text
  - *anchor
block: |
  First line

    second line
folded: >-
  all of
  this
long: goes on
  here
tagged: !custom stays
"""
SRT = """1\r
00:00:01,000 --> 00:00:02,000 X1:1\r
<i>Two lines</i> of\r
one sentence\r
\r
2\r
00:00:03,000 --> 00:00:04,000\r
- Who is it?\r
- {\\an8}Me.\r
"""
VTT = """WEBVTT - a file

NOTE This is
a note

STYLE
::cue { color: red }

intro
00:01.000 --> 00:02.000 align:start
<v Anna>Fish &amp; chips</v>
"""
HTML = """<!DOCTYPE html><html><head><title>A &amp; B</title><style>p { }</style></head>
<body><p class='x'>Hello <b>red</b> world, use <code>foo()</code> now.<br>Second line</p>
<div>text<p>para</p>tail <span translate=no>Keep Me</span> here</div>
<pre>not this</pre><!-- nor this --><script>if (a<b) "</p>"</script>
<ul><li>one<li>two</ul></body></html>
"""
TEXT = "First line.\r\n\r\n  Second line, with spaces  \n123\n"

FILES: dict[str, bytes] = {
    "a.docx": DOCX,
    "a.odt": ODT,
    "a.pptx": PPTX,
    "a.epub": EPUB,
    "a.md": MARKDOWN.encode(),
    "a.po": PO.encode(),
    "a.xlf": XLIFF.encode(),
    "a.tmx": TMX.encode(),
    "a.json": JSON.encode(),
    "a.yaml": YAML.encode(),
    "a.srt": SRT.encode(),
    "a.vtt": VTT.encode(),
    "a.html": HTML.encode(),
    "a.txt": TEXT.encode(),
}


def translated(
    content: bytes, name: str, translate: Callable[[str], str], *, target: str | None = "de"
) -> bytes:
    """Translate a file text by text."""
    parsed = parse_file(content, name, target=target)
    lines = lines_to_translate(parsed.segments)
    return parsed.written(
        place_translations(parsed.segments, [tagged(line, translate) for line in lines])
    )


def tagged(line: Line, translate: Callable[[str], str]) -> str:
    """Translate a line; its words are aligned by their place alone."""
    return placed_by(line, translate(text_of(line)), lambda weights: weights)


def placed_by(line: Line, text: str, align: Callable[[Weights], Weights]) -> str:
    """Put the marks of a line into its translation, by weights that are made of those by place."""
    if isinstance(line, str):
        return text
    cuts = {place for one in line.inlines for place in (one.start, one.end)}
    source, target = word_spans(line.text, cuts), word_spans(text)
    weights = align(weights_by_place(len(target), len(source)))
    return put_back(line, text, AlignedWords(source, target, [AlignedPiece(0, 0, weights)]))
