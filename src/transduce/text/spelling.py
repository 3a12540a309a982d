"""The text that vocabulary entries stand for: bytes as letters, SentencePiece's spaces, `@@`."""

from collections.abc import Sequence

from transduce.text.scripts import scripts_of_pieces
from transduce.text.tokenizer import SPECIALS, TAG, UNKNOWN, Tokenizer
from transduce.text.vocabulary import PLACEHOLDERS, TERM_MARKERS

WITHOUT_TEXT = frozenset([*SPECIALS, *TERM_MARKERS]) - {UNKNOWN}
_UNKNOWN_TEXT = "‹unk›"
_BEFORE_A_WORD = "▁"  # how SentencePiece writes a space
_JOINED = "@@"  # in pre-segmented text, at the end of a token whose word goes on


def spelled(tokens: Sequence[str], *, are_bytes: bool) -> list[bytes | None]:
    """Return the bytes of each token's text, spaces included; None for special tokens and tags.

    That of a placeholder is its sign.
    """
    if not are_bytes and any(_BEFORE_A_WORD in token for token in tokens):
        spell = _spelled_by_sentencepiece
    else:
        spell = _spelled_as_bytes if are_bytes else spelled_as_word
    return [
        None if has_no_text(token) else PLACEHOLDERS.get(token, "").encode() or spell(token)
        for token in tokens
    ]


def has_no_text(token: str) -> bool:
    """Whether a token stands for no text: BOS, EOS, padding, or the tag of a language."""
    return token in WITHOUT_TEXT or (token[:3] == "< 2" and TAG.fullmatch(token) is not None)


def scripts_of_vocabulary(tokenizer: Tokenizer) -> frozenset[str]:
    """Return the scripts of the text that the entries for the source were learnt from.

    Where all single bytes are entries whatever the text was, they tell nothing.
    """
    source = tokenizer.source
    names = source.tokens(range(len(SPECIALS), len(source)))
    pieces = (piece for piece in spelled(names, are_bytes=source.is_byte_level) if piece)
    return scripts_of_pieces(
        piece for piece in pieces if len(piece) > 1 or not source.has_every_byte
    )


def readable_tokens(tokens: Sequence[str], *, are_bytes: bool) -> list[str]:
    r"""Return the text of each token; joined, they are the text that was encoded.

    Special tokens keep their names. Where a character is divided between tokens, each shows its
    bytes of it, such as \xe6\x97.
    """
    return [
        token if piece is None or token == UNKNOWN else piece.decode(errors="backslashreplace")
        for token, piece in zip(tokens, spelled(tokens, are_bytes=are_bytes), strict=True)
    ]


def spelled_as_word(token: str) -> bytes:
    """Return a word of pre-segmented text with the space after it, or a part of one."""
    if token == UNKNOWN:
        return f"{_UNKNOWN_TEXT} ".encode()
    is_joined = token.endswith(_JOINED)
    return (token.removesuffix(_JOINED) if is_joined else f"{token} ").encode()


def _byte_letters() -> dict[str, int]:
    """Map letters to bytes: printable bytes are their own letters, the others from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = sorted(set(range(256)) - set(printable))
    return {chr(byte): byte for byte in printable} | {
        chr(0x100 + place): byte for place, byte in enumerate(others)
    }


_BYTE_OF = _byte_letters()


def _spelled_as_bytes(token: str) -> bytes:
    if token == UNKNOWN:
        return f"{_UNKNOWN_TEXT} ".encode()
    return b"".join(
        bytes([_BYTE_OF[letter]]) if letter in _BYTE_OF else letter.encode() for letter in token
    )


def _spelled_by_sentencepiece(token: str) -> bytes:
    return (_UNKNOWN_TEXT if token == UNKNOWN else token.replace(_BEFORE_A_WORD, " ")).encode()
