"""What a user can do with a model that is trained: commands to copy."""

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transduce.config.schema import Config


def model_commands(model: Path, config: "Config | None", *, example: str) -> list[str]:
    """Return the commands that translate an example, score a test set and serve the model."""
    from transduce.translation.languages import training_pair

    folder = shlex.quote(str(model))
    pair = None if config is None else training_pair(config)
    src, ref = (pair.source, pair.target) if pair else ("src", "ref")
    served = folder if pair else f"en-de={folder}  # with its languages instead of en-de"
    return [
        f"echo {shlex.quote(example)} | {program()} translate {folder}",
        f"{program()} evaluate {folder} --src test.{src} --ref test.{ref}",
        f"{program()} serve {served}",
    ]


def program() -> str:
    """Return how the user can call this program."""
    if shutil.which("transduce"):
        return "transduce"
    started = Path(sys.argv[0])
    return shlex.quote(sys.argv[0]) if started.name == "transduce" else "python -m transduce"
