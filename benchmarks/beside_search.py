"""What translating a file takes beside the search: processor time for a line, on one core.

    export OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false
    python benchmarks/beside_search.py MODEL --src FILE --tgt FILE [--lines 16384] [--rounds 5]

Instead of a search there is an engine that finds the lines of the second file at once. All else is
what `transduce translate MODEL FILE --out FILE` does once the model is loaded: reading, encoding,
looking for degenerate translations, decoding, joining, writing. The first figure is without
`short_pauses`, the second with; the third is the tokenizer's share, which several cores divide.
On a GPU a line of 30 tokens has about 50 µs (docs/EXPERIMENTS.md): if the figures are above that,
the GPU waits.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import ClassVar
from unittest.mock import patch

import transduce
from transduce.bulk.made_from import OutputSettings
from transduce.cli.terminal.text_input import TextInput
from transduce.cli.translation import lines as command
from transduce.cli.translation.prefixes import Prefixes
from transduce.data.corpus import read_lines
from transduce.models.base import Seq2Seq
from transduce.search.hypothesis import Hypothesis
from transduce.translation.engine import EncodedSentence, Engine
from transduce.translation.options import Options
from transduce.translation.translator import Translator

WINDOW = 8192
"""Lines at a time, as on a GPU."""


@dataclass(frozen=True)
class Answers(Engine):
    """Finds what it was told, by the numbers of lines."""

    name: ClassVar[str] = "answers"
    has_shortlist: ClassVar[bool] = False
    ids: list[list[int]]

    def search(
        self, sentences: Sequence[EncodedSentence], options: Options
    ) -> list[list[Hypothesis]]:
        """Find them."""
        del options
        return [[Hypothesis(self.ids[one.number], -1.0, is_finished=True)] for one in sentences]

    def attention_model(self) -> Seq2Seq:
        """There is none."""
        raise NotImplementedError

    def cross_attention(self, pairs: object) -> None:
        """There is none."""
        del pairs


def main() -> None:
    """Measure, and print microseconds a line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--src", type=Path, required=True)
    parser.add_argument("--tgt", type=Path, required=True)
    parser.add_argument("--lines", type=int, default=16384)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    sources, targets = (
        list(islice(read_lines(path), given.lines)) for path in (given.src, given.tgt)
    )
    loaded = transduce.load(given.model, "cpu")
    tokenizer, task = loaded._tokenizer, loaded._task
    answers = Answers(loaded.device, None, task, tokenizer.encode_targets(targets))
    translator = Translator(answers, tokenizer, task=task)
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "src")
        text.write_text("".join(f"{line}\n" for line in sources), encoding="utf-8")

        def translate() -> None:
            lines, output = TextInput([text]), OutputSettings(Options())
            work = command.LineTranslation(translator, lines, output, Prefixes(), WINDOW)
            work.run(Path(folder, "out"), len(sources))
            Path(folder, "out").unlink()

        def translate_with_pauses() -> None:
            with patch.object(command, "short_pauses", nullcontext):
                translate()

        for name, work in (
            ("without short pauses", translate_with_pauses),
            ("the command", translate),
            ("tokenizer.encode_batch alone", lambda: tokenizer.encode_batch(sources)),
        ):
            cost = min(seconds(work) for _ in range(given.rounds)) / len(sources)
            print(f"{name}: {1e6 * cost:.1f} µs a line", flush=True)


def seconds(work: Callable[[], object]) -> float:
    """Return the processor time of something."""
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    main()
