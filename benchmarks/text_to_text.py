"""`transduce translate` from file to file beside the search alone on the same ids, on a GPU.

    python benchmarks/text_to_text.py MODEL --src FILE --to DIR [--lines 1000000] [--beam 4]
        [--device cuda] [--precision bf16]

The lines of FILE, again and again if there are too few, are one text.

- the command: `transduce translate MODEL DIR/text.txt --out DIR/out.txt`, from its start to its
  end, and how busy the GPU was meanwhile, as `nvidia-smi` tells five times a second: the share of
  the time in which any kernel ran;
- its start: the same command with the lines of one window alone;
- the search alone: the same lines in the same windows in one process, after one window that warms
  up, with the seconds of encoding, of the search and of reading its results apart. Only the search
  counts.

The claim: the command's lines a second are at least 80 % of the search's. It prints one JSON
object; the exit code is 1 if the claim does not hold.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import chain, islice, repeat
from pathlib import Path
from statistics import fmean
from typing import Any

import transduce
from transduce.data.corpus import read_lines
from transduce.translation.lines import numbered, windows
from transduce.translation.options import Options
from transduce.translation.sentences.join import read_results
from transduce.translation.translator import Translator
from transduce.translation.wording.rules import NO_WORDING

LEAST, LOOKS_MS = 0.8, 200


def main() -> None:
    """Measure the command and the search, print, and check the claim."""
    given = parsed()
    given.to.mkdir(parents=True, exist_ok=True)
    text, first = given.to / "text.txt", given.to / "first.txt"
    lines = list(islice(chain.from_iterable(map(read_lines, repeat(given.src))), given.lines))
    write(text, lines)
    translator = transduce.load(given.model, given.device, precision=given.precision)
    window = len(next(windows(numbered(lines, None), most=translator._most_lines(None))))
    write(first, lines[:window])
    start_s, _ = command(given, first)
    print(f"{window:,} lines: {start_s:.1f} s", flush=True)
    seconds, busy = command(given, text)
    print(f"{len(lines):,} lines: {seconds:.1f} s", flush=True)
    alone = search_alone(translator, lines, given.beam)  # last: it keeps memory of the GPU
    ratio = alone["search_s"] / seconds
    found = {
        "lines": len(lines),
        "beam": given.beam,
        "precision": given.precision,
        "command_s": round(seconds, 1),
        "command_lines_per_s": round(len(lines) / seconds, 1),
        "gpu_busy": busy,
        "first_window": {"lines": window, "command_s": round(start_s, 1)},
        "alone": alone | {"lines_per_s": round(len(lines) / alone["search_s"], 1)},
        "share_of_the_search": round(ratio, 3),
    }
    print(json.dumps(found, indent=1))
    (given.to / "figures.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    holds = ratio >= LEAST
    print(
        f"{'holds' if holds else 'FAILS'}: {ratio:.1%} of the search's speed, claimed {LEAST:.0%}"
    )
    sys.exit(not holds)


def write(path: Path, lines: list[str]) -> None:
    """Write lines to a file."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def search_alone(translator: Translator, lines: list[str], beam: int) -> dict[str, Any]:
    """Translate in windows as the command does; return the seconds of each part."""
    options = Options(beam=beam)
    seconds = {"encoding_s": 0.0, "search_s": 0.0, "reading_s": 0.0}
    tokens = sentences = 0
    cut = list(windows(numbered(lines, None), most=translator._most_lines(None)))
    for number, window in enumerate([cut[0], *cut]):  # the first one warms up
        start = time.perf_counter()
        encoded = translator._encoder.encode(
            window, NO_WORDING, by_sentence=translator._by_sentence
        )
        some = [sentence for line in encoded for sentence in line.sentences]
        searched = time.perf_counter()
        found = translator._engine.search_with_retry(some, options)
        read = time.perf_counter()
        list(read_results(some, found, translator._tokenizer, translator._task))
        if number:
            seconds["encoding_s"] += searched - start
            seconds["search_s"] += read - searched
            seconds["reading_s"] += time.perf_counter() - read
            sentences += len(some)
            tokens += sum(len(one.hypotheses[0].ids) + 1 for one in found)
    rounded = {name: round(value, 2) for name, value in seconds.items()}
    speed = round(tokens / seconds["search_s"])
    return rounded | {"windows": len(cut), "sentences": sentences, "output_tokens_per_s": speed}


def command(given: argparse.Namespace, text: Path) -> tuple[float, float | None]:
    """Run the command; return its seconds, and the share of them in which the GPU was busy."""
    out = given.to / "out.txt"
    out.unlink(missing_ok=True)
    words = [sys.executable, "-m", "transduce", "translate", str(given.model), str(text)]
    words += ["--out", str(out), "--beam", str(given.beam), "--precision", given.precision]
    looks = watch_gpu(given.to / "gpu.txt") if given.device != "cpu" else None
    start = time.perf_counter()
    subprocess.run([*words, "--device", given.device], check=True)
    seconds = time.perf_counter() - start
    count = sum(1 for _ in read_lines(out))
    assert count == sum(1 for _ in read_lines(text)), f"{count} translations"
    if looks is None:
        return seconds, None
    looks.terminate()
    looks.wait()
    shares = [*percents(given.to / "gpu.txt")]
    return seconds, round(fmean(shares), 3) if shares else None


def watch_gpu(path: Path) -> "subprocess.Popen[bytes] | None":
    """Let nvidia-smi write how busy the GPU is, until it is ended."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    asked = [
        "--query-gpu=utilization.gpu",
        "--format=csv,noheader,nounits",
        f"--loop-ms={LOOKS_MS}",
    ]
    with path.open("wb") as log:
        return subprocess.Popen([program, *asked], stdout=log, stderr=log)


def percents(path: Path) -> Iterator[float]:
    """Read the shares that nvidia-smi wrote."""
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.strip().isdecimal():
            yield int(line) / 100


def parsed() -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--src", type=Path, required=True)
    parser.add_argument("--to", type=Path, required=True, metavar="DIR")
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default="bf16")
    return parser.parse_args()


if __name__ == "__main__":
    main()
