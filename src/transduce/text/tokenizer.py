"""Subwords: text to ids and back, in one JSON file that the `tokenizers` library reads too.

`bpe` (the paper's, §5.1), `unigram` and `wordpiece` learn their pieces over the bytes of UTF-8, so
no text is unknown to them and every text comes back exactly: as its NFC form, or byte for byte
where normalisation is off, and in either case with plain punctuation where that was asked for.
`whitespace` takes text that is already cut: its pieces are what stands between spaces, joins
written as `@@ ` are undone on decoding, and a piece that training never saw becomes unknown.

A vocabulary that was imported may cut source and target differently: its file holds both ways,
under `source` and `target`.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from transduce.errors import InputError
from transduce.text.punctuation import PLAIN
from transduce.text.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID

Kind = Literal["bpe", "unigram", "wordpiece", "whitespace"]

UNKNOWN = "< unk >"
SPECIALS = {"< pad >": PAD_ID, UNKNOWN: UNK_ID, "< bos >": BOS_ID, "< eos >": EOS_ID}
"""The first four entries of every vocabulary. No text encodes to them: no piece has a space."""

OTHER_SIDE = " "
"""Stands before entries that only the other side's texts have: no piece of a text has a space."""

BETWEEN_WORDS = r" ?[\p{L}\p{M}]+| ?\p{N}+| ?[^\s\p{L}\p{M}\p{N}]+|\s+"
"""Pieces stay within a word with the space before it, a number, a run of signs or of spaces."""

SHORT_RUNS = BETWEEN_WORDS.replace("+", "{1,64}")
"""The same, cut after 64 characters: the search for word pieces is cubic in the length of a run."""

TWO_WAYS = '{"source":'
"""How the file of a vocabulary begins that cuts source and target differently."""


class Tokenizer:
    """Cuts text into the pieces of one vocabulary, shared by source and target."""

    def __init__(self, backend: Backend, target: Backend | None = None) -> None:
        """Take the way to cut text; where the target's differs, both, with the same ids."""
        for one in (backend, target or backend):
            if any(one.token_to_id(name) != special for name, special in SPECIALS.items()):
                raise InputError(
                    f"not a vocabulary of transduce: it must start with {list(SPECIALS)}"
                )
            _check_ids(one)
        if target is not None and _entries(backend) != _entries(target):
            raise InputError("not a vocabulary of transduce: source and target differ in entries")
        self._backend = backend
        self._target = target
        self._is_cut = isinstance(backend.model, models.WordLevel)

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
        # As added tokens the special names would be found in text; as plain entries they are not.
        description = json.loads(backend.to_str()) | {"added_tokens": []}
        return cls(Backend.from_str(json.dumps(description)))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote."""
        try:
            return cls.parse(path.read_text(encoding="utf-8"))
        except OSError as unreadable:
            raise InputError(f"cannot read {path}: {unreadable.strerror}") from unreadable
        except InputError as foreign:
            raise InputError(f"{path}: {foreign}") from foreign
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as malformed:  # the library raises nothing narrower, and it may panic
            raise InputError(f"{path} is not a tokenizer: {malformed}") from malformed

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what a file of `save` holds."""
        if not text.startswith(TWO_WAYS):
            return cls(Backend.from_str(text))
        both = json.loads(text)
        return cls(*(Backend.from_str(json.dumps(both[side])) for side in ("source", "target")))

    def save(self, path: Path) -> None:
        """Write the one file."""
        try:
            path.write_text(self._as_json(), encoding="utf-8")
        except OSError as fault:
            raise InputError(f"cannot write {path}: {fault.strerror}") from fault

    def _as_json(self) -> str:
        if self._target is None:
            return self._backend.to_str(pretty=True)
        ways = {"source": self._backend, "target": self._target}
        return json.dumps({side: json.loads(way.to_str()) for side, way in ways.items()})

    def with_dropout(self, p: float) -> Self:
        """Return a copy that skips each merge with probability p (BPE-dropout), for training."""
        if not isinstance(self._backend.model, models.BPE):
            raise InputError("BPE-dropout needs a vocabulary of kind bpe")
        if not 0 <= p <= 1:
            raise InputError(f"BPE-dropout is a probability from 0 to 1, not {p}")
        copy = Backend.from_str(self._backend.to_str())
        copy.model.dropout = p
        return type(self)(copy)

    @property
    def has_plain_punctuation(self) -> bool:
        """Whether typographic signs are those of a keyboard to it, in source and target."""
        return all(_writes_plainly(way.normalizer) for way in (self._backend, self._target) if way)

    def __len__(self) -> int:
        return self._backend.get_vocab_size()

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Turn texts of the source into ids, without beginning or end."""
        return [encoding.ids for encoding in self._backend.encode_batch_fast(texts)]

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """Do the same with texts of the target."""
        way = self._target or self._backend
        return [encoding.ids for encoding in way.encode_batch_fast(texts)]

    def decode_batch(self, ids: Iterable[Sequence[int]]) -> list[str]:
        """Turn ids back into texts; padding, beginning and end leave no trace."""
        silent = (PAD_ID, BOS_ID, EOS_ID)
        spoken = [[token for token in row if token not in silent] for row in ids]
        way = self._target or self._backend
        texts: list[str] = way.decode_batch(spoken, skip_special_tokens=False)
        return [self.as_decoded(text) for text in texts]

    def as_decoded(self, text: str) -> str:
        """Write a text of the target as its ids are decoded: words that were cut, joined again."""
        return _joined(text) if self._is_cut else text

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Name the pieces, as the vocabulary writes them."""
        names = (self._backend.id_to_token(token) or UNKNOWN for token in ids)
        return [name.removeprefix(OTHER_SIDE) for name in names]


