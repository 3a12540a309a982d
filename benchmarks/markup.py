"""Markup in translations: random documents, and where tags go beside an independent aligner.

    .venv/bin/python benchmarks/markup.py documents MODEL --src test.en --count 10000
    .venv/bin/python benchmarks/markup.py tags MODEL --src test.en --train train.en train.de

`documents` translates random documents over the given sentences and checks them with html5lib and
expat: what was valid is valid, the tags are the same, and the words are those of the translation
without tags. `tags` puts tags around words that a statistical aligner, trained on the given text,
links with consecutive words of the model's translation, and counts how many tags go around these.
"""

import argparse
import random
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from random_markup import broken_document, html_document, xml_document
from word_aligner import symmetric_links, words_of_text

from transduce.data import corpus
from transduce.text.markup.document import MarkupFormat, read_markup
from transduce.text.markup.marked import MarkedText
from transduce.translation.load import load
from transduce.translation.options import Options
from transduce.translation.translator import Translator

AT_ONCE = 100
KINDS = (("valid html", html_document), ("broken html", broken_document), ("xml", xml_document))
NAMES = "biu"
MAX_WORDS = 3
"""Words in a tag."""


def main() -> None:
    """Run one of the two."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("documents", "tags"))
    parser.add_argument("model", type=Path)
    parser.add_argument("--src", type=Path, required=True)
    parser.add_argument("--train", type=Path, nargs=2, help="text for the aligner, or .xz of it")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--pairs", type=int, default=200_000, help="of the text for the aligner")
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--engine", default="torch")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    translator = load(given.model, given.device, engine=given.engine)
    sentences = [line for line in corpus.read_lines(given.src) if line.strip()]
    draw = random.Random(given.seed)  # noqa: S311 - no secret
    if given.what == "documents":
        check_documents(translator, sentences, draw, given.count, Options(beam=given.beam))
    else:
        train = [[*islice(corpus.read_lines(path), given.pairs)] for path in given.train]
        check_tags(translator, sentences[: given.count], train, draw, Options(beam=given.beam))


def check_documents(
    translator: Translator,
    sentences: Sequence[str],
    draw: random.Random,
    count: int,
    options: Options,
) -> None:
    """Translate documents of all kinds, and print how many are not as they should be."""
    from checked_markup import html_tags, is_valid, tags_of  # html5lib, which `tags` does not need

    counts: Counter[str] = Counter()
    began = time.monotonic()
    for name, source, result, same in translated(translator, sentences, draw, count, options):
        form: MarkupFormat = "xml" if name == "xml" else "html"
        counts[f"{name}: documents"] += 1
        counts[f"{name}: other words"] += not same
        if is_valid(source, form):
            counts[f"{name}: valid before"] += 1
            counts[f"{name}: not valid after"] += not is_valid(result, form)
            counts[f"{name}: other tags"] += tags_of(source, form) != tags_of(result, form)
        else:
            counts[f"{name}: other tags"] += sorted(html_tags(source)) != sorted(html_tags(result))
    for what, number in counts.items():
        print(f"{what}: {number:,}")
    print(f"{time.monotonic() - began:.0f} s")


def translated(
    translator: Translator,
    sentences: Sequence[str],
    draw: random.Random,
    count: int,
    options: Options,
) -> Iterator[tuple[str, str, str, bool]]:
    """Yield kind, source and translation of documents, and whether the words are the plain ones."""
    for first in range(0, count, AT_ONCE):
        kinds = [draw.choices(KINDS, (6, 3, 1))[0] for _ in range(min(AT_ONCE, count - first))]
        sources = [make(draw, sentences) for _, make in kinds]
        documents = [
            read_markup(source, "xml" if name == "xml" else "html")
            for (name, _), source in zip(kinds, sources, strict=True)
        ]
        lines = [line for document in documents for line in document.lines]
        marked = iter(translator.translate(lines, options))
        plain = iter(translator.translate([line.text for line in lines], options))
        for (name, _), source, document in zip(kinds, sources, documents, strict=True):
            its = [one.text for one in islice(marked, len(document.lines))]
            words = [one.text for one in islice(plain, len(document.lines))]
            same = all(map(same_words, document.lines, its, words))
            yield name, source, document.with_lines(its), same


def same_words(line: MarkedText, marked: str, plain: str) -> bool:
    """Whether a translation with markup has the words of the one without.

    What stays as it is replaces words: the others must be among the plain ones, in their order.
    """
    from checked_markup import words_of

    extra = [one.opening for one in line.inlines if one.is_kept or not one.closing]
    for part in sorted(extra, key=len, reverse=True):
        marked = marked.replace(part, " " if part in _kept(line) else "", 1)
    expected = line.reader.text(line.reader.written(plain)).split()
    if not _kept(line):
        return words_of(marked).split() == expected
    rest = iter("".join(expected))
    return all(letter in rest for letter in words_of(marked).replace(" ", ""))


def _kept(line: MarkedText) -> list[str]:
    return [one.opening for one in line.inlines if one.is_kept]


def check_tags(
    translator: Translator,
    sources: Sequence[str],
    train: Sequence[Sequence[str]],
    draw: random.Random,
    options: Options,
) -> None:
    """Print how many tags go around the words that the aligner says."""
    sources = [" ".join(source.split()) for source in sources]
    plain = [one.text for one in translator.translate(sources, options)]
    sides = [
        [*map(lowered, side), *map(lowered, mine)]
        for side, mine in zip(train, (sources, plain), strict=True)
    ]
    links = symmetric_links(sides[0], sides[1], last=len(sources))
    chosen = [tag_spans(*one, draw) for one in zip(sources, plain, links, strict=True)]
    tagged = [put_tags(source, spans) for source, spans in zip(sources, chosen, strict=True)]
    results = translator.translate(tagged, options, format="html")
    exact = inside = total = own = found = both = 0
    for result, text, spans in zip(results, plain, chosen, strict=True):
        for name, (_, wanted) in zip(NAMES, spans, strict=False):
            got = words_in_tag(result.text, name, text)
            total += 1
            exact += got == wanted
            inside += wanted <= got
            own, found, both = own + len(wanted), found + len(got), both + len(got & wanted)
    print(f"{total} tags in {len(sources)} sentences")
    if total:
        print(f"around the same words: {exact / total:.1%}")
        print(f"around these and others: {inside / total:.1%}")
        print(f"F1 of words: {2 * both / (own + found):.1%}")


def lowered(text: str) -> list[str]:
    """Return the words of a text for the aligner."""
    return [match[0] for match in words_of_text(text.lower())]


TagSpan = tuple[tuple[int, int], set[int]]
"""Characters of the source, and the words of the translation that belong to them."""


def tag_spans(
    source: str, translation: str, links: set[tuple[int, int]], draw: random.Random
) -> list[TagSpan]:
    """Draw spans of linked words, whose links are consecutive words, one after the other."""
    words = words_of_text(source)
    n_target = len(words_of_text(translation))
    found: list[TagSpan] = []
    place = 0
    while place < len(words) and len(found) < len(NAMES):
        end = min(len(words), place + draw.randint(1, MAX_WORDS))
        targets = [{tgt for src, tgt in links if src == word} for word in range(place, end)]
        wanted = set().union(*targets)
        is_text = all(words[word][0][0].isalnum() for word in range(place, end))
        is_run = bool(wanted) and max(wanted) - min(wanted) + 1 == len(wanted)
        if is_text and all(targets) and is_run and max(wanted) < n_target and draw.random() < 0.5:
            found.append(((words[place].start(), words[end - 1].end()), wanted))
            place = end
        place += 1
    return found


def put_tags(source: str, spans: Sequence[TagSpan]) -> str:
    """Write a source as HTML, with a tag around each span."""
    parts, place = [], 0
    for name, ((start, end), _) in zip(NAMES, spans, strict=False):
        parts += [
            escaped(source[place:start]),
            f"<{name}>",
            escaped(source[start:end]),
            f"</{name}>",
        ]
        place = end
    return "".join([*parts, escaped(source[place:])])


def escaped(text: str) -> str:
    """Write a text as HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def words_in_tag(markup: str, name: str, text: str) -> set[int]:
    """Return the numbers of the words that a tag is around, in the translation without tags."""
    before, _, rest = markup.partition(f"<{name}>")
    inner = rest.partition(f"</{name}>")[0]
    start = len(unescaped(before))
    end = start + len(unescaped(inner))
    return {
        number
        for number, match in enumerate(words_of_text(text))
        if start <= match.start() and match.end() <= end
    }


def unescaped(markup: str) -> str:
    """Return the characters of markup without its tags."""
    text = re.sub(r"</?[biu]>", "", markup)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


if __name__ == "__main__":
    main()
