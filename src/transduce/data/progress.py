"""What is said of the work on a file while it goes on."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Step:
    """How far the work on one file has come; `trouble` says why a download is being tried again."""

    action: Literal["download", "check", "unpack"]
    name: str
    done_bytes: int = 0
    total_bytes: int | None = None
    finished: bool = False
    trouble: str = ""


OnStep = Callable[[Step], None]
