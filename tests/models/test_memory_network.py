"""The memory network equals a plain loop over sentences, and reads stories as they are told."""

import math
from collections.abc import Sequence

import torch
from hypothesis import given
from torch import Tensor
from torch.testing import assert_close

from tests.drawing import lengths_of, padded_ids, seeds
from tests.models.every_kind import memory_network_configs
from tests.project.shape_comments import shape_faults
from tests.project.test_shape_comments import PACKAGE
from transduce.models.build import build_model
from transduce.models.memory_network.model import MemoryNetwork
from transduce.models.memory_network.settings import MemoryNetworkConfig
from transduce.models.memory_network.story import story_of
from transduce.text.special_ids import EOS_ID, PAD_ID


def built(config: MemoryNetworkConfig, seed: int) -> MemoryNetwork:
    found = build_model(config, seed=seed)
    assert isinstance(found, MemoryNetwork)
    return found.double().eval()


def sentences_of(src: Sequence[int], ends: Sequence[int]) -> tuple[list[list[int]], list[int]]:
    """Divide a source into a story and its question; without a story, into single tokens."""
    found: list[list[int]] = [[]]
    for token in src:
        found[-1].append(token)
        if token in ends:
            found.append([])
    found = [sentence for sentence in found if sentence]
    if len(found) > 1:
        return found[:-1], found[-1]
    return [[token] for token in src], []


def plain_logits(
    network: MemoryNetwork, config: MemoryNetworkConfig, src: list[int], tgt: list[int]
) -> Tensor:
    """Score every next token of one pair, word by word and memory by memory: [T, V]."""
    d = config.d_model
    story, question = sentences_of(src, config.sentence_end_ids)
    words = [table.weight for table in network.embeddings]
    times = [table.weight for table in network.times]

    def bag(sentence: list[int], table: Tensor) -> Tensor:
        total = torch.zeros(d, dtype=torch.float64)
        big_j = len(sentence)
        for j, word in enumerate(sentence, start=1):
            k = torch.arange(1, d + 1, dtype=torch.float64)
            weight = (1 - j / big_j) - (k / d) * (1 - 2 * j / big_j)
            total = total + (weight if question else 1.0) * table[word]
        return total

    latest_first = story[::-1][: config.memory_size]
    logits = []
    for t, last in enumerate(tgt):
        u = words[0][last] + network.positions.weight[min(t, config.memory_size - 1)]
        if question:
            u = u + bag(question, words[0])
        else:
            u = u + network.countdown.weight[max(0, min(len(src) - t, config.memory_size))]
        for hop in range(config.hops):
            m = [bag(x, words[hop]) + times[hop][i] for i, x in enumerate(latest_first)]
            c = [bag(x, words[hop + 1]) + times[hop + 1][i] for i, x in enumerate(latest_first)]
            scores = [math.exp(float(u @ one)) for one in m]
            for score, one in zip(scores, c, strict=True):
                u = u + score / sum(scores) * one
        logits.append(words[-1] @ u)
    return torch.stack(logits)


@torch.no_grad()
@given(
    config=memory_network_configs(),
    seed=seeds,
    src=padded_ids(sentences=3),
    tgt=padded_ids(sentences=3, max_length=4),
)
def test_a_batch_equals_a_plain_loop_over_sentences(
    config: MemoryNetworkConfig, seed: int, src: Tensor, tgt: Tensor
) -> None:
    network = built(config, seed)
    together = network(src, tgt)
    for row, (n, m) in enumerate(zip(lengths_of(src), lengths_of(tgt), strict=True)):
        alone = plain_logits(network, config, src[row, :n].tolist(), tgt[row, :m].tolist())
        assert_close(together[row, :m], alone, rtol=0, atol=1e-11)


def parts_of(src: list[int], *, memory_size: int = 9) -> list[list[int]]:
    """Return the question and then the memories, the latest first, as lists of positions."""
    story = story_of(torch.tensor([src]), [5], memory_size)
    return [part.nonzero()[:, 0].tolist() for part in story.parts[0]]


def test_the_last_sentence_is_the_question_with_or_without_its_end() -> None:
    assert parts_of([7, 5, 8, 9, 5, 10, 11, EOS_ID, PAD_ID])[:4] == [[5, 6], [2, 3, 4], [0, 1], []]
    assert parts_of([7, 5, 8, 9, 5, 10, 5, EOS_ID])[:4] == [[5, 6], [2, 3, 4], [0, 1], []]


def test_without_a_story_every_token_is_a_memory() -> None:
    assert parts_of([7, 8, 9, EOS_ID])[:4] == [[], [2], [1], [0]]
    assert parts_of([7, 8, 5, EOS_ID])[:4] == [[], [2], [1], [0]]  # one sentence is no story


def test_only_the_latest_memories_are_kept() -> None:
    assert parts_of([7, 5, 8, 5, 9, 5, 10], memory_size=2) == [[6], [4, 5], [2, 3]]


def test_the_maps_of_the_hops_are_rows_over_the_tokens_of_memories() -> None:
    config = MemoryNetworkConfig(vocab_size=23, d_model=6, hops=2, sentence_end_ids=(5,))
    src = torch.tensor([[7, 5, 8, 9, 5, 10, EOS_ID], [7, 8, 9, EOS_ID, PAD_ID, PAD_ID, PAD_ID]])
    cross = built(config, 3).attention_maps(src, torch.tensor([[6, 7], [8, 9]])).cross
    assert cross.shape == (2, 2, 1, 2, 7)
    assert_close(cross.sum(dim=-1), torch.ones(2, 2, 1, 2, dtype=torch.float64))
    assert not cross[:, 0, ..., 5:].any()  # the question is no memory
    assert not cross[:, 1, ..., 3:].any()
    assert torch.equal(cross[..., 2][:, 0], cross[..., 4][:, 0])  # words of one sentence


def test_the_ends_of_sentences_are_found_in_the_vocabulary() -> None:
    config = MemoryNetworkConfig()
    found = config.fitted_to(["", "< unk >", "", "", "a", ".", " .", "..", "b"])
    assert found == {"vocab_size": 9, "sentence_end_ids": [5, 6]}
    unset = MemoryNetworkConfig(sentence_end="")
    assert unset.fitted_to(["", "a"]) == {"vocab_size": 2, "sentence_end_ids": []}


def test_shape_comments_are_true() -> None:
    sources = {
        path: path.read_text(encoding="utf-8")
        for path in (PACKAGE / "models/memory_network").glob("*.py")
    }
    config = MemoryNetworkConfig(
        vocab_size=23, d_model=10, hops=2, memory_size=6, sentence_end_ids=(8,)
    )

    def run() -> None:
        src, tgt = torch.full((5, 7), 8), torch.full((5, 9), 9)
        network = built(config, 1)
        network(src, tgt)
        network.attention_maps(src, tgt)
        state = network.start(network.encode(src), hypotheses=3, max_steps=11)
        network.step(tgt[:, :3], state, position=torch.tensor([0]), reach=1)

    sizes = {
        "B": {5},
        "S": {7},
        "T": {9, 3, 1},
        "k": {3},
        "V": {23},
        "M": {6},
        "1+M": {7},
    }
    sizes |= {"d_model": {10}, "K+1": {3}}
    assert shape_faults(sources, lambda _path: sizes, run) == []
