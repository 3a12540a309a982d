"""All attention heads of all layers on one HTML page: links between words and heat maps.

Where a model has no self-attention, the page shows only how the translation attends to the source.

The page is one file that loads nothing. Its content security policy allows only its own script and
style, by their digests, and images that it makes itself.
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transduce.errors import InputError
from transduce.models.attention import Attention
from transduce.text.scripts import east_asian_language
from transduce.translation.alignment.words import Words, words_of

STEPS = 65_535
"""Weights are rounded to multiples of 1/65,535: the error is less than 0.00001."""


def attention_page(shown: Sequence[Attention], *, source: str, translation: str) -> str:
    """Return the page of a text and its translation; `shown` has the attention of each part.

    Weights are embedded as little-endian unsigned 16-bit integers in base64, in the order of
    `Attention`'s arrays, each a multiple of 1 / `STEPS`.
    """
    if not shown:
        raise InputError("no attention to show: the text is empty")
    style, script = _asset("page.css"), _asset("page.js")
    languages = [east_asian_language(text) for text in (source, translation)]
    return Template(_asset("page.html")).substitute(
        policy=_policy(style, script),
        style=style,
        script=script,
        source_lang=_lang(languages[0]),
        translation_lang=_lang(languages[1]),
        picture_lang=_lang(languages[0] or languages[1]),
        source=escape(source),
        translation=escape(translation),
        data=_as_script_data(packed_attention(shown)),
    )


def packed_attention(shown: Sequence[Attention]) -> list[dict[str, Any]]:
    """Return tokens, words and packed weights of each part of a text, ready for JSON."""
    return [_part(one) for one in shown]


def _lang(language: str) -> str:
    return f' lang="{language}"' if language else ""


def _asset(name: str) -> str:
    folder = files("transduce.analysis") / "attention_page"
    return (folder / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    def by_digest(text: str) -> str:
        digest = hashlib.sha256(text.encode()).digest()
        return f"'sha256-{base64.b64encode(digest).decode()}'"

    return (
        f"default-src 'none'; script-src {by_digest(script)}; style-src {by_digest(style)}; "
        "img-src blob:; base-uri 'none'; form-action 'none'"
    )


def _as_script_data(data: object) -> str:
    """Write JSON that cannot end the script element: <, >, & and all non-ASCII are escaped."""
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _part(one: Attention) -> dict[str, Any]:
    n_layers, h = one.cross.shape[:2]
    return {
        "layers": n_layers,
        "heads": h,
        "shapes": {kind: getattr(one, kind).shape for kind in ("encoder", "decoder", "cross")},
        "source": _side(words_of(one.source, are_bytes=one.source_are_bytes)),
        "read": _side(words_of(one.read, are_bytes=one.target_are_bytes)),
        "target": _side(words_of(one.target, are_bytes=one.target_are_bytes)),
        "encoder": _packed(one.encoder),
        "decoder": _packed(one.decoder),
        "cross": _packed(one.cross),
    }


def _side(words: Words) -> dict[str, Any]:
    return {
        "tokens": words.tokens,
        "words": words.words,
        "wordOf": words.word_of,
        "ends": sorted(words.ends),
    }


def _packed(weights: NDArray[np.float32]) -> str:
    within = np.nan_to_num(weights).clip(0, 1)
    return base64.b64encode((within * STEPS).round().astype("<u2").tobytes()).decode()
