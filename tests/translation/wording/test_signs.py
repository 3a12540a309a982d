"""Models that read placeholders as signs: each comes out exactly once, whatever the model."""

import re
import shutil
from html import unescape
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.translation.likely import LikelyModel, learnt_tokenizer, random_model, saved
from tests.translation.test_shortlist import write_pairs
from transduce import InputError, Options, make_shortlist, wording
from transduce.export.ctranslate2 import export_ctranslate2, is_installed
from transduce.export.huggingface import export_huggingface
from transduce.search.sample import Sampling
from transduce.text.phrases.signs import SIGNS, SignedText, put_back
from transduce.text.tokenizer import Kind
from transduce.translation.alignment.word_links import align
from transduce.translation.load import EngineName, load
from transduce.translation.translator import Translator

KEPT = ["{name}", "https://a.de/x?y=1", "5 km", "🐶", "%(n)d", "me@example.org", "{{ x }}", "%s"]
TEXTS = ["{name} eats 5 km of bread.", "Write to me@example.org, {name}, or to {name}!", "A dog."]
TOKENIZER = learnt_tokenizer(placeholders=True)
needs_ctranslate2 = pytest.mark.skipif(not is_installed(), reason="needs ctranslate2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save a random model that knows signs."""
    path = tmp_path_factory.mktemp("signs") / "model"
    return saved(path, random_model(seed=3, max_positions=100, placeholders=True))


@pytest.fixture(scope="module")
def translator(folder: Path) -> Translator:
    return load(folder, "cpu")


def occurrences(text: str) -> list[int]:
    """Count the placeholders of `KEPT`; {{ x }} has no other in it."""
    return [text.count(one) for one in KEPT]


@given(st.text())
def test_any_text_comes_back(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    signed = SignedText.of(text)
    assert put_back(signed.text, signed.values) == text or any(sign in text for sign in SIGNS)
    [ids] = TOKENIZER.encode_batch([signed.text])
    assert TOKENIZER.decode_batch([ids]) == [TOKENIZER.normalised_target(signed.text)]


def test_signs_are_entries_that_nothing_is_joined_with() -> None:
    known = TOKENIZER.source.placeholders
    for text in (f"A dog{SIGNS[0]}.", f"{SIGNS[7]}{SIGNS[1]}", f"  {SIGNS[3]}\n a "):
        [ids] = TOKENIZER.encode_batch([text])
        assert TOKENIZER.decode_batch([ids]) == [text]
        found = [known[sign] for sign in text if sign in SIGNS]
        assert [one for one in ids if one in known.values()] == found
    [plain] = TOKENIZER.encode_batch([" ".join(KEPT)])
    assert not {*plain} & {*known.values()}


def test_many_signs_take_no_more_time_each_than_few() -> None:
    """Copying the row for each of them would take minutes."""
    many = SignedText.of("🐶" * 200_000).text
    [ids] = TOKENIZER.encode_batch([many])
    assert ids == [TOKENIZER.source.placeholders[SIGNS[0]]] * 200_000
    assert TOKENIZER.decode_batch([ids]) == [many]


@settings(max_examples=8)
@given(st.lists(st.sampled_from(KEPT), max_size=9), st.sampled_from([1, 4, None]))
def test_each_occurs_as_often_as_in_the_source(
    translator: Translator, kept: list[str], beam: int | None
) -> None:
    text = " and ".join(["A dog", *kept, "the cat."])
    options = (
        Options(beam, second_try=False)
        if beam
        else Options(second_try=False, sampling=Sampling(seed=len(kept)))
    )
    [alone] = translator.translate([text], options)
    batch = translator.translate([*TEXTS, text], options)
    assert occurrences(alone.text) == occurrences(text)
    if beam:
        assert batch[-1].text == alone.text
    for found, source in zip(batch, TEXTS, strict=False):
        assert occurrences(found.text) == occurrences(source)


def answering(answers: dict[str, float]) -> Translator:
    ids = TOKENIZER.encode_targets(list(answers))
    model = LikelyModel(lambda _: list(zip(ids, answers.values(), strict=True)))
    return Translator(model, TOKENIZER)


def test_what_the_model_writes_in_their_places_is_put_back() -> None:
    one, other = SIGNS[0], SIGNS[1]
    translator = answering({f"Um {other} isst {one}.": 0.6, f"{one} isst Brot.": 0.4})
    best = "Um 5 km isst {name}."
    assert translator.translate(["{name} eats at 5 km."])[0].text == best
    # One that the source has not is left out, and the other translation is the best that obeys.
    assert translator.translate(["{name} eats."])[0].text == "{name} isst Brot."
    assert translator.translate(["Eat!"])[0].text == "Um isst."
    assert answering({f"{one} isst.": 1.0}).translate(["Eat!"])[0].text == "isst."


def test_a_model_without_signs_copies_them_as_any_text() -> None:
    plain = learnt_tokenizer()
    [ids] = plain.encode_targets([f"Der {SIGNS[0]} frisst {{x}}."])
    translator = Translator(LikelyModel(lambda _: [(ids, 1.0)]), plain)
    assert translator.translate(["a {x}"])[0].text == f"Der {SIGNS[0]} frisst {{x}}."


@pytest.mark.parametrize("kind", ["bpe", "characters", "whitespace"])
def test_a_model_without_signs_reads_such_characters_as_any_others(kind: Kind) -> None:
    plain = learnt_tokenizer(kind=kind)
    [ids] = plain.encode_targets(["Der Hund ."])
    translator = Translator(LikelyModel(lambda _: [(ids, 1.0)]), plain)
    found = translator.translate(["a dog", f"a {SIGNS[0]} dog"])
    assert found[0].text == found[1].text


def test_placeholders_stay_apart_from_words() -> None:
    translator = answering({f"Das sind{SIGNS[0]}weit.": 1.0})
    assert translator.translate(["It is 5 km."])[0].text == "Das sind 5 km weit."
    assert translator.translate(["It is {x}."])[0].text == "Das sind{x}weit."


def test_patterns_of_the_user_are_signs_too() -> None:
    translator = answering({f"Der {SIGNS[0]} kommt.": 1.0})
    options = Options(wording=wording(keep=[r"[A-Z]{2}-\d+"]))
    assert translator.translate(["AB-12 comes."], options)[0].text == "Der AB-12 kommt."


def test_more_placeholders_than_signs_are_constrained_if_asked(translator: Translator) -> None:
    text = " and ".join(f"{{{letter}}}" for letter in "abcdefghijkl")
    options = Options(second_try=False, wording=wording(keep_placeholders=True))
    found = translator.translate([text], options)[0].text
    assert [found.count(f"{{{letter}}}") for letter in "abcdefghijkl"] == [1] * 12


@pytest.mark.parametrize("engine", ["torch", pytest.param("auto", marks=needs_ctranslate2)])
def test_more_than_the_model_has_room_for_fail_no_translation(
    tmp_path: Path, engine: EngineName
) -> None:
    small = random_model(seed=3, max_positions=24, placeholders=True)
    translator = load(saved(tmp_path / "model", small), "cpu", engine=engine)
    texts = [*TEXTS, "🐶" * 23]
    found = translator.translate(texts, Options(second_try=False))
    assert "'🐶' is missing" in found[-1].note
    assert occurrences(found[1].text) == occurrences(TEXTS[1])
    asked = Options(wording=wording({"a dog": " ".join(["Hund"] * 40)}))
    with pytest.raises(InputError, match="the terms and placeholders of one sentence take up to"):
        translator.translate(texts[2:3], asked)


def test_a_prefix_may_have_them(translator: Translator) -> None:
    [found] = translator.translate(TEXTS[:1], Options(second_try=False), prefixes=["Die {name} "])
    assert found.text.startswith("Die {name}")
    assert occurrences(found.text) == occurrences(TEXTS[0])


def test_signs_in_a_text_itself_stand_for_nothing_else() -> None:
    first, other = SIGNS[0], SIGNS[3]
    assert SignedText.of("A {x}").like(f"{first} {{x}} {other}") == f" {first} "
    assert SignedText.of(f"A {other}").like(f"{first} {{x}} {other}") == f" {{x}} {first}"


def test_forbidden_words_in_them_are_refused(translator: Translator) -> None:
    options = Options(wording=wording(forbid=["name"]))
    with pytest.raises(InputError, match="must be in a translation, but contains a forbidden"):
        translator.translate(TEXTS[:1], options)


@pytest.mark.parametrize("source", ["<b>{name}</b> eats {{ x }}.", "<i>At 5 km</i> a dog: %s"])
def test_markup_and_alignment_know_them_as_words(translator: Translator, source: str) -> None:
    options = Options(beam=1, second_try=False, attention=True)
    [tagged] = translator.translate([source], options, format="html")
    plain = re.sub("<[^>]*>", "", source)
    [found] = translator.translate([plain], options)
    assert unescape(re.sub("<[^>]*>", "", tagged.text)).split() == found.text.split()
    assert tagged.text.count("<") == source.count("<")
    aligned = align(found.attention, source=plain, translation=found.text)
    assert aligned.source == tuple(plain.split())
    assert aligned.translation == tuple(found.text.split())
    assert not any(
        sign in token for one in found.attention for token in one.source for sign in SIGNS
    )


@needs_ctranslate2
def test_both_engines_give_the_same(folder: Path, translator: Translator) -> None:
    other = load(folder, "cpu", engine="auto")
    assert other.engine_name == "ctranslate2"
    for options in (Options(1, second_try=False), Options(4, n_best=2, second_try=False)):
        ours, theirs = (one.translate(TEXTS, options) for one in (translator, other))
        assert [one.text for one in ours] == [one.text for one in theirs]


@needs_ctranslate2
def test_a_shortlist_keeps_no_sign_from_being_written(folder: Path, tmp_path: Path) -> None:
    """Lists are made of texts, which have no signs: such sentences are searched without them."""
    src, tgt = write_pairs(tmp_path)
    narrow = shutil.copytree(folder, tmp_path / "model")
    make_shortlist(narrow, src=[src], tgt=[tgt], frequent=5, per_token=3)
    export_ctranslate2(narrow, tmp_path / "out", shortlist=True)
    options = Options(second_try=False)
    for path, engine in ((narrow, "torch"), (narrow, "auto"), (tmp_path / "out", "ctranslate2")):
        free, narrowed = (
            load(path, "cpu", engine=engine, shortlist=is_narrow).translate(TEXTS, options)  # type: ignore[arg-type]
            for is_narrow in (False, True)
        )
        assert [one.text for one in narrowed[:2]] == [one.text for one in free[:2]]
        assert narrowed[2].text != free[2].text


@needs_ctranslate2
def test_an_exported_model_says_what_is_missing(folder: Path, tmp_path: Path) -> None:
    export_ctranslate2(folder, tmp_path / "out")
    exported = load(tmp_path / "out", "cpu")
    for found, source in zip(exported.translate(TEXTS), TEXTS, strict=True):
        for value, count in zip(KEPT, occurrences(source), strict=True):
            assert (f"{value!r} is missing" in found.note) == (found.text.count(value) < count)


def test_other_exports_are_refused_in_one_line(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="placeholders as entries"):
        export_huggingface(folder, tmp_path / "out")
