"""Terms as hints beside constraints: how many are met, BLEU and speed of three kinds of search.

    .venv/bin/python benchmarks/soft_terms.py MODEL --src test.en --ref test.de --device cuda

MODEL was trained with data.terms. The terms are those of benchmarks/glossaries.py: pairs of words
that occur together in source and reference. Sentences in which a term occurs are translated freely,
with the terms as constraints, and with the terms as hints. `met` counts terms as they are written,
`met_in_a_form` also words that begin with the first half of a term, at least three letters: other
inflections. BLEU is that of all these sentences, and of those whose references have all of their
terms (`own_bleu`).

`inflected` has terms in their dictionary form, for which the shortest form is taken that the
references have more than once, and only the sentences whose references have another form of a term.
There `as_in_reference` counts the terms that have the form of the reference: what a hint may do,
and a constraint cannot. It prints one JSON object.
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import sacrebleu
import torch
from glossaries import SIZES, TURNS, clock, glossary_of, parsed, share_met, term_pairs

from transduce.text.phrases.glossary import Glossary
from transduce.translation.load import load
from transduce.translation.options import Options
from transduce.translation.translator import Translator
from transduce.translation.wording.rules import NO_WORDING, Wording


def main() -> None:
    """Print the figures."""
    arguments = parsed()
    sources, references = (
        path.read_text(encoding="utf-8").splitlines()[: arguments.sentences]
        for path in (arguments.src, arguments.ref)
    )
    translator = load(arguments.model, arguments.device, engine="torch")
    pairs = term_pairs(sources, references)
    rows = [
        row(
            translator,
            pairs[:: max(1, len(pairs) // size)][:size],
            sources,
            references,
            arguments.beam,
        )
        for size in SIZES
    ]
    found = {
        "model": str(arguments.model),
        "device": str(translator.device),
        "torch": torch.__version__,
        "beam": arguments.beam,
        "sentences": len(sources),
        "pairs": len(pairs),
        "rows": rows,
        "inflected": inflected(translator, pairs, sources, references, arguments.beam),
    }
    print(json.dumps(found, indent=2))


def row(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    sources: Sequence[str],
    references: Sequence[str],
    beam: int,
) -> dict[str, Any]:
    """Translate the sentences with terms in three ways; return the figures of each."""
    glossary = glossary_of(pairs)
    wanted = [[match.targets[0] for match in glossary.matches(text)] for text in sources]
    chosen = [place for place, terms in enumerate(wanted) if terms]
    some, refs = ([texts[place] for place in chosen] for texts in (sources, references))
    terms = [wanted[place] for place in chosen]
    own = [place for place, ref in enumerate(refs) if share_met([ref], [terms[place]]) == 1]
    ways = ways_with(glossary, beam)
    found, seconds = timed(translator, some, ways)
    return {
        "terms": len(pairs),
        "sentences": len(some),
        "own_sentences": len(own),
        "occurrences": sum(map(len, terms)),
        **{
            name: {
                "met": share_met(found[name], terms),
                "met_in_a_form": share_met_in_a_form(found[name], terms),
                "bleu": bleu(found[name], refs),
                "own_bleu": bleu([found[name][i] for i in own], [refs[i] for i in own]),
                "speed": round(seconds["free"] / seconds[name], 3),
            }
            for name in ways
        },
    }


def ways_with(glossary: Glossary, beam: int) -> dict[str, Options]:
    """Return the options of the three kinds of search."""
    wordings = {
        "free": NO_WORDING,
        "constrained": Wording(glossary),
        "soft": Wording(glossary, is_soft=True),
    }
    return {name: Options(beam, wording=wording) for name, wording in wordings.items()}


def inflected(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    sources: Sequence[str],
    references: Sequence[str],
    beam: int,
) -> dict[str, Any]:
    """Give terms in their dictionary form where references have other forms of them."""
    counts = Counter(word for text in references for word in re.findall(r"\w+", text))
    given = {word: dictionary_form(target, counts) for word, target in pairs}
    some, refs, forms = [], [], []
    for source, reference in zip(sources, references, strict=True):
        known = {word: given[word] for word in re.findall(r"\w+", source.lower()) if word in given}
        words = re.findall(r"\w+", reference)
        found = {
            term: [word for word in words if is_form(word, term)] for term in {*known.values()}
        }
        others = {term: its[0] for term, its in found.items() if len(its) == 1 and its[0] != term}
        if others:
            some.append(source)
            refs.append(reference)
            forms.append(others)
    glossary = glossary_of(list(given.items()))
    found_texts = {
        name: [one.text for one in translator.translate(some, options)]
        for name, options in ways_with(glossary, beam).items()
    }
    return {
        "terms": len(given),
        "sentences": len(some),
        "occurrences": sum(map(len, forms)),
        **{
            name: {
                "met": share_met(texts, [list(others) for others in forms]),
                "met_in_a_form": share_met_in_a_form(texts, [list(others) for others in forms]),
                "as_in_reference": share_met(texts, [list(others.values()) for others in forms]),
                "bleu": bleu(texts, refs),
            }
            for name, texts in found_texts.items()
        },
    }


def dictionary_form(word: str, counts: Counter[str]) -> str:
    """Return the shortest word that may be a form of this one, and is there more than once."""
    forms = [other for other, count in counts.items() if count > 1 and is_form(other, word)]
    return min([word, *forms], key=lambda form: (len(form), form))


def is_form(word: str, of: str) -> bool:
    """Return whether a word may be a form of another: they differ in up to three last letters."""
    both = zip(word.lower(), of.lower(), strict=False)
    shared = sum(1 for _ in takewhile(lambda letters: letters[0] == letters[1], both))
    return shared >= 3 and max(len(word), len(of)) - shared <= 3 and word[0] == of[0]


def timed(
    translator: Translator, texts: Sequence[str], ways: dict[str, Options]
) -> tuple[dict[str, list[str]], dict[str, float]]:
    """Translate in all ways, in turn; return the texts and the best times of each.

    The first turn does not count: it loads kernels and records steps.
    """
    found: dict[str, list[str]] = {}
    seconds = dict.fromkeys(ways, float("inf"))
    for turn in range(TURNS + 1):
        for name, options in ways.items():
            began = clock(translator.device)
            found[name] = [one.text for one in translator.translate(texts, options)]
            took = clock(translator.device) - began
            if turn:
                seconds[name] = min(took, seconds[name])
    return found, seconds


def bleu(texts: Sequence[str], references: Sequence[str]) -> float | None:
    """Return BLEU; None: there is no sentence."""
    if not texts:
        return None
    return round(sacrebleu.corpus_bleu(texts, [references]).score, 2)


def share_met_in_a_form(texts: Sequence[str], terms: Sequence[Sequence[str]]) -> float:
    """Return the share of terms of which the translation has some form."""
    met = [
        any(word.lower().startswith(stem_of(term)) for word in re.findall(r"\w+", text))
        for text, wanted in zip(texts, terms, strict=True)
        for term in wanted
    ]
    return round(sum(met) / max(1, len(met)), 4)


def stem_of(word: str) -> str:
    """Return the first half of a word, at least three letters."""
    return word.lower()[: max(3, -(-len(word) // 2))]


if __name__ == "__main__":
    main()
