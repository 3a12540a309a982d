"""A student that was trained elsewhere, on this machine's CPU: the same translations, and how fast.

    python benchmarks/student_at_home.py STUDENT --src test.en --ref test.de --teacher teacher.txt
        [--there student.txt] [--shape base] [--threads 2] [--sentences 200] [--out DIR]

teacher.txt has the teacher's translations of the test set, student.txt those that the student made
where it was trained: as many of them as possible should be the same here. The student translates in
torch and, as int8, in CTranslate2; BLEU and, with --out, the translations of both. Speed is that of
the first sentences at once, and the median of 50 of them one by one.

The teacher's weights need not be here: a model of its shape with random weights that never end a
sentence searches with a beam of 4, and stops each sentence where the teacher's translation ended.
The claims: BLEU is at most 1.0 below the teacher's, and int8 at least 4 times as fast. The exit
code is 1 if one fails.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from decode_throughput import never_ending

import transduce
from transduce.config.presets import preset_named
from transduce.data.corpus import read_lines
from transduce.export.ctranslate2 import export_ctranslate2
from transduce.models.folder import load_settings, load_tokenizer
from transduce.tasks.metrics import bleu
from transduce.tasks.translation import TranslationTask
from transduce.text.tokenizer import Tokenizer
from transduce.translation.engine import EncodedSentence
from transduce.translation.inference import prepare_for_inference
from transduce.translation.options import Options
from transduce.translation.torch_engine import TorchEngine
from transduce.translation.translator import Translator

LATENCIES, WARM_UP = 50, 8
MOST_BEHIND, LEAST_FASTER = 1.0, 4.0
Translate = Callable[[Sequence[int]], Any]
"""Translates the sentences of these numbers."""


def main() -> None:
    """Translate, score, measure and print one JSON object."""
    given = parsed()
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(given.threads)
    sources, references = list(read_lines(given.src)), list(read_lines(given.ref))
    taught = list(read_lines(given.teacher))
    with tempfile.TemporaryDirectory() as folder:
        int8 = Path(folder, "int8")
        export_ctranslate2(given.student, int8, quantize="int8")
        engines = {
            "student": transduce.load(given.student, "cpu"),
            "student int8": transduce.load(int8, "cpu"),
        }
        made = {
            name: [one.text for one in engine.translate(sources)]
            for name, engine in engines.items()
        }
        scores = {
            name: round(bleu(texts, references).score, 2)
            for name, texts in ({"teacher": taught} | made).items()
        }
        ways: dict[str, Translate] = {"teacher": teacher(given, sources, taught)}
        for name, engine in engines.items():
            ways[name] = partial(translate_some, engine, sources)
        speeds = {name: speed(way, given.sentences) for name, way in ways.items()}
    same = {}
    if given.there:
        pairs = zip(made["student"], read_lines(given.there), strict=True)
        same = {"same as there": sum(here == there for here, there in pairs) / len(sources)}
    print(json.dumps({"BLEU": scores, **same, "speed": speeds}, indent=1))
    for name, texts in made.items() if given.out else ():
        path = given.out / f"{name.replace(' ', '-')}.txt"
        path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    behind = scores["teacher"] - scores["student int8"]
    faster = speeds["student int8"]["sentences_per_s"] / speeds["teacher"]["sentences_per_s"]
    holds = behind <= MOST_BEHIND and faster >= LEAST_FASTER
    word = "holds" if holds else "FAILS"
    print(f"{word}: int8 is {behind:.2f} BLEU behind and {faster:.1f} times as fast")
    sys.exit(not holds)


def translate_some(engine: Translator, sources: list[str], some: Sequence[int]) -> Any:
    """Translate the sentences of these numbers, as the engine does by default."""
    return engine.translate([sources[number] for number in some])


def teacher(given: argparse.Namespace, sources: list[str], taught: list[str]) -> Translate:
    """Return what takes as long as the teacher: random weights, sentences as long as its own."""
    tokenizer: Tokenizer = load_tokenizer(given.student, load_settings(given.student))
    changes = {"model": {"vocab_size": len(tokenizer)}}
    shape = preset_named(given.shape).with_changes(changes).model
    model = prepare_for_inference(never_ending(shape), precision="float32")  # type: ignore[arg-type]
    device = torch.device("cpu")
    engine = TorchEngine(device, None, TranslationTask(), model, tokenizer)
    ids, lengths = tokenizer.encode_batch(sources), map(len, tokenizer.encode_targets(taught))
    sentences = [
        EncodedSentence(src, number, [], most_tokens=max(1, length))
        for number, (src, length) in enumerate(zip(ids, lengths, strict=True))
    ]
    options = Options(second_try=False)
    return lambda some: engine.search([sentences[number] for number in some], options)


def speed(translate: Translate, count: int) -> dict[str, float]:
    """Measure the first sentences at once, and some of them one by one."""
    translate(range(WARM_UP))
    began = time.perf_counter()
    translate(range(count))
    seconds = time.perf_counter() - began
    latencies = []
    for number in range(min(LATENCIES, count)):
        start = time.perf_counter()
        translate([number])
        latencies.append(1000 * (time.perf_counter() - start))
    return {
        "sentences_per_s": round(count / seconds, 2),
        "latency_ms": round(statistics.median(latencies), 1),
    }


def parsed() -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("student", type=Path)
    parser.add_argument("--src", type=Path, required=True)
    parser.add_argument("--ref", type=Path, required=True)
    parser.add_argument("--teacher", type=Path, required=True, help="its translations")
    parser.add_argument("--there", type=Path, help="the student's, made where it was trained")
    parser.add_argument("--shape", default="base", help="the teacher's preset")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for the translations")
    return parser.parse_args()


if __name__ == "__main__":
    main()
