"""A tokenizer.json from a stranger is only read if it is made of what ours are made of."""

import base64
import copy
import importlib
import io
import json
import random
from pathlib import Path
from typing import Any

import pytest
from tokenizers import normalizers

from tests.command import Command
from tests.system.hostile_files import PARTS
from tests.translation.likely import random_model, saved
from transduce.errors import InputError
from transduce.text import tokenizer_schema
from transduce.text.charsmap import check_charsmap
from transduce.text.tokenizer import Kind, Tokenizer
from transduce.text.tokenizer_schema import parse_description, sentencepiece_tokenizer

LINES = ["the king sleeps", "der König schläft", "a b c d e f g"] * 20


def described(kind: Kind = "bpe", **options: Any) -> dict[str, Any]:
    return parse_description(Tokenizer.learn(LINES, kind=kind, vocab_size=300, **options).to_json())


@pytest.mark.parametrize(
    ("name", "part"),
    [(name, part) for name, parts in PARTS.items() for part in parts if part is not None],
    ids=lambda value: value if isinstance(value, str) else value.get("type", "settings"),
)
def test_a_part_that_is_not_ours_is_refused(name: str, part: Any) -> None:
    tree = described() | {name: part}
    with pytest.raises(InputError):
        Tokenizer.parse(json.dumps(tree))


@pytest.mark.parametrize("name", ["normalizer", "pre_tokenizer"])
def test_a_hostile_tokenizer_is_one_line_of_the_command(
    name: str, tmp_path: Path, command: Command
) -> None:
    """Nine replacements of a letter by ten would fill the memory; a nested repetition panics."""
    model = saved(tmp_path / "model", random_model(seed=5))
    tree = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))
    (model / "tokenizer.json").write_text(json.dumps(tree | {name: PARTS[name][0]}))
    (model / "checksums.json").unlink()
    message = command("translate", model, "--device", "cpu", given=b"the eel\n").mistake()
    assert message.startswith(f"{model / 'tokenizer.json'} is not a tokenizer of transduce: its ")


def changed(tree: dict[str, Any], **settings: Any) -> dict[str, Any]:
    return tree | {"model": tree["model"] | settings}


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("bpe", {"dropout": 0.5}),
        ("bpe", {"unk_token": "missing"}),
        ("bpe", {"continuing_subword_prefix": "x" * 1000}),
        ("bpe", {"end_of_word_suffix": "</w>"}),
        ("bpe", {"ignore_merges": 0}),
        ("bpe", {"merges": [["q", "zzz"]]}),
        ("bpe", {"merges": ["a"]}),
        ("bpe", {"merges": None}),
        ("bpe", {"more": 1}),
        ("unigram", {"unk_id": None}),
        ("unigram", {"unk_id": True}),
        ("unigram", {"vocab": [["a", float("nan")]]}),
        ("unigram", {"vocab": [["a", 1e300]]}),
        ("unigram", {"vocab": [["", 0.0]]}),
        ("unigram", {"vocab": {}}),
        ("wordpiece", {"unk_token": "none"}),
        ("wordpiece", {"max_input_chars_per_word": 2**62}),
        ("whitespace", {"vocab": {"a": 2**70}}),
        ("whitespace", {"vocab": {"a": True}}),
        ("whitespace", {"merges": [["a", "b"]]}),
        ("whitespace", {"type": "BPE"}),
        ("whitespace", {"type": []}),
    ],
)
def test_settings_of_a_model_that_are_not_ours_are_refused(
    kind: Kind, settings: dict[str, Any]
) -> None:
    with pytest.raises(InputError):
        Tokenizer.parse(json.dumps(changed(described(kind), **settings)))


def test_a_word_may_not_be_long_for_wordpiece() -> None:
    """Its time is cubic in the length of a word, so the words of other kinds are not for it."""
    tree = described("wordpiece") | {"pre_tokenizer": described("bpe")["pre_tokenizer"]}
    with pytest.raises(InputError, match="pre_tokenizer"):
        Tokenizer.parse(json.dumps(tree))


def test_of_a_repeated_key_the_library_sees_what_was_checked() -> None:
    text = json.dumps(described())
    hostile = json.dumps(PARTS["normalizer"][0])
    twice = text.replace('"normalizer"', f'"normalizer": {hostile}, "normalizer"', 1)
    tokenizer = Tokenizer.parse(twice)
    assert tokenizer.decode_batch(tokenizer.encode_batch(["the eel"])) == ["the eel"]


def test_what_a_later_library_writes_about_our_parts_is_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree = changed(described(), later=False)
    with pytest.raises(InputError, match="not ours"):
        Tokenizer.parse(json.dumps(tree))
    written = tokenizer_schema._as_written_by_library("BPE")
    monkeypatch.setattr(
        tokenizer_schema, "_as_written_by_library", lambda _kind: written | {"later": False}
    )
    tokenizer_schema.check_description(tree)


