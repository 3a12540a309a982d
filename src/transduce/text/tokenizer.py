"""Subwords: text to ids and back, in one JSON file that the `tokenizers` library reads too.

`bpe` (the paper's, §5.1), `unigram` and `wordpiece` learn their pieces over the bytes of UTF-8, so
they can encode any text, and decoding returns it exactly: in NFC form, or byte for byte where
normalisation is off; with plain punctuation where that was asked for. `whitespace` is for text that
is already tokenized: spaces separate its pieces, decoding joins words that were cut with `@@ `, and
a piece that was not seen in training becomes unknown.

An imported vocabulary may tokenize source and target differently. Its file then holds a tokenizer
for each, under `source` and `target`.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import shorten
from typing import Any, Literal, Self

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from transduce.errors import InputError
from transduce.files.errors import reporting_read_errors, reporting_write_errors
from transduce.files.regular import read_regular
from transduce.text.punctuation import PLAIN
from transduce.text.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from transduce.text.tokenizer_schema import (
    MAX_BYTES,
    SHORT_WORDS,
    WORDS,
    check_description,
    parse_description,
)

Kind = Literal["bpe", "unigram", "wordpiece", "whitespace"]

UNKNOWN = "< unk >"
SPECIALS = {"< pad >": PAD_ID, UNKNOWN: UNK_ID, "< bos >": BOS_ID, "< eos >": EOS_ID}
"""The first four entries of every vocabulary. No text encodes to them: no piece has a space."""

OTHER_SIDE = " "
"""Prefix of entries that only texts of the other side encode to: no piece of a text has a space."""

SIDES = ("source", "target")
"""The keys of a file with one tokenizer for the source and one for the target."""


class Tokenizer:
    """Encodes text with one vocabulary, shared by source and target."""

    def __init__(self, backend: Backend, target: Backend | None = None) -> None:
        """Wrap a tokenizer of the library; `target`, if it differs, must have the same ids."""
        for one in (backend, target or backend):
            if any(one.token_to_id(name) != special for name, special in SPECIALS.items()):
                raise InputError(f"its vocabulary must start with {list(SPECIALS)}")
            _check_ids(one)
        if target is not None and _entries(backend) != _entries(target):
            raise InputError("its source and target differ in entries")
        self._backend = backend
        self._target = target
        self.is_pretokenized = isinstance(backend.model, models.WordLevel)  # spaces separate pieces
        self.is_byte_level = isinstance(backend.decoder, decoders.ByteLevel)  # letters are bytes

    @classmethod
    def learn(
        cls,
        lines: Iterable[str],
        *,
        kind: Kind = "bpe",
        vocab_size: int,
        normalise: bool = True,
        plain_punctuation: bool = False,
    ) -> Self:
        """Learn a vocabulary of at most vocab_size entries from lines of both languages."""
        least = len(SPECIALS) + (1 if kind == "whitespace" else 256)
        if not least <= vocab_size <= 10_000_000:
            raise InputError(
                f"a vocabulary of kind {kind} has {least} to 10,000,000 entries, not {vocab_size}"
            )
        backend, trainer = _untrained(kind, vocab_size)
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
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote."""
        with reporting_read_errors(path):
            content = read_regular(path, max_bytes=MAX_BYTES)
        try:
            return cls.parse(content.decode())
        except InputError as foreign:
            raise InputError(f"{path} is not a tokenizer of transduce: {foreign}") from foreign
        except UnicodeDecodeError as undecodable:
            raise InputError(
                f"{path} is not a tokenizer of transduce: it is not UTF-8"
            ) from undecodable

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the content of a file that `save` wrote."""
        tree = parse_description(text)
        del text
        if tree.keys() == set(SIDES):
            return cls(*(_backend(tree[side]) for side in SIDES))
        return cls(_backend(tree))

    def save(self, path: Path) -> None:
        """Write the vocabulary and all settings to one JSON file."""
        text = self.to_json().encode()
        if len(text) > MAX_BYTES:
            raise InputError(
                f"{path} would have {len(text):,} bytes, but at most {MAX_BYTES:,} are read back: "
                "choose a smaller model.vocab_size"
            )
        with reporting_write_errors(path):
            path.write_bytes(text)

    def to_json(self) -> str:
        """Return the vocabulary and all settings as JSON."""
        if self._target is None:
            return self._backend.to_str(pretty=True)
        sides = {"source": self._backend, "target": self._target}
        return json.dumps({side: json.loads(one.to_str()) for side, one in sides.items()})

    @property
    def has_plain_punctuation(self) -> bool:
        """Whether it replaces typographic characters by those of a keyboard, on both sides."""
        sides = (self._backend, self._target)
        return all(_makes_punctuation_plain(side.normalizer) for side in sides if side)

    def __len__(self) -> int:
        return self._backend.get_vocab_size()

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode source texts to ids, without BOS and EOS."""
        return _encoded(self._backend, texts)

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode target texts to ids, without BOS and EOS."""
        return _encoded(self._target or self._backend, texts)

    def normalised_target(self, text: str) -> str:
        """Return a target text in the form that is encoded: normalised, as was asked for."""
        normalizer = (self._target or self._backend).normalizer
        with _reporting_faults():
            return text if normalizer is None else str(normalizer.normalize_str(text))

    def decode_batch(self, ids: Iterable[Sequence[int]]) -> list[str]:
        """Decode target ids to texts; PAD, BOS and EOS are skipped."""
        skipped = (PAD_ID, BOS_ID, EOS_ID)
        kept = [[token for token in row if token not in skipped] for row in ids]
        backend = self._target or self._backend
        with _reporting_faults():
            texts: list[str] = backend.decode_batch(kept, skip_special_tokens=False)
        return [self.as_decoded(text) for text in texts]

    def as_decoded(self, text: str) -> str:
        """Return a target text as decoding writes it: words cut with `@@ ` are joined."""
        return _joined(text) if self.is_pretokenized else text

    def entries(self) -> list[str]:
        """Return the text of every entry by its id; PAD, BOS and EOS have none."""
        return self.decode_batch([[entry] for entry in range(len(self))])

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Return the pieces of ids, as the vocabulary writes them."""
        names = (self._backend.id_to_token(token) or UNKNOWN for token in ids)
        return [name.removeprefix(OTHER_SIDE) for name in names]


