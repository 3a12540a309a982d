"""What was found for the sentences of a line, read as text and joined."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from transduce.search.hypothesis import Hypothesis
from transduce.tasks.base import Task
from transduce.text.phrases.signs import SIGNS, put_back
from transduce.text.pieces import join
from transduce.text.tokenizer import Tokenizer
from transduce.translation.engine import (
    EncodedSentence,
    SearchResult,
    length,
    log_probability,
    penalty,
)
from transduce.translation.markup.tags import TranslatedPiece
from transduce.translation.options import Alternative, Translation
from transduce.translation.sentences.encode import EncodedLine


@dataclass(frozen=True)
class TranslatedSentence:
    """A sentence, the hypotheses found for it, and each of these as a text."""

    sentence: EncodedSentence
    hypotheses: list[Hypothesis]  # the best first
    texts: list[str]
    note: str  # what was unusual about the sentence and its best translation


@dataclass(frozen=True)
class _Candidate:
    """A translation of one sentence, among those that make up an alternative for the line."""

    sentence: EncodedSentence
    hypothesis: Hypothesis
    text: str


def read_results(
    sentences: Sequence[EncodedSentence],
    found: Sequence[SearchResult],
    tokenizer: Tokenizer,
    task: Task,
) -> Iterator[TranslatedSentence]:
    """Decode what was found for each sentence, and put placeholders back."""
    results = list(zip(sentences, found, strict=True))
    ids = chain.from_iterable((one.ids for one in result.hypotheses) for _, result in results)
    sources = (sentence.text for sentence, result in results for _ in result.hypotheses)
    read = map(task.read_target, tokenizer.decode_batch(ids), sources)
    for sentence, result in results:
        texts = [next(read) for _ in result.hypotheses]
        note = _note(sentence, result, texts[0])
        if tokenizer.has_placeholders:
            texts = [put_back(text, sentence.values) for text in texts]
        yield TranslatedSentence(sentence, result.hypotheses, texts, note)


def _note(sentence: EncodedSentence, result: SearchResult, best: str) -> str:
    missing = [
        f"{value!r} is missing"
        for value, sign in zip(sentence.values, SIGNS, strict=False)
        if best.count(sign) < sentence.text.count(sign)
    ]
    return "; ".join(filter(None, (sentence.note, result.note, *missing)))


def joined(
    line: EncodedLine, sentences: Sequence[TranslatedSentence], *, alpha: float
) -> Translation:
    """Join the pieces of a line: the best of each, then the second best of each, and so on."""
    if not sentences:
        return Translation(str(line.source), "", 0.0, (Alternative("", 0.0),))
    alternatives = [
        Alternative(text, _joint_score([one.hypothesis for one in chosen], alpha))
        for text, chosen in _ranked(line, sentences).items()
    ]
    return Translation(
        str(line.source),
        *alternatives[0],
        tuple(alternatives),
        _joint_note(sentences, is_cut=line.is_cut),
        all(one.hypotheses[0].is_finished for one in sentences),
    )


def pieces_of_alternatives(
    line: EncodedLine, sentences: Sequence[TranslatedSentence]
) -> list[list[TranslatedPiece]]:
    """Return the pieces that each alternative of `joined` consists of."""
    return [
        [_piece(candidate) for candidate in chosen] for chosen in _ranked(line, sentences).values()
    ]


def _piece(one: _Candidate) -> TranslatedPiece:
    sentence = one.sentence
    source = put_back(sentence.text, sentence.values) if sentence.values else sentence.text
    return TranslatedPiece(source, sentence.ids, one.text, one.hypothesis.ids, sentence.values)


def _ranked(
    line: EncodedLine, sentences: Sequence[TranslatedSentence]
) -> dict[str, list[_Candidate]]:
    """Return the best texts of a line, each with what was chosen for every piece.

    Different ids can spell the same text: the best counts.
    """
    found: dict[str, list[_Candidate]] = {}
    for rank in range(max((len(one.texts) for one in sentences), default=1)):
        chosen = [_at_rank(one, rank) for one in sentences]
        found.setdefault(join(line.pieces, [one.text for one in chosen]), chosen)
    return found


def _at_rank(one: TranslatedSentence, rank: int) -> _Candidate:
    """Return the translation at this rank, or the last if there are fewer."""
    place = min(rank, len(one.texts) - 1)
    return _Candidate(one.sentence, one.hypotheses[place], one.texts[place])


def _joint_score(hypotheses: list[Hypothesis], alpha: float) -> float:
    """Score several hypotheses as one: their log-probabilities and their lengths add up."""
    if len(hypotheses) == 1:
        return hypotheses[0].score
    total = sum(log_probability(hypothesis, alpha) for hypothesis in hypotheses)
    return total / penalty(sum(length(hypothesis) for hypothesis in hypotheses), alpha)


def _joint_note(sentences: Sequence[TranslatedSentence], *, is_cut: bool) -> str:
    if len(sentences) == 1:
        return sentences[0].note
    notes = [f"piece {number}: {one.note}" for number, one in enumerate(sentences, 1) if one.note]
    return "; ".join([f"too long, translated in {len(sentences)} pieces"] * is_cut + notes)
