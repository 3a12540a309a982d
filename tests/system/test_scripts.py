"""A script of one's own may train at its top level: processes that encode do not import it."""

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from transduce.data.worker_processes import script_hidden

SCRIPT = """
import sys
import transduce

print("the script runs", flush=True)
transduce.train(
    src="train.src",
    tgt="train.tgt",
    out="run",
    preset="tiny",
    settings={
        "model": {"d_model": 8, "d_ff": 8, "h": 1, "n_layers": 1, "vocab_size": 300},
        "data": {"clean": False, "dev_pairs": 10},
        "training": {"steps": 1, "batch_tokens": 100},
        "run": {"device": "cpu", "score_sentences": 0},
    },
)
"""
PAIRS = 20_500
"""So many that several processes encode them, on one core too."""


def test_a_script_trains_at_its_top_level(tmp_path: Path) -> None:
    for side in ("src", "tgt"):
        lines = (f"{side} {number % 977}\n" for number in range(PAIRS))
        (tmp_path / f"train.{side}").write_text("".join(lines))
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("the script runs") == 1
    assert (tmp_path / "run" / "model.safetensors").is_file()


def test_the_script_is_back_whichever_of_several_threads_is_the_last() -> None:
    script = sys.modules["__main__"]
    first, second = ExitStack(), ExitStack()
    first.enter_context(script_hidden())
    second.enter_context(script_hidden())
    first.close()
    assert sys.modules["__main__"] is not script, "the other still starts its process"
    second.close()
    assert sys.modules["__main__"] is script
