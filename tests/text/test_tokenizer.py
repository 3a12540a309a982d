"""Every text comes back from its ids, and no foreign file is trusted."""

import json
import sys
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from transduce.errors import InputError
from transduce.text.punctuation import with_plain_punctuation
from transduce.text.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from transduce.text.tokenizer import SPECIALS, Kind, Learning, Tokenizer

LINES = [
    "The old house stands near the river.",
    "Das alte Haus steht am Fluss.",
    "Ein schöner Tag beginnt früh, 1999 oder 2024.",
    "日本語には空白がない。",
    "한국어 문장도 있습니다.",
] * 20
BYTE_KINDS: list[Kind] = ["bpe", "unigram", "wordpiece"]

# Letters, signs, spaces of all kinds, emoji, combining accents, other scripts.
texts = st.text(max_size=40) | st.text(
    "aé\u0065\u0301\u0300 \t\n\r\u2028\u00a0\x00\ufeff한글ᄒ日本\U0001f469\u200d🙂<>⟨⟩@#Ġ",
    max_size=40,
)


@cache
def learned(kind: Kind, **how: bool) -> Tokenizer:
    return Tokenizer.learn(LINES, kind=kind, vocab_size=450, **how)


@pytest.mark.parametrize("kind", BYTE_KINDS)
@given(text=texts)
def test_any_text_comes_back_as_its_nfc_form(kind: Kind, text: str) -> None:
    tokenizer = learned(kind)
    assert tokenizer.decode_batch(tokenizer.encode_batch([text])) == [
        unicodedata.normalize("NFC", text)
    ]


@pytest.mark.parametrize("kind", BYTE_KINDS)
@given(text=texts)
def test_without_normalisation_any_text_comes_back_byte_for_byte(kind: Kind, text: str) -> None:
    tokenizer = learned(kind, normalise=False)
    assert tokenizer.decode_batch(tokenizer.encode_batch([text])) == [text]


KEYBOARD = str.maketrans(
    dict.fromkeys("“”„‟«»", '"')
    | dict.fromkeys("‘’‚‛‹›´", "'")
    | dict.fromkeys("‐‑‒–—―−", "-")
    | {chr(n): " " for n in range(sys.maxunicode) if unicodedata.category(chr(n)) == "Zs"}
    | {"…": "..."}
)


@pytest.mark.parametrize("kind", BYTE_KINDS)
@given(text=st.text([*map(chr, KEYBOARD), *"ab\t\n'\"e\u0301日🙂"], max_size=40))
def test_plain_punctuation_is_that_of_a_keyboard_and_the_rest_comes_back(
    kind: Kind, text: str
) -> None:
    tokenizer = learned(kind, plain_punctuation=True)
    plain = unicodedata.normalize("NFC", text).translate(KEYBOARD)
    assert tokenizer.decode_batch(tokenizer.encode_batch([text])) == [plain]
    assert tokenizer.encode_targets([text]) == tokenizer.encode_batch([plain])
    assert with_plain_punctuation(unicodedata.normalize("NFC", text)) == plain


def test_punctuation_is_plain_if_every_sign_is_and_on_both_sides(tmp_path: Path) -> None:
    plain, kept = (learned("bpe", plain_punctuation=is_plain) for is_plain in (True, False))
    assert plain.has_plain_punctuation
    assert not kept.has_plain_punctuation
    assert learned("whitespace", plain_punctuation=True).has_plain_punctuation
    plain.save(tmp_path / "plain.json")
    kept.save(tmp_path / "kept.json")
    files = [
        json.loads((tmp_path / f"{name}.json").read_text("utf-8")) for name in ("plain", "kept")
    ]
    source, target = files[0], files[0] | {"normalizer": files[1]["normalizer"]}
    assert not Tokenizer.parse(
        json.dumps({"source": source, "target": target})
    ).has_plain_punctuation
    some = source["normalizer"]["normalizers"][:-1]
    fewer = source | {"normalizer": source["normalizer"] | {"normalizers": some}}
    assert not Tokenizer.parse(json.dumps(fewer)).has_plain_punctuation


