"""Text to ids and back, for source and target, in one JSON file.

Usually source and target share one vocabulary (§5.1), and the file is one that the `tokenizers`
library reads too. Two other forms hold a tokenizer for each side, under `source` and `target`:

- an imported vocabulary may tokenize source and target differently, with the same ids for both;
- with `data.shared_vocabulary=false`, each side has its own ids. The file then says
  `"separate_vocabularies": true`.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from transduce.errors import InputError
from transduce.files.errors import reporting_read_errors, reporting_write_errors
from transduce.files.regular import read_regular
from transduce.text.tokenizer_schema import MAX_BYTES, has_separate_sides, parse_description
from transduce.text.vocabulary import OTHER_SIDE as OTHER_SIDE
from transduce.text.vocabulary import SPECIALS as SPECIALS
from transduce.text.vocabulary import TAG as TAG
from transduce.text.vocabulary import UNKNOWN as UNKNOWN
from transduce.text.vocabulary import Kind as Kind
from transduce.text.vocabulary import Vocabulary

SIDES = ("source", "target")
"""The keys of a file with one tokenizer for the source and one for the target."""

SEPARATE = "separate_vocabularies"
"""The key of a file whose sides have ids of their own."""


@dataclass(frozen=True)
class Learning:
    """What to learn for one side: the kind of vocabulary, and its maximum size."""

    kind: Kind
    max_size: int


class Tokenizer:
    """Encodes source and target: with one vocabulary, with one id for both, or with one each."""

    def __init__(
        self, source: Vocabulary, target: Vocabulary | None = None, *, is_shared: bool = True
    ) -> None:
        """Take one vocabulary for both sides, or two; with `is_shared`, these have the same ids."""
        if is_shared and target is not None and source.ids_by_entry() != target.ids_by_entry():
            raise InputError("its source and target differ in entries")
        if target is not None and source.tags.keys() != target.tags.keys():
            raise InputError("its source and target differ in the tags of languages")
        self.source = source
        self.target = target or source
        self.is_shared = is_shared

    @classmethod
    def learn(
        cls,
        lines: Iterable[str],
        *,
        kind: Kind = "bpe",
        vocab_size: int,
        normalise: bool = True,
        plain_punctuation: bool = False,
        term_markers: bool = False,
        placeholders: bool = False,
    ) -> Self:
        """Learn a vocabulary of at most vocab_size entries from lines of both languages."""
        return cls(
            Vocabulary.learn(
                lines,
                kind=kind,
                max_size=vocab_size,
                normalise=normalise,
                plain_punctuation=plain_punctuation,
                term_markers=term_markers,
                placeholders=placeholders,
            )
        )

    @classmethod
    def learn_separately(
        cls,
        sources: Iterable[str],
        targets: Iterable[str],
        *,
        source: Learning,
        target: Learning,
        plain_punctuation: bool = False,
        placeholders: bool = False,
    ) -> Self:
        """Learn a vocabulary for each side from its own lines."""
        learned = (
            Vocabulary.learn(
                lines,
                kind=one.kind,
                max_size=one.max_size,
                plain_punctuation=plain_punctuation,
                placeholders=placeholders,
            )
            for lines, one in ((sources, source), (targets, target))
        )
        return cls(*learned, is_shared=False)

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
        if not tree.keys() >= set(SIDES):
            return cls(Vocabulary.from_description(tree))
        is_shared = not has_separate_sides(tree, SIDES, SEPARATE)
        sides = (Vocabulary.from_description(tree[side]) for side in SIDES)
        return cls(*sides, is_shared=is_shared)

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
        if self.source is self.target:
            return self.source.to_json(pretty=True)
        tree: dict[str, Any] = {} if self.is_shared else {SEPARATE: True}
        sides = zip(SIDES, (self.source, self.target), strict=True)
        return json.dumps(tree | {side: json.loads(one.to_json()) for side, one in sides})

    def with_tags(self, languages: Iterable[str]) -> "Tokenizer":
        """Append a tag for each language that has none, on both sides."""
        wanted = list(languages)
        source = self.source.with_tags(wanted)
        target = None if self.target is self.source else self.target.with_tags(wanted)
        return type(self)(source, target, is_shared=self.is_shared)

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that it has tags for, in the order of their ids."""
        return tuple(self.target.tags)

    @property
    def has_plain_punctuation(self) -> bool:
        """Whether it replaces typographic characters by those of a keyboard, on both sides."""
        return self.source.has_plain_punctuation and self.target.has_plain_punctuation

    @property
    def has_placeholders(self) -> bool:
        """Whether it has entries for parts of a text that are not translated, on both sides."""
        return bool(self.source.placeholders and self.target.placeholders)

    @property
    def is_pretokenized(self) -> bool:
        """Whether spaces separate the pieces of a target text."""
        return self.target.is_pretokenized

    @property
    def is_byte_level(self) -> bool:
        """Whether the letters of target tokens stand for bytes."""
        return self.target.is_byte_level

    @property
    def src_size(self) -> int | None:
        """Entries of the source, where it has a vocabulary of its own; None: it is shared."""
        return None if self.is_shared else len(self.source)

    def __len__(self) -> int:
        """Return the number of target entries: of all, where source and target share them."""
        return len(self.target)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode source texts to ids, without BOS and EOS."""
        return self.source.encode(texts)

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode target texts to ids, without BOS and EOS."""
        return self.target.encode(texts)

    def normalised_target(self, text: str) -> str:
        """Return a target text in the form that is encoded: normalised, as was asked for."""
        return self.target.normalised(text)

    def decode_batch(self, ids: Iterable[Sequence[int]]) -> list[str]:
        """Decode target ids to texts; PAD, BOS, EOS and tags are skipped."""
        return self.target.decode(ids)

    def as_decoded(self, text: str) -> str:
        """Return a target text as decoding writes it: words cut with `@@ ` are joined."""
        return self.target.as_decoded(text)

    def entries(self) -> list[str]:
        """Return the text of every target entry by its id; PAD, BOS, EOS and tags have none."""
        return self.decode_batch([[entry] for entry in range(len(self))])

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Return the pieces of target ids, as the vocabulary writes them."""
        return self.target.tokens(ids)
