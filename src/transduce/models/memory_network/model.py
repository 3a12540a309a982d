"""The end-to-end memory network (Sukhbaatar et al., 2015), which reads its memory several times.

Sentences of a story are memories, bags of words that know the order of their words (their §4.1) and
how long ago they were told. A question is a query u to them. In each of K hops, p = softmax(uᵀ m_i)
weighs the memories, o = Σ p_i c_i is added to the query, and softmax(W(o_K + u_K)) is the answer.

Weights are adjacent (their §2.2): what hop k reads as c, hop k+1 reads as m, the question is
embedded as the memories of the first hop, and W is what the last hop reads.

An answer is written token by token, so it may have several: to the question are added the token
written last and its position. Where there is no story but a sequence, every token is a memory, as
in the language models of their §5, and how many are still to be read takes the question's place.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from transduce.data.packed_layout import PackedLayout
from transduce.models.base import Abilities, AttentionMaps, Seq2Seq
from transduce.models.memory_network.settings import MemoryNetworkConfig
from transduce.models.memory_network.story import Story, story_of
from transduce.nn.dropout import Dropout
from transduce.nn.step_state import SentenceState, StateGroup


class Table(nn.Embedding):
    """A row for every word or place in time, drawn small as in their §4.2."""

    def init_weights(self) -> None:
        """Draw with standard deviation 0.1."""
        nn.init.normal_(self.weight, std=0.1)


@dataclass(frozen=True)
class StoryMemory:
    """A story as every hop reads it: hop k reads contents k and k+1."""

    contents: Tensor  # [B, K+1, M, d_model]
    filled: Tensor  # whether there is such a memory, [B, M]
    question: Tensor  # [B, d_model]
    unread: Tensor  # tokens of a source that is no story, [B]; −1 for a story


@dataclass(frozen=True)
class StoryState(StateGroup):
    """What a search keeps: the memory alone, since a query needs only the last token."""

    contents: SentenceState
    filled: SentenceState
    question: SentenceState
    unread: SentenceState

    @property
    def memory(self) -> StoryMemory:
        """The memory, as `encode` returned it."""
        return StoryMemory(
            self.contents.tensor, self.filled.tensor, self.question.tensor, self.unread.tensor
        )


class MemoryNetwork(Seq2Seq):
    """Sukhbaatar et al. (2015), §2, with several hops and adjacent weights."""

    def __init__(self, c: MemoryNetworkConfig) -> None:
        super().__init__()
        self.sentence_end_ids, self.memory_size = c.sentence_end_ids, c.memory_size
        # Adjacent weights: A¹ = B, C¹ = A², and so on to Cᴷ = Wᵀ; T_A and T_C are tied alike.
        self.embeddings = _tables(c.hops + 1, c.vocab_size, c.d_model)
        self.times = _tables(c.hops + 1, c.memory_size, c.d_model)
        self.positions = Table(c.memory_size, c.d_model)
        self.countdown = Table(c.memory_size + 1, c.d_model)
        self.dropout = Dropout(c.p_drop)

    @property
    def abilities(self) -> Abilities:
        """A step may be recorded, and the weights of the hops can be shown."""
        return Abilities(recorded_step=True, attention_maps=True)

    @property
    def projection(self) -> Tensor:
        """The paper's W, [V, d_model]: what the last hop reads."""
        return self.embeddings[-1].weight

    def encode(self, src: Tensor, layout: PackedLayout | None = None) -> StoryMemory:
        """Divide a source, [B, S], into memories and a question, and embed them for every hop."""
        assert layout is None, "it does not read packed sequences"
        return self._memory(src, story_of(src, self.sentence_end_ids, self.memory_size))

    def _memory(self, src: Tensor, story: Story) -> StoryMemory:
        dtype = self.projection.dtype
        order = story.position_encoding(self.projection.size(1), dtype)  # [B, S, d_model]
        parts = story.parts.to(dtype)  # [B, 1+M, S]
        bags = [parts @ (order * self.dropout(table(src))) for table in self.embeddings]
        told = [
            bag[:, 1:] + time.weight[: parts.size(1) - 1]
            for bag, time in zip(bags, self.times, strict=True)
        ]
        return StoryMemory(
            contents=torch.stack(told, dim=1),
            filled=story.filled,
            question=bags[0][:, 0],
            unread=torch.where(story.by_token, story.memories, -1),
        )

    def decode_states(
        self, memory: StoryMemory, tgt_in: Tensor, layout: PackedLayout | None = None
    ) -> Tensor:
        """Return o_K + u_K for every prefix of tgt_in, [B, T]."""
        assert layout is None, "it does not read packed sequences"
        positions = torch.arange(tgt_in.size(1), device=tgt_in.device)
        return self._hops(self._queries(memory, tgt_in, positions), memory)[0]  # [B, T, d_model]

    def start(self, memory: StoryMemory, *, hypotheses: int, max_steps: int) -> StoryState:  # noqa: ARG002
        """Return the state before the first token; no step changes it."""
        tensors = (memory.contents, memory.filled, memory.question, memory.unread)
        return StoryState(*map(SentenceState, tensors))

    def step(self, last_ids: Tensor, state: StoryState, *, position: Tensor, reach: int) -> Tensor:
        """Read the last token of each hypothesis, [B, k]; score the next: logits, [B, k, V]."""
        del reach
        queries = self._queries(state.memory, last_ids, position)  # [B, k, d_model]
        return self._hops(queries, state.memory)[0] @ self.projection.T  # [B, k, V]

    def attention_maps(self, src: Tensor, tgt_in: Tensor) -> AttentionMaps:
        """Return the weights of every hop, as one head; a memory's are spread over its tokens."""
        story = story_of(src, self.sentence_end_ids, self.memory_size)
        memory = self._memory(src, story)
        positions = torch.arange(tgt_in.size(1), device=tgt_in.device)
        _, weights = self._hops(self._queries(memory, tgt_in, positions), memory)
        shares = story.parts[:, 1:] / story.sizes[:, None]  # [B, M, S]
        cross = [(p @ shares.to(p.dtype))[:, None] for p in weights]
        return AttentionMaps(cross=torch.stack(cross))

    def _queries(self, memory: StoryMemory, last_ids: Tensor, positions: Tensor) -> Tensor:
        """Return u_1 at these positions, [T] or one for all, after the tokens written last."""
        written = self.dropout(self.embeddings[0](last_ids))  # [B, T, d_model]
        at = self.positions(positions.clamp(max=self.memory_size - 1))
        unread = memory.unread[:, None] - positions
        left = self.countdown(unread.clamp(0, self.memory_size))
        is_story = (memory.unread < 0)[:, None, None]  # [B, 1, 1]
        question = torch.where(is_story, memory.question[:, None], left)
        queries: Tensor = written + at + question
        return queries

    def _hops(self, u: Tensor, memory: StoryMemory) -> tuple[Tensor, list[Tensor]]:
        """Read the memory K times: o_K + u_K and the weights of every hop."""
        is_empty = ~memory.filled.any(dim=1, keepdim=True)  # [B, 1]
        readable = (memory.filled | is_empty)[:, None]  # [B, 1, M]
        weights = []
        for m, c in zip(memory.contents.unbind(1)[:-1], memory.contents.unbind(1)[1:], strict=True):
            scores = (u @ m.mT).masked_fill(~readable, -torch.inf)  # [B, T, M]
            p = scores.softmax(dim=-1) * memory.filled[:, None]  # [B, T, M]
            u = u + p.to(c.dtype) @ c  # [B, T, d_model]
            weights.append(p)
        return u, weights


def _tables(count: int, rows: int, d_model: int) -> Sequence[Table]:
    tables = nn.ModuleList(Table(rows, d_model) for _ in range(count))
    return cast("Sequence[Table]", tables)  # mypy sees a ModuleList of Modules
