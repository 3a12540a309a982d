"""A server in its own process: its translator can be paused, and its time limits are short.

    python -m tests.serving.start FILE [SECONDS [LIMITS]]

SECONDS are the time that a client has for a request, or to take a part of a response. LIMITS is a
JSON object of other limits. It prints its port on standard error.
"""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.serving.fakes import Shouting, as_translator
from transduce.search.cancel import raise_if_cancelled
from transduce.serving.app import make_app
from transduce.serving.http.sites import Sites
from transduce.serving.languages import LanguagePair
from transduce.serving.limits import Limits
from transduce.serving.server import listen, serve
from transduce.text.markup.marked import Line, text_of
from transduce.translation.options import Options, Translation


class Holding(Shouting):
    """Translates lines with the word `hold` only once a file exists."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def translate(self, lines: Sequence[Line], options: Options) -> list[Translation]:
        while any("hold" in text_of(line) for line in lines) and not self._file.exists():
            raise_if_cancelled()
            time.sleep(0.01)
        return super().translate(lines, options)


def main(file: str, seconds: str = "0.3", given: str = "{}") -> None:
    seconds_each = float(seconds)
    times = {"body_s": seconds_each, "head_s": seconds_each, "write_s": seconds_each}
    limits = Limits(**{**times, "max_body_bytes": 10_000, **json.loads(given)})
    sites = Sites(["https://site.example"])
    app = make_app(
        {LanguagePair("en", "de"): as_translator(Holding(Path(file)))},
        version="1",
        limits=limits,
        sites=sites,
    )
    listening = listen("127.0.0.1", 0)

    def ready() -> None:
        sys.stderr.write(f"serving at http://127.0.0.1:{listening.getsockname()[1]} (now)\n")
        sys.stderr.flush()

    serve(app, listening, limits, ready=ready, sites=sites)


if __name__ == "__main__":
    main(*sys.argv[1:])
