"""JSON of clients: read quickly, whatever it contains.

Reading JSON occupies the whole process. A text of a megabyte takes a few milliseconds, but as many
empty lists take most of a second. No request needs more than a few names, numbers and lists around
its texts, so that is all that is read.
"""

import json
from typing import Any

from transduce.serving.refusal import Refused

MAX_STRINGS = 4_096
"""Strings of a body, names included: enough for 1,000 texts."""
MAX_BYTES_OUTSIDE = 64 << 10
"""Bytes of a body that are not part of a string."""


def parse_json(body: bytes, *, malformed: int) -> Any:
    """Read a body; refuse one that is more than texts and a few fields.

    malformed: the status of the refusal of what is no JSON.
    """
    _check_is_plain(body)
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as fault:
        raise Refused(malformed, "the body cannot be read as JSON") from fault


def _check_is_plain(body: bytes) -> None:
    too_many = Refused(413, "the body has too many parts: send texts, and a few fields")
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    parts = unescaped.split(b'"', 2 * MAX_STRINGS + 1)  # every other one is outside of strings
    outside = parts[::2]
    if len(parts) > 2 * MAX_STRINGS + 1 or sum(map(len, outside)) > MAX_BYTES_OUTSIDE:
        raise too_many
    containers = sum(part.count(b"[") + part.count(b"{") + part.count(b",") for part in outside)
    if containers > MAX_STRINGS:
        raise too_many
