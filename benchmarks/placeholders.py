"""Placeholders: how many come out exactly once, and where; free, constrained and trained.

    .venv/bin/python benchmarks/placeholders.py MODEL --src test.en --ref test.de --device cpu

Words that occur together in source and reference (`term_pairs` of benchmarks/glossaries.py) are
replaced on both sides by placeholders: up to two in a sentence. `once` is the share that comes out
exactly once, `in_place` the share that has the word before it or after it of the reference. A model
trained with `data.placeholders` is constrained always: its free search is that of its export to
CTranslate2, and is left out where that is not installed. `clean_bleu` is that of the test set as it
is. It prints one JSON object.
"""

import importlib.util
import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import sacrebleu
from glossaries import parsed, term_pairs

from transduce.export.ctranslate2 import export_ctranslate2
from transduce.models.folder import load_model
from transduce.translation.load import load
from transduce.translation.options import Options
from transduce.translation.translator import Translator
from transduce.translation.wording.rules import Wording

KINDS = (
    "{{name{}}}",
    "https://example.org/{}?q=1",
    "%(n{})d",
    "{} km",
    "a{}@example.org",
    "${}.50",
)
MOST = 2
"""Placeholders of a sentence."""

Case = tuple[str, str, list[str]]
"""A source and its reference with placeholders, and these."""


def main() -> None:
    """Print the figures."""
    arguments = parsed()
    sources, references = (
        path.read_text(encoding="utf-8").splitlines()[: arguments.sentences]
        for path in (arguments.src, arguments.ref)
    )
    cases = list(with_placeholders(sources, references))
    translator = load(arguments.model, arguments.device, engine="torch")
    kept = Wording(keeps_placeholders=True)
    constrained = Options(arguments.beam, wording=kept)
    is_trained = load_model(arguments.model).tokenizer.has_placeholders
    with tempfile.TemporaryDirectory() as folder:
        free: Translator | None = translator
        if is_trained:
            free = exported(arguments.model, Path(folder) / "model", arguments.device)
        rows = {
            "free": row(free, cases, Options(arguments.beam)) if free else None,
            "constrained": row(translator, cases, constrained),
        }
    clean = [one.text for one in translator.translate(sources, Options(arguments.beam))]
    found = {
        "model": str(arguments.model),
        "is_trained": is_trained,
        "beam": arguments.beam,
        "sentences": len(cases),
        "placeholders": sum(len(values) for *_, values in cases),
        **rows,
        "clean_bleu": bleu(clean, references),
    }
    print(json.dumps(found, indent=2))


def exported(model: Path, folder: Path, device: str) -> Translator | None:
    """Return a model's export to CTranslate2, if that is installed."""
    if importlib.util.find_spec("ctranslate2") is None:
        return None
    export_ctranslate2(model, folder)
    return load(folder, device)


def with_placeholders(sources: Sequence[str], references: Sequence[str]) -> Iterator[Case]:
    """Stream the sentences that have such words once on each side, with placeholders for them."""
    known = dict(term_pairs(sources, references))
    for number, (source, reference) in enumerate(zip(sources, references, strict=True)):
        values: list[str] = []
        for word in re.findall(r"\w+", source):
            its = known.get(word.lower())
            patterns = [re.compile(rf"\b{re.escape(text)}\b") for text in (word, its or "")]
            texts = source, reference
            is_once = all(len(p.findall(t)) == 1 for p, t in zip(patterns, texts, strict=True))
            if its is None or not is_once or len(values) == MOST:
                continue
            value = KINDS[(number + len(values)) % len(KINDS)].format(number % 90 + 10)
            source, reference = (
                pattern.sub(lambda _, value=value: value, text)  # type: ignore[misc]
                for pattern, text in zip(patterns, texts, strict=True)
            )
            values.append(value)
        if values:
            yield source, reference, values


def row(translator: Translator, cases: Sequence[Case], options: Options) -> dict[str, Any]:
    """Translate the sentences; return the figures."""
    texts = [one.text for one in translator.translate([source for source, *_ in cases], options)]
    all_of_them = [
        (text, reference, value)
        for text, (_, reference, values) in zip(texts, cases, strict=True)
        for value in values
    ]
    once = [text.count(value) == 1 for text, _, value in all_of_them]
    placed = [is_in_place(*one) for one in all_of_them]
    return {
        "once": round(sum(once) / len(once), 4),
        "in_place": round(sum(placed) / len(placed), 4),
        "bleu": bleu(texts, [reference for _, reference, _ in cases]),
    }


def is_in_place(text: str, reference: str, value: str) -> bool:
    """Return whether a placeholder has a neighbour that it has in the reference, on that side."""
    if text.count(value) != 1:
        return False
    ours, theirs = (
        [[*map(str, re.findall(r"\w+|[^\w\s]", part))] for part in one.split(value)]
        for one in (text, reference)
    )
    same_before = (ours[0] or [""])[-1] == (theirs[0] or [""])[-1]
    return same_before or (ours[1] or [""])[0] == (theirs[1] or [""])[0]


def bleu(texts: Sequence[str], references: Sequence[str]) -> float:
    """Return BLEU."""
    return round(sacrebleu.corpus_bleu(texts, [references]).score, 2)


if __name__ == "__main__":
    main()