def test_plain_punctuation_holds_for_pretokenized_text() -> None:
    tokenizer = Tokenizer.learn(
        ["er sagte „ ja “"], kind="whitespace", vocab_size=99, plain_punctuation=True
    )
    encoded = tokenizer.encode_batch(['er sagte " ja "', "er sagte « ja »"])
    assert tokenizer.decode_batch(encoded) == ['er sagte " ja "'] * 2


@pytest.mark.parametrize("kind", [*BYTE_KINDS, "whitespace"])
@given(text=texts | st.sampled_from(list(SPECIALS)))
def test_no_text_encodes_to_pad_bos_or_eos(kind: Kind, text: str) -> None:
    [ids] = learned(kind).encode_batch([text])
    assert not {PAD_ID, BOS_ID, EOS_ID} & set(ids)
    assert kind == "whitespace" or UNK_ID not in ids


@pytest.mark.parametrize("kind", BYTE_KINDS)
def test_frequent_sequences_of_letters_become_one_piece(kind: Kind) -> None:
    tokenizer = learned(kind)
    [ids] = tokenizer.encode_batch(["the old house"])
    assert len(ids) < len("the old house")
    assert len(tokenizer) <= 450


@pytest.mark.parametrize("kind", [*BYTE_KINDS, "whitespace"])
def test_a_saved_tokenizer_is_the_same_when_loaded_also_by_the_library(
    kind: Kind, tmp_path: Path
) -> None:
    path = tmp_path / "tokenizer.json"
    learned(kind).save(path)
    expected = learned(kind).encode_batch(LINES[:5])
    assert Tokenizer.load(path).encode_batch(LINES[:5]) == expected
    theirs = tokenizers.Tokenizer.from_file(str(path))
    assert [theirs.encode(line).ids for line in LINES[:5]] == expected


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "whitespace"])  # unigram's sums vary in order
def test_learning_again_gives_the_same_file(kind: Kind, tmp_path: Path) -> None:
    for name in ("first", "again"):
        Tokenizer.learn(iter(LINES), kind=kind, vocab_size=450).save(tmp_path / name)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "again").read_bytes()


def test_pretokenized_text_keeps_its_pieces_and_is_joined() -> None:
    tokenizer = Tokenizer.learn(
        ["ein scho@@ ener tag", "ein tag"], kind="whitespace", vocab_size=99
    )
    encoded = tokenizer.encode_batch(["ein scho@@ ener tag", "tag nacht", "ein scho@@"])
    assert [tokenizer.tokens(ids) for ids in encoded] == [
        ["ein", "scho@@", "ener", "tag"],
        ["tag", "< unk >"],
        ["ein", "scho@@"],
    ]
    assert tokenizer.decode_batch(encoded) == ["ein schoener tag", "tag < unk >", "ein scho"]


def test_special_ids_are_skipped_in_decoding() -> None:
    tokenizer = learned("bpe")
    [ids] = tokenizer.encode_batch(["the river"])
    assert tokenizer.decode_batch([[BOS_ID, *ids, EOS_ID, PAD_ID]]) == ["the river"]


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b'{"model": null}', b"[" * 10_000])
def test_a_file_that_is_not_a_tokenizer_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"tokenizer\.json is not a tokenizer"):
        Tokenizer.load(path)


def test_a_foreign_vocabulary_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    learned("bpe").save(path)
    description = json.loads(path.read_text())
    description["model"]["vocab"]["< pad >"] = 1
    path.write_text(json.dumps(description))
    with pytest.raises(InputError, match=r"must start with"):
        Tokenizer.load(path)
    with pytest.raises(InputError, match=r"cannot read .*none: No such file"):
        Tokenizer.load(tmp_path / "none")


@pytest.mark.parametrize(
    ("kind", "size"), [("bpe", 259), ("unigram", 0), ("whitespace", 4), ("bpe", 2**40)]
)
def test_an_impossible_size_is_refused(kind: Kind, size: int) -> None:
    with pytest.raises(InputError, match=f"entries, not {size}"):
        Tokenizer.learn(LINES, kind=kind, vocab_size=size)