@contextmanager
def _reporting_faults() -> Iterator[None]:
    """Turn what the library raises into an InputError: a plain exception, or a panic of Rust."""
    try:
        yield
    except BaseException as fault:
        if type(fault) is Exception or type(fault).__name__ == "PanicException":
            raise InputError(f"the tokenizer failed: {shorten(str(fault), 200)}") from fault
        raise


def _backend(tree: Any) -> Backend:
    """Hand a description to the library, once it is known to be one of ours."""
    check_description(tree)
    with _reporting_faults():
        return Backend.from_str(json.dumps(tree))  # and not the text, whose keys may be repeated


def _encoded(backend: Backend, texts: Sequence[str]) -> list[list[int]]:
    with _reporting_faults():
        return [encoding.ids for encoding in backend.encode_batch_fast(texts)]


def _makes_punctuation_plain(normalizer: normalizers.Normalizer | None) -> bool:
    return normalizer is not None and all(
        normalizer.normalize_str(sign) == plain for signs, plain in PLAIN.items() for sign in signs
    )


def _entries(backend: Backend) -> dict[str, int]:
    vocabulary = backend.get_vocab(with_added_tokens=True)
    return {name.removeprefix(OTHER_SIDE): number for name, number in vocabulary.items()}


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


def _untrained(kind: Kind, vocab_size: int) -> tuple[Backend, Any]:
    train: Any = trainers  # the library leaves its trainers untyped
    common = {"vocab_size": vocab_size, "special_tokens": list(SPECIALS), "show_progress": False}
    if kind == "whitespace":
        backend = Backend(models.WordLevel(unk_token=UNKNOWN))
        backend.pre_tokenizer = pre_tokenizers.Split(" ", "removed")
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
    words = SHORT_WORDS if kind == "wordpiece" else WORDS
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(words), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    return backend, trainer


def _joined(text: str) -> str:
    return text.replace("@@ ", "").removesuffix("@@")
