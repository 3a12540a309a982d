"""Every search writes the required phrases and none that is forbidden, however they are cut."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.drawing import seeds
from tests.search.recorded_on_cpu import REPLACED
from tests.text.phrases.oracle import count_phrases, small_tokenizer
from transduce.nn.step_state import SentenceState
from transduce.search import recorded
from transduce.search.beam import Beam, beam_search
from transduce.search.constraint import AllOf, PrefixConstraint
from transduce.search.constraints.lexical import UNLIMITED, LexicalConstraint, PhraseBound
from transduce.search.hypothesis import Hypothesis
from transduce.search.recorded import RecordedBeamSearch
from transduce.search.sample import Sampling, sample
from transduce.text.phrases.automaton import PhraseAutomaton, automaton_of
from transduce.text.phrases.vocabulary import PhraseVocabulary
from transduce.text.special_ids import BOS_ID, EOS_ID, PAD_ID

TOKENIZER = small_tokenizer(290)
VOCABULARY = PhraseVocabulary(TOKENIZER)
PHRASES = ["Haus", "am See", "Haustür", "Größe", "{name}", "5 km", "家", "Öl", "s", "ein Haus"]
AUTOMATA: dict[tuple[str, ...], PhraseAutomaton] = {}
CPU = torch.device("cpu")

Rule = tuple[list[str], int, int]  # alternatives, least, most
required = st.tuples(
    st.lists(st.sampled_from(PHRASES), min_size=1, max_size=2, unique=True),
    st.integers(1, 2),
    st.just(UNLIMITED),
)
exact = st.tuples(st.sampled_from([["{name}"], ["5 km"], ["家"], ["Öl"]]), st.just(1), st.just(1))


class RandomTable:
    """A model that scores tokens by the last one and the first of the source."""

    def __init__(self, vocab_size: int, *, seed: int, sharpness: float = 2.0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self._table = sharpness * torch.randn(vocab_size, vocab_size, generator=generator).double()

    def encode(self, src: Tensor) -> Tensor:
        return src[:, 0]

    def start(self, memory: Tensor, *, hypotheses: int, max_steps: int) -> SentenceState:
        del hypotheses, max_steps
        return SentenceState(memory)

    def step(
        self, last_ids: Tensor, state: SentenceState, *, position: Tensor, reach: int
    ) -> Tensor:
        del reach
        rows = (last_ids + 7 * state.tensor[:, None]) % len(self._table)
        return self._table[rows] * (1 + position / 40)  # [B, k, V]


@pytest.fixture(autouse=True)
def without_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, replacement in REPLACED:
        monkeypatch.setattr(recorded, name, replacement)


def bound(rule: Rule) -> PhraseBound:
    key = tuple(rule[0])
    if key not in AUTOMATA:
        AUTOMATA[key] = automaton_of(rule[0], VOCABULARY)
    return PhraseBound(AUTOMATA[key], rule[1], rule[2])


def constraint_for(
    rules: Sequence[Sequence[Rule]], limits: list[int], *, hypotheses: int
) -> LexicalConstraint:
    bounds = [[bound(rule) for rule in of_sentence] for of_sentence in rules]
    return LexicalConstraint.of(
        bounds,
        limits,
        vocab_size=len(TOKENIZER),
        hypotheses=hypotheses,
        device=CPU,
        separator=VOCABULARY.separator,
    )


def limit_for(rules: Sequence[Rule], spare: int) -> int:
    return sum(bound(rule).most_tokens for rule in rules) + 2 + spare


def all_searches(
    model: Any, src: Tensor, rules: Sequence[Sequence[Rule]], limits: list[int], size: int
) -> dict[str, list[Hypothesis]]:
    most = torch.tensor(limits)
    several, one = (constraint_for(rules, limits, hypotheses=n) for n in (size, 1))
    replay = RecordedBeamSearch(model, longest_source=None, max_positions=10**6)
    found = {
        "beam": beam_search(model, src, Beam(size), max_tokens=most, constraint=several),
        "recorded": replay(src, Beam(size), max_tokens=most, constraint=several),
        "greedy": beam_search(model, src, Beam(1), max_tokens=most, constraint=one),
    }
    numbers = list(range(len(src)))
    drawn = sample(model, src, Sampling(), numbers=numbers, max_tokens=most, constraint=one)
    return {name: [best for best, *_ in one] for name, one in found.items()} | {"sample": drawn}


def text_of(hypothesis: Hypothesis) -> str:
    [text] = TOKENIZER.decode_batch([hypothesis.ids])
    return text


def conflicts(rules: Sequence[Rule]) -> bool:
    """Whether what one rule asks for may break another."""
    return any(
        count_phrases(f" {text} ", other[0]) and other[2] < UNLIMITED
        for rule, other in itertools.permutations(rules, 2)
        for text in rule[0]
    )


@given(
    rules=st.lists(st.lists(required | exact, max_size=4), min_size=1, max_size=3),
    size=st.integers(2, 6),
    spare=st.integers(0, 12),
    seed=seeds,
)
@settings(max_examples=15)
def test_every_search_writes_what_is_required(
    rules: list[list[Rule]], size: int, spare: int, seed: int
) -> None:
    rules = [[] if conflicts(one) else one for one in rules]
    if not any(rules):
        return
    model = RandomTable(len(TOKENIZER), seed=seed)
    limits = [limit_for(one, spare) for one in rules]
    src = torch.arange(4, 4 + len(rules))[:, None]
    for name, found in all_searches(model, src, rules, limits, size).items():
        for hypothesis, of_sentence, limit in zip(found, rules, limits, strict=True):
            assert hypothesis.is_finished, name
            assert len(hypothesis.ids) < limit, name
            for alternatives, least, most in of_sentence:
                count = count_phrases(text_of(hypothesis), alternatives)
                assert least <= count <= most, (name, alternatives, text_of(hypothesis))


@given(
    forbidden=st.lists(st.sampled_from(PHRASES), min_size=1, max_size=4, unique=True),
    size=st.integers(2, 5),
    seed=seeds,
)
@settings(max_examples=15)
def test_no_search_writes_what_is_forbidden(forbidden: list[str], size: int, seed: int) -> None:
    # A model that likes these words: each follows its own first token.
    model = RandomTable(len(TOKENIZER), seed=seed)
    for ids in VOCABULARY.spellings(forbidden):
        for first, second in itertools.pairwise([BOS_ID, *ids, *ids[:1], EOS_ID]):
            model._table[(first + 7 * 4) % len(TOKENIZER), second] += 12
    src, rules = torch.tensor([[4]]), [[(forbidden, 0, 0)]]
    free = beam_search(model, src, Beam(size), max_tokens=torch.tensor([14]))
    for name, found in all_searches(model, src, rules, [14], size).items():
        assert count_phrases(text_of(found[0]), forbidden) == 0, name
    if count_phrases(text_of(free[0][0]), forbidden) == 0 and free[0][0].is_finished:
        assert all_searches(model, src, rules, [14], size)["beam"] == free[0]


def test_a_model_that_likes_them_writes_forbidden_words_if_it_may() -> None:
    model = RandomTable(len(TOKENIZER), seed=1)
    for ids in VOCABULARY.spellings(["Haus"]):
        for first, second in itertools.pairwise([BOS_ID, *ids, EOS_ID]):
            model._table[(first + 7 * 4) % len(TOKENIZER), second] += 12
    [[best]] = beam_search(model, torch.tensor([[4]]), Beam(4), max_tokens=torch.tensor([14]))
    assert count_phrases(text_of(best), ["Haus"]) > 0


@given(
    rules=st.lists(st.lists(required, min_size=1, max_size=3), min_size=2, max_size=3),
    size=st.integers(2, 5),
    seed=seeds,
)
@settings(max_examples=5)
def test_in_a_batch_as_alone(rules: list[list[Rule]], size: int, seed: int) -> None:
    model = RandomTable(len(TOKENIZER), seed=seed)
    limits = [limit_for(one, 5) for one in rules]
    src = torch.arange(4, 4 + len(rules))[:, None]
    together = all_searches(model, src, rules, limits, size)
    for place, (one, limit) in enumerate(zip(rules, limits, strict=True)):
        alone = all_searches(model, src[place : place + 1], [one], [limit], size)
        for name in ("beam", "recorded", "greedy"):
            assert alone[name][0].ids == together[name][place].ids, name
            assert alone[name][0].score == pytest.approx(together[name][place].score)


@given(size=st.integers(1, 5), seed=seeds, n_best=st.integers(1, 3))
@settings(max_examples=10)
def test_phrases_that_need_not_occur_change_nothing(size: int, seed: int, n_best: int) -> None:
    """It holds for what ends before the limit, where a constrained search must end."""
    model = RandomTable(len(TOKENIZER), seed=seed, sharpness=4)
    model._table[:, EOS_ID] += 8
    limit, count = 25, 6
    src, limits = torch.arange(4, 4 + count)[:, None], torch.full((count,), limit)
    beam = Beam(size, n_best=min(n_best, size))
    free = beam_search(model, src, beam, max_tokens=limits)
    constraint = constraint_for(
        [[(["Haus"], 0, UNLIMITED)]] * count, limits.tolist(), hypotheses=size
    )
    found = beam_search(model, src, beam, max_tokens=limits, constraint=constraint)
    for bound_ones, free_ones in zip(found, free, strict=True):
        if all(one.is_finished and len(one.ids) < limit - 1 for one in (*free_ones, *bound_ones)):
            assert [one.ids for one in bound_ones] == [one.ids for one in free_ones]


@given(prefix=st.lists(st.integers(4, 289), min_size=1, max_size=4), seed=seeds)
@settings(max_examples=15)
def test_with_a_prefix_both_hold(prefix: list[int], seed: int) -> None:
    model = RandomTable(len(TOKENIZER), seed=seed)
    rules: list[list[Rule]] = [[(["Haus"], 1, UNLIMITED)]]
    limit = limit_for(rules[0], len(prefix) + 3)
    both = AllOf(
        (
            PrefixConstraint(torch.tensor([prefix]), len(TOKENIZER)),
            constraint_for(rules, [limit], hypotheses=4),
        )
    )
    [[best]] = beam_search(
        model, torch.tensor([[4]]), Beam(4), max_tokens=torch.tensor([limit]), constraint=both
    )
    assert best.ids[: len(prefix)] == prefix
    assert count_phrases(text_of(best), ["Haus"]) >= 1


LETTERS = {4: "a", 5: "b", 6: " "}


class LetterTable:
    """An automaton for the text "b" as a word of its own, written by hand, over three letters."""

    # States: after a space or at the start, within a word, after a "b" that may be a word.
    columns = np.array([0, 0, 0, 1, 2, 3, 4])
    following = np.array([[0, 0, 1, 2, 0], [1, 1, 1, 1, 0], [2, 2, 1, 1, 0]])
    found = np.array([[0, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 1, 0, 0, 1]])
    is_partial = np.array([False, False, True])
    proposed = np.array([[5], [6], [-1]])
    distances = np.array([1, 2, 0])
    forced = np.array([5, 6, -1])


@pytest.mark.parametrize("alpha", [0.0, 0.6])
@pytest.mark.parametrize("seed", range(6))
def test_a_wide_beam_finds_the_best_that_obeys(seed: int, alpha: float) -> None:
    """All texts of at most 6 letters are compared, but for those that write on after their end.

    The model likes to end early: shortly before the maximum length, what is missing is forced.
    """
    model, limit = RandomTable(7, seed=seed), 9
    model._table[:, [PAD_ID, 1, BOS_ID]] = -math.inf
    model._table[:, EOS_ID] += 3
    beam = Beam(2_000, alpha)
    expected = max(
        (score, ids)
        for score, ids in texts_with_scores(model, beam, letters=6)
        if "b" in "".join(LETTERS[token] for token in ids).split(" ")
        and not writes_on_after_its_end(model, ids)
    )
    constraint = LexicalConstraint.of(
        [[PhraseBound(LetterTable())]], [limit], vocab_size=7, hypotheses=2_000, device=CPU
    )
    [[best]] = beam_search(
        model, torch.tensor([[4]]), beam, max_tokens=torch.tensor([limit]), constraint=constraint
    )
    assert best.ids == expected[1]
    assert best.score == pytest.approx(expected[0])


def writes_on_after_its_end(model: RandomTable, ids: Sequence[int]) -> bool:
    """Whether EOS was likeliest while "b" was missing, and what followed did not lead to it."""
    state, automaton = SentenceState(torch.tensor([4])), LetterTable()
    row = count = 0
    for length, (last, token) in enumerate(itertools.pairwise([BOS_ID, *ids])):
        is_missing = count + automaton.found[row, automaton.columns[EOS_ID]] == 0
        logits = model.step(
            torch.tensor([[last]]), state, position=torch.tensor([length]), reach=length + 1
        )
        would_end = int(logits[0, 0].argmax()) == EOS_ID
        if is_missing and would_end and token not in automaton.proposed[row]:
            return True
        count += automaton.found[row, automaton.columns[token]]
        row = automaton.following[row, automaton.columns[token]]
    return False


def texts_with_scores(
    model: RandomTable, beam: Beam, *, letters: int
) -> list[tuple[float, list[int]]]:
    """Score every text of so many letters or fewer."""
    found, texts = [], [(0.0, [BOS_ID])]
    state = SentenceState(torch.tensor([4]))
    for length in range(letters + 1):
        last = torch.tensor([[ids[-1] for _, ids in texts]])
        position = torch.tensor([length])
        logits = model.step(last, state, position=position, reach=length + 1)[0]
        rows = list(zip(texts, logits.log_softmax(dim=1).tolist(), strict=True))
        penalty = float(beam.penalty(torch.tensor(length + 1)))
        found += [((score + row[EOS_ID]) / penalty, ids[1:]) for (score, ids), row in rows]
        texts = [
            (score + row[token], [*ids, token]) for (score, ids), row in rows for token in LETTERS
        ]
    return found


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_recorded_steps_on_a_device_find_what_plain_steps_find(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()  # recorded for real
    model, device = RandomTable(len(TOKENIZER), seed=3), torch.device("cuda")
    on_cpu = RandomTable(len(TOKENIZER), seed=3)
    model._table = model._table.to(device)
    rules: list[list[Rule]] = [
        [(["Haus"], 2, UNLIMITED), (["{name}"], 1, 1)],
        [(["Größe", "Öl"], 1, UNLIMITED), (["s"], 0, 0)],
    ]
    limits = [limit_for(one, 6) for one in rules]
    src, most = torch.tensor([[4], [5]]), torch.tensor(limits)
    expected = beam_search(
        on_cpu,
        src,
        Beam(4),
        max_tokens=most,
        constraint=constraint_for(rules, limits, hypotheses=4),
    )
    bounds = [[bound(rule) for rule in of_sentence] for of_sentence in rules]
    constraint = LexicalConstraint.of(
        bounds,
        limits,
        vocab_size=len(TOKENIZER),
        hypotheses=4,
        device=device,
        separator=VOCABULARY.separator,
    )
    replay = RecordedBeamSearch(model, longest_source=None, max_positions=10**6)
    for _ in range(3):  # warm, recorded, replayed
        found = replay(src.to(device), Beam(4), max_tokens=most, constraint=constraint)
        assert [one[0].ids for one in found] == [one[0].ids for one in expected]
