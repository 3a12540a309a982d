"""Processes that encode, and Ctrl-C."""

import subprocess
import sys
from pathlib import Path

from transduce.data.grammar import generate
from transduce.text.tokenizer import Tokenizer

PROGRAM = """
import os, signal, sys
from pathlib import Path
from transduce.data.cleaning import Sieve
from transduce.data.corpus import Pair
from transduce.data.encoding import Encoder

def batches():
    yield [Pair("a", "b")]
    os.killpg(0, signal.SIGINT)  # the process for the first batch is still loading
    yield [Pair("a", "b")]

if __name__ == "__main__":
    encoder = Encoder(Path(sys.argv[1]), Sieve.of([Pair("a", "b")], rules=None))
    try:
        for _ in encoder.encode_all(batches(), processes=2):
            pass
    except KeyboardInterrupt:
        sys.exit(130)
"""


def test_ctrl_c_while_processes_start_is_only_the_first_ones_affair(tmp_path: Path) -> None:
    tokenizer = Tokenizer.learn((pair.src for pair in generate(50, seed=1)), vocab_size=300)
    tokenizer.save(tmp_path / "tokenizer.json")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    result = subprocess.run(
        [sys.executable, program, tmp_path / "tokenizer.json"],
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )
    assert (result.returncode, result.stderr) == (130, "")
