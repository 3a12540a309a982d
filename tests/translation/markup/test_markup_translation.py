"""Documents through real models and engines: markup stays, words are those of the plain text."""

import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import transduce
from tests.text.markup.random_documents import html_document, is_valid, tags_of, xml_document
from tests.translation.likely import LikelyModel, learnt_tokenizer, random_model, saved, sentences
from transduce.errors import InputError
from transduce.models.attention import attention_of
from transduce.search.ensemble import Ensemble
from transduce.text.markup.document import MarkupFormat, read_markup
from transduce.text.special_ids import EOS_ID
from transduce.translation.alignment.text_weights import mutual, tokens_of_words
from transduce.translation.options import Options
from transduce.translation.translator import Translator

LOADED = random_model(seed=5, max_positions=24)
ENGINES = ("torch", "ctranslate2")
GREEDY = Options(beam=1, second_try=False)
PAGE = """<h1 class="a">The <b>dog</b> sleeps.</h1>\r
<!-- not this --><p>I see &lt;<i>the</i> house&gt; &amp; <a href="?a=1&b=2">the <b>car</b></a>!
<ul><li>One<li><code>x</code></ul><pre>  as it
 is</pre>"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("marked") / "model", LOADED)


@pytest.fixture(scope="module")
def translators(folder: Path) -> dict[str, Translator]:
    return {
        "torch": transduce.load(folder, "cpu"),
        "ctranslate2": transduce.load(folder, "cpu", engine="ctranslate2"),
    }


def copying(max_positions: int = 1024) -> Translator:
    """A model that repeats what it reads."""
    model = LikelyModel(lambda ids: [(ids, 1.0)])
    return Translator(model, learnt_tokenizer(), max_positions=max_positions, by_sentence=True)


def test_a_model_that_copies_changes_no_byte() -> None:
    [result] = copying().translate([PAGE], format="html")
    assert result.text == PAGE
    assert (result.source, result.note, result.is_finished) == (PAGE, "", True)


@pytest.mark.parametrize("max_positions", [12, 1024])
def test_markup_survives_sentence_ends_and_cuts(max_positions: int) -> None:
    page = (
        "<p>She is <b>dancing now. Please listen</b> to my <i>grand</i>mother! Did <u>we</u> see?"
    )
    [result] = copying(max_positions).translate([page], format="html")
    assert result.text == page.replace("</i>mother", "mother</i>")  # whole words


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("form", ["html", "xml"])
def test_valid_documents_stay_valid_with_any_model(
    translators: dict[str, Translator], engine: str, form: MarkupFormat
) -> None:
    draw = random.Random(3)  # noqa: S311 - a test, not a secret
    make = html_document if form == "html" else xml_document
    documents = [make(draw, sentences(8)) for _ in range(3)]
    results = translators[engine].translate(documents, GREEDY, format=form)
    for document, result in zip(documents, results, strict=True):
        assert result.source == document
        assert is_valid(result.text, form)
        assert tags_of(result.text, form) == tags_of(document, form)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_words_are_those_of_the_text_without_tags(
    translators: dict[str, Translator], engine: str
) -> None:
    document = read_markup(
        "<p>The <b>old <i>dog</i></b> sees my <u>house</u>.<p>It <b>is</b> late.", "html"
    )
    options = Options(beam=3, n_best=2, second_try=False)
    marked = translators[engine].translate(document.lines, options)
    plain = translators[engine].translate([line.text for line in document.lines], options)
    for one, other in zip(marked, plain, strict=True):
        assert [score for _, score in one.alternatives] == [s for _, s in other.alternatives]
        for (text, _), (words, _) in zip(one.alternatives, other.alternatives, strict=True):
            for tag in ("<b>", "</b>", "<i>", "</i>", "<u>", "</u>"):
                text = text.replace(tag, "")
            assert text == document.lines[0].reader.written(words)


def test_a_document_is_translated_the_same_alone_and_among_others(
    translators: dict[str, Translator],
) -> None:
    texts = [f"<p>{one} <b>And</b> so on.</p>" for one in sentences(3)]
    together = translators["torch"].translate(texts, GREEDY, format="html")
    alone = [translators["torch"].translate([text], GREEDY, format="html")[0] for text in texts]
    assert [one.text for one in together] == [one.text for one in alone]


def test_an_ensemble_aligns_by_its_first_model_with_attention() -> None:
    ensemble = Translator(
        Ensemble([LOADED.model, LOADED.model]), LOADED.tokenizer, max_positions=24
    )
    single = Translator(LOADED.model, LOADED.tokenizer, max_positions=24)
    page = "<p>The <b>old</b> dog <i>sees</i> me</p>"
    [one], [other] = (t.translate([page], GREEDY, format="html") for t in (ensemble, single))
    assert one.text == other.text


def test_both_engines_give_the_attention_of_a_single_sentence(
    translators: dict[str, Translator],
) -> None:
    tokenizer = LOADED.tokenizer
    src = tokenizer.encode_batch(list(sentences(2)))
    tgt = tokenizer.encode_targets(["Der Hund", "Ein Haus ist da."])
    pairs = [(one[:20], other[:20]) for one, other in zip(src, tgt, strict=True)]
    for name in ENGINES:
        found = translators[name]._engine.cross_attention([*pairs, (src[0][:5], [])])
        assert found is not None
        assert found[2].shape[1:] == (0, 6)
        for weights, (one, other) in zip(found, pairs, strict=False):
            expected = attention_of(LOADED.model, tokenizer, one, [*other, EOS_ID]).cross
            np.testing.assert_allclose(
                weights[-1], expected[-1].mean(axis=0)[: len(other)], atol=1e-5
            )


def test_prefixes_and_unknown_formats_are_refused(translators: dict[str, Translator]) -> None:
    with pytest.raises(InputError, match="prefixes"):
        translators["torch"].translate(["<p>a"], prefixes=["b"], format="html")
    with pytest.raises(InputError, match="pdf"):
        translators["torch"].translate(["<p>a"], format="pdf")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="list"):
        translators["torch"].translate("<p>a", format="html")


@pytest.mark.parametrize(
    ("text", "pieces", "tokens"),
    [
        ("a bc d", [b"a", b" b", b"c", b" d"], [(0, 1), (1, 3), (3, 4)]),
        ("e\u0301t “x”", ["é".encode(), b"t", b' "', b"x", b'"'], [(0, 2), (2, 5)]),
        ("日本", [b"\xe6\x97", b"\xa5\xe6\x9c", b"\xac"], [(0, 2)]),
        ("ab cd", [b"ab"], [(0, 1), (0, 1)]),
        ("ab", [], [(0, 0)]),
    ],
)
def test_words_have_the_tokens_of_their_letters(
    text: str, pieces: list[bytes | None], tokens: list[tuple[int, int]]
) -> None:
    places = [0, *(i + 1 for i, sign in enumerate(text) if sign == " "), len(text) + 1]
    words = [(start, end - 1) for start, end in pairwise(places)]
    found = tokens_of_words(text, words, pieces)
    assert [(one.start, one.stop) for one in found] == tokens


def test_a_word_belongs_to_the_one_that_depends_on_it_most() -> None:
    weights = np.array([[0.1, 0.5, 0.4], [0.0, 0.9, 0.1]])
    assert mutual(weights).argmax(axis=1).tolist() == [2, 1]
    np.testing.assert_allclose(mutual(weights).sum(axis=1), 1)
    assert mutual(np.zeros((2, 0))).shape == (2, 0)
