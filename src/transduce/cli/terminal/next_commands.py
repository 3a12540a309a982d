"""What a user can do with a model that is trained: commands to copy."""

import shlex
import shutil
import sys
from pathlib import Path


def model_commands(model: Path, *, example: str, src: str, ref: str) -> list[str]:
    """Return the commands that translate an example, score a test set and serve the model."""
    folder = shlex.quote(str(model))
    return [
        f"echo {shlex.quote(example)} | {program()} translate {folder}",
        f"{program()} evaluate {folder} --src {shlex.quote(src)} --ref {shlex.quote(ref)}",
        f"{program()} serve {folder}",
    ]


def program() -> str:
    """Return how the user can call this program."""
    if shutil.which("transduce"):
        return "transduce"
    started = Path(sys.argv[0])
    return shlex.quote(sys.argv[0]) if started.name == "transduce" else "python -m transduce"
