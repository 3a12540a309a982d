"""How often a run scores itself: soon enough for people, seldom enough for the budget."""

from dataclasses import dataclass

from transduce.config.schema import Tree

SHARE = 0.05
"""The part of a budget in minutes that scoring may take."""

FIRST_SCORE_S = 100
FEW_SCORES, MANY_SCORES = 5, 20
MANY_SENTENCES, FEW_SENTENCES = 500, 100
GPU_SCORE_S = 2.0
"""A GPU needs this long for any score: it waits for the next launch at every token."""

READING, WRITING = 1 / 3, 2.0
"""What a token of a score costs, in tokens of training: read for the loss, or written."""


MAX_LOSS_PAIRS = 5_000
"""Of a larger development set, a sample is scored while a run trains, and all of it at the end."""


@dataclass(frozen=True)
class DevSize:
    """The size of a development set."""

    pairs: int
    tokens: int  # of the longer side

    def sample(self) -> "DevSize":
        """Return the size of what is scored while a run trains."""
        pairs = min(self.pairs, MAX_LOSS_PAIRS)
        return DevSize(pairs, self.tokens * pairs // self.pairs)


def score_by_epochs(steps_per_epoch: int) -> Tree:
    """Score about once an epoch; the first scores come early, at doubling distances."""
    interval = max(200, min(2_000, steps_per_epoch))
    return {"checkpoint_steps": interval, "first_score_steps": min(50, -(-interval // 16))}


def score_seconds(sentences: int, dev: DevSize, *, token_s: float, on_gpu: bool) -> float:
    """Return about how long it takes to compute the dev loss and to translate some sentences."""
    written = min(sentences, dev.pairs) * dev.tokens / dev.pairs
    cost = token_s * (READING * dev.tokens + WRITING * written)
    return cost + (GPU_SCORE_S if on_gpu else 0)


def score_in_budget(
    seconds: float, steps: int, dev: DevSize, *, token_s: float, on_gpu: bool
) -> Tree:
    """Score as often as the budget allows, the first time after at most 100 seconds.

    A token of training takes `token_s` seconds. If there would be few scores, each has fewer
    sentences.
    """
    sample = dev.sample()

    def scores_of(sentences: int) -> int:
        one = score_seconds(sentences, sample, token_s=token_s, on_gpu=on_gpu)
        return int(SHARE * seconds / one)

    sentences = MANY_SENTENCES
    while sentences > FEW_SENTENCES and scores_of(sentences) < FEW_SCORES:
        sentences -= 100
    count = max(1, min(MANY_SCORES, scores_of(sentences)))
    interval = max(1, steps // count)
    first = int(FIRST_SCORE_S * steps / seconds)
    return {
        "checkpoint_steps": interval,
        "first_score_steps": max(1, min(interval, first)),
        "score_sentences": sentences,
        "scoring_share": SHARE,
    }
