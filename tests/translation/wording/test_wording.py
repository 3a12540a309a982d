"""Whatever the model, translations contain the terms and placeholders of their sources."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.text.phrases.oracle import count_phrases
from tests.translation.likely import (
    VOCAB_SIZE,
    LikelyModel,
    learnt_tokenizer,
    random_model,
    saved,
    sentences,
)
from transduce import InputError, Options, wording
from transduce.export.ctranslate2 import is_installed
from transduce.search.sample import Sampling
from transduce.translation.load import load
from transduce.translation.translator import Translator
from transduce.translation.wording.rules import MAX_REQUIRED, UNLIMITED, PhraseRule, Wording

GLOSSARY = {"dog": "Hund", "bread": ["Brot", "Brötchen"], "Berlin": "=", "the cat": "die Mieze"}
KEPT = ["{name}", "https://a.de/x?y=1", "5 km", "🐶", "%(n)d"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save a random model."""
    path = tmp_path_factory.mktemp("wording") / "model"
    return saved(path, random_model(seed=3, max_positions=200))


@pytest.fixture(scope="module")
def translator(folder: Path) -> Translator:
    return load(folder, "cpu")


@pytest.mark.parametrize("n_best", [1, 2])
@pytest.mark.parametrize(
    ("words", "expected", "searches"),
    [
        (wording({"dog": "Hund"}), "Der Hund frisst.", 1),
        (wording({"dog": ["Köter", "Hund"]}, forbid=["Haus"]), "Der Hund frisst.", 1),
        (wording({"dog": "Köter"}), "Der Köter frisst Brot.", 2),
        (wording(forbid=["Hund"]), "Der Köter frisst Brot.", 2),
        (wording({"dog": "Köter", "a": "Ein"}), "Ein Köter.", 2),
    ],
)
def test_a_translation_that_obeys_by_itself_is_the_result(
    words: Wording, expected: str, searches: int, n_best: int
) -> None:
    """The best that obeys is found; a second search is made only if the free one does not obey."""
    tokenizer = learnt_tokenizer()
    answers = {"Der Hund frisst.": 0.6, "Der Köter frisst Brot.": 0.3, "Ein Köter.": 0.1}
    ids = tokenizer.encode_targets(list(answers))
    model = LikelyModel(lambda _: list(zip(ids, answers.values(), strict=True)))
    options = Options(4, n_best=n_best, second_try=False, wording=words)
    (found,) = Translator(model, tokenizer).translate(["a dog eats"], options)
    assert found.text == expected
    if n_best == 1:
        assert len(model.batches) == searches


def test_an_empty_translation_after_a_tag_limits_no_search() -> None:
    tokenizer = learnt_tokenizer(vocab_size=VOCAB_SIZE - 1).with_tags(["de"])
    long = "Der Köter frisst Brot, und das alte Haus am See sieht er nicht."
    tag, answers = tokenizer.target.tags["de"], tokenizer.encode_targets(["Der Hund.", long])
    likely = [([tag], 0.4), *(([tag, *ids], 0.3) for ids in answers)]
    options = Options(4, alpha=0, second_try=False, wording=wording({"dog": "Köter"}))
    translator = Translator(LikelyModel(lambda _: likely), tokenizer, tag_on="target")
    (found,) = translator.translate(["a dog eats"], options, to="de")
    assert found.text == long


@given(
    words=st.lists(
        st.sampled_from(["dog", "bread", "Berlin", "the cat", "eats", *KEPT]),
        min_size=1,
        max_size=7,
    ),
    beam=st.integers(1, 4),
    is_sampled=st.booleans(),
)
@settings(max_examples=8)
def test_every_term_and_placeholder_is_there(
    translator: Translator, words: list[str], beam: int, is_sampled: bool
) -> None:
    words_of = wording(GLOSSARY, forbid=["und", "Haus"], keep_placeholders=True)
    options = Options(
        beam,
        sampling=Sampling() if is_sampled else None,
        whole_lines=True,
        second_try=False,
        wording=words_of,
    )
    source = " ".join(words)
    (found,) = translator.translate([source], options)
    for text in KEPT:
        assert found.text.count(text) == words.count(text), found.text
    targets = {"dog": ["Hund"], "bread": ["Brot", "Brötchen"], "Berlin": ["Berlin"]}
    for term, alternatives in targets.items():
        assert count_phrases(found.text, alternatives) >= words.count(term), found.text
    assert count_phrases(found.text, ["und", "Haus"]) == 0


