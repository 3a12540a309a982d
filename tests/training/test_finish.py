"""Which weights a run gives at its end."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from torch import Tensor

from transduce.config.schema import Config
from transduce.data.grammar import generate
from transduce.models.base import Learnable
from transduce.models.folder import load_model
from transduce.training.distributed import Place
from transduce.training.events import Event
from transduce.training.loop import Evaluate
from transduce.training.run import Request, run
from transduce.training.run_folder import RunFolder


class Nobody:
    """Watches a run and says nothing."""

    @contextmanager
    def phase(self, _name: str) -> Iterator[Callable[[int, int], None]]:
        yield lambda _done, _of: None

    def begin(self, folder: RunFolder, config: Config, step: int) -> None:
        pass

    def __call__(self, _event: Event) -> None:
        pass


@contextmanager
def never() -> Iterator[Callable[[], bool]]:
    yield lambda: False


def narrowness(weights: Tensor) -> float:
    norm: float = weights.double().norm().item()
    return round(1000 / norm, 2)


def stand_in(*_: object, **__: object) -> Evaluate:
    """A score that has nothing to do with the loss: it falls as the embedding grows."""

    def evaluate(model: Learnable) -> tuple[float, str]:
        return narrowness(model.projection), "a stand-in"

    return evaluate


@pytest.mark.parametrize("choose_by", ["loss", "bleu"])
def test_the_weights_are_chosen_by_what_the_settings_say(tmp_path: Path, choose_by: str) -> None:
    for side, name in enumerate(("a.en", "a.de")):
        text = "".join(f"{pair[side]}\n" for pair in generate(200, seed=4))
        (tmp_path / name).write_text(text, encoding="utf-8")
    shape = {"vocab_size": 280, "n_layers": 1, "d_model": 16, "d_ff": 16, "h": 2}
    given = {
        "data": {"src": str(tmp_path / "a.en"), "tgt": str(tmp_path / "a.de")},
        "model": shape,
        "training": {"batch_tokens": 400, "steps": 12, "learning_rate": 0.03, "warmup_steps": 2},
        "run": {"device": "cpu", "checkpoint_steps": 3, "average": 3, "choose_by": choose_by},
    }
    out = tmp_path / "run"
    run(
        Request(out, given),
        place=Place(),
        watcher=Nobody(),
        make_evaluate=stand_in,
        listening=never,
    )
    card = (out / "README.md").read_text(encoding="utf-8")
    column = r" (\d+\.\d+) \|" if choose_by == "bleu" else ""
    rows = re.findall(rf"^\| (\w+)[^|]*\| (\d+\.\d+) \| [\d.]+ \|{column}$", card, re.MULTILINE)
    assert [row[0] for row in rows][:2] == ["average", "best"]
    scores = [float(row[-1]) for row in rows]
    assert len(set(scores)) == len(scores), "else there is nothing to choose"
    best = max(scores) if choose_by == "bleu" else min(scores)
    name = next(row[0] for row, score in zip(rows, scores, strict=True) if score == best)
    assert re.search(rf"by {'BLEU' if choose_by == 'bleu' else 'the loss'}: \*\*{name} ", card)
    chosen = narrowness(load_model(out).model.projection)
    assert f"BLEU **{chosen:.2f}** on the whole development set" in card
    if choose_by == "bleu":
        assert chosen == max(scores)
        assert name != min(rows, key=lambda row: float(row[1]))[0], "the loss says another"
