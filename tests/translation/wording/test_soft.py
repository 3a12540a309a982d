"""Glossaries as hints: the model reads them, and nothing else takes them for text."""

import re
import shutil
from html import unescape
from pathlib import Path

import pytest

from tests.translation.likely import LikelyModel, learnt_tokenizer, random_model, saved, sentences
from tests.translation.test_shortlist import write_pairs
from transduce import InputError, Options, make_shortlist, wording
from transduce.export.ctranslate2 import is_installed
from transduce.translation.alignment.word_links import align
from transduce.translation.load import EngineName, load
from transduce.translation.translator import Translator

GLOSSARY = {"dog": ["Hund", "Köter"], "bread": "Brot", "Berlin": "=", "the cat": "die Mieze"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("soft") / "model"
    return saved(path, random_model(seed=3, max_positions=64, term_markers=True))


@pytest.fixture(scope="module")
def translator(folder: Path) -> Translator:
    return load(folder, "cpu")


def read_by_model(text: str, *, max_positions: int | None = None) -> tuple[list[str], str]:
    """Return the tokens that a model reads for a text with the glossary, and the note."""
    tokenizer = learnt_tokenizer(term_markers=True)
    [answer] = tokenizer.encode_targets(["Hunde"])
    read: list[list[int]] = []

    def answers(source: list[int]) -> list[tuple[list[int], float]]:
        read.append(source)
        return [(answer, 1.0)]

    used = Translator(LikelyModel(answers), tokenizer, max_positions=max_positions)
    [found] = used.translate([text], glossary=GLOSSARY, soft=True)
    assert found.text == "Hunde", "no constraint asks for a term"
    return tokenizer.source.tokens(read[0]), found.note


def test_the_model_reads_the_first_translation_after_the_term() -> None:
    tokens, note = read_by_model("The dog eats.")
    text = "".join(tokens).replace("Ġ", " ").replace("< eos >", "")
    assert text == "The dog< term > Hund< /term > eats."
    assert note == ""


def test_hints_that_do_not_fit_are_left_out_with_a_note() -> None:
    whole, _ = read_by_model("dog bread dog bread.")
    tokens, note = read_by_model("dog bread dog bread.", max_positions=len(whole) - 1)
    assert tokens.count("< term >") == 3
    assert note == "only 3 of 4 terms of a sentence are hints"


def test_a_model_that_has_not_learnt_hints_says_what_to_do(tmp_path: Path) -> None:
    plain = load(saved(tmp_path / "model", random_model(seed=3)), "cpu")
    with pytest.raises(InputError, match=r"not trained with hints.*--set data\.terms=0\.1"):
        plain.translate(["a dog"], glossary=GLOSSARY, soft=True)
    with pytest.raises(InputError, match="soft is for the terms of a glossary"):
        plain.translate(["a dog"], soft=True)
    with pytest.raises(InputError, match="soft is for the terms of a glossary"):
        wording(soft=True)


def test_forbidden_words_and_placeholders_bind_all_the_same(translator: Translator) -> None:
    words = wording(GLOSSARY, forbid=["und"], keep_placeholders=True, soft=True)
    assert words.digest != wording(GLOSSARY, forbid=["und"], keep_placeholders=True).digest
    [found] = translator.translate(
        ["The dog eats {name}."], Options(1, second_try=False, wording=words)
    )
    assert found.text.count("{name}") == 1
    hostile = wording({"dog": "Hund"}, forbid=["Hund"], soft=True)
    with pytest.raises(InputError, match="contains a forbidden word"):
        translator.translate(["The dog."], Options(wording=hostile))


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_a_shortlist_keeps_no_hint_from_being_followed(
    folder: Path, translator: Translator, tmp_path: Path, engine: EngineName
) -> None:
    if engine == "ctranslate2" and not is_installed():
        pytest.skip("needs ctranslate2")
    src, tgt = write_pairs(tmp_path)
    narrow = shutil.copytree(folder, tmp_path / "model")
    make_shortlist(narrow, src=[src], tgt=[tgt], frequent=5, per_token=3)
    other = load(narrow, "cpu", engine=engine, shortlist=True)
    texts, options = ["The dog eats.", "A cow sleeps."], Options(beam=1, second_try=False)
    expected = translator.translate(texts, options, glossary=GLOSSARY, soft=True)
    found = other.translate(texts, options, glossary=GLOSSARY, soft=True)
    assert found[0].text == expected[0].text
    assert found[1].text != expected[1].text, "it has no hint"


@pytest.mark.skipif(not is_installed(), reason="needs ctranslate2")
def test_both_engines_read_hints(folder: Path, translator: Translator) -> None:
    texts = [f"{text} The dog eats bread." for text in sentences(4)]
    other = load(folder, "cpu", engine="ctranslate2")
    options = Options(beam=1, second_try=False)
    ours = translator.translate(texts, options, glossary=GLOSSARY, soft=True)
    theirs = other.translate(texts, options, glossary=GLOSSARY, soft=True)
    assert [one.text for one in ours] == [one.text for one in theirs]
    assert [one.text for one in ours] != [one.text for one in translator.translate(texts, options)]


@pytest.mark.parametrize(
    "source",
    [
        "<b>bread</b> eats the cat <b>bread</b>",
        "Berlin <i>an old dog</i>",
        "the cat <i>eats <b>bread</b></i> dog",
        "old",
    ],
)
def test_markup_and_alignment_know_only_the_words_of_the_text(
    translator: Translator, source: str
) -> None:
    options = Options(beam=1, second_try=False, attention=True)
    [tagged] = translator.translate([source], options, glossary=GLOSSARY, soft=True, format="html")
    plain = source
    for tag in ("<b>", "</b>", "<i>", "</i>"):
        assert tagged.text.count(tag) == source.count(tag)
        plain = plain.replace(tag, "")
    [found] = translator.translate([plain], options, glossary=GLOSSARY, soft=True)
    assert unescape(re.sub("<[^>]*>", "", tagged.text)).split() == found.text.split()
    for one in found.attention:
        assert not [token for token in one.source if "term" in token]
        assert one.encoder.shape[2:] == (len(one.source), len(one.source))
        assert one.cross.sum(axis=-1) == pytest.approx(1, abs=1e-4)
        assert one.encoder.sum(axis=-1) == pytest.approx(1, abs=1e-4)
    aligned = align(found.attention, source=plain, translation=found.text)
    assert aligned.source == tuple(plain.split())
    assert all(src < len(plain.split()) for src, _ in aligned.links)
