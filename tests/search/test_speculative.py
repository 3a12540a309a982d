"""Speculative decoding gives what greedy search gives, whatever is drafted, in fewer passes."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from tests.drawing import (
    VOCAB_SIZE,
    mixed_configs,
    models,
    padded_ids,
    random_ids,
    seeds,
    transformer,
    varied_configs,
)
from tests.search.drafts import CountedPasses, GivenDraft
from transduce.models.transformer.model import Transformer
from transduce.models.transformer.settings import TransformerConfig
from transduce.search.beam import Beam, beam_search
from transduce.search.cancel import Cancelled, cancelled_when
from transduce.search.hypothesis import Hypothesis
from transduce.search.speculative.decoding import speculative_search
from transduce.search.speculative.drafter import Drafter, ModelDrafter, NgramDrafter
from transduce.text.special_ids import EOS_ID

LONGEST = 16


def greedy(model: Transformer, src: Tensor, limit: int = LONGEST) -> Hypothesis:
    [[best]] = beam_search(model, src, Beam(1), max_tokens=torch.tensor([limit]))
    return best


def speculative(
    model: Transformer, src: Tensor, drafter: Drafter, limit: int = LONGEST, *, tokens: int = 4
) -> tuple[Hypothesis, list[tuple[int, int]]]:
    """Return what is found, and the position and the tokens of each pass."""
    counted = CountedPasses(model)
    [best] = speculative_search(counted, src, drafter, max_tokens=limit, draft_tokens=tokens)
    return best, counted.passes


def assert_same(found: Hypothesis, expected: Hypothesis) -> None:
    assert (found.ids, found.is_finished) == (expected.ids, expected.is_finished)
    assert math.isclose(found.score, expected.score, abs_tol=1e-4)


def small_model(seed: int, *, eos: float = 1.0, layers: int = 2) -> Transformer:
    """Build a model that ends its sentences the sooner, the larger `eos` is."""
    shape = TransformerConfig(vocab_size=VOCAB_SIZE, n_layers=layers, d_model=16, d_ff=16, h=2)
    model = transformer(shape, seed=seed).eval()
    with torch.no_grad():
        model.embedding.weight[EOS_ID] *= eos
    return model


@st.composite
def verifiers(draw: st.DrawFn) -> Transformer:
    """Draw models of all forms that can read several tokens in a step, in float64."""
    of_attention = st.lists(st.sampled_from(["attention", "window"]), min_size=1, max_size=2)
    mixed = mixed_configs(decoder_mixers=tuple(draw(of_attention)), encoder_mixers=("attention",))
    config = draw(st.one_of(varied_configs(), mixed))
    return transformer(config, seed=draw(seeds)).double().eval()


# The pass over several tokens


@given(model=verifiers(), src=padded_ids(), data=st.data())
def test_tokens_read_at_once_or_taken_back_are_as_if_read_one_by_one(
    model: Transformer, src: Tensor, data: st.DataObject
) -> None:
    assert model.abilities.multi_token_step
    with torch.inference_mode():
        ids = random_ids([LONGEST] * src.size(0), seed=data.draw(seeds))
        expected = model.decode(model.encode(src), ids)
        state = model.start(model.encode(src), hypotheses=1, max_steps=LONGEST)
        read = 0
        for _ in range(data.draw(st.integers(1, 6))):
            position = data.draw(st.integers(max(0, read - 3), min(read, LONGEST - 1)))
            count = data.draw(st.integers(1, min(5, LONGEST - position)))
            is_wrong = data.draw(st.booleans())
            span = slice(position, position + count)
            logits = model.multi_token_step(
                torch.full((src.size(0), count), 5) if is_wrong else ids[:, span],
                state,
                position=torch.tensor([position]),
                reach=data.draw(st.integers(position + count, LONGEST)),
            )
            read = position if is_wrong else position + count  # wrong tokens are taken back
            if not is_wrong:
                assert_close(logits, expected[:, span], rtol=0, atol=1e-11)


@pytest.mark.parametrize("mixer", ["performer", "s4", "mamba"])
def test_a_model_that_cannot_go_back_says_so(mixer: str) -> None:
    shape = TransformerConfig(
        vocab_size=9, d_model=8, d_ff=8, h=2, n_layers=2, decoder_mixers=("attention", mixer)
    )
    assert not transformer(shape).abilities.multi_token_step


# The same output


@given(model=models(max_positions=LONGEST), draft=models(max_positions=LONGEST), data=st.data())
def test_the_output_is_greedy_searchs_whatever_is_drafted(
    model: Transformer, draft: Transformer, data: st.DataObject
) -> None:
    src = data.draw(padded_ids(sentences=1))
    with torch.no_grad():
        model.embedding.weight[EOS_ID] *= data.draw(st.sampled_from([0.0, 1.0, 2.0]))
    limit, tokens = data.draw(st.integers(1, LONGEST)), data.draw(st.integers(0, 6))
    any_text = st.lists(st.integers(0, VOCAB_SIZE - 1), max_size=LONGEST)
    drafters: list[Drafter] = [
        ModelDrafter(draft),
        ModelDrafter(model),
        NgramDrafter(reads_source=data.draw(st.booleans())),
        GivenDraft(data.draw(any_text)),
    ]
    expected = greedy(model, src, limit)
    for drafter in drafters:
        found, passes = speculative(model, src, drafter, limit, tokens=tokens)
        assert_same(found, expected)
        assert max(position + count for position, count in passes) <= limit


def test_many_sentences_get_greedy_searchs_output_in_single_precision() -> None:
    model, draft = small_model(2, eos=1.5), small_model(3, layers=1)
    with torch.no_grad():  # a draft that is right now and then
        draft.embedding.weight.copy_(model.embedding.weight)
    lengths = [1 + number % 9 for number in range(40)]
    sources = [row[None, :n] for row, n in zip(random_ids(lengths, seed=4), lengths, strict=True)]
    kept = 0
    for src in sources:
        expected = greedy(model, src)
        found, passes = speculative(model, src, ModelDrafter(draft))
        assert_same(found, expected)
        kept += len(found.ids) + found.is_finished - len(passes)
    assert kept > 5  # drafts were kept, and others taken back
    assert {len(greedy(model, src).ids) < LONGEST for src in sources} == {True, False}


def test_scores_that_are_no_numbers_give_no_hypothesis() -> None:
    model, src = small_model(5), random_ids([4], seed=6)
    with torch.no_grad():
        model.embedding.weight.fill_(math.nan)
    assert beam_search(model, src, Beam(1), max_tokens=torch.tensor([5])) == [[]]
    assert speculative_search(model, src, ModelDrafter(model), max_tokens=5) == []
    assert speculative_search(model, src, ModelDrafter(model), max_tokens=0) == []


# The passes


def wrong(ids: list[int]) -> list[int]:
    return [4 + (token - 3) % (VOCAB_SIZE - 4) for token in ids]


def unending() -> tuple[Transformer, Tensor, list[int]]:
    """Return a model and a source whose translation has 16 tokens, and no end."""
    model, src = small_model(7, eos=0.0), random_ids([5], seed=8)
    ids = greedy(model, src).ids
    assert len(ids) == LONGEST
    return model, src, ids


def test_drafts_that_are_right_take_the_fewest_passes() -> None:
    model, src, ids = unending()
    found, passes = speculative(model, src, GivenDraft(ids), tokens=4)
    assert found.ids == ids
    # Each keeps four proposals and adds a token; of the last, only the maximum length is left.
    assert passes == [(0, 5), (5, 5), (10, 5), (15, 1)]


def test_drafts_that_are_wrong_take_as_many_passes_as_greedy_search() -> None:
    model, src, ids = unending()
    found, passes = speculative(model, src, GivenDraft(wrong(ids)), tokens=4)
    assert found.ids == ids
    assert [position for position, _ in passes] == list(range(LONGEST))


def test_a_draft_is_kept_up_to_its_first_fault() -> None:
    model, src, ids = unending()
    text = [*ids[:2], *wrong(ids[2:3]), *ids[3:]]  # the third token is wrong
    found, passes = speculative(model, src, GivenDraft(text), tokens=4)
    assert found.ids == ids
    assert passes == [(0, 5), (3, 5), (8, 5), (13, 3)]


def test_the_end_of_a_sentence_within_a_draft_ends_it() -> None:
    model, src = small_model(3, eos=1.5, layers=1), random_ids([5], seed=8)
    best = greedy(model, src)
    assert best.is_finished
    assert len(best.ids) == 4
    for text in ([*best.ids, EOS_ID, 9, 9], [*best.ids, 9, 9, 9]):  # with its end, and without
        drafted, passes = speculative(model, src, GivenDraft(text), tokens=7)
        assert_same(drafted, best)
        assert passes == [(0, 8)]


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_the_maximum_length_within_a_draft_ends_it(limit: int) -> None:
    model, src, ids = unending()
    found, passes = speculative(model, src, GivenDraft(ids), limit, tokens=9)
    assert (found.ids, found.is_finished) == (ids[:limit], False)
    assert passes == [(0, limit)]


def test_a_model_that_drafts_for_itself_is_always_right_and_reads_no_token_twice() -> None:
    model, src, ids = unending()
    drafting = CountedPasses(model)
    found, passes = speculative(model, src, ModelDrafter(drafting), tokens=4)
    assert found.ids == ids
    assert len(passes) == 4
    # After a draft that was kept whole, its last token and the model's own are not read yet.
    assert drafting.passes[:6] == [(0, 1), (1, 1), (2, 1), (3, 1), (4, 2), (6, 1)]


def test_a_draft_that_is_taken_back_is_written_anew_from_there() -> None:
    model, src, ids = unending()
    drafting = CountedPasses(small_model(9, eos=0.0))
    found, passes = speculative(model, src, ModelDrafter(drafting), tokens=3)
    assert found.ids == ids
    # The draft is seldom right: each time, it reads the one token that the model chose instead.
    began = [position for position, _ in drafting.passes]
    assert all(began.count(position) >= 1 for position, _ in passes[:-1])
    assert len(set(began)) < len(began)


def test_a_search_that_is_cancelled_ends_at_its_next_pass() -> None:
    model, src, _ = unending()
    counted = CountedPasses(model)
    with pytest.raises(Cancelled), cancelled_when(lambda: len(counted.passes) == 2):
        speculative_search(counted, src, GivenDraft([]), max_tokens=LONGEST)
    assert len(counted.passes) == 2


# Copies


@pytest.mark.parametrize(
    ("ids", "proposed"),
    [
        ([], []),
        ([30], []),
        ([11], [12, 13, 14]),
        ([30, 12], [13, 14]),
        ([14], []),  # the end of the source
        ([12, 20, 21, 12], [20, 21, 12]),  # what is written comes before the source
        ([10, 40, 41, 11, 10], [40, 41, 11]),
    ],
)
def test_copies_follow_the_longest_and_last_occurrence(ids: list[int], proposed: list[int]) -> None:
    source = torch.tensor([[10, 40, 10, 11, 12, 13, 14, EOS_ID]])
    draft = NgramDrafter(reads_source=True).start(source, max_steps=20)
    assert draft.propose(ids, 3).tolist() == proposed


def test_ids_of_another_vocabulary_are_not_copied() -> None:
    source = torch.tensor([[10, 11, 12, EOS_ID]])
    draft = NgramDrafter(reads_source=False).start(source, max_steps=20)
    assert draft.propose([10], 3).tolist() == []
    assert draft.propose([10, 11, 10], 3).tolist() == [11, 10]
