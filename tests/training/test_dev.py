"""A dev score is that of each sentence's own greedy translation, however they are batched."""

import re
from collections.abc import Callable, Sequence

import pytest
import torch

from tests.search.greedy import best_without_cache
from tests.search.scripted import ScriptedModel
from transduce.data.corpus import Pair
from transduce.errors import InputError
from transduce.grammar import generate
from transduce.models.transformer.assemble import assemble
from transduce.models.transformer.model import Transformer
from transduce.models.transformer.settings import TransformerConfig
from transduce.nn.initialise import initialise
from transduce.tasks.base import Metric, MetricScore
from transduce.tasks.metrics import bleu
from transduce.tasks.translation import TranslationTask
from transduce.text.special_ids import EOS_ID
from transduce.text.tokenizer import Tokenizer
from transduce.training.dev import DevScore, DevScorer
from transduce.translation.options import Options
from transduce.translation.translator import Translator

PAIRS = list(generate(30, seed=4))
TOKENIZER = Tokenizer.learn((text for pair in PAIRS for text in pair), vocab_size=400)
MAX_POSITIONS = 64
TASK = TranslationTask()


def new_model(**changes: float) -> Transformer:
    config = {
        "vocab_size": len(TOKENIZER),
        "n_layers": 1,
        "d_model": 16,
        "d_ff": 16,
        "h": 2,
        "max_positions": MAX_POSITIONS,
    }
    torch.manual_seed(1)
    model = assemble(TransformerConfig.model_validate(config | changes))
    initialise(model)
    return model


def dev_set(
    pairs: list[Pair] = PAIRS,
    *,
    task: TranslationTask = TASK,
    max_length: int | None = MAX_POSITIONS,
    max_tokens: int = 1000,
    autocast: torch.dtype | None = None,
) -> DevScorer:
    return DevScorer(
        TOKENIZER,
        pairs,
        task=task,
        device="cpu",
        max_length=max_length,
        max_tokens=max_tokens,
        autocast=autocast,
    )


def score_of(found: DevScore | None) -> DevScore:
    assert found is not None
    return found


def one_by_one(model: Transformer, pairs: list[Pair]) -> list[str]:
    found = []
    for ids in TOKENIZER.encode_batch([pair.src for pair in pairs]):
        src = torch.tensor([[*ids, EOS_ID]])
        limit = min(src.size(1) + 50, MAX_POSITIONS)
        found.append(best_without_cache(model, src, limit))
    return TOKENIZER.decode_batch(found)


def perfect(pairs: list[Pair] = PAIRS, tokenizer: Tokenizer = TOKENIZER) -> ScriptedModel:
    """A model that knows the references by heart."""
    sources, targets = (tokenizer.encode_batch(texts) for texts in zip(*pairs, strict=True))
    script = {(*ids, EOS_ID): target for ids, target in zip(sources, targets, strict=True)}
    return ScriptedModel(script, vocab_size=len(tokenizer))


def test_text_that_was_cut_before_is_scored_in_whole_words() -> None:
    cut = [Pair(*(re.sub(r"e(?=\w)", "e@@ ", text) for text in pair)) for pair in PAIRS]
    texts = (text for pair in cut for text in pair)
    words = Tokenizer.learn(texts, kind="whitespace", vocab_size=1000)
    dev = DevScorer(words, cut, task=TASK, device="cpu", max_length=200, max_tokens=1000)
    found = score_of(dev(perfect(cut, words)))
    assert found.metric.score == pytest.approx(100)
    assert list(found.hypotheses) == [pair.tgt for pair in PAIRS]


@pytest.mark.exhaustive(after=1)
@pytest.mark.parametrize("max_tokens", [1, 500, 10**6])
def test_every_sentence_is_translated_as_if_alone_and_in_its_place(max_tokens: int) -> None:
    model = new_model().double().eval()
    found = score_of(dev_set(max_tokens=max_tokens)(model))
    assert list(found.hypotheses) == one_by_one(model, PAIRS)
    assert len(set(found.hypotheses)) > 10
    assert found.metric == bleu(found.hypotheses, [pair.tgt for pair in PAIRS])


def test_a_perfect_model_scores_100() -> None:
    found = score_of(dev_set()(perfect()))
    assert found.metric.name == "BLEU"
    assert found.metric.score == pytest.approx(100)
    assert list(found.hypotheses) == [pair.tgt for pair in PAIRS]
    assert "tok:13a" in found.metric.signature


class Shouted(TranslationTask):
    """A task whose models write capitals, scored by the share of wrong lines."""

    def from_target(self, text: str) -> str:
        return text.upper()

    def metric(self, references: Sequence[str]) -> Metric:
        del references
        return WrongLines()