def test_a_large_file_is_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(described()))
    monkeypatch.setattr("transduce.text.tokenizer.MAX_BYTES", 1000)
    with pytest.raises(InputError, match=r"cannot read .* but such a file has at most 1,000"):
        Tokenizer.load(path)
    with pytest.raises(InputError, match="larger than any tokenizer"):
        parse_description("[" * 5_000_000)
    with pytest.raises(InputError, match="at most 1,000 are read back"):
        Tokenizer.learn(LINES, vocab_size=300).save(path)


def test_a_panic_of_the_library_is_an_input_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        pass

    class Panics:
        def encode_batch_fast(self, _texts: list[str]) -> None:
            raise PanicException("index out of bounds")

    tokenizer = Tokenizer.learn(LINES, vocab_size=300)
    monkeypatch.setattr(tokenizer.source, "_backend", Panics())
    with pytest.raises(InputError, match="the tokenizer failed: index out of bounds"):
        tokenizer.encode_batch(["a"])


@pytest.fixture(scope="module")
def charsmap() -> bytes:
    """The rules of NFKC, as SentencePiece stores them in a model."""
    sentencepiece = pytest.importorskip("sentencepiece", reason="it compiles the rules")
    proto: Any = importlib.import_module("sentencepiece.sentencepiece_model_pb2")
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=written, vocab_size=24, minloglevel=2
    )
    model = proto.ModelProto()
    model.ParseFromString(written.getvalue())
    return bytes(model.normalizer_spec.precompiled_charsmap)


def test_sound_rules_of_normalisation_are_used(charsmap: bytes) -> None:
    check_charsmap(charsmap)
    names = ["< pad >", "< unk >", "< bos >", "< eos >", "▁", "1", "2", "ff", "f"]
    one = sentencepiece_tokenizer([(name, -1.0) for name in names], charsmap)
    tokenizer = Tokenizer.parse(json.dumps({"source": one, "target": one}))
    assert tokenizer.normalised_target("ﬀ２") == "ff2"
    damaged = copy.deepcopy(one)
    damaged["normalizer"]["normalizers"][0]["precompiled_charsmap"] = base64.b64encode(
        charsmap[:5000]
    ).decode()
    with pytest.raises(InputError, match="table of normalised letters"):
        Tokenizer.parse(json.dumps({"source": one, "target": damaged}))


def test_damaged_rules_are_refused_or_harmless(charsmap: bytes) -> None:
    """The library would index beyond its table, and end the process."""
    draw = random.Random(1)  # noqa: S311 - the same flips every time
    every = "".join(chr(code) for code in range(1, 0x11000) if not 0xD800 <= code < 0xE000)
    refused = 0
    for _ in range(40):
        damaged = bytearray(charsmap)
        for _ in range(draw.choice([1, 5, 50])):
            damaged[draw.randrange(4, len(damaged))] ^= 1 << draw.randrange(8)
        try:
            check_charsmap(bytes(damaged))
        except InputError:
            refused += 1
            continue
        assert normalizers.Precompiled(bytes(damaged)).normalize_str(every)
    assert 0 < refused < 40


@pytest.mark.parametrize(
    "content",
    [b"", b"\0\0\0\0", b"\4\0\0\0", b"\5\0\0\0" + bytes(9), b"\xff\xff\xff\xff" + bytes(99)],
)
def test_rules_of_a_wrong_size_are_refused(content: bytes) -> None:
    with pytest.raises(InputError):
        check_charsmap(content)


def rules(replacement: bytes, *, place: int = 0) -> bytes:
    """Write the rules by which `a` is replaced by what begins at a place of the replacements."""
    units = [0] * 512
    units[0] = 256 << 10  # those after it begin at 256
    after_a = 256 ^ ord("a")
    units[after_a] = (1 << 10) | (1 << 8) | ord("a")  # the replacement of the text so far follows
    units[after_a ^ 1] = 2**31 | place
    trie = b"".join(unit.to_bytes(4, "little") for unit in units)
    return len(trie).to_bytes(4, "little") + trie + replacement


def test_a_replacement_is_a_short_text() -> None:
    sound = rules("ö".encode() + b"\0")
    check_charsmap(sound)
    assert normalizers.Precompiled(sound).normalize_str("a cat") == "ö cöt"
    for damaged, fault in (
        (rules(b"b" * 1000 + b"\0"), "too long"),
        (rules("ö".encode() + b"\0", place=1), "within a letter"),
        (rules(b"b\0", place=5), "outside"),
        (rules(b"b"), "outside"),
        (rules(b"\xff\0"), "not UTF-8"),
    ):
        with pytest.raises(InputError, match=fault):
            check_charsmap(damaged)
