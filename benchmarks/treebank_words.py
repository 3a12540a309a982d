"""Text cut into words as GUM and CRAFT have them, to be parsed as unlabelled text.

    python benchmarks/treebank_words.py news.en speech.en.xz … --to DIR [--sentences 240000]
        [--parts 3] [--longest 50]

Full stops, commas, brackets, quotes, clitics (`'s`, `n't`) and hyphens within words are words of
their own, brackets are written -LRB- and -RRB-. Of each file, in turn, sentences of 3 words and
more are taken that end with a mark and were not seen before: files that come first are used up
first. They are shuffled and divided: DIR/0.txt, DIR/1.txt and so on.
"""

import argparse
import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from transduce.data.corpus import read_lines
from transduce.files.atomic import atomic_file
from transduce.trees.brackets import escaped

SHORTEST = 3
ABBREVIATIONS = frozenset(
    re.findall(r"\w+", "Mr Mrs Ms Dr Prof St No Nos vs etc Jan Feb Aug Sept Oct Nov Dec")
)
CLITICS = r"n['’]t|['’](?:s|m|d|re|ve|ll)"
WORD = re.compile(
    rf"""
    \d+(?:[.,:]\d+)*                   # 1,000.50
  | (?:[^\W\d_]\.){{2,}}               # U.S.
  | [^\W_]+?(?=(?:{CLITICS})\b)        # do, of don't
  | {CLITICS}\b
  | \w+(?:['’]\w+)*                    # O'Neill
  | \.{{2,}} | -{{2,}} | \S
    """,
    re.VERBOSE | re.IGNORECASE,
)


def main() -> None:
    """Write the parts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("texts", type=Path, nargs="+")
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=240_000)
    parser.add_argument("--parts", type=int, default=3)
    parser.add_argument("--longest", type=int, default=50, help="words of a sentence")
    given = parser.parse_args()
    lines = (line for path in given.texts for line in read_lines(path))
    found = list(distinct(lines, given.sentences, given.longest))
    random.Random(1).shuffle(found)  # noqa: S311 - no secret
    given.to.mkdir(parents=True, exist_ok=True)
    for part in range(given.parts):
        with atomic_file(given.to / f"{part}.txt") as file:
            file.write_text("".join(f"{one}\n" for one in found[part :: given.parts]), "utf-8")
    words = sum(len(one.split()) for one in found)
    print(
        f"{len(found):,} sentences of {words / max(1, len(found)):.1f} words, {given.parts} parts"
    )


def distinct(lines: Iterable[str], count: int, longest: int) -> Iterator[str]:
    """Stream the first sentences that are fit, each once."""
    seen: set[str] = set()
    for line in lines:
        if len(seen) == count:
            return
        words = treebank_words(line)
        text = " ".join(words)
        is_whole = bool(words) and words[-1] in {".", "!", "?", '"', "”", "-RRB-"}
        if is_whole and SHORTEST <= len(words) <= longest and text not in seen:
            seen.add(text)
            yield text


def treebank_words(line: str) -> list[str]:
    """Cut a line as the treebanks are cut."""
    words: list[str] = []
    for word in WORD.findall(line):
        if word == "." and words and words[-1] in ABBREVIATIONS:
            words[-1] += "."
        else:
            words.append(escaped(word))
    return words


if __name__ == "__main__":
    main()
