"""Messages that say how to install something name an extra that there is, and both ways."""

import re
import tomllib
from pathlib import Path

from transduce.errors import how_to_install

ROOT = Path(__file__).parents[2]


def test_every_hint_names_an_extra_and_is_right_in_a_clone_too() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")}
    named = {
        extra
        for text in texts.values()
        for extra in re.findall(r"how_to_install\([\"'](\w+)[\"']\)", text)
    }
    assert {"plot", "serve", "export", "paper", "zstd"} <= named
    assert named <= set(project["optional-dependencies"])
    written_out = [path.name for path, text in texts.items() if "transduce[" in text]
    assert written_out == ["errors.py"]
    assert (
        how_to_install("plot")
        == "pip install 'transduce[plot]' (in a clone: pip install '.[plot]')"
    )
