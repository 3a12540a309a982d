"""Terms in constrained search: how many are met, BLEU and speed beside the free search.

    .venv/bin/python benchmarks/glossaries.py MODEL --src test.en --ref test.de --device cuda

The terms are pairs of words that occur together in source and reference (Dice coefficient). Only
sentences in which a term occurs are translated. BLEU is that of all of them, and of those whose
references have all of their terms (`own`). Free and constrained search are timed in turn: `speed`
is their ratio for these sentences at once, and `speed_of_many` with `--copies` of each, since a
few sentences do not fill a GPU's batches. Then come a glossary of which no term occurs, and one
that asks for a word that no translation has (`foreign`), so that every sentence is searched twice.
It prints one JSON object.
"""

import argparse
import json
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import sacrebleu
import torch
from profile_search import profile_of

from transduce.text.phrases.glossary import Glossary, make_term
from transduce.translation.load import load
from transduce.translation.options import Options
from transduce.translation.translator import Translator
from transduce.translation.wording.rules import Wording

SIZES = (1, 5, 50)
MIN_LETTERS, MIN_COUNT, MIN_DICE = 4, 3, 0.6
PROFILED = 5
"""Terms of the searches that `--profile` looks into."""
TURNS = 3
"""How often both searches are timed; the best of each counts."""


