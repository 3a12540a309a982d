"""A model that knows a few answers to each source, each with its probability; and a real folder."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from transduce.config.schema import Config
from transduce.grammar import generate
from transduce.models.build import build_model
from transduce.models.folder import LoadedModel, save_model
from transduce.models.transformer.settings import TransformerConfig
from transduce.text.special_ids import EOS_ID, PAD_ID
from transduce.text.tokenizer import Kind, Tokenizer

VOCAB_SIZE = 500
Likely = list[tuple[list[int], float]]
"""Answers with their probabilities."""


@dataclass
class LikelyState:
    """The answers to each sentence, and what each of its hypotheses has said."""

    answers: list[Likely]
    said: list[list[tuple[int, ...]]]

    def select(self, beams: Tensor) -> None:
        rows = zip(self.said, beams.tolist(), strict=True)
        self.said = [[said[beam] for beam in row] for said, row in rows]

    def allocate_like(self, sentences: int, *, max_steps: int) -> Self:
        assert max_steps >= 1
        return type(self)([[]] * sentences, [[]] * sentences)

    def copy_from(self, other: Self, sentences: Tensor, *, steps: int) -> None:
        assert steps >= 1
        rows = sentences.tolist()
        self.answers = [other.answers[row] for row in rows]
        self.said = [other.said[row] for row in rows]


@dataclass
class LikelyModel:
    """Says the next token with the probability of all answers that begin so."""

    answers_to: Callable[[list[int]], Likely]
    most_sentences: int = 1_000_000  # more do not fit into its memory
    batches: list[int] = field(default_factory=list)  # how many sentences each had

    def encode(self, src: Tensor) -> list[Likely]:
        if src.size(0) > self.most_sentences:
            raise torch.OutOfMemoryError
        self.batches.append(src.size(0))
        return [
            self.answers_to([token for token in row if token not in (PAD_ID, EOS_ID)])
            for row in src.tolist()
        ]

    def start(self, memory: list[Likely], *, hypotheses: int, max_steps: int) -> LikelyState:
        assert max_steps >= 1
        return LikelyState(memory, [[()] * hypotheses for _ in memory])

    def step(self, last_ids: Tensor, state: LikelyState, *, position: Tensor, reach: int) -> Tensor:
        assert int(position) < reach
        chances = torch.zeros(*last_ids.shape, VOCAB_SIZE)
        for row, said in enumerate(state.said):
            last = last_ids[row].tolist()
            state.said[row] = [(*before, token) for before, token in zip(said, last, strict=True)]
            for beam, so_far in enumerate(state.said[row]):
                place = len(so_far) - 1  # it begins with BOS
                for ids, chance in state.answers[row]:
                    whole = [*ids, EOS_ID]
                    if tuple(whole[:place]) == so_far[1:] and place < len(whole):
                        chances[row, beam, whole[place]] += chance
                if not chances[row, beam].any():  # what nobody would say
                    chances[row, beam, EOS_ID] = 1.0
        return chances.log()


def learnt_tokenizer(
    seed: int = 1,
    *,
    vocab_size: int = VOCAB_SIZE,
    kind: Kind = "bpe",
    term_markers: bool = False,
    placeholders: bool = False,
) -> Tokenizer:
    texts = (text for pair in generate(500, seed=seed) for text in pair)
    return Tokenizer.learn(
        texts,
        vocab_size=vocab_size,
        kind=kind,
        term_markers=term_markers,
        placeholders=placeholders,
    )


def random_model(
    *, seed: int, max_positions: int = 24, term_markers: bool = False, placeholders: bool = False
) -> LoadedModel:
    """Make a model that answers with long nonsense, which seldom ends."""
    shape = TransformerConfig(
        vocab_size=VOCAB_SIZE, n_layers=1, d_model=16, d_ff=16, h=2, max_positions=max_positions
    )
    config = Config(model=shape)
    tokenizer = learnt_tokenizer(term_markers=term_markers, placeholders=placeholders)
    return LoadedModel(build_model(config.model, seed=seed).eval(), config, tokenizer)


def saved(folder: Path, loaded: LoadedModel) -> Path:
    save_model(folder, loaded)
    return folder


def sentences(count: int) -> Sequence[str]:
    return [pair.src for pair in generate(count, seed=7)]