def _writes_plainly(normalizer: normalizers.Normalizer | None) -> bool:
    return normalizer is not None and all(
        normalizer.normalize_str(sign) == plain for signs, plain in PLAIN.items() for sign in signs
    )


def _entries(backend: Backend) -> dict[str, int]:
    vocabulary = backend.get_vocab(with_added_tokens=True)
    return {name.removeprefix(OTHER_SIDE): number for name, number in vocabulary.items()}


def _check_ids(backend: Backend) -> None:
    """Raise if a text could get an id that no embedding has: a file may come from anybody."""
    ids = sorted(backend.get_vocab(with_added_tokens=True).values())
    if ids != list(range(len(ids))):
        raise InputError("not a vocabulary of transduce: its ids must be 0, 1, 2 and so on")
    extras = {
        "added_tokens": backend.get_added_tokens_decoder(),
        "post_processor": backend.post_processor,
        "padding": backend.padding,
        "truncation": backend.truncation,
    }
    for name, extra in extras.items():
        if extra:
            raise InputError(f"not a vocabulary of transduce: it must have no {name}")


def _untrained(kind: Kind, vocab_size: int) -> tuple[Backend, Any]:
    train: Any = trainers  # the library leaves its trainers untyped
    common = {"vocab_size": vocab_size, "special_tokens": list(SPECIALS), "show_progress": False}
    if kind == "whitespace":
        backend = Backend(models.WordLevel(unk_token=UNKNOWN))
        backend.pre_tokenizer = pre_tokenizers.Split(" ", "removed")
        return backend, train.WordLevelTrainer(**common)
    common["initial_alphabet"] = sorted(pre_tokenizers.ByteLevel.alphabet())
    unmarked = {"continuing_subword_prefix": ""}  # the space is in the piece: no need of ##
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
    runs = SHORT_RUNS if kind == "wordpiece" else BETWEEN_WORDS
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(runs), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    return backend, trainer


def _joined(text: str) -> str:
    return text.replace("@@ ", "").removesuffix("@@")
