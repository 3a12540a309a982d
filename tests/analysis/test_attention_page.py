"""The page is self-contained, has exact numbers, and is safe for any text."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.analysis.shown import attention, bytes_as_letters
from transduce.analysis.attention_page import STEPS, attention_page
from transduce.errors import InputError

NASTY = (
    """</script><script>alert(1)</script><!-- <img src=x onerror=alert(1)> "a" 'b' & ]]> $data"""
)


class Page(HTMLParser):
    """What a browser parses: the elements of a page, and the text in them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self._open = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open = tag
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append((self._open, data))

    def texts_in(self, tag: str) -> list[str]:
        return [text for inside, text in self.texts if inside == tag and text.strip()]

    @property
    def data(self) -> Any:
        return json.loads(self.texts_in("script")[0])

    @property
    def policy(self) -> str:
        [policy] = [at["content"] for _, at in self.elements if "http-equiv" in at]
        assert policy is not None
        return policy


def unpacked(text: str, *shape: int) -> NDArray[np.float64]:
    numbers = np.frombuffer(base64.b64decode(text), dtype="<u2")
    return numbers.reshape(shape) / STEPS


@pytest.fixture(scope="module")
def text() -> str:
    shown = attention(["A", "Ġman"], [bytes_as_letters(piece) for piece in ("Ein", " M", "änn")])
    return attention_page([shown], source="A man", translation="Ein Männ")


def test_the_weights_come_back_within_the_stated_precision(text: str) -> None:
    shown = attention(["A", "Ġman"], ["Ein", "ĠM", "Ã¤nn"])
    [part] = Page(text).data
    assert (part["layers"], part["heads"]) == (2, 3)
    for kind in ("encoder", "decoder", "cross"):
        weights = getattr(shown, kind)
        np.testing.assert_allclose(unpacked(part[kind], *weights.shape), weights, atol=1e-5)


def test_every_stack_has_its_own_shape() -> None:
    shown = attention(["a", "Ġb"], ["c"], n_layers=1, n_encoder_layers=3)
    [part] = Page(attention_page([shown], source="a b", translation="c")).data
    assert part["shapes"] == {
        "encoder": [3, 3, 3, 3],
        "decoder": [1, 3, 2, 2],
        "cross": [1, 3, 2, 3],
    }
    assert (part["layers"], part["heads"]) == (1, 3)  # those of the cross-attention
    weights = unpacked(part["encoder"], *part["shapes"]["encoder"])
    np.testing.assert_allclose(weights, shown.encoder, atol=1e-5)


def test_tokens_are_readable_and_say_which_word_they_are_of(text: str) -> None:
    [part] = Page(text).data
    assert part["target"] == {
        "tokens": ["Ein", "M", "änn", "‹end›"],
        "words": ["Ein", "Männ", "‹end›"],
        "wordOf": [0, 1, 1, 2],
        "ends": [2],
    }
    assert part["read"]["tokens"] == ["‹start›", "Ein", "M", "änn"]
    assert part["source"]["tokens"] == ["A", "man", "‹end›"]


def test_a_text_in_parts_has_the_weights_of_each() -> None:
    parts = [attention(["a"] * length, ["b"]) for length in (1, 4)]
    data = Page(attention_page(parts, source="", translation="")).data
    assert [len(part["source"]["tokens"]) for part in data] == [2, 5]


def test_weights_that_are_not_numbers_are_written_as_zero() -> None:
    shown = attention(
        ["a"], ["b"], n_layers=1, h=1, cross=np.full((1, 1, 2, 2), np.nan, np.float32)
    )
    [part] = Page(attention_page([shown], source="a", translation="b")).data
    assert not unpacked(part["cross"], 1, 1, 2, 2).any()


def test_an_empty_text_has_no_page() -> None:
    with pytest.raises(InputError, match="the text is empty"):
        attention_page([], source="", translation="")


# Self-contained


def test_the_page_loads_nothing(text: str) -> None:
    page = Page(text)
    own = {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert set(re.findall(r"https?://[^\s\"'<>]+", text)) <= own
    assert not re.search(r"@import|url\(|\bimport\s*\(|fetch\(|XMLHttpRequest|WebSocket", text)
    for tag, attributes in page.elements:
        assert tag not in {"link", "iframe", "object", "embed", "base", "img"}
        assert not {"src", "href", "srcset", "action"} & set(attributes)


def test_the_policy_allows_only_its_own_script_and_style(text: str) -> None:
    page = Page(text)
    rules = dict(rule.strip().split(" ", 1) for rule in page.policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["img-src"] == "blob:"
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        digest = base64.b64encode(hashlib.sha256(page.texts_in(tag)[-1].encode()).digest())
        assert rules[rule] == f"'sha256-{digest.decode()}'"


def test_there_are_no_handlers_or_styles_in_attributes(text: str) -> None:
    for _, attributes in Page(text).elements:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]


# Safe for any text


def test_text_is_never_parsed_as_markup() -> None:
    tokens = [bytes_as_letters(piece) for piece in (NASTY, f" {NASTY}")]
    nasty = Page(attention_page([attention(tokens, tokens)], source=NASTY, translation=NASTY))
    plain = Page(attention_page([attention(["a"], ["b"])], source="a", translation="b"))
    assert [tag for tag, _ in nasty.elements] == [tag for tag, _ in plain.elements]
    assert nasty.texts_in("dd") == [NASTY, NASTY]
    assert nasty.texts_in("title") == [f"Attention: {NASTY}"]
    [part] = nasty.data
    assert part["source"]["tokens"][:2] == [NASTY, NASTY]
    assert nasty.policy == plain.policy
    assert nasty.texts_in("script")[1:] == plain.texts_in("script")[1:]


def test_the_data_contains_no_character_of_a_tag() -> None:
    tokens = [bytes_as_letters("</SCRIPT >"), bytes_as_letters("<!--<script>\u2028&amp;")]
    text = attention_page([attention(tokens, tokens)], source="a", translation="b")
    data = Page(text).texts_in("script")[0]
    assert data.isascii()
    assert not set("<>&") & set(data)


# Accessible


def test_every_control_has_a_name(text: str) -> None:
    page = Page(text)
    ids = {at["id"] for _, at in page.elements if "id" in at}
    assert {"part", "kinds", "layers", "heads", "views", "average", "words", "summary"} <= ids
    assert ("html", {"lang": "en"}) in page.elements
    [summary] = [at for _, at in page.elements if at.get("id") == "summary"]
    assert summary["aria-live"] == "polite"
    assert len([tag for tag, _ in page.elements if tag == "fieldset"]) == len(
        page.texts_in("legend")
    )


@pytest.mark.parametrize(
    ("text", "language"),
    [("猫は寝る。", "ja"), ("猫在睡觉。", "zh"), ("고양이", "ko"), ("Die Katze", None)],
)
def test_a_text_names_its_language_and_with_it_its_fonts(text: str, language: str | None) -> None:
    page = Page(
        attention_page([attention(["a"], [bytes_as_letters(text)])], source="a", translation=text)
    )
    source, translation = [at for tag, at in page.elements if tag == "dd"]
    [picture] = [at for _, at in page.elements if at.get("id") == "picture"]
    assert source.get("lang") is None
    assert translation.get("lang") == picture.get("lang") == language
    assert f"{language}: '\"" in page.texts_in("script")[-1] or language is None
