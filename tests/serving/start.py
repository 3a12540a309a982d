"""A server in a process of its own: its translator can be held, and its limits are short.

    python -m tests.serving.start FILE

It prints its port on standard error.
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.serving.fakes import Shouting, as_translator
from transduce.decoding.options import Options, Translation
from transduce.decoding.stop import go_on
from transduce.serving.app import make_app
from transduce.serving.languages import Pair
from transduce.serving.limits import Limits
from transduce.serving.server import listen, serve


class Holding(Shouting):
    """Translates what has the word `hold` only when there is a file."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def translate(self, lines: Sequence[str], options: Options) -> list[Translation]:
        while any("hold" in line for line in lines) and not self._file.exists():
            go_on()
            time.sleep(0.01)
        return super().translate(lines, options)


def main() -> None:
    limits = Limits(body_s=0.3, head_s=0.3, max_body_bytes=10_000)
    app = make_app(
        {Pair("en", "de"): as_translator(Holding(Path(sys.argv[1])))}, version="1", limits=limits
    )
    listening = listen("127.0.0.1", 0)

    def ready() -> None:
        sys.stderr.write(f"serving at http://127.0.0.1:{listening.getsockname()[1]} (now)\n")
        sys.stderr.flush()

    serve(app, listening, limits, ready=ready)


if __name__ == "__main__":
    main()