class WrongLines(Metric):
    name = "wrong lines"
    higher_is_better = False

    def compute(self, hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
        wrong = sum(a != b for a, b in zip(hypotheses, references, strict=True))
        return 100 * wrong / len(references), "percent"


def test_the_task_reads_the_output_and_scores_it() -> None:
    pairs = [*PAIRS[:9], Pair(PAIRS[9].src, PAIRS[9].tgt.upper())]
    found = score_of(dev_set(pairs, task=Shouted())(perfect()))
    assert list(found.hypotheses) == [pair.tgt.upper() for pair in PAIRS[:10]]
    assert found.metric == MetricScore("wrong lines", 90.0, "percent", higher_is_better=False)


def test_a_model_without_a_longest_sequence_is_limited_by_the_task_alone() -> None:
    pairs = [Pair(" ".join([PAIRS[0].src] * 4), "a"), *PAIRS]
    model = perfect(pairs)
    assert len(score_of(dev_set(pairs, max_length=None)(model)).hypotheses) == len(pairs)
    assert max(length for _, length in model.batches) > MAX_POSITIONS


def test_a_script_without_spaces_is_scored_by_characters() -> None:
    pairs = [Pair("one", "他昨天在图书馆看了一本很有意思的书。")]
    texts = [text for pair in pairs for text in pair]
    tokenizer = Tokenizer.learn(texts, vocab_size=300)
    dev = DevScorer(tokenizer, pairs, task=TASK, device="cpu", max_length=200, max_tokens=100)
    assert "tok:zh" in score_of(dev(perfect(pairs, tokenizer))).metric.signature


def test_batches_keep_to_their_tokens_and_to_like_lengths() -> None:
    model = perfect()
    dev_set(max_tokens=800)(model)
    assert sum(count for count, _ in model.batches) == len(PAIRS)
    assert all(count * (length + length + 50) <= 800 for count, length in model.batches)
    lengths = [length for _, length in model.batches]
    assert lengths == sorted(lengths, reverse=True)
    assert 1 < len(model.batches) < len(PAIRS)


def test_a_sentence_over_the_budget_is_a_batch_of_its_own() -> None:
    model = perfect()
    assert score_of(dev_set(max_tokens=1)(model)).metric.score == pytest.approx(100)
    assert [count for count, _ in model.batches] == [1] * len(PAIRS)


def test_what_is_scored_is_what_a_user_gets() -> None:
    # A source of over 64 tokens is translated in pieces, and a blank one stays blank.
    pairs = [Pair(" ".join([PAIRS[0].src] * 9), "lang"), Pair("", "nichts"), *PAIRS]
    model = new_model().double().eval()
    translator = Translator(model, TOKENIZER, max_positions=MAX_POSITIONS)
    options = Options(beam=1, second_try=False)
    expected = translator.translate([pair.src for pair in pairs], options)
    found = score_of(dev_set(pairs)(model))
    assert list(found.hypotheses) == [translation.text for translation in expected]
    assert "pieces" in expected[0].note
    assert found.hypotheses[1] == ""


@pytest.mark.parametrize("training", [True, False])
def test_the_model_is_asked_in_eval_mode_and_put_back(training: bool) -> None:
    model = perfect()
    model.train(training)
    dev_set()(model)
    assert model.modes == {False}
    assert model.training is training


def test_a_model_that_fails_is_put_back_too() -> None:
    model = ScriptedModel({}, vocab_size=4)
    with pytest.raises(KeyError):
        dev_set()(model)
    assert model.training


def test_training_goes_on_as_if_nobody_had_asked() -> None:
    model = new_model(p_drop=0.5).train()
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, second = dev_set()(model), dev_set()(model)
    assert first == second  # no dropout
    assert torch.equal(torch.get_rng_state(), before)
    assert all(module.training for module in model.modules())
    assert all(p.grad is None for p in model.parameters())


def after(calls: int) -> Callable[[], bool]:
    """Ask to stop after so many answers."""
    answers = iter([False] * calls)
    return lambda: next(answers, True)


def test_it_can_be_stopped_in_the_middle() -> None:
    pairs = list(generate(200, seed=5))
    model = perfect(pairs)
    assert dev_set(pairs, max_tokens=10**6)(model, stopped=after(2)) is None
    assert [count for count, _ in model.batches] == [64, 64]
    assert model.training
    assert dev_set(pairs)(model, stopped=lambda: True) is None
    assert len(model.batches) == 2


def test_autocast_is_on_for_the_model_alone() -> None:
    model = perfect()
    dev_set(autocast=torch.bfloat16, max_tokens=10**6)(model)
    dev_set(max_tokens=10**6)(model)
    assert model.autocasts == [torch.bfloat16, None]
    assert not torch.is_autocast_enabled("cpu")


def test_a_real_model_can_be_scored_in_bfloat16() -> None:
    model = new_model()
    found = score_of(dev_set(autocast=torch.bfloat16)(model))
    assert len(found.hypotheses) == len(PAIRS)
    assert all(p.dtype == torch.float32 for p in model.parameters())


def test_an_empty_set_is_refused() -> None:
    with pytest.raises(InputError, match="the development set is empty"):
        dev_set([])
