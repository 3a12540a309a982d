"""Which tokens may follow a prefix whose last word is unfinished, for every kind of subwords."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers

from transduce.grammar import generate
from transduce.text.open_prefix import MAX_OPEN_BYTES, TokenTexts
from transduce.text.tokenizer import SPECIALS, Kind, Tokenizer
from transduce.text.vocabulary import Vocabulary

SENTENCES = [pair.tgt for pair in generate(300, seed=1)]
KINDS: tuple[Kind, ...] = ("bpe", "unigram", "wordpiece")


def learnt(kind: Kind) -> Tokenizer:
    return Tokenizer.learn(SENTENCES, kind=kind, vocab_size=500)


def sentencepiece() -> Tokenizer:
    pieces = ["▁Meine", "▁Schw", "ester", "▁Schwester", "▁", *"MeinSchwtr."]
    vocabulary = [(piece, -1.0 - place / 9) for place, piece in enumerate([*SPECIALS, *pieces])]
    backend = Backend(models.Unigram(vocabulary, unk_id=1, byte_fallback=False))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    return Tokenizer(Vocabulary(backend))


LEARNT = {kind: TokenTexts(learnt(kind)) for kind in KINDS}


def spellings(texts: TokenTexts, ending: bytes, *, limit: int = 40) -> Iterator[list[int]]:
    """Walk through what is allowed, up to the token that completes the ending."""
    following = texts.continuations(ending)
    assert following is not None
    ways: list[tuple[list[int], int]] = [([], 0)]
    ranked = sorted(range(len(texts.ranks)), key=texts.ranks.__getitem__)
    while ways and limit:
        ids, spelt = ways.pop()
        here = following[spelt]
        for token in ranked[here.first : here.end][:3]:
            limit -= 1
            yield [*ids, token]
        ways += [([*ids, token], spelt + texts.sizes[token]) for token in here.partial]


@given(
    kind=st.sampled_from(KINDS),
    sentence=st.sampled_from(SENTENCES) | st.text(st.characters(exclude_categories=["Cs", "Cc"])),
    end=st.integers(1, 60),
)
def test_everything_that_is_allowed_begins_with_the_text(
    kind: Kind, sentence: str, end: int
) -> None:
    tokenizer = LEARNT[kind]._tokenizer
    text = tokenizer.normalised_target(sentence[:end].strip())
    prefix = LEARNT[kind].opened(text)
    assert len(prefix.ending) <= MAX_OPEN_BYTES
    if prefix.ending:
        ways = [[*prefix.ids, *way] for way in spellings(LEARNT[kind], prefix.ending)]
        assert ways
        for found in tokenizer.decode_batch(ways):
            assert found.encode("utf-8", "replace").startswith(text.encode())


@pytest.mark.parametrize("kind", KINDS)
def test_the_tokens_of_the_whole_word_are_allowed(kind: Kind) -> None:
    texts = LEARNT[kind]
    for sentence in SENTENCES[:50]:
        word = sentence.split()[1]
        before, cut = sentence.split()[0], word[: max(1, len(word) - 2)]
        prefix = texts.opened(f"{before} {cut}")
        assert prefix.ids == texts._tokenizer.encode_targets([before])[0]
        assert prefix.ending.decode() == f" {cut}"
        following = texts.continuations(prefix.ending)
        assert following is not None
        spelt = 0
        for token in texts._tokenizer.encode_targets([f" {word}"])[0]:
            if spelt >= len(prefix.ending):
                break
            here = following[spelt]
            assert here.first <= texts.ranks[token] < here.end or token in here.partial
            spelt += texts.sizes[token]


def test_pieces_of_sentencepiece_have_a_space_before_the_first_word() -> None:
    texts = TokenTexts(sentencepiece())
    names = texts._tokenizer.tokens(range(len(texts.ranks)))
    assert texts.opened("Mei").ending == b" Mei"
    prefix = texts.opened("Meine Schwe")
    assert ([names[token] for token in prefix.ids], prefix.ending) == (["▁Meine"], b" Schwe")
    ways = [[names[token] for token in way] for way in spellings(texts, b" Schwe")]
    assert ["▁Schwester"] in ways
    assert ["▁Schw", "ester"] in ways


def test_words_of_text_that_is_tokenized_already_are_completed() -> None:
    lines = ["Meine Schwester tanzt .", "Meine Schw@@ ägerin ist Schw@@ immerin ."]
    texts = TokenTexts(Tokenizer.learn(lines, kind="whitespace", vocab_size=20))
    names = texts._tokenizer.tokens(range(len(texts.ranks)))
    assert texts.opened("Meine Schwes").ending == b"Schwes"
    ways = {tuple(names[token] for token in way) for way in spellings(texts, b"Schw")}
    assert ways == {("Schwester",), ("Schw@@",)}
    ways = {tuple(names[token] for token in way) for way in spellings(texts, "Schwä".encode())}
    assert ways == {("Schw@@", "ägerin")}


def test_what_no_tokens_can_spell_stays_with_its_tokens() -> None:
    texts = TokenTexts(Tokenizer.learn(["Meine Schwester"], kind="whitespace", vocab_size=20))
    prefix = texts.opened("Meine Tante")
    assert (len(prefix.ids), prefix.ending) == (2, b"")


def test_of_a_text_without_spaces_only_the_end_is_open() -> None:
    texts, text = LEARNT["bpe"], "日本語の文には空白がありません。" * 3
    prefix = texts.opened(text)
    assert 40 < len(prefix.ending) <= MAX_OPEN_BYTES
    [start] = texts._tokenizer.decode_batch([prefix.ids])
    assert start + prefix.ending.decode() == text
