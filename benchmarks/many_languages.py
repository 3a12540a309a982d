"""Scores of a model of several languages: BLEU, chrF and the language of its output, by direction.

    python benchmarks/many_languages.py runs/europarl_7way data/europarl-7way --json scores.json

The folder has a test set in several languages, test.de, test.en and so on; line n of all of them is
one sentence. Every direction is translated, those that were kept from training too. py3langid, the
extra `detect`, says which language each translation is in, among those of the test set.
It prints one JSON object. --png draws the matrix of BLEU, --out keeps the translations.
"""

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import transduce
from transduce.cli.analysis.languages import draw_matrix
from transduce.data.formats.lines import COMPRESSED
from transduce.evaluation.languages import DirectionScore, LanguageScores, evaluate_languages
from transduce.models.folder import load_settings
from transduce.tasks.registry import task_of
from transduce.text.detection import LanguageDetector
from transduce.translation.options import Options


def main() -> None:
    """Translate, score, detect and print."""
    arguments = _arguments()
    texts = _texts(arguments.texts, arguments.name)
    began = time.monotonic()
    task = task_of(load_settings(arguments.model).data)
    options = replace(Options(beam=task.beam, alpha=task.alpha), beam=arguments.beam)
    scores = evaluate_languages(
        arguments.model,
        texts,
        directions=arguments.direction,
        max_sentences=arguments.sentences,
        options=options,
        device=arguments.device,
        progress=lambda done, total: print(f"{done} of {total} directions", file=sys.stderr),
    )
    found = _report(scores, list(texts), arguments) | {
        "seconds": round(time.monotonic() - began, 1)
    }
    written = json.dumps(found, indent=1)
    print(written)
    if arguments.json:
        arguments.json.write_text(written + "\n", encoding="utf-8")
    if arguments.png:
        draw_matrix(scores, arguments.png)
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        for one in scores.directions:
            text = "".join(f"{line}\n" for line in one.hypotheses)
            (arguments.out / f"{one.name}.txt").write_text(text, encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("texts", type=Path, help="folder with test.LANGUAGE")
    parser.add_argument("--name", default="test", help="of the files, before their language")
    parser.add_argument("--direction", action="append", default=[], help="such as en-de; else all")
    parser.add_argument("--sentences", type=int, help="the first so many lines")
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path, help="file for what is printed")
    parser.add_argument("--png", type=Path, help="file for a picture of BLEU by direction")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for the translations")
    return parser.parse_args()


def _texts(folder: Path, name: str) -> dict[str, Path]:
    """Find the file of each language."""
    found = {}
    for path in sorted(folder.glob(f"{name}.*")):
        plain = path.with_suffix("") if path.suffix in COMPRESSED else path
        found[plain.suffix[1:]] = path
    if len(found) < 2:
        raise SystemExit(f"{folder} has no {name}.en, {name}.de and so on")
    return found


def _report(
    scores: LanguageScores, languages: list[str], arguments: argparse.Namespace
) -> dict[str, Any]:
    detector = LanguageDetector.if_installed()
    if detector is None:
        print("py3langid is not installed: languages are not detected", file=sys.stderr)
    directions = {}
    for one in scores.directions:
        directions[one.name] = {
            "trained": one.is_trained,
            "BLEU": round(one.bleu.score, 2),
            "chrF": round(one.chrf.score, 2),
        }
        if detector is not None:
            directions[one.name]["in_target_language"] = _share(one, languages, detector)
    return {
        "transduce": transduce.__version__,
        "model": str(arguments.model),
        "beam": arguments.beam,
        "sentences": scores.directions[0].sentences,
        "signatures": sorted(
            {s.signature for one in scores.directions for s in (one.bleu, one.chrf)}
        ),
        "means": {name: _means(directions, name) for name in ("trained", "zero-shot", "all")},
        "directions": directions,
    }


def _share(one: DirectionScore, languages: list[str], detector: LanguageDetector) -> float:
    """Return the share of translations that are detected to be in the target language."""
    detected = [detector.detect(text, languages)[0].code for text in one.hypotheses]
    return round(sum(code == one.target for code in detected) / len(detected), 4)


def _means(directions: dict[str, dict[str, Any]], group: str) -> dict[str, float] | None:
    some = [
        one
        for one in directions.values()
        if group == "all" or one["trained"] == (group == "trained")
    ]
    if not some:
        return None
    names = [name for name in some[0] if name != "trained"]
    return {"directions": len(some)} | {
        name: round(fmean(one[name] for one in some), 4) for name in names
    }


if __name__ == "__main__":
    main()
