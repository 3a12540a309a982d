"""One process of a small run; torchrun starts several: `torchrun … -m tests.training.many DIR`."""

import argparse
import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from tests.training.runs import config, setup
from transduce.models.base import Learnable
from transduce.nn.spans import Layout
from transduce.training import learner as learner_module
from transduce.training.distributed import Place, joined
from transduce.training.events import Event, Scored, Stepped
from transduce.training.loop import Setup, train


def main() -> None:
    """Train a small run and write what it computed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--stop-after", type=int, default=10**9)
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--fail", choices=["die", "hang"])
    given = parser.parse_args()
    torch.set_num_threads(1)
    said = os.environ  # noqa: TID251 - torchrun says it here
    place = Place(
        rank=int(said.get("RANK", "0")),
        world=int(said.get("WORLD_SIZE", "1")),
        address=said.get("MASTER_ADDR", "localhost"),
        port=int(said.get("MASTER_PORT", "0")),
    )
    first_try = said.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
    with joined(place, device=torch.device("cpu"), timeout_s=given.timeout) as processes:
        events: list[Event] = []
        settings = config(
            training={
                "steps": given.steps,
                "accumulate": given.accumulate,
                "batch_tokens": 60 * given.accumulate,
                "epochs": 2.0,
            }
        )
        run = setup(given.folder / "checkpoints", settings, processes=processes, tell=events.append)
        run = replace(run, stopped=_after(given.stop_after))
        if given.fail and first_try and place.rank == 1:
            run = _failing(run, given.fail)
        train(run)
        _write(given.folder / f"rank{place.rank}.json", run, events)


def _after(steps: int) -> Callable[[], bool]:
    asked = iter(range(steps - 1))
    return lambda: next(asked, None) is None


def _failing(run: Setup, how: str) -> Setup:
    """Let the process die or hang while it computes a gradient."""
    taken = iter(range(12))

    plain = learner_module._decoder_states

    def failing(
        model: Learnable, src: Tensor, tgt_in: Tensor, layout: Layout | None = None
    ) -> Tensor:
        if model.training and next(taken, None) is None:
            if how == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(10**6)
        return plain(model, src, tgt_in, layout)

    learner_module._decoder_states = failing
    return run


def _write(path: Path, run: Setup, events: list[Event]) -> None:
    weights = torch.cat([tensor.flatten() for tensor in run.model.state_dict().values()])
    gradients = [p.grad.flatten() for p in run.model.parameters() if p.grad is not None]
    losses = [(e.step, e.loss) for e in events if isinstance(e, Stepped | Scored)]
    path.write_text(
        json.dumps(
            {
                "weights": weights.double().tolist(),
                "gradient": torch.cat(gradients).double().tolist(),
                "losses": losses,
            }
        )
    )


if __name__ == "__main__":
    main()
