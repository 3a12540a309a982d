"""A memory's own sources come back as they are; similar ones are those that comparing all finds."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import transduce
from tests.command import Command
from tests.translation.likely import random_model, saved
from transduce import InputError, Options, Translation, translation_memory, wording
from transduce.text.tokenizer import Tokenizer
from transduce.translation.languages import NO_TAGS, TagIds
from transduce.translation.lines import InputLine
from transduce.translation.load import load
from transduce.translation.memory import units
from transduce.translation.memory.similarity import tokens_of
from transduce.translation.memory.units import BELOW_EXACT, TranslationMemory, normalised
from transduce.translation.memory.use import Beginnings, translate_with_memory
from transduce.translation.translator import Translator

MEMORY = {
    "The dog eats bread.": "Der Hund frisst Brot.",
    "The small dog sees the old house at the lake.": "Der kleine Hund sieht das alte Haus am See.",
}
words = st.lists(st.sampled_from(["a", "b", "c", "d", "e"]), min_size=1, max_size=8)
texts = words.map(" ".join)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("memory") / "model", random_model(seed=3))


@pytest.fixture(scope="module")
def translator(folder: Path) -> Translator:
    return load(folder, "cpu")


def plain_distance(one: list[str], other: list[str]) -> int:
    """Compare all prefixes, as the definition says."""
    table = {(i, 0): i for i in range(len(one) + 1)} | {(0, j): j for j in range(len(other) + 1)}
    for i, first in enumerate(one, start=1):
        for j, second in enumerate(other, start=1):
            replaced = table[i - 1, j - 1] + (first != second)
            table[i, j] = min(replaced, table[i - 1, j] + 1, table[i, j - 1] + 1)
    return table[len(one), len(other)]


@given(sources=st.lists(texts, min_size=1, max_size=12), text=texts, percent=st.integers(50, 100))
@settings(max_examples=200)
def test_the_most_similar_is_found(sources: list[str], text: str, percent: int) -> None:
    memory = TranslationMemory([(source, source.upper()) for source in sources])
    found = memory.similar(text, threshold=percent / 100)
    best = max(similarity(text, one) for one in sources)
    if best < percent / 100 - 1e-9:
        assert found is None
    else:
        assert found is not None
        assert found.score == pytest.approx(min(best, BELOW_EXACT))
        assert similarity(text, found.source) == pytest.approx(best)
        assert found.target == found.source.upper()


def test_what_is_not_looked_at_is_not_counted_as_lacking(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best unit has frequent words, but is not among the first units that have them."""
    monkeypatch.setattr(units, "MAX_FOUND", 4)
    others = ["c d e f q"] * 6 + ["f f f f f"]
    memory = TranslationMemory([(one, one) for one in ("y b c d e x", *others, "a z c d e f")])
    found = memory.similar("a b c d e f", threshold=0.5)
    assert found is not None
    assert found.source == "a z c d e f"


def similarity(one: str, other: str) -> float:
    tokens = tokens_of(one), tokens_of(other)
    return 1 - plain_distance(*tokens) / max(map(len, tokens))


@given(pairs=st.lists(st.tuples(st.text(), st.text()), max_size=8), text=st.text())
def test_the_same_source_gives_its_last_target(pairs: list[tuple[str, str]], text: str) -> None:
    memory = TranslationMemory(pairs)
    known = {" ".join(s.split()): t.strip() for s, t in pairs if s.split() and t.strip()}
    assert len(memory) == sum(bool(s.split() and t.strip()) for s, t in pairs)
    for source, target in pairs:
        if source.isascii() and source.split() and target.strip():
            match = memory.exact(f" {source}\n")
            assert match is not None
            assert match.target == known[" ".join(source.split())]
    found = memory.exact(text)
    assert found is None or found.source == normalised(text)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("Wir gehen.", ["Wir", "gehen", "."]), ("家に3匹", ["家", "に", "3", "匹"]), (" ", [])],
)
def test_tokens(text: str, tokens: list[str]) -> None:
    assert tokens_of(text) == tokens


def test_the_same_lines_are_taken_and_others_translated_as_without(translator: Translator) -> None:
    lines = ["The  dog eats bread. ", "", "A new line.", "The dog eats old bread."]
    plain = translator.translate(lines)
    taken, blank, new, similar = translator.translate(lines, memory=MEMORY)
    assert taken.text == "Der Hund frisst Brot."
    assert taken.match is not None
    assert taken.match.is_used
    assert (blank.text, blank.match) == ("", None)
    assert (new.text, new.match) == (plain[2].text, None)
    assert similar.text == plain[3].text
    assert similar.match is not None
    assert similar.match.score == pytest.approx(5 / 6)
    assert not similar.match.is_used


def test_what_does_not_obey_is_translated(translator: Translator) -> None:
    options = Options(memory=translation_memory(MEMORY), wording=wording(forbid=["Brot"]))
    (found,) = translator.translate(["The dog eats bread."], options)
    assert "Brot" not in found.text.split()
    assert found.match is not None
    assert not found.match.is_used
    assert found.match.score == 1


