"""Scores of a model of several languages, by direction: those it was trained on, and zero-shot."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from os import PathLike
from pathlib import Path
from statistics import fmean

from transduce.data.languages.corpora import Direction, multiway_corpora, trained_directions
from transduce.errors import InputError
from transduce.evaluation.evaluate import translated_lines
from transduce.models.folder import load_settings
from transduce.tasks.base import MetricScore
from transduce.tasks.metrics import Bleu, ChrF
from transduce.tasks.tokenization import choose_tokenization
from transduce.translation.load import EngineName, load
from transduce.translation.options import Options

FileName = str | PathLike[str]


@dataclass(frozen=True)
class DirectionScore:
    """The scores of one direction."""

    source: str
    target: str
    is_trained: bool  # False: zero-shot, no pair of it was trained on
    sentences: int
    bleu: MetricScore
    chrf: MetricScore
    hypotheses: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Both languages: `en-de`."""
        return f"{self.source}-{self.target}"


@dataclass(frozen=True)
class LanguageScores:
    """The scores of all directions."""

    system: str
    directions: tuple[DirectionScore, ...]

    def means(self) -> dict[str, tuple[int, float, float]]:
        """Return the number of directions, mean BLEU and mean chrF: trained, zero-shot and all."""
        groups = {
            "trained": [one for one in self.directions if one.is_trained],
            "zero-shot": [one for one in self.directions if not one.is_trained],
            "all": list(self.directions),
        }
        return {
            name: (len(some), fmean(s.bleu.score for s in some), fmean(s.chrf.score for s in some))
            for name, some in groups.items()
            if some
        }


def evaluate_languages(
    model: FileName,
    texts: Mapping[str, FileName],
    *,
    directions: Sequence[str] = (),
    max_sentences: int | None = None,
    options: Options | None = None,
    device: str = "auto",
    engine: EngineName | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> LanguageScores:
    """Score a model on texts that are one sentence in each language, line by line.

    model: the folder of a model of several languages.
    texts: the file of each language.
    directions: which to score, such as en-de; by default all that model and texts have.
    max_sentences: how many lines, from the first; by default all.
    options, device, engine: how to translate, as for `transduce.load`.
    progress: called with the number of directions done, and of all.

    Raises `InputError` for wrong files or options, before anything is translated.
    """
    [corpus] = multiway_corpora({"test": {code: str(file) for code, file in texts.items()}})
    rows = list(corpus.rows())[:max_sentences]
    if not rows:
        raise InputError(f"{corpus.files[0]} is empty: give at least one line")
    columns = dict(zip(corpus.languages, map(list, zip(*rows, strict=True)), strict=True))
    trained = set(trained_directions(load_settings(Path(model)).data))
    translator = load(model, device, engine=engine)
    into = translator.languages or tuple({one.target for one in trained})
    wanted = _wanted(corpus.languages, into, directions)
    found = []
    for number, direction in enumerate(wanted):
        progress(number, len(wanted))
        bound = translator.into(direction.target) if translator.languages else translator
        hypotheses = translated_lines(bound, columns[direction.source], options=options)
        references = columns[direction.target]
        tokenizer = choose_tokenization(references, language=direction.target).bleu
        found.append(
            DirectionScore(
                direction.source,
                direction.target,
                direction in trained,
                len(rows),
                Bleu(tokenizer).score(hypotheses, references),
                ChrF().score(hypotheses, references),
                tuple(hypotheses),
            )
        )
    progress(len(wanted), len(wanted))
    return LanguageScores(str(model), tuple(found))


def _wanted(languages: Sequence[str], into: Sequence[str], names: Sequence[str]) -> list[Direction]:
    """Return the directions to score; raise if one that is named is not possible."""
    possible = [Direction(*ends) for ends in permutations(languages, 2) if ends[1] in into]
    if not possible:
        raise InputError(
            f"the model translates into {', '.join(into) or 'one language'}, and none of the texts "
            f"is in it: they are in {', '.join(languages)}"
        )
    for name in names:
        if name not in map(str, possible):
            raise InputError(
                f"{name}: no such direction; there are {', '.join(map(str, possible))}"
            )
    return [one for one in possible if not names or str(one) in names]
