"""Progress of the work on one file."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class FileProgress:
    """How far the work on one file is; `retry_reason` says why a download is tried again."""

    action: Literal["download", "check", "unpack"]
    name: str
    done_bytes: int = 0
    total_bytes: int | None = None
    finished: bool = False
    retry_reason: str = ""


OnProgress = Callable[[FileProgress], None]
