"""Small training runs in one process or in several, one run after the other.

torchrun starts several: `torchrun … -m tests.training.many JOBS`, where JOBS is a JSON list of the
fields of `Job`.
"""

import argparse
import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch

from tests.training.runs import config, setup
from transduce.models.transformer.model import Transformer
from transduce.training.distributed import Processes, ProcessRank, joined
from transduce.training.loop import fit
from transduce.training.run.events import Event, Scored, Stepped
from transduce.training.session import Setup

FAILS_AT = 12
"""The step at which a process is lost, after the checkpoint of step 10."""


@dataclass(frozen=True)
class Job:
    """A run, and the folder that holds its checkpoints and results."""

    folder: str
    steps: int = 20
    accumulate: int = 1
    stop_after: int = 10**9
    fail: Literal["die", "hang"] | None = None  # what the process of rank 1 does at FAILS_AT


def run_job(job: Job, processes: Processes) -> None:
    """Train, and write what this process computed as `rank0.json`, `rank1.json`, …"""
    events: list[Event] = []
    folder = Path(job.folder)
    settings = config(
        training={
            "steps": job.steps,
            "accumulate": job.accumulate,
            "batch_tokens": 60 * job.accumulate,
            "epochs": 2.0,
        }
    )
    run = setup(folder / "checkpoints", settings, processes=processes, tell=events.append)
    run = replace(run, stopped=_after(job.stop_after))
    if job.fail and processes.rank == 1:
        _fail(run, job.fail)
    fit(run)
    results = folder / f"rank{processes.rank}.json"
    results.write_text(json.dumps(_results(run, events)), encoding="utf-8")


def _after(steps: int) -> Callable[[], bool]:
    asked = iter(range(steps - 1))
    return lambda: next(asked, None) is None


def _fail(run: Setup, how: Literal["die", "hang"]) -> None:
    """Have this process die or hang while it computes a gradient."""
    steps = iter(range(FAILS_AT - 1))

    def fail(layer: torch.nn.Module, _inputs: object) -> None:
        if layer.training and next(steps, None) is None:
            if how == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(10**6)

    assert isinstance(run.model, Transformer)
    run.model.encoder[0].register_forward_pre_hook(fail)


def _results(run: Setup, events: list[Event]) -> dict[str, Any]:
    weights = torch.cat([tensor.flatten() for tensor in run.model.state_dict().values()])
    gradients = [p.grad.flatten() for p in run.model.parameters() if p.grad is not None]
    return {
        "weights": weights.double().tolist(),
        "gradient": torch.cat(gradients).double().tolist(),
        "losses": [(e.step, e.loss) for e in events if isinstance(e, Stepped | Scored)],
    }


def main() -> None:
    """Run the jobs in a process that torchrun started."""
    parser = argparse.ArgumentParser()
    parser.add_argument("jobs", type=json.loads)
    parser.add_argument("--timeout", type=float, default=60)
    given = parser.parse_args()
    env = os.environ  # noqa: TID251 - set by torchrun
    rank = ProcessRank(
        rank=int(env["RANK"]),
        world=int(env["WORLD_SIZE"]),
        address=env["MASTER_ADDR"],
        port=int(env["MASTER_PORT"]),
    )
    is_restarted = env["TORCHELASTIC_RESTART_COUNT"] != "0"
    torch.set_num_threads(1)
    with joined(rank, device=torch.device("cpu"), timeout_s=given.timeout) as processes:
        for fields in given.jobs:
            job = Job(**fields)
            run_job(replace(job, fail=None) if is_restarted else job, processes)


if __name__ == "__main__":
    main()
