"""One vocabulary: how the texts of one side become ids, and ids texts.

`bpe` (the paper's, §5.1), `unigram` and `wordpiece` learn their pieces over the bytes of UTF-8, so
they can encode any text, and decoding returns it exactly: in NFC form, or byte for byte where
normalisation is off; with plain punctuation where that was asked for. `characters` has an entry for
every character of the training text, spaces included, and is as exact; a character that it has not
seen becomes unknown. `whitespace` is for text that is already tokenized: spaces separate its
pieces, decoding joins words that were cut with `@@ `, and a piece that it has not seen becomes
unknown.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, groupby
from textwrap import shorten
from typing import Any, Literal, Self

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from transduce.errors import InputError
from transduce.text.punctuation import PLAIN
from transduce.text.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from transduce.text.tokenizer_schema import (
    CHARACTER,
    SHORT_WORDS,
    WORDS,
    check_description,
    encodes_words_alone,
)

Kind = Literal["bpe", "unigram", "wordpiece", "characters", "whitespace"]

UNKNOWN = "< unk >"
SPECIALS = {"< pad >": PAD_ID, UNKNOWN: UNK_ID, "< bos >": BOS_ID, "< eos >": EOS_ID}
"""The first four entries of every vocabulary. No text encodes to them: no piece has a space."""

TAG = re.compile(r"< 2([A-Za-z0-9][A-Za-z0-9_-]{0,30}) >")
"""The names of tags, which say what language to translate into. No text encodes to them either."""

TERM_MARKERS = ("< term >", "< /term >")
"""Stand before and after a hint: how a term of the source is translated. No text has them either.

Only vocabularies that were learnt for such hints have them (`data.terms`).
"""

PLACEHOLDERS = {f"< placeholder {n} >": chr(0xFDD0 + n) for n in range(8)}
"""Stand for parts of a text that are not translated, in training and in use (`data.placeholders`).

