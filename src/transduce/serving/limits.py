"""How much a client may ask for, and how much the server takes on at a time."""

from dataclasses import dataclass, fields
from math import isfinite

from transduce.errors import InputError

SENTENCE_TOKENS = 40
"""A longer sentence counts as several: rare characters can take a token for each byte."""

FORM_BYTES = 16 << 10
"""Bytes of a form beside its text."""


@dataclass(frozen=True)
class Limits:
    """What bounds the memory and the time that requests can take."""

    max_body_bytes: int = 1 << 20
    max_characters: int = 10_000  # of a request that is answered at once; a stream may have more
    max_sentences: int = 200  # of such a request, and of one line of a stream
    max_lines: int = 1_000  # of such a request; blank ones count
    max_document_lines: int = 20_000  # of a stream
    max_file_bytes: int = 4 << 20  # of a file to translate
    max_file_characters: int = 500_000  # of the text in it
    max_files: int = 16  # being translated at a time
    max_held_bytes: int = 64 << 20  # of translated files that can be fetched, all together
    file_s: float = 600.0  # how long a translated file can be fetched
    max_attention_characters: int = 1_000  # lower, since the weights take memory
    max_queue: int = 1_000  # sentences waiting or being translated, of all clients together
    max_requests: int = 512  # with a body, at the same time
    max_bytes_in_flight: int = 64 << 20  # of the bodies of these requests together
    max_connections: int = 2_048
    max_connections_per_client: int = 512  # from one address
    deadline_s: float = 30.0  # for a response; of a stream or a file, for each part of it
    body_s: float = 10.0  # for a body to arrive
    head_s: float = 10.0  # for a request to begin, and for its headers to arrive
    write_s: float = 10.0  # for a client to take the next 64 KiB of a response

    @property
    def max_form_bytes(self) -> int:
        """The most bytes of a form, in which a character takes up to 12."""
        return min(self.max_body_bytes, FORM_BYTES + 12 * self.max_characters)

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise InputError(f"{field.name}={value}: use more than 0")
            if not isfinite(value):
                raise InputError(f"{field.name}={value}: use a number; there is always a limit")
        if self.max_sentences > self.max_queue:
            raise InputError(
                f"requests of {self.max_sentences:,} sentences never fit into a queue of "
                f"{self.max_queue:,}: use a longer queue, or fewer sentences"
            )
