"""What a user can do with a model that is trained: commands to copy."""

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transduce.config.schema import Config
    from transduce.translation.languages import LanguagePair


def model_commands(model: Path, config: "Config | None", *, example: str) -> list[str]:
    """Return the commands that translate an example, score a test set and serve the model."""
    from transduce.translation.languages import language_pairs

    folder = shlex.quote(str(model))
    pairs = [] if config is None else language_pairs(config)
    if len(pairs) > 1 and config is not None:
        return _commands_of_several(folder, pairs, example, config)
    pair = pairs[0] if pairs else None
    served = folder if pair else _with_languages(folder, config)
    return [
        f"echo {shlex.quote(example)} | {program()} translate {folder}",
        f"{program()} evaluate {folder} {_test_files(config, pair)}",
        f"{program()} serve {served}",
    ]


def _commands_of_several(
    folder: str, pairs: "list[LanguagePair]", example: str, config: "Config"
) -> list[str]:
    """Return the commands for a model of several directions; the example is of the first."""
    targets = {pair.target for pair in pairs}
    to = f" --to {pairs[0].target}" if len(targets) > 1 else ""
    texts = next(iter(config.data.corpora.values()))
    return [
        f"echo {shlex.quote(example)} | {program()} translate {folder}{to}",
        f"{program()} evaluate {folder} {' '.join(f'--text test.{one}' for one in texts)}",
        f"{program()} serve {folder}",
    ]


def _with_languages(folder: str, config: "Config | None") -> str:
    """Show where to name the languages of a model that does not tell them."""
    if config is None or config.data.task == "translation":
        return f"en-de={folder}  # with its languages instead of en-de"
    if config.data.task == "parsing":
        return f"en-ptb={folder}  # with the language of the sentences instead of en"
    return f"src-tgt={folder}  # any two names of two or three letters"


def _test_files(config: "Config | None", pair: "LanguagePair | None") -> str:
    """Return the options that name a test set, in files like those of the training text."""
    from transduce.data.corpus import format_of

    files = () if config is None else config.data.src + config.data.tgt
    if any(format_of(Path(name)) == "trees" for name in files):  # which have both sides
        return "--src test.mrg"
    if pair:
        return f"--src test.{pair.source} --ref test.{pair.target}"
    endings = [Path(name).suffix for name in (files[0], files[-1])] if len(files) == 2 else []
    src, ref = endings if len(set(endings) - {""}) == 2 else (".src", ".ref")
    return f"--src test{src} --ref test{ref}"


def program() -> str:
    """Return how the user can call this program."""
    if shutil.which("transduce"):
        return "transduce"
    started = Path(sys.argv[0])
    return shlex.quote(sys.argv[0]) if started.name == "transduce" else "python -m transduce"