Texts have a sign in the place of such a part: characters that Unicode reserves, so that no text has
them. Only vocabularies that were learnt for it have these entries; each is one sign.
"""
SIGN = re.compile(f"[{''.join(PLACEHOLDERS.values())}]")

OTHER_SIDE = " "
"""Prefix of entries that only texts of the other side encode to: no piece of a text has a space."""

MAX_SIZE = 10_000_000


class Vocabulary:
    """Encodes and decodes the texts of one side, or of both."""

    def __init__(self, backend: Backend) -> None:
        """Wrap a tokenizer of the library; raise if it is not one that we could have made."""
        if any(backend.token_to_id(name) != special for name, special in SPECIALS.items()):
            raise InputError(f"its vocabulary must start with {list(SPECIALS)}")
        _check_ids(backend)
        self._backend = backend
        is_word_level = isinstance(backend.model, models.WordLevel)
        self.is_byte_level = isinstance(backend.decoder, decoders.ByteLevel)  # letters are bytes
        self.is_pretokenized = is_word_level and not self.is_byte_level  # spaces separate pieces
        # Whether a word is encoded alike in every text that has only single spaces:
        self.encodes_words_alone = not isinstance(
            backend.model, models.Unigram
        ) and encodes_words_alone(_described(backend.normalizer), _described(backend.pre_tokenizer))
        self.has_every_byte = self.is_byte_level and not is_word_level  # whatever the text was
        self.tags = _tags(backend)  # the id of each language's tag
        begin, end = (backend.token_to_id(name) for name in TERM_MARKERS)
        self.term_markers = None if begin is None or end is None else (begin, end)
        self.placeholders = _placeholders(backend) if self.is_byte_level else {}  # by their signs
        self._signs = {number: sign for sign, number in self.placeholders.items()}
        without_text = (PAD_ID, BOS_ID, EOS_ID, *(self.term_markers or ()), *self.tags.values())
        self._skipped = frozenset(without_text)

    @classmethod
    def learn(
        cls,
        lines: Iterable[str],
        *,
        kind: Kind,
        max_size: int,
        normalise: bool = True,
        plain_punctuation: bool = False,
        term_markers: bool = False,
        placeholders: bool = False,
    ) -> Self:
        """Learn a vocabulary of at most max_size entries from lines of text."""
        is_learned_whole = kind in ("characters", "whitespace")
        names = [*SPECIALS, *TERM_MARKERS[: 2 * term_markers]]
        names += PLACEHOLDERS if placeholders else ()
        least = len(names) + (1 if is_learned_whole else 256)
        if not least <= max_size <= MAX_SIZE:
            raise InputError(
                f"a vocabulary of kind {kind} has {least} to {MAX_SIZE:,} entries, not {max_size}"
            )
        backend, trainer = _untrained(kind, max_size, names)
        steps: list[normalizers.Normalizer] = [normalizers.NFC()] if normalise else []
        if plain_punctuation:
            signs = [(Regex(f"[{signs}]"), plain) for signs, plain in PLAIN.items()]
            steps += [normalizers.Replace(pattern, plain) for pattern, plain in signs]
        if steps:
            backend.normalizer = normalizers.Sequence(steps) if len(steps) > 1 else steps[0]
        backend.train_from_iterator(lines, trainer)
        # As added tokens the special names would be matched in text; as plain entries they are not.
        description = json.loads(backend.to_str()) | {"added_tokens": []}
        return cls(Backend.from_str(json.dumps(description)))

    @classmethod
    def from_description(cls, tree: Any) -> Self:
        """Hand a description to the library, once it is known to be one of ours."""
        check_description(tree)
        with _reporting_faults():
            return cls(Backend.from_str(json.dumps(tree)))  # not the text: its keys may be repeated

    def with_tags(self, languages: Iterable[str]) -> "Vocabulary":
        """Append a tag for each language that has none; all other entries keep their ids."""
        description = json.loads(self.to_json())
        entries = description["model"]["vocab"]
        for language in languages:
            if language not in self.tags and isinstance(entries, list):
                entries.append([tag_of(language), 0.0])
            elif language not in self.tags:
                entries[tag_of(language)] = len(entries)
        return type(self)(Backend.from_str(json.dumps(description)))

    def to_json(self, *, pretty: bool = False) -> str:
        """Return the entries and all settings as the library writes them."""
        return self._backend.to_str(pretty=pretty)

    @property
    def has_plain_punctuation(self) -> bool:
        """Whether it replaces typographic characters by those of a keyboard."""
        normalizer = self._backend.normalizer
        return normalizer is not None and all(
            normalizer.normalize_str(sign) == plain
            for signs, plain in PLAIN.items()
            for sign in signs
        )

    def __len__(self) -> int:
        return self._backend.get_vocab_size()

    def ids_by_entry(self) -> dict[str, int]:
        """Return the id of every entry by its name, without the mark of the other side."""
        names = self._backend.get_vocab(with_added_tokens=True)
        return {name.removeprefix(OTHER_SIDE): number for name, number in names.items()}

    def merges(self) -> list[tuple[str, str]] | None:
        """Return the merges of BPE, the first learnt first; None: it has other subwords."""
        if not (isinstance(self._backend.model, models.BPE) and self.is_byte_level):
            return None
        written = json.loads(self.to_json())["model"]["merges"]
        both = (pair.split(" ") if isinstance(pair, str) else pair for pair in written)
        return [(left, right) for left, right in both]

    def pieces(self, text: str) -> list[str]:
        """Return the parts of a text that no subword crosses, as letters that stand for bytes."""
        return [piece for piece, _ in self._backend.pre_tokenizer.pre_tokenize_str(text)]

    def ids_of(self, tokens: Iterable[str]) -> list[int]:
        """Return the ids of entries by their names; of other names, that of unknown text."""
        found = map(self._backend.token_to_id, tokens)
        return [UNK_ID if number is None else number for number in found]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode texts to ids, without BOS and EOS."""
        if self.placeholders and any(map(SIGN.search, texts)):
            return self._encoded_with_signs(texts)
        with _reporting_faults():
            return [encoding.ids for encoding in self._backend.encode_batch_fast(texts)]

    def _encoded_with_signs(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode what stands between signs, each of which is one entry."""
        parts = [SIGN.split(text) for text in texts]
        encoded = iter(self.encode(list(chain.from_iterable(parts))))
        rows = []
        for text, between in zip(texts, parts, strict=True):
            row = list(next(encoded))
            for sign, _ in zip(SIGN.findall(text), between[1:], strict=True):
                row.append(self.placeholders[sign])
                row += next(encoded)
            rows.append(row)
        return rows

    def normalised(self, text: str) -> str:
        """Return a text in the form that is encoded: normalised, as was asked for."""
        normalizer = self._backend.normalizer
        with _reporting_faults():
            return text if normalizer is None else str(normalizer.normalize_str(text))

    def decode(self, ids: Iterable[Sequence[int]]) -> list[str]:
        """Decode ids to texts; PAD, BOS, EOS, tags and markers of terms are skipped."""
        kept = [[token for token in row if token not in self._skipped] for row in ids]
        if self._signs and any(token in self._signs for row in kept for token in row):
            return [self._decoded_with_signs(row) for row in kept]
        with _reporting_faults():
            texts: list[str] = self._backend.decode_batch(kept, skip_special_tokens=False)
        return [self.as_decoded(text) for text in texts]

    def _decoded_with_signs(self, row: Sequence[int]) -> str:
        groups = groupby(row, key=self._signs.get)
        parts = (
            [sign] * len(list(some)) if sign else self.decode([list(some)]) for sign, some in groups
        )
        return "".join(chain.from_iterable(parts))

    def as_decoded(self, text: str) -> str:
        """Return a text as decoding writes it: words cut with `@@ ` are joined."""
        return text.replace("@@ ", "").removesuffix("@@") if self.is_pretokenized else text

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Return the pieces of ids, as the vocabulary writes them."""
        names = (self._backend.id_to_token(token) or UNKNOWN for token in ids)
        return [name.removeprefix(OTHER_SIDE) for name in names]


def tag_of(language: str) -> str:
    """Return the name of a language's tag."""
    name = f"< 2{language} >"
    if not TAG.fullmatch(name):
        raise InputError(f"{language!r} is no language: use a code such as en, pt-BR or zh-Hans")
    return name


def _tags(backend: Backend) -> dict[str, int]:
    """Find the tags among the entries, in the order of their ids."""
    entries = backend.get_vocab(with_added_tokens=True)
    found = ((TAG.fullmatch(name), number) for name, number in entries.items() if name[0] == "<")
    tags = {match[1]: number for match, number in found if match}
    return dict(sorted(tags.items(), key=lambda tag: tag[1]))


def _placeholders(backend: Backend) -> dict[str, int]:
    """Find the entries of signs; none, if one is missing."""
    ids = {sign: backend.token_to_id(name) for name, sign in PLACEHOLDERS.items()}
    return {} if None in ids.values() else {sign: ids[sign] or 0 for sign in ids}


@contextmanager
def _reporting_faults() -> Iterator[None]:
    """Turn what the library raises into an InputError: a plain exception, or a panic of Rust."""
    try:
        yield
    except BaseException as fault:
        if type(fault) is Exception or type(fault).__name__ == "PanicException":
            raise InputError(f"the tokenizer failed: {shorten(str(fault), 200)}") from fault
        raise


def _described(part: normalizers.Normalizer | pre_tokenizers.PreTokenizer | None) -> Any:
    return None if part is None else json.loads(part.__getstate__())


def _check_ids(backend: Backend) -> None:
    """Raise if a text could get an id without an embedding: a file may come from a stranger."""
    ids = sorted(backend.get_vocab(with_added_tokens=True).values())
    if ids != list(range(len(ids))):
        raise InputError("its ids must be 0, 1, 2 and so on")
    extras = {
        "added_tokens": backend.get_added_tokens_decoder(),
        "post_processor": backend.post_processor,
        "padding": backend.padding,
        "truncation": backend.truncation,
    }
    for name, extra in extras.items():
        if extra:
            raise InputError(f"it must have no {name}")


def _untrained(kind: Kind, max_size: int, names: list[str]) -> tuple[Backend, Any]:
    """Return a tokenizer that has only these entries, and what trains it."""
    train: Any = trainers  # the library leaves its trainers untyped
    common = {"vocab_size": max_size, "special_tokens": names, "show_progress": False}
    if kind == "whitespace":
        backend = Backend(models.WordLevel(unk_token=UNKNOWN))
        backend.pre_tokenizer = pre_tokenizers.Split(" ", "removed")
        return backend, train.WordLevelTrainer(**common)
    if kind == "characters":
        backend = Backend(models.WordLevel(unk_token=UNKNOWN))
        _read_as_bytes(backend, CHARACTER)
        return backend, train.WordLevelTrainer(**common)
    common["initial_alphabet"] = sorted(pre_tokenizers.ByteLevel.alphabet())
    unmarked = {"continuing_subword_prefix": ""}  # not "##": the space is part of the piece
    match kind:
        case "bpe":
            model: models.Model = models.BPE()
            trainer = train.BpeTrainer(**common)
        case "unigram":
            model, trainer = models.Unigram(), train.UnigramTrainer(unk_token=UNKNOWN, **common)
        case "wordpiece":
            model = models.WordPiece(unk_token=UNKNOWN, max_input_chars_per_word=2**31, **unmarked)
            trainer = train.WordPieceTrainer(**unmarked, **common)
    backend = Backend(model)
    _read_as_bytes(backend, SHORT_WORDS if kind == "wordpiece" else WORDS)
    return backend, trainer


def _read_as_bytes(backend: Backend, words: str) -> None:
    """Cut texts at a pattern that no piece crosses, and write their bytes as letters."""
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(words), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
