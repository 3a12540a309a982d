"""A score is the log-probability of each token after those before it, in any batch."""

import math
from collections.abc import Iterable, Iterator

import pytest
import torch

from transduce.config.schema import Config
from transduce.data.corpus import Pair
from transduce.errors import InputError
from transduce.grammar import generate
from transduce.models.build import build_model
from transduce.models.folder import LoadedModel
from transduce.models.transformer.settings import TransformerConfig
from transduce.search.forced import forced_scores
from transduce.text.special_ids import BOS_ID, EOS_ID
from transduce.text.tokenizer import Tokenizer
from transduce.translation import scorer as module
from transduce.translation.scorer import PairScore, Scorer, perplexity

PAIRS = [Pair("", "nichts"), *generate(24, seed=6), Pair("nothing", ""), Pair("", "")]
TOKENIZER = Tokenizer.learn((text for pair in PAIRS for text in pair), vocab_size=400)


def new_model(max_positions: int = 64) -> LoadedModel:
    config = TransformerConfig(
        vocab_size=len(TOKENIZER), n_layers=2, d_model=16, d_ff=24, h=2, max_positions=max_positions
    )
    model = build_model(config, seed=3).double().eval()
    return LoadedModel(model, Config(model=config), TOKENIZER)


LOADED = new_model()


@torch.no_grad()
def by_hand(pair: Pair) -> list[float]:
    """Walk through one translation, asking for the next token each time."""
    (src,), (tgt,) = (TOKENIZER.encode_batch([text]) for text in pair)
    memory = LOADED.model.encode(torch.tensor([[*src, EOS_ID]]))
    prefix, found = [BOS_ID], []
    for token in [*tgt, EOS_ID]:
        logits = LOADED.model.decode(memory, torch.tensor([prefix]))[0, -1]
        found.append(float(logits[token] - logits.logsumexp(dim=0)))
        prefix.append(token)
    return found


@pytest.mark.exhaustive(after=1)
@pytest.mark.parametrize("max_tokens", [1, 60, 300, 10**6])
def test_scores_are_those_of_every_pair_alone_and_in_order(max_tokens: int) -> None:
    found = list(Scorer(LOADED, max_tokens=max_tokens).score(PAIRS))
    assert len(found) == len(PAIRS)
    for pair, score in zip(PAIRS, found, strict=True):
        expected = by_hand(pair)
        assert score.log_probs == pytest.approx(expected, rel=1e-9)
        assert score.total == pytest.approx(sum(expected), rel=1e-9)
        assert score.mean == pytest.approx(sum(expected) / len(expected), rel=1e-9)


def test_pieces_are_those_of_the_translation_with_eos() -> None:
    found = Scorer(LOADED).score(PAIRS)
    for pair, score in zip(PAIRS, found, strict=True):
        (ids,) = TOKENIZER.encode_batch([pair.tgt])
        assert score.pieces == (*TOKENIZER.tokens(ids), "< eos >")
        assert len(score.log_probs) == len(score.pieces)


def test_scoring_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WINDOW_PAIRS", 5)
    read = 0

    def counted(pairs: Iterable[Pair]) -> Iterator[Pair]:
        nonlocal read
        for pair in pairs:
            read += 1
            yield pair

    expected = [by_hand(pair) for pair in PAIRS]
    for n, score in enumerate(Scorer(LOADED).score(counted(PAIRS))):
        assert read <= n + 5
        assert score.log_probs == pytest.approx(expected[n], rel=1e-9)


def test_batches_are_bounded_by_their_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = []

    def noted(*arguments: object) -> object:
        src, _, tgt_out = arguments[1:]
        assert isinstance(src, torch.Tensor)
        assert isinstance(tgt_out, torch.Tensor)
        shapes.append((src.size(0), max(src.size(1), tgt_out.size(1))))
        return forced_scores(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "forced_scores", noted)
    monkeypatch.setattr(module, "MAX_LOGITS", 100 * len(TOKENIZER))
    assert len(list(Scorer(LOADED).score(PAIRS))) == len(PAIRS)
    assert sum(count for count, _ in shapes) == len(PAIRS)
    assert all(count * length <= 100 for count, length in shapes)
    assert 1 < len(shapes) < len(PAIRS)


@pytest.mark.parametrize("side", ["source", "translation"])
def test_a_pair_that_is_too_long_is_named(side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WINDOW_PAIRS", 2)
    text = " ".join(["word"] * 40)
    (ids,) = TOKENIZER.encode_batch([text])
    fits, refuses = (Scorer(new_model(len(ids) + more)) for more in (1, 0))
    too_long = Pair(text, "a") if side == "source" else Pair("a", text)
    pairs = [Pair("a", "b")] * 3 + [too_long]
    assert fits.check(pairs) == len(list(fits.score(pairs))) == 4
    complaint = f"line 4: its {side} has {len(ids) + 1} tokens .* {len(ids)} positions"
    with pytest.raises(InputError, match=complaint):
        refuses.check(pairs)
    with pytest.raises(InputError, match=complaint):
        list(refuses.score(pairs))


def test_nothing_is_scored_of_nothing() -> None:
    assert list(Scorer(LOADED).score([])) == []
    assert Scorer(LOADED).check([]) == 0


def test_perplexity_is_that_of_a_token() -> None:
    score = PairScore(("a", "b"), (math.log(0.5), math.log(0.125)))
    assert perplexity(score.total, 2) == pytest.approx(4)
    assert perplexity(-1e9, 1) == math.inf