@pytest.mark.parametrize("pair", [("a \ud800", "b"), ("a", "\udfff")])
def test_text_that_is_no_unicode_is_refused(pair: tuple[str, str]) -> None:
    with pytest.raises(InputError, match="the memory: unit 2 has half of a surrogate pair"):
        TranslationMemory([("x", "y"), pair])


class DiagonalEngine:
    """Every token of a translation attends to the token of the source at its own place.

    It expects the tags of a language before each source or translation.
    """

    tags: TagIds

    def __init__(self, tags: TagIds) -> None:
        self.tags = tags

    def cross_attention(self, pairs: Sequence[tuple[list[int], list[int]]]) -> list[Any]:
        found = []
        for src, tgt in pairs:
            assert src[: len(self.tags.source)] == list(self.tags.source)
            assert tgt[: len(self.tags.target)] == list(self.tags.target)
            shift = len(self.tags.source) - len(self.tags.target)
            found.append(np.eye(len(tgt), len(src) + 1, shift)[None])
        return found


RIVER = "The small dog sees the old house at the river."


def prefix_by(beginnings: Beginnings, source: str, given: str = "") -> str:
    """Return the prefix with which a line is translated."""
    seen: list[InputLine] = []

    def translate(lines: list[InputLine], options: Options) -> list[Translation]:
        del options
        seen.extend(lines)
        return [Translation(str(line.source), "", 0.0, ()) for line in lines]

    options = Options(memory=translation_memory(MEMORY, as_prefix=True, threshold=0.5))
    translate_with_memory([InputLine(0, source, given)], options, translate, beginnings=beginnings)
    [line] = seen
    return line.prefix


@pytest.mark.parametrize("tags", [NO_TAGS, TagIds(source=(9,)), TagIds(target=(9,))])
@pytest.mark.parametrize(
    ("source", "given", "prefix"),
    [
        (RIVER, "", "Der kleine Hund"),
        (RIVER, "Ein", "Ein"),
        ("A small dog sees the old house at the lake.", "", ""),
        ("The tall cow met an old house at the lake.", "", ""),
    ],
)
def test_a_prefix_is_what_belongs_to_the_unchanged_beginning(
    folder: Path, source: str, given: str, prefix: str, tags: TagIds
) -> None:
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    engine: Any = DiagonalEngine(tags)
    found = prefix_by(Beginnings(engine, tokenizer, tags), source, given)
    target = MEMORY["The small dog sees the old house at the lake."]
    if given or not prefix:
        assert found == given
    else:
        assert found.startswith(f"{prefix} ")
        assert target.startswith(found)
        assert "See" not in found


def test_a_unit_that_is_too_long_for_the_model_gives_no_prefix(translator: Translator) -> None:
    long = {"The dog eats bread.": "Der Hund frisst Brot. " * 1000}
    options = Options(memory=translation_memory(long, as_prefix=True, threshold=0.5))
    (found,) = translator.translate(["The dog eats bread!"], options)
    assert found.match is not None
    assert found.text == translator.translate(["The dog eats bread!"])[0].text


def test_a_threshold_out_of_range_is_refused() -> None:
    with pytest.raises(InputError, match=r"similarity of 0\.2: use 0\.5 to 1"):
        translation_memory(MEMORY, threshold=0.2)


TMX = """<?xml version="1.0"?><tmx version="1.4"><header srclang="en"/><body><tu>
<tuv xml:lang="en"><seg>The dog eats bread.</seg></tuv>
<tuv xml:lang="de"><seg>Der Hund frisst Brot.</seg></tuv></tu></body></tmx>"""


def test_the_command_reports_matches(folder: Path, tmp_path: Path, command: Command) -> None:
    (tmp_path / "in.en").write_text("The dog eats bread.\nThe dog eats the bread.\n")
    (tmp_path / "m.tmx").write_text(TMX)
    given = ("translate", str(folder), str(tmp_path / "in.en"), "--jsonl", "--memory")
    done = command(*given, str(tmp_path / "m.tmx"), "--memory-fields", "en,de")
    first, second = (json.loads(line) for line in done.out.splitlines())
    assert first["text"] == "Der Hund frisst Brot."
    assert first["memory"]["is_used"] is True
    assert second["memory"] == {
        "source": "The dog eats bread.",
        "text": "Der Hund frisst Brot.",
        "score": 0.8333,
        "is_used": False,
    }
    failed = command(*given, str(tmp_path / "m.tmx"))
    assert "--memory-fields en,de" in failed.mistake()


def test_files_take_texts_without_codes_from_it(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("The dog eats bread.\n")
    options = Options(memory=translation_memory(MEMORY))
    done = transduce.translate_file(folder, tmp_path / "in.txt", tmp_path / "out.txt", options)
    assert done.path.read_text() == "Der Hund frisst Brot.\n"
