"""`transduce sweep`: many runs from one file, and the table of their results."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from transduce.cli.sweeps.sweep_display import SweepDisplay
    from transduce.sweeps.plan import SweepPlan
    from transduce.sweeps.running.machines import Machines
    from transduce.sweeps.running.runner import SweepOutcome

FileArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="FILE.yaml", help="A base, its variations or a grid, seeds and a budget."
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Folder of the sweep; by default sweeps/FILE."),
]
AtOnceOption = Annotated[
    int | None,
    typer.Option(
        "--at-once",
        metavar="N",
        help="Runs at once; by default 1 on the CPU, on a GPU found out by measuring. On a "
        "cluster: runs that share a GPU, or the cores of a node; by default 1.",
    ),
]
OnRayOption = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="ADDRESS",
        help="Compute on a Ray cluster: ray, auto, HOST:PORT or ray://HOST:PORT.",
    ),
]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option(metavar="ROW", help="Compute this row alone; * stands for anything; repeatable."),
]
SkipOption = Annotated[
    list[str] | None, typer.Option(metavar="ROW", help="Leave this row out; repeatable.")
]
SearchOption = Annotated[
    int | None,
    typer.Option(
        "--search",
        metavar="N",
        help="Trials of the file's search in all: settings drawn from its ranges.",
    ),
]
ReportOption = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="DIR",
        help="Write the results of the sweep in this folder; no training. With --out, copy what "
        "they are read from, without weights, into a folder; repeatable for parts of a sweep.",
    ),
]


def sweep(
    file: FileArgument = None,
    out: OutOption = None,
    at_once: AtOnceOption = None,
    only: OnlyOption = None,
    skip: SkipOption = None,
    search: SearchOption = None,
    on: OnRayOption = None,
    report: ReportOption = None,
) -> None:
    """Train many variations of a model; the same command goes on after it was stopped.

    Runs that are finished are not computed again, so variations and seeds can be added later.
    """
    from transduce.errors import InputError
    from transduce.sweeps.file import read_sweep_file
    from transduce.sweeps.plan import make_plan
    from transduce.sweeps.searching.search import check_trials

    if report:
        if any((file, at_once is not None, only, skip, search is not None, on)):
            raise InputError("--report DIR trains nothing: leave out all but --out")
        _write_report(_reported(report, out))
        return
    if file is None:
        raise InputError("which sweep? Name its file, such as recipes/sweeps/table3_demo.yaml")
    if at_once is not None and at_once < 1:
        raise InputError(f"--at-once {at_once}: must be 1 or more")
    plan = make_plan(read_sweep_file(file), out or Path("sweeps") / file.stem)
    check_trials(plan, search)
    machines = _machines(on, at_once, by_clock=plan.is_by_clock)
    _compute(plan, only or [], skip or [], trials=search, machines=machines)


def _reported(folders: list[Path], out: Path | None) -> "SweepPlan":
    """Return the sweep to report: of one folder as it lies there, else with the records of all."""
    from transduce.errors import InputError
    from transduce.sweeps.collect import collect
    from transduce.sweeps.plan import read_plan

    if out is not None:
        return collect(folders, out)
    if len(folders) > 1:
        raise InputError("--report of several folders: name one for the results of all with --out")
    return read_plan(folders[0])


def _machines(on: str | None, at_once: int | None, *, by_clock: bool) -> "Machines":
    from transduce.sweeps.running.machines import LocalMachine
    from transduce.sweeps.running.ray_cluster import RayCluster

    if on is None:
        return LocalMachine(at_once, by_clock=by_clock)
    # Ray would report what it is used for to its makers.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # noqa: TID251
    return RayCluster(on, at_once)


def _compute(
    plan: "SweepPlan", only: list[str], skip: list[str], *, trials: int | None, machines: "Machines"
) -> None:
    from transduce.cli.sweeps.sweep_display import watching_sweep
    from transduce.sweeps.running.runner import run_sweep

    with watching_sweep() as watch:
        outcome = run_sweep(
            plan, only=only, skip=skip, trials=trials, machines=machines, watcher=watch
        )
        watch.end()
        _report_outcome(outcome, watch)
    _write_report(outcome.plan)
    if watch.caught:
        raise typer.Exit(128 + watch.caught)
    _raise_if_failed(outcome)


def _report_outcome(outcome: "SweepOutcome", watch: "SweepDisplay") -> None:
    from transduce.cli.sweeps.sweep_display import summary

    if watch.caught:
        watch.say("Stopped. The same command goes on from here.")
    else:
        watch.say(summary(outcome.status))


def _raise_if_failed(outcome: "SweepOutcome") -> None:
    from transduce.errors import InputError, counted

    if outcome.failed:
        names = "; ".join(f"{status.run.name}: {status.fault}" for status in outcome.failed)
        total = counted(len(outcome.status.runs), "run")
        raise InputError(
            f"{len(outcome.failed):,} of {total} failed ({names}); the same command tries again"
        )


def _write_report(plan: "SweepPlan") -> None:
    from transduce.cli.sweeps.results_table import print_results
    from transduce.sweeps.report import write_report

    report = write_report(plan)
    print_results(report.results)
    typer.echo(f"results: {', '.join(str(path) for path in report.files)}", err=True)
    for note in report.notes:
        typer.echo(note, err=True)
