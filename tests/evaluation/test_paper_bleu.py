"""The paper's BLEU equals Moses' tokenizer, split compounds and multi-bleu, written out here."""

import math
import sys
from collections import Counter
from importlib.metadata import version
from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacremoses import MosesTokenizer  # type: ignore[import-untyped]

from transduce.errors import InputError
from transduce.evaluation.paper_bleu import (
    MissingMosesError,
    moses_tokenizer,
    paper_bleu,
    split_compounds,
)
from transduce.grammar import generate
from transduce.tasks.metrics import bleu

COMPOUNDS = [
    "Das ist z.B. der Nord-Süd-Konflikt, oder?",
    "Die CD-ROM kostet 5,30 Euro (im E-Mail-Shop).",
    'Er sagt: "So geht\'s nicht mit dem Rich-Text-Format!"',
    "A-b-c - d -e f- und 1990-2000 & Co.",
]
REFERENCES = [
    f"{pair.tgt} {compound}"
    for pair, compound in zip(generate(60, seed=8), cycle(COMPOUNDS), strict=False)
]


def with_changes(text: str, n: int) -> str:
    """Change the second half of a compound, drop a word, or lower-case one."""
    words = text.split()
    changes = [
        text.replace("-Süd", "-West").replace("-ROM", "-RW").replace("Text-", "TEXT-"),
        " ".join(words[:2] + words[3:]),
        " ".join([words[0].lower(), *words[1:]]),
        text,
    ]
    return changes[n % 3 if n % 7 else 3]


HYPOTHESES = [with_changes(text, n) for n, text in enumerate(REFERENCES)]


def multi_bleu(hypotheses: list[str], references: list[str]) -> float:
    """multi-bleu.perl with one reference: n-grams of words, of all sentences together."""
    matched, total = [0] * 4, [0] * 4
    length = reference_length = 0
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        words, wanted = hypothesis.split(), reference.split()
        length, reference_length = length + len(words), reference_length + len(wanted)
        for n in range(1, 5):
            ngrams, expected = (
                Counter(tuple(side[i : i + n]) for i in range(len(side) - n + 1))
                for side in (words, wanted)
            )
            total[n - 1] += sum(ngrams.values())
            matched[n - 1] += sum((ngrams & expected).values())
    if not all(matched):
        return 0.0
    brevity = min(1.0, math.exp(1 - reference_length / length))
    precisions = [m / t for m, t in zip(matched, total, strict=True)]
    return 100 * brevity * math.exp(sum(math.log(p) for p in precisions) / 4)


def cut(texts: list[str], language: str = "de") -> list[str]:
    """Tokenise with the library, and split compounds letter by letter."""
    tokenizer = MosesTokenizer(lang=language)
    cut = []
    for text in texts:
        words = []
        for word in tokenizer.tokenize(text):
            # A hyphen with a character on both sides; the one after it is not used again.
            out, i = "", 0
            while i < len(word):
                if word[i + 1 : i + 2] == "-" and i + 2 < len(word):
                    out += f"{word[i]} ##AT##-##AT## {word[i + 2]}"
                    i += 3
                else:
                    out += word[i]
                    i += 1
            words.append(out)
        cut.append(" ".join(words))
    return cut


def test_it_is_multi_bleu_of_tokenised_text_with_split_compounds() -> None:
    found = paper_bleu(HYPOTHESES, REFERENCES, language="de")
    assert 50 < found.score < 95
    assert found.score == pytest.approx(multi_bleu(cut(HYPOTHESES), cut(REFERENCES)), rel=1e-12)
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    theirs = metric.corpus_score(cut(HYPOTHESES), [cut(REFERENCES)])
    assert found.score == theirs.score
    assert found.signature == (
        f"moses:de|compounds:split|sacremoses:{version('sacremoses')}|{metric.get_signature()}"
    )
    assert "case:mixed|eff:no|tok:none|smooth:none|" in found.signature


def test_it_differs_from_sacrebleu_with_its_own_tokenizer() -> None:
    assert paper_bleu(HYPOTHESES, REFERENCES, language="de").score > 1 + (
        multi_bleu(HYPOTHESES, REFERENCES)
    )
    assert paper_bleu(HYPOTHESES, REFERENCES, language="de").score != pytest.approx(
        bleu(HYPOTHESES, REFERENCES).score, abs=0.01
    )


@given(st.lists(st.lists(st.sampled_from("abcdE"), max_size=8), min_size=1, max_size=6), st.data())
def test_it_is_multi_bleu_for_any_hypotheses(drawn: list[list[str]], data: st.DataObject) -> None:
    hypotheses = [" ".join(words) for words in drawn]
    wanted = st.lists(st.sampled_from("abcdE"), min_size=1, max_size=8)
    references = [" ".join(data.draw(wanted)) for _ in drawn]
    found = paper_bleu(hypotheses, references, language="de").score
    assert found == pytest.approx(multi_bleu(hypotheses, references), abs=1e-9)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rich-text format", "rich ##AT##-##AT## text format"),
        ("Nord-Süd-Dialog", "Nord ##AT##-##AT## Süd ##AT##-##AT## Dialog"),
        ("a-b-c", "a ##AT##-##AT## b-c"),  # as the original does: b is used up
        ("- a -b c- --", "- a -b c- --"),
        ("", ""),
    ],
)
def test_compounds_are_split_as_by_the_original(text: str, expected: str) -> None:
    assert split_compounds(text) == expected


def test_the_language_decides_about_apostrophes_and_abbreviations() -> None:
    date = "Am 3. Mai kam Prof. Ott bzgl. Nr. 3."
    assert moses_tokenizer("de")(date) == date
    assert moses_tokenizer("en")(date) == "Am 3 . Mai kam Prof. Ott bzgl . Nr. 3 ."
    assert moses_tokenizer("en")("it's so") == "it &apos;s so"
    assert moses_tokenizer("fr")("l'eau") == "l&apos; eau"


def test_case_counts_and_no_match_of_four_words_is_zero() -> None:
    assert paper_bleu(["Das ist ja gut so"], ["Das ist ja gut so"], language="de").score == (
        pytest.approx(100)
    )
    assert paper_bleu(["das ist ja gut"], ["Das ist ja gut"], language="de").score == 0


def test_mistakes_are_refused() -> None:
    with pytest.raises(InputError, match="1 translation but 2 references"):
        paper_bleu(["x"], ["x", "y"], language="de")
    with pytest.raises(InputError, match="no language 'German': give a code"):
        paper_bleu(["x"], ["x"], language="German")


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(MissingMosesError, match=r"pip install 'transduce\[paper\]'"):
        paper_bleu(["x"], ["x"], language="de")