def main() -> None:
    """Print the figures."""
    arguments = parsed()
    sources, references = (
        path.read_text(encoding="utf-8").split("\n")[: arguments.sentences]
        for path in (arguments.src, arguments.ref)
    )
    translator = load(arguments.model, arguments.device, engine="torch")
    pairs = term_pairs(sources, references)
    options = Options(arguments.beam)
    rows = []
    for size in SIZES:
        chosen = pairs[:: max(1, len(pairs) // size)][:size]
        rows.append(figures(translator, chosen, sources, references, options))
        rows[-1] |= speed_of_many(translator, chosen, sources, options, arguments.copies)
    absent = glossary_of([("qqqqqq", "Wort")])
    free, bound, ratio = in_turn(translator, sources, options, absent)
    _, _, ratio_of_many = in_turn(translator, sources * arguments.copies, options, absent)
    if arguments.profile:
        chosen = pairs[:: max(1, len(pairs) // PROFILED)][:PROFILED]
        found = profiles(translator, chosen, sources, options)
        arguments.profile.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    found = {
        "model": str(arguments.model),
        "device": str(translator.device),
        "torch": torch.__version__,
        "beam": arguments.beam,
        "sentences": len(sources),
        "pairs": len(pairs),
        "terms": rows,
        "absent": {
            "same_output": free == bound,
            "speed": ratio,
            "copies": arguments.copies,
            "speed_of_many": ratio_of_many,
        },
        "foreign": foreign(translator, pairs, sources, options),
    }
    print(json.dumps(found, indent=2))


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--src", type=Path, required=True)
    parser.add_argument("--ref", type=Path, required=True)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--copies", type=int, default=1, help="of each sentence, to fill batches")
    parser.add_argument("--profile", type=Path, metavar="FILE.json", help="write what takes time")
    parser.add_argument("--device", default="auto", help="cpu, cuda, or auto")
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


def glossary_of(pairs: Sequence[tuple[str, str]]) -> Glossary:
    """Make a glossary of pairs of words."""
    return Glossary(tuple(make_term(one, [other]) for one, other in pairs))


def figures(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    sources: Sequence[str],
    references: Sequence[str],
    options: Options,
) -> dict[str, Any]:
    """Translate the sentences with terms in both ways; return a row of the table."""
    glossary = glossary_of(pairs)
    wanted = [[match.targets[0] for match in glossary.matches(text)] for text in sources]
    chosen = [place for place, terms in enumerate(wanted) if terms]
    some, refs = ([texts[place] for place in chosen] for texts in (sources, references))
    terms = [wanted[place] for place in chosen]
    free, bound, ratio = in_turn(translator, some, options, glossary)
    own = [place for place, ref in enumerate(refs) if share_met([ref], [terms[place]]) == 1]

    def bleu(texts: Sequence[str], places: Sequence[int]) -> float:
        chosen_texts, chosen_refs = ([every[i] for i in places] for every in (texts, refs))
        return round(sacrebleu.corpus_bleu(chosen_texts, [chosen_refs]).score, 2)

    every = range(len(chosen))
    return {
        "terms": len(pairs),
        "sentences": len(chosen),
        "own_sentences": len(own),
        "occurrences": sum(map(len, terms)),
        "searched_again": share_lacking(free, terms),
        "met_free": share_met(free, terms),
        "met": share_met(bound, terms),
        "bleu_free": bleu(free, every),
        "bleu": bleu(bound, every),
        "own_bleu_free": bleu(free, own),
        "own_bleu": bleu(bound, own),
        "speed": ratio,
    }


def with_terms(sources: Sequence[str], glossary: Glossary) -> list[str]:
    """Return the sentences in which a term occurs."""
    return [text for text in sources if any(glossary.matches(text))]


def speed_of_many(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    sources: Sequence[str],
    options: Options,
    copies: int,
) -> dict[str, Any]:
    """Time the sentences with terms again, with several copies of each."""
    glossary = glossary_of(pairs)
    some = with_terms(sources, glossary) * copies
    _, _, ratio = in_turn(translator, some, options, glossary)
    return {"copies": copies, "speed_of_many": ratio}


def profiles(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    sources: Sequence[str],
    options: Options,
) -> dict[str, Any]:
    """Profile both searches of the sentences with terms, which have been made before."""
    glossary = glossary_of(pairs)
    some = with_terms(sources, glossary)
    kinds = {"free": options, "bound": replace(options, wording=Wording(glossary))}
    on_gpu = translator.device.type == "cuda"
    return {
        name: profile_of(partial(translator.translate, some, its), on_gpu=on_gpu)
        for name, its in kinds.items()
    }


def foreign(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    sources: Sequence[str],
    options: Options,
) -> dict[str, Any]:
    """Ask for words that no translation has, for the five most frequent terms."""
    glossary = glossary_of([(one, "Xylotrop") for one, _ in pairs[:5]])
    some = with_terms(sources, glossary)
    _, bound, ratio = in_turn(translator, some, options, glossary)
    terms = [[match.targets[0] for match in glossary.matches(text)] for text in some]
    return {"sentences": len(some), "met": share_met(bound, terms), "speed": ratio}


def in_turn(
    translator: Translator, texts: Sequence[str], free: Options, glossary: Glossary
) -> tuple[list[str], list[str], float]:
    """Translate in both ways, in turn; return the texts and the ratio of the best speeds.

    The first turn does not count: it loads kernels and records steps.
    """
    bound = Options(free.beam, wording=Wording(glossary))
    found: dict[bool, list[str]] = {}
    seconds: dict[bool, float] = {False: float("inf"), True: float("inf")}
    for turn in range(TURNS + 1):
        for is_bound in (False, True):
            began = clock(translator.device)
            results = translator.translate(texts, bound if is_bound else free)
            took = clock(translator.device) - began
            found[is_bound] = [result.text for result in results]
            if turn:
                seconds[is_bound] = min(took, seconds[is_bound])
    return found[False], found[True], round(seconds[False] / seconds[True], 3)


def clock(device: torch.device) -> float:
    """Return the time on a GPU's machine; on the CPU, which others use too, the process's own."""
    if device.type != "cuda":
        return time.process_time()
    torch.cuda.synchronize(device)
    return time.perf_counter()


def share_met(texts: Sequence[str], terms: Sequence[Sequence[str]]) -> float:
    """Return the share of terms that are in the translations, as often as they should be."""
    met = total = 0
    for text, wanted in zip(texts, terms, strict=True):
        words = Counter(re.findall(r"\w+", text))
        for term, count in Counter(wanted).items():
            total += count
            met += min(count, words[term])
    return round(met / max(1, total), 4)


def share_lacking(texts: Sequence[str], terms: Sequence[Sequence[str]]) -> float:
    """Return the share of translations that lack a term."""
    lacking = sum(share_met([text], [own]) < 1 for text, own in zip(texts, terms, strict=True))
    return round(lacking / max(1, len(texts)), 4)


if __name__ == "__main__":
    main()
