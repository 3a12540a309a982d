"""Terms in constrained search: how many are met, BLEU and speed beside the free search.

    .venv/bin/python benchmarks/glossaries.py MODEL --src test.en --ref test.de

The terms are pairs of words that occur together in source and reference (Dice coefficient), so they
are the references' own. Free and constrained search are timed in one run, in turn, on the sentences
in which terms occur. The last line is a glossary of which no term occurs.
"""

import argparse
import re
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import sacrebleu

from transduce.text.phrases.glossary import Glossary, make_term
from transduce.translation.load import load
from transduce.translation.options import Options
from transduce.translation.translator import Translator
from transduce.translation.wording.rules import Wording

SIZES = (1, 5, 50)
MIN_LETTERS, MIN_COUNT, MIN_DICE = 4, 3, 0.6


def main() -> None:
    """Print the table."""
    arguments = parsed()
    sources, references = (
        path.read_text(encoding="utf-8").splitlines()[: arguments.sentences]
        for path in (arguments.src, arguments.ref)
    )
    translator = load(arguments.model, "cpu" if arguments.cpu else "auto", engine="torch")
    pairs = term_pairs(sources, references)
    print(f"{len(pairs)} pairs of words; beam {arguments.beam}, {len(sources)} sentences")
    print("terms  sentences  occurrences  met free  met  BLEU free  BLEU  speed")
    options = Options(arguments.beam)
    for size in SIZES:
        step = max(1, len(pairs) // size)
        print(row(translator, pairs[::step][:size], sources, references, options))
    absent = Glossary((make_term("qqqqqq", ["Wort"]),))
    wording = Options(arguments.beam, wording=Wording(absent))
    free, bound, ratio = in_turn(translator, sources, options, wording)
    print(f"no term occurs: same output {free == bound}, speed {ratio:.2f} of the free search")


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--src", type=Path, required=True)
    parser.add_argument("--ref", type=Path, required=True)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--cpu", action="store_true")
    return parser.parse_args()


def term_pairs(sources: Sequence[str], references: Sequence[str]) -> list[tuple[str, str]]:
    """Return words of the source, each with the reference's word that it occurs with most."""
    of_source: Counter[str] = Counter()
    of_reference: Counter[str] = Counter()
    together: Counter[tuple[str, str]] = Counter()
    for source, reference in zip(sources, references, strict=True):
        ours, theirs = (set(re.findall(r"\w+", text)) for text in (source.lower(), reference))
        of_source.update(ours)
        of_reference.update(theirs)
        together.update((one, other) for one in ours for other in theirs)
    best: dict[str, tuple[float, str]] = {}
    for (one, other), count in together.items():
        dice = 2 * count / (of_source[one] + of_reference[other])
        if min(len(one), len(other)) >= MIN_LETTERS and count >= MIN_COUNT and dice >= MIN_DICE:
            best[one] = max(best.get(one, (0.0, "")), (dice, other))
    frequent = sorted(best, key=lambda word: (-of_source[word], word))
    return [(word, best[word][1]) for word in frequent]


def row(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    sources: Sequence[str],
    references: Sequence[str],
    options: Options,
) -> str:
    """Translate the sentences with terms in both ways; return a row of the table."""
    glossary = Glossary(tuple(make_term(one, [other]) for one, other in pairs))
    wanted = [[match.targets[0] for match in glossary.matches(text)] for text in sources]
    chosen = [place for place, terms in enumerate(wanted) if terms]
    some, refs = ([texts[place] for place in chosen] for texts in (sources, references))
    bound_options = Options(options.beam, wording=Wording(glossary))
    free, bound, ratio = in_turn(translator, some, options, bound_options)
    terms = [wanted[place] for place in chosen]
    scores = [sacrebleu.corpus_bleu(texts, [refs]).score for texts in (free, bound)]
    return (
        f"{len(pairs):5}  {len(chosen):9}  {sum(map(len, terms)):11}  {share_met(free, terms):8.1%}"
        f"  {share_met(bound, terms):.1%}  {scores[0]:9.2f}  {scores[1]:.2f}  {ratio:.2f}"
    )


def in_turn(
    translator: Translator, texts: Sequence[str], free: Options, bound: Options
) -> tuple[list[str], list[str], float]:
    """Translate in both ways, twice, in turn; return the texts and the ratio of the best speeds."""
    found: dict[bool, list[str]] = {}
    seconds: dict[bool, float] = {}
    translator.translate(texts[:2], bound)
    for is_bound in (False, True, False, True):
        began = time.process_time()
        results = translator.translate(texts, bound if is_bound else free)
        took = time.process_time() - began
        found[is_bound] = [result.text for result in results]
        seconds[is_bound] = min(took, seconds.get(is_bound, took))
    return found[False], found[True], seconds[False] / seconds[True]


def share_met(texts: Sequence[str], terms: Sequence[Sequence[str]]) -> float:
    """Return the share of terms that are in the translations, as often as they should be."""
    met = total = 0
    for text, wanted in zip(texts, terms, strict=True):
        words = Counter(re.findall(r"\w+", text))
        for term, count in Counter(wanted).items():
            total += count
            met += min(count, words[term])
    return met / max(1, total)


if __name__ == "__main__":
    main()