def test_a_long_word_takes_linear_time() -> None:
    run = "abcdefghij" * 5000
    tokenizer = learned("wordpiece")
    assert tokenizer.decode_batch(tokenizer.encode_batch([run])) == [run]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"model": {"vocab": {"far": 1_000_000}}}, "its ids must be"),
        ({"padding": {"pad_id": 10**6, "strategy": {"Fixed": 9}}}, "padding"),
        ({"truncation": {"max_length": 1}}, "truncation"),
        ({"added_tokens": {"id": 450, "content": "the"}}, "added_tokens"),
    ],
)
def test_a_file_that_could_give_ids_without_an_embedding_is_refused(
    change: dict[str, Any], named: str, tmp_path: Path
) -> None:
    """A stranger's model folder must not index beyond the embedding."""
    learned("bpe").save(tmp_path / "good.json")
    description = json.loads((tmp_path / "good.json").read_text(encoding="utf-8"))
    usual = {
        "padding": {
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_type_id": 0,
            "pad_token": "x",
        },
        "truncation": {"direction": "Right", "strategy": "LongestFirst", "stride": 0},
        "added_tokens": dict.fromkeys(
            ["single_word", "lstrip", "rstrip", "normalized", "special"], False
        ),
    }
    for name, value in change.items():
        if name == "model":
            description["model"]["vocab"] |= value["vocab"]
        else:
            whole = usual[name] | value
            description[name] = [whole] if name == "added_tokens" else whole
    (tmp_path / "bad.json").write_text(json.dumps(description), encoding="utf-8")
    with pytest.raises(InputError, match=named):
        Tokenizer.load(tmp_path / "bad.json")


@given(text=st.text("".join(sorted(set("".join(LINES)))), max_size=40))
def test_characters_that_were_seen_come_back_one_by_one(text: str) -> None:
    vocabulary = learned("characters").source
    [ids] = vocabulary.encode([text])
    assert len(ids) == len(text)
    assert UNK_ID not in ids
    assert vocabulary.decode([ids]) == [text]


@given(text=texts)
def test_a_character_that_was_not_seen_is_unknown(text: str) -> None:
    known = set("".join(LINES))
    normal = unicodedata.normalize("NFC", text)
    [ids] = learned("characters").encode_batch([text])
    assert [token == UNK_ID for token in ids] == [letter not in known for letter in normal]


def separate() -> Tokenizer:
    return Tokenizer.learn_separately(
        LINES,
        ["A B C", "C A"],
        source=Learning("characters", 900),
        target=Learning("whitespace", 900),
    )


def test_sides_with_ids_of_their_own_come_back_from_the_file(tmp_path: Path) -> None:
    tokenizer = separate()
    tokenizer.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.to_json() == tokenizer.to_json()
    assert not again.is_shared
    assert (again.src_size, len(again)) == (len(set("".join(LINES))) + 4, 3 + 4)
    assert again.encode_batch(["Tag"]) == tokenizer.encode_batch(["Tag"])
    assert again.decode_batch(again.encode_targets(["C A D"])) == ["C A < unk >"]
    for name, number in SPECIALS.items():
        assert again.source.tokens([number]) == again.target.tokens([number]) == [name]


@pytest.mark.parametrize("mark", [False, 1, "yes", None])
def test_a_mark_of_separate_sides_is_true_or_missing(mark: object) -> None:
    tree = json.loads(separate().to_json())
    with pytest.raises(InputError, match="separate_vocabularies: true"):
        Tokenizer.parse(json.dumps(tree | {"separate_vocabularies": mark}))
    with pytest.raises(InputError, match="separate_vocabularies: true"):
        Tokenizer.parse(json.dumps(tree | {"more": 1}))
    del tree["separate_vocabularies"]
    with pytest.raises(InputError, match="source and target differ in entries"):
        Tokenizer.parse(json.dumps(tree))