def test_sentences_without_terms_are_translated_as_without_a_glossary(
    translator: Translator,
) -> None:
    texts = list(sentences(4))
    with_term = "The dog eats Berlin."
    once = Options(second_try=False)
    free = translator.translate(texts, once)
    mixed = translator.translate([*texts, with_term], once, glossary={"Berlin": "="})
    assert mixed[:-1] == free
    assert "Berlin" in mixed[-1].text


def test_a_batch_is_as_its_sentences_alone(translator: Translator) -> None:
    texts = ["The dog eats bread.", "Berlin.", "the cat and the dog", "A man."]
    once = Options(second_try=False)
    together = translator.translate(texts, once, glossary=GLOSSARY)
    alone = [translator.translate([text], once, glossary=GLOSSARY)[0] for text in texts]
    assert [one.text for one in together] == [one.text for one in alone]


def test_more_terms_than_fit_are_noted(translator: Translator) -> None:
    source = " ".join(f"{{f{number}}}" for number in range(MAX_REQUIRED + 3))
    options = Options(1, second_try=False, wording=wording(keep_placeholders=True))
    (found,) = translator.translate([source], options)
    assert f"only the first {MAX_REQUIRED} terms" in found.note


def test_a_forbidden_word_in_a_required_one_is_refused(translator: Translator) -> None:
    options = Options(wording=wording({"dog": "der Hund"}, forbid=["Hund"]))
    with pytest.raises(InputError, match="contains a forbidden word"):
        translator.translate(["A dog."], options)


def test_an_alternative_without_a_forbidden_word_is_taken() -> None:
    words = wording({"dog": ["Hund", "Köter"]}, forbid=["Hund"])
    rules, note = words.rules_for("A dog.")
    assert rules == (PhraseRule(("Köter",), 1, UNLIMITED), PhraseRule(("Hund",), 0, 0))
    assert note == ""


def test_a_placeholder_within_another_may_occur_as_often_as_both() -> None:
    rules, _ = wording(keep_placeholders=True).rules_for("{{x}} and {x}")
    assert set(rules) == {PhraseRule(("{{x}}",), 1, 1), PhraseRule(("{x}",), 2, 2)}


@pytest.mark.skipif(not is_installed(), reason="needs CTranslate2")
def test_ctranslate2_refuses_terms_and_auto_takes_torch(folder: Path) -> None:
    source = ["The dog eats."]
    refusing = load(folder, "cpu", engine="ctranslate2")
    assert refusing.translate(["A man."], glossary=GLOSSARY)
    with pytest.raises(InputError, match="use the engine torch"):
        refusing.translate(source, glossary=GLOSSARY)
    auto, torch = (load(folder, "cpu", engine=name) for name in ("auto", "torch"))
    assert auto.engine_name == "ctranslate2"
    found = auto.translate([*source, "A man."], glossary=GLOSSARY)
    assert found[0].text == torch.translate(source, glossary=GLOSSARY)[0].text


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: wording(forbid="abc"), "put it into a list"),
        (lambda: wording(keep=["a"] * 33), "at most 32"),
        (lambda: wording(forbid=["x" * 150 + str(n) for n in range(60)]), "bytes in all"),
        (lambda: wording("no/such/file.tsv"), "no/such/file.tsv"),
    ],
)
def test_what_is_wrong_is_said(make: object, said: str) -> None:
    assert callable(make)
    with pytest.raises(InputError, match=said):
        make()
